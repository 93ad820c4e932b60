"""Asks the user of an Opal client: approvals, texts and questions are requests, everything else is a status."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec import UNSET, Struct

from fairlead.core.approval import Allow, ApprovalAnswer, ApprovalRequest, Deny, NewRule
from fairlead.core.runtime import CancelToken, NotifyKind, Placement
from fairlead.protocol.opal import events as asked
from fairlead.protocol.opal.objects import Method
from fairlead.wire.jsonrpc import OutboundRequests
from fairlead.wire.questions import Unanswered

R = TypeVar("R", bound=Struct)

#: Seconds to wait for an approval or a text, unless the caller says how long. Questions from the model have no limit.
DEFAULT_TIMEOUT = 30.0

#: What the user can answer to an approval. Everything but the two that allow the call refuses it.
ACTIONS: Mapping[str, Allow | None] = {"allow": Allow(), "deny": None, "allow_session": Allow(for_session=True)}
#: What the user can answer as well if a rule can be written, which the message then describes.
ALLOW_ALWAYS = "allow_always"


class OpalUi:
    """Implements `fairlead.core.runtime.Ui` for one session. `show` sends a status."""

    def __init__(self, session_id: str, requests: OutboundRequests, show: Callable[[str], None]) -> None:
        self._session_id = session_id
        self._requests = requests
        self._show = show

    @property
    def available(self) -> bool:
        return self._requests.can_be_asked

    async def select(
        self, title: str, options: Sequence[str], *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None:
        """Return what the user chose. A client may answer with another text; without options it has to."""
        request = asked.AskUser(session_id=self._session_id, question=title, choices=list(options))
        try:
            return (await self._request(request, asked.UserAnswer, timeout=timeout, cancel=cancel)).answer
        except Unanswered:
            return None

    async def input(
        self, title: str, placeholder: str | None = None, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None:
        request = asked.Input(session_id=self._session_id, prompt=title, sensitive=False)
        try:
            answer = await self._request(request, asked.InputText, timeout=timeout or DEFAULT_TIMEOUT, cancel=cancel)
        except Unanswered:
            return None
        return answer.text

    async def editor(self, title: str, prefill: str | None = None, *, cancel: CancelToken | None = None) -> str | None:
        return await self.input(title, prefill, cancel=cancel)

    async def confirm(
        self, title: str, message: str = "", *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> bool:
        request = asked.Confirm(session_id=self._session_id, title=title, message=message, actions=["allow", "deny"])
        answer = await self._confirm(request, timeout, cancel)
        return answer is not None and answer.action == "allow"

    async def approve(
        self, request: ApprovalRequest, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> ApprovalAnswer | None:
        offer = request.rules
        rule = None if offer is None else NewRule(offer.patterns[0])
        always = "" if offer is None or rule is None else f"Always: {offer.describe(rule)}."
        confirm = asked.Confirm(
            session_id=self._session_id,
            title=request.title,
            message="\n\n".join(filter(None, (request.message, request.scope and f"For the session: {request.scope}.", always))),
            actions=[*ACTIONS, *([] if rule is None else [ALLOW_ALWAYS])],
            tool=request.tool_name,
            call_id=request.call_id,
            args=request.arguments,
            diff=UNSET if request.diff is None else request.diff,
        )
        answer = await self._confirm(confirm, timeout, cancel)
        if answer is None:
            return None
        if answer.action == ALLOW_ALWAYS and rule is not None:
            return Allow(rule=rule)
        return ACTIONS.get(answer.action) or Deny("" if answer.reason is UNSET else answer.reason)

    async def _confirm(
        self, request: asked.Confirm, timeout: float | None, cancel: CancelToken | None
    ) -> asked.Confirmation | None:
        try:
            return await self._request(request, asked.Confirmation, timeout=timeout or DEFAULT_TIMEOUT, cancel=cancel)
        except Unanswered:
            return None

    async def _request(self, request: Method, result: type[R], *, timeout: float | None, cancel: CancelToken | None) -> R:
        return await self._requests.request(request.method, request, result, timeout=timeout, cancel=cancel)

    # Showing

    def notify(self, message: str, kind: NotifyKind | None = None) -> None:
        self._show(message)

    def set_status(self, key: str, text: str | None) -> None:
        if text:
            self._show(text)

    def set_widget(self, key: str, lines: Sequence[str] | None, placement: Placement | None = None) -> None:
        """Opal's protocol has nothing for this."""

    def set_title(self, title: str) -> None:
        """Opal's protocol has nothing for this."""

    def set_editor_text(self, text: str) -> None:
        """Opal's protocol has nothing for this."""

    def open_url(self, url: str, instructions: str | None = None) -> None:
        self._show(f"{instructions} {url}" if instructions else url)
