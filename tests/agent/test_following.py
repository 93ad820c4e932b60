"""Listeners that connect again: they get each entry once, and the rest of the message that is arriving."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from fairlead import Agent
from fairlead.events import (
    AgentSettled,
    BlockStarted,
    EntryAppended,
    MessageEnd,
    MessageStart,
    NumberedEvent,
    Position,
    SessionReplaced,
    TextDelta,
    ThinkingDelta,
    ToolArgumentsDelta,
    TurnStart,
)
from fairlead.messages import AssistantMessage, ToolCall, UserMessage
from fairlead.stores import MemoryStore, SqliteStore
from fairlead.testing import Turn, scripted_agent


def entry_numbers(events: list[NumberedEvent]) -> list[int]:
    return [each.position.entry for each in events if isinstance(each.event, MessageEnd | EntryAppended)]


def streamed(events: list[NumberedEvent]) -> str:
    """The text of the message that is arriving, as a listener would put it together."""
    text = ""
    for each in events:
        match each.event:
            case MessageStart(message=AssistantMessage()):
                text = ""
            case TextDelta(text=piece) | ThinkingDelta(thinking=piece) | ToolArgumentsDelta(json=piece):
                text += piece
            case _:
                pass
    return text


async def heard(agent: Agent, after: tuple[int, int] | None, until: type = AgentSettled) -> list[NumberedEvent]:
    found: list[NumberedEvent] = []
    async with asyncio.timeout(20), aclosing(agent.events(after)) as events:
        async for event in events:
            found.append(event)
            if isinstance(event.event, until):
                break
    return found


@pytest.fixture(params=["file", "memory", "sqlite"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    if request.param == "file":
        return {"session": tmp_path / "x.jsonl", "keep": None}
    return {"store": MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "x.db"), "session_id": "x"}


async def test_each_entry_is_delivered_once_and_in_order(options: dict[str, Any]) -> None:
    call = Turn(tool_calls=[ToolCall("1", "ls", {})])
    async with scripted_agent(call, "Done.", tools=["ls"], **options) as agent:
        listening = asyncio.create_task(heard(agent, (0, 0)))
        await asyncio.sleep(0)
        await agent.ask("Go")
        live = await listening
        count = len(agent.session.history.log)
        assert entry_numbers(live) == list(range(1, count + 1))
        assert [type(each.event.message).__name__ for each in live if isinstance(each.event, MessageEnd)] == [
            "UserMessage",
            "AssistantMessage",
            "ToolResultMessage",
            "AssistantMessage",
        ]
        agent.session.history.set_name("A name")
        again = await heard(agent, (0, 0), EntryAppended) if count == 0 else []
        assert not again
        rest = await heard(agent, (count, 0), EntryAppended)
        assert entry_numbers(rest) == [count + 1]


async def test_a_listener_continues_at_every_position(options: dict[str, Any]) -> None:
    call = ToolCall("1", "ls", {"path": "."})
    turns = [Turn(thinking="Let me think about it.", text="I will look.", tool_calls=[call]), "Done."]
    async with scripted_agent(*turns, tools=["ls"], **options) as agent:
        listening = asyncio.create_task(heard(agent, (0, 0)))
        await asyncio.sleep(0)
        await agent.ask("Go")
        live = await listening
        positions = {each.position for each in live}
        assert len(positions) > 10 and max(position.offset for position in positions) > 20
        for position in positions:
            agent.session.history.set_name("again")  # so that there is something to wait for
            rest = await heard(agent, position, EntryAppended)
            while entry_numbers(rest)[-1] < len(agent.session.history.log):
                rest += await heard(agent, rest[-1].position, EntryAppended)
            assert entry_numbers(rest) == list(range(position.entry + 1, len(agent.session.history.log) + 1))


@pytest.mark.parametrize("interrupted_after", [1, 4, 8, 11])
async def test_the_rest_of_a_message_that_is_arriving_follows(interrupted_after: int, options: dict[str, Any]) -> None:
    pieces = asyncio.Semaphore(0)
    turn = Turn(thinking="0123456789", text="abcdefghij", chunk=2, pause=pieces.acquire)
    async with scripted_agent(turn, **options) as agent:
        first: list[NumberedEvent] = []
        asked = asyncio.create_task(agent.ask("Go"))
        async with aclosing(agent.events((0, 0))) as events:
            for _ in range(interrupted_after):
                pieces.release()
            async for event in events:
                first.append(event)
                is_delta = isinstance(event.event, TextDelta | ThinkingDelta)
                if is_delta and len(streamed(first)) >= min(2 * interrupted_after - 2, 18):
                    break
        position = first[-1].position
        assert position.offset == len(streamed(first))
        rest = asyncio.create_task(heard(agent, position))
        from_the_start = asyncio.create_task(heard(agent, (position.entry, 0)))
        await asyncio.sleep(0)
        for _ in range(20):
            pieces.release()
        await asked
        assert streamed([*first, *await rest]) == "0123456789abcdefghij"
        assert streamed(await from_the_start) == "0123456789abcdefghij"
        offsets = [each.position.offset for each in await rest if isinstance(each.event, TextDelta | ThinkingDelta)]
        assert offsets == sorted(set(offsets)) and offsets[0] > position.offset, "no piece comes twice"
        assert not any(isinstance(each.event, MessageStart) and position.offset for each in (await rest)[:1])
        starts = [each.event.event.index for each in await from_the_start if isinstance(each.event, BlockStarted)]
        assert starts == [0, 1]


async def test_another_agent_continues_for_a_listener(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "x.db")
    async with scripted_agent("One.", store=store, session_id="x") as agent:
        listening = asyncio.create_task(heard(agent, (0, 0)))
        await asyncio.sleep(0)
        await agent.ask("First")
        before = await listening
    async with scripted_agent("Two.", store=store, session_id="x") as agent:
        listening = asyncio.create_task(heard(agent, before[-1].position))
        await agent.ask("Second")
        after = await listening
    numbers = entry_numbers([*before, *after])
    assert numbers == list(range(1, (await store.read("x")).last + 1))
    await store.close()


async def test_another_session_begins_with_its_first_entry() -> None:
    async with scripted_agent("One.", "Two.") as agent:
        await agent.ask("First")
        listening = asyncio.create_task(heard(agent, None))
        await asyncio.sleep(0)
        await agent.session.history.new()
        await agent.ask("Second")
        events = await listening
    replaced = next(index for index, each in enumerate(events) if isinstance(each.event, SessionReplaced))
    assert events[replaced].position == Position(0, 0)
    assert not entry_numbers(events[:replaced])
    users = [each.event.message for each in events if isinstance(each.event, MessageEnd)]
    assert isinstance(users[0], UserMessage)
    assert entry_numbers(events)[0] == 1


async def test_a_listener_that_does_not_read_keeps_few_events_and_misses_no_entry(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.session.following._MOST_WAITING", 5)
    answers = [f"Answer {number}." for number in range(20)]
    async with scripted_agent(*answers, **options) as agent, aclosing(agent.events((0, 0))) as events:
        reading = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        await agent.ask("First?")
        found = [await reading]
        for _ in answers[1:]:
            await agent.ask("Next?")
        async with asyncio.timeout(20):
            while not isinstance(found[-1].event, AgentSettled):
                found.append(await anext(events))
    assert entry_numbers(found) == list(range(1, 2 + 2 * len(answers) + 1))  # the model, the thinking level, and the messages
    # What is not an entry is not kept for it.
    assert sum(isinstance(each.event, TurnStart) for each in found) <= 2


async def test_a_listener_that_fell_behind_learns_that_another_session_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fairlead.session.following._MOST_WAITING", 5)
    store = MemoryStore()
    agent = scripted_agent("One.", "Two.", store=store, session_id="x")
    async with agent, aclosing(agent.events((0, 0))) as events:
        reading = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        await agent.ask("First?")
        await agent.session.history.new()
        await agent.ask("Second?")
        found = [await reading]
        async with asyncio.timeout(20):
            while not isinstance(found[-1].event, AgentSettled):
                found.append(await anext(events))
    replaced = next(at for at, each in enumerate(found) if isinstance(each.event, SessionReplaced))
    assert entry_numbers(found[replaced:]) == [1, 2, 3, 4]
