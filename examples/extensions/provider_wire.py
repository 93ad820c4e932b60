"""Marks requests to the provider for an accounting gateway, and shows how they are answered."""

from __future__ import annotations

from fairlead.events import AgentEnd
from fairlead.extension import (
    AfterProviderResponse,
    BeforeProviderHeaders,
    BeforeProviderRequest,
    Context,
    Fairlead,
    ProviderStreamEvent,
)


def setup(fl: Fairlead) -> None:
    received = 0

    @fl.on("before_provider_request")
    def mark(event: BeforeProviderRequest, context: Context) -> None:
        event.payload["metadata"] = {"user_id": context.cwd.name}

    @fl.on("before_provider_headers")
    def sign(event: BeforeProviderHeaders) -> None:
        event.headers["x-team"] = "harbour"

    @fl.on("after_provider_response")
    def show(event: AfterProviderResponse, context: Context) -> None:
        kind = event.headers.get("content-type", "nothing")
        context.ui.set_status("provider", f"{event.status} {kind}")

    @fl.on("provider_stream_event")
    def count(event: ProviderStreamEvent) -> None:
        nonlocal received
        received += 1

    @fl.on("agent_end")
    def total(event: AgentEnd, context: Context) -> None:
        context.ui.set_status("stream", f"{received} events")
