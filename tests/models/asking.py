"""What the tests of the adapters share: a model, a request, and what comes of asking."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.json_values import is_object

from fairlead.core.messages import AssistantMessage, ImageContent, ToolCall, ToolResultMessage, Usage, UserMessage
from fairlead.core.model import BlockDelta, Model, ModelRequest, Price, StreamEnd, StreamEvent, ToolSpec
from fairlead.core.runtime import CancelToken
from fairlead.models.adapters import open_stream
from fairlead.models.credentials import RequestAuth
from fairlead.models.http.http_client import Http
from fairlead.testing import ProviderServer, ReceivedRequest

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

BASH = ToolSpec(
    "bash", "Run a command", {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
)

#: A turn of a script, or the body of an answer as it is.
Answer = Mapping[str, Any] | str


def sse(*events: Mapping[str, Any] | str) -> str:
    """Events as they go over the wire."""
    return "".join(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for event in events)


def a_model(api: str, base_url: str = "", **fields: Any) -> Model:
    known: dict[str, Any] = {
        "id": "m-1",
        "name": "M",
        "provider": "fake",
        "reasoning": True,
        "input": ["text", "image"],
        "cost": Price(3, 15, 0.3, 3.75),
        "context_window": 200_000,
        "max_tokens": 8_000,
    }
    return Model(api=api, base_url=base_url, **(known | fields))


def a_request(*messages: Any, **fields: Any) -> ModelRequest:
    known: dict[str, Any] = {"system_prompt": "Be brief.", "tools": [BASH]}
    return ModelRequest(messages=list(messages) or [UserMessage("hi", 1)], **(known | fields))


def an_answer(api: str, *content: Any, **fields: Any) -> AssistantMessage:
    """An earlier answer of `a_model`."""
    known: dict[str, Any] = {"provider": "fake", "model": "m-1", "usage": Usage(), "stop_reason": "stop", "timestamp": 1}
    return AssistantMessage(list(content), api, **(known | fields))


def a_result(id: str, *content: Any, is_error: bool = False) -> ToolResultMessage:
    return ToolResultMessage(id, "bash", list(content), is_error, 1)


@dataclass
class Outcome:
    events: list[StreamEvent]
    asked: ReceivedRequest

    @property
    def end(self) -> StreamEnd:
        assert isinstance(self.events[-1], StreamEnd)
        return self.events[-1]

    @property
    def message(self) -> AssistantMessage:
        return self.end.message


def serving(*answers: Answer) -> ProviderServer:
    """A server that gives the answers in turn, the last one again and again."""
    return ProviderServer([{"raw": answer} if isinstance(answer, str) else answer for answer in answers])


async def ask(
    server: ProviderServer,
    api: str,
    request: ModelRequest | None = None,
    *,
    path: str = "/v1",
    budgets: dict[str, int] | None = None,
    abort_at_first_delta: bool = False,
    **fields: Any,
) -> Outcome:
    """Ask `server` through the adapter of `api`; `fields` are the model's."""
    cancel = CancelToken()
    http = Http()
    events: list[StreamEvent] = []
    model = a_model(api, server.url + path, **fields)
    stream = open_stream(model, RequestAuth("sk-test", {"X-Extra": "1"}), http, lambda: 1_000, thinking_budgets=budgets)
    try:
        async for batch in stream(request or a_request(), cancel):
            events += batch
            if abort_at_first_delta and any(isinstance(event, BlockDelta) for event in batch):
                cancel.fire()
        return Outcome(events, server.requests[-1])
    finally:
        await http.close()


def outcome(api: str, answer: Answer, request: ModelRequest | None = None, **options: Any) -> Outcome:
    """What comes of one request that is answered so."""

    async def run() -> Outcome:
        async with serving(answer) as server:
            return await ask(server, api, request, **options)

    return asyncio.run(run())


def assert_encoded_once(api: str) -> None:
    """Check that a stream which is asked again does not look at earlier messages: a change behind its back goes unseen."""
    first = UserMessage("first", 1)
    images = [ImageContent(PIXEL, "image/png"), ImageContent(PIXEL, "image/png")]
    messages: list[Any] = [first]
    for id, image in zip("ab", images, strict=True):
        messages += [an_answer(api, ToolCall(id, "bash", {}), stop_reason="toolUse"), a_result(id, image)]

    async def run() -> str:
        async with serving({"text": "Ok"}) as server:
            http = Http()
            stream = open_stream(a_model(api, server.url), RequestAuth(), http, lambda: 1)
            for _ in range(2):
                async for _ in stream(a_request(*messages), CancelToken()):
                    pass
                first.content = images[0].data = images[1].data = "changed"
            await http.close()
            return json.dumps(server.requests[1].body)

    body = asyncio.run(run())
    assert "changed" not in body
    assert body.count(PIXEL) == 2


def assert_valid(value: Any, type: Any) -> None:
    """Check plain data against a type of a vendor's SDK."""
    from pydantic import TypeAdapter

    adapter = TypeAdapter(type)
    _consume(adapter.validate_python(value))


def _consume(value: Any) -> None:
    """Read every iterable to its end, which is when pydantic checks it."""
    if is_object(value):
        for item in value.values():
            _consume(item)
    elif not isinstance(value, str | bytes | int | float) and value is not None:
        for item in value:
            _consume(item)


def odd_events(*names: str) -> Any:
    """A strategy for events with the given fields, and values of which no two need to fit together."""
    from hypothesis import strategies as st

    scalars = (
        st.none()
        | st.booleans()
        | st.integers(-1, 3)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.sampled_from(["", "{", "{}", "a", *names])
    )
    values = st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(names), inner, max_size=4),
        max_leaves=12,
    )
    return st.lists(st.dictionaries(st.sampled_from(names), values, max_size=5), max_size=6)
