from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairlead.core.messages import TextContent, ThinkingContent, ToolCall, Usage, UserMessage
from fairlead.core.model import BlockDelta, ModelRequest, StreamEnd, StreamEvent
from fairlead.core.runtime import CancelToken
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn


def a_request(*texts: str) -> ModelRequest:
    return ModelRequest("Be brief.", [UserMessage(text, 1) for text in texts], [])


def play(model: Scripted, request: ModelRequest | None = None) -> list[StreamEvent]:
    async def run() -> list[StreamEvent]:
        return [event async for batch in model(request or a_request("hi"), CancelToken()) for event in batch]

    return asyncio.run(run())


def end_of(events: list[StreamEvent]) -> StreamEnd:
    assert isinstance(events[-1], StreamEnd)
    return events[-1]


def test_a_turn_is_played_in_pieces() -> None:
    call = ToolCall("t1", "bash", {"command": "ls"})
    events = play(Scripted([Turn(thinking="Hm, hm.", text="Hello.", tool_calls=[call], chunk=4)], now_ms=lambda: 7))
    message = end_of(events).message
    assert message.content == [ThinkingContent("Hm, hm.", "scripted"), TextContent("Hello."), call]
    assert message.stop_reason == "toolUse"
    assert message.timestamp == 7
    assert (message.provider, message.model) == (SCRIPTED_MODEL.provider, SCRIPTED_MODEL.id)
    assert [event.delta for event in events if isinstance(event, BlockDelta) and event.index < 2] == ["Hm, ", "hm.", "Hell", "o."]


def test_turns_follow_each_other_and_the_last_repeats() -> None:
    model = Scripted([Turn(text="one"), Turn(text="two")])
    assert [end_of(play(model)).message.text() for _ in range(3)] == ["one", "two", "two"]


def test_requests_are_kept_as_they_were() -> None:
    model = Scripted([Turn(text="x")])
    request = a_request("first")
    play(model, request)
    request.messages.append(UserMessage("second", 2))
    play(model, request)
    assert [len(kept.messages) for kept in model.requests] == [1, 2]


def test_usage_and_reason_are_those_of_the_turn() -> None:
    message = end_of(play(Scripted([Turn(text="x", stop_reason="length", usage=Usage(input=10, cache_read=5))]))).message
    assert message.stop_reason == "length"
    assert message.usage.total_tokens == 15
    assert message.usage.cost.total == pytest.approx(10 * 3e-6 + 5 * 0.3e-6)


def test_an_error_follows_the_scripted_text() -> None:
    end = end_of(play(Scripted([Turn(text="half", error="529 overloaded", status=529, retry_after=2, transient=True)])))
    assert end.message.stop_reason == "error"
    assert end.message.error_message == "529 overloaded"
    assert end.message.text() == "half"
    assert (end.status, end.retry_after, end.transient) == (529, 2, True)


def test_an_empty_turn_is_an_empty_message() -> None:
    assert end_of(play(Scripted([Turn()]))).message.content == []


async def test_an_abort_cuts_a_pause_short() -> None:
    reached = asyncio.Event()

    async def pause() -> None:
        if len(seen) >= 1:
            reached.set()
            await asyncio.Event().wait()

    seen: list[Any] = []
    cancel = CancelToken()

    async def read() -> None:
        async for batch in Scripted([Turn(text="one two", chunk=4, pause=pause)])(a_request("hi"), cancel):
            seen.append(batch)

    reading = asyncio.create_task(read())
    await reached.wait()
    cancel.fire()
    await asyncio.wait_for(reading, 5)
    end = seen[-1][-1]
    assert end.message.stop_reason == "aborted"
    assert end.message.text() == "one "


async def test_a_cancelled_task_is_not_taken_for_an_abort() -> None:
    reached = asyncio.Event()

    async def pause() -> None:
        reached.set()
        await asyncio.Event().wait()

    async def read() -> None:
        async for _ in Scripted([Turn(text="x", pause=pause)])(a_request("hi"), CancelToken()):
            pass

    reading = asyncio.create_task(read())
    await reached.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


def test_a_script_needs_a_turn() -> None:
    with pytest.raises(ValueError, match="at least one turn"):
        Scripted([])
