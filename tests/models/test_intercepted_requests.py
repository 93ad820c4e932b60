"""Somebody steps in between an adapter and its provider."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest
from tests.models.asking import a_model, a_request, outcome, serving

from fairlead.core.model import Model, StreamEnd, StreamEvent
from fairlead.core.runtime import CancelToken
from fairlead.models.adapters import open_stream
from fairlead.models.credentials import RequestAuth
from fairlead.models.http.http_client import Http

APIS = ["anthropic-messages", "openai-completions", "openai-responses", "google-generative-ai"]


class Changes:
    """Implements `Interceptor`: sends something else, and writes down the answer."""

    sees_stream = True

    def __init__(self, payload: Any = None, headers: Any = None, error: Exception | None = None) -> None:
        self._payload, self._headers, self._error = payload, headers, error
        self.asked: list[Any] = []
        self.answers: list[tuple[int, Mapping[str, str]]] = []
        self.events: list[tuple[str, Any]] = []

    async def request(self, payload: dict[str, Any], headers: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
        self.asked.append((payload, headers))
        if self._error is not None:
            raise self._error
        changed = {**payload, "extra": [1, "ü"]} if self._payload is None else self._payload
        return changed, {**headers, "x-trace": "7"} if self._headers is None else self._headers

    async def response(self, status: int, headers: Mapping[str, str]) -> None:
        self.answers.append((status, headers))

    async def stream_event(self, model: Model, data: Any) -> None:
        self.events.append((model.api, data))


@pytest.mark.parametrize("api", APIS)
def test_the_body_and_the_headers_of_a_request_can_be_changed(api: str) -> None:
    changes = Changes()
    result = outcome(api, {"text": "Hello."}, a_request(interceptor=changes))
    assert result.message.text() == "Hello."
    assert result.asked.body["extra"] == [1, "ü"] and result.asked.headers["x-trace"] == "7"
    ((payload, headers),) = changes.asked
    assert {**payload, "extra": [1, "ü"]} == result.asked.body
    assert headers["X-Extra"] == "1"
    ((status, answered),) = changes.answers
    assert status == 200 and "event-stream" in answered["content-type"]


@pytest.mark.parametrize("api", APIS)
def test_the_events_of_the_response_are_seen(api: str) -> None:
    changes = Changes()
    assert outcome(api, {"text": "Hello."}, a_request(interceptor=changes)).message.text() == "Hello."
    assert {seen for seen, _ in changes.events} == {api}
    assert "Hello." in "".join(part for _, data in changes.events for part in texts(data))


def texts(value: Any) -> list[str]:
    """The texts with which an event adds to the answer."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        added = [part for key, part in fields.items() if key in ("text", "content", "delta") and isinstance(part, str)]
        return added or [text for part in fields.values() for text in texts(part)]
    return [text for part in cast("list[Any]", value) for text in texts(part)] if isinstance(value, list) else []


def test_the_head_of_an_error_is_seen_too() -> None:
    changes = Changes()
    result = outcome("anthropic-messages", {"status": 429, "error": "slow down"}, a_request(interceptor=changes))
    assert result.message.stop_reason == "error" and [status for status, _ in changes.answers] == [429]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (Changes(payload="text"), "its body is of type str, not an object"),
        (Changes(payload={"what": object()}), "Encoding objects of type object is unsupported"),
        (Changes(headers={"x-number": 7}), "its headers are not texts by name"),
        (Changes(headers={"x-two": "a\r\nx-three: b"}), "characters that HTTP forbids"),
    ],
    ids=["no object", "no JSON", "no text", "a header in a header"],
)
async def test_a_request_that_cannot_be_sent_fails_and_says_why(changes: Changes, problem: str) -> None:
    async with serving({"text": "never"}) as server:
        http = Http()
        stream = open_stream(a_model("anthropic-messages", server.url), RequestAuth("sk"), http, lambda: 1)
        events = [event async for batch in stream(a_request(interceptor=changes), CancelToken()) for event in batch]
        await http.close()
        assert server.requests == []
    (end,) = events
    assert isinstance(end, StreamEnd) and end.message.stop_reason == "error" and not end.transient
    assert problem in (end.message.error_message or "")


async def test_an_abort_does_not_wait_for_interceptors() -> None:
    class Never(Changes):
        def __init__(self) -> None:
            super().__init__()
            self.began, self.cut_off = asyncio.Event(), False

        async def request(self, payload: dict[str, Any], headers: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
            self.began.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.cut_off = True
            return payload, headers

    async with serving({"text": "never"}) as server, asyncio.timeout(20):
        http, cancel, never = Http(), CancelToken(), Never()
        stream = open_stream(a_model("anthropic-messages", server.url), RequestAuth("sk"), http, lambda: 1)

        async def ask() -> list[StreamEvent]:
            return [event async for batch in stream(a_request(interceptor=never), cancel) for event in batch]

        asking = asyncio.create_task(ask())
        await never.began.wait()
        cancel.fire()
        (end,) = await asking
        assert isinstance(end, StreamEnd) and end.message.stop_reason == "aborted"
        assert never.cut_off and server.requests == []
        await http.close()
