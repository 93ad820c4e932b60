"""Iterators of events: nothing is lost, memory is bounded, and a slow reader slows down the agent."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.client.fake_agent import PATIENCE, FakeAgent, Frame, assistant, fake_agent

from fairlead.client import Client, events
from fairlead.client.event_stream import BEHIND, MOST_EVENTS

USAGE = assistant("")["usage"]


def delta(text: str, index: int = 0, kind: str = "text_delta") -> Frame:
    inner = {"type": kind, "contentIndex": index, "delta": text}
    return {"type": "message_update", "usage": USAGE, "assistantMessageEvent": inner}


async def barrier(client: Client, agent: FakeAgent) -> None:
    """Return when the client has handled all that the agent said before."""
    asked = asyncio.ensure_future(client.get_tools())
    agent.answer(await agent.command("get_tools"), data={"tools": []})
    await asked


def text_of(event: events.Event) -> str:
    assert isinstance(event, events.MessageUpdate)
    inner: Any = event.assistant_message_event
    return inner.delta


async def test_iterators_are_independent_and_each_gets_all_events() -> None:
    async with fake_agent() as (client, agent):
        one = client.events()
        agent.say({"type": "agent_start"})
        await barrier(client, agent)
        two = client.events()
        agent.say({"type": "turn_start"}, {"type": "agent_settled"})
        await barrier(client, agent)
        assert [type(await anext(one)).__name__ for _ in range(3)] == ["AgentStart", "TurnStart", "AgentSettled"]
        assert [type(await anext(two)).__name__ for _ in range(2)] == ["TurnStart", "AgentSettled"]


async def test_a_stopped_client_ends_the_iteration() -> None:
    async with fake_agent() as (client, agent):
        stream = client.events()
        agent.say({"type": "agent_start"})
        await barrier(client, agent)
        await client.stop()
        assert [type(event).__name__ async for event in stream] == ["AgentStart"]


async def test_a_reader_that_is_behind_gets_deltas_merged_and_every_character() -> None:
    async with fake_agent() as (client, agent):
        slow = client.events()
        pieces = [f"{number}," for number in range(20_000)]
        for start in range(0, len(pieces), 500):
            agent.say(*map(delta, pieces[start : start + 500]))
            await barrier(client, agent)
        agent.say(delta("x", 1), delta("y", 1, "thinking_delta"), {"type": "turn_start"})
        await barrier(client, agent)
        got: list[events.Event] = []
        while not isinstance(event := await anext(slow), events.TurnStart):
            got.append(event)
        assert len(got) <= BEHIND + 3
        assert "".join(map(text_of, got[:-2])) == "".join(pieces)
        assert [text_of(event) for event in got[-2:]] == ["x", "y"]


async def test_only_the_last_update_of_a_tool_is_kept_for_a_reader_that_is_behind() -> None:
    async with fake_agent() as (client, agent):
        slow = client.events()
        for number in range(BEHIND + 100):
            result = {"content": [{"type": "text", "text": str(number)}]}
            agent.say(
                {"type": "tool_execution_update", "toolCallId": "t", "toolName": "bash", "args": {}, "partialResult": result}
            )
        await barrier(client, agent)
        got = [await anext(slow) for _ in range(BEHIND)]
        last = got[-1]
        assert isinstance(last, events.ToolExecutionUpdate)
        assert last.partial_result.content[0].text == str(BEHIND + 99)  # type: ignore[union-attr]


async def test_a_full_reader_stops_the_agent_and_loses_nothing() -> None:
    """The agent's writes block: the client buffers a bounded number of events, and the socket some more."""
    async with fake_agent() as (client, agent):
        slow = await asyncio.create_task(made_by_another_task(client))
        sent = 0

        async def talk() -> None:
            nonlocal sent
            for number in range(20 * MOST_EVENTS):
                agent.say({"type": "unheard_of", "number": number, "text": "x" * 1000})
                await agent.drain()
                sent += 1

        talking = asyncio.ensure_future(talk())
        seen = -1
        while seen != sent:  # until the agent does not get any further
            seen = sent
            await asyncio.sleep(0.2)
        assert MOST_EVENTS <= sent < 10 * MOST_EVENTS
        numbers = [(await asyncio.wait_for(anext(slow), PATIENCE)).raw["number"] for _ in range(20 * MOST_EVENTS)]
        assert numbers == list(range(20 * MOST_EVENTS))
        await talking


async def made_by_another_task(client: Client) -> Any:
    return client.events()


async def test_a_full_reader_that_asks_the_client_something_gets_the_answer() -> None:
    async with fake_agent() as (client, agent):
        stream = client.events()
        await agent_says_a_lot(agent)
        asked = asyncio.ensure_future(agent.command("get_tools"))
        asking = asyncio.ensure_future(client.get_tools())
        agent.answer(await asked, data={"tools": []})
        assert (await asyncio.wait_for(asking, PATIENCE)).tools == []
        assert (await anext(stream)).raw["number"] == 0


async def test_a_full_reader_that_waits_for_its_run_gets_the_result() -> None:
    async with fake_agent() as (client, agent):

        async def read_little() -> str:
            async with client.run("hi") as run:
                await anext(run)
                return (await run).text

        reading = asyncio.ensure_future(read_little())
        agent.answer(await agent.command("prompt"))
        agent.say({"type": "agent_start"})
        await agent_says_a_lot(agent)
        message = assistant("done")
        agent.say({"type": "message_end", "message": message}, {"type": "agent_end", "messages": []}, {"type": "agent_settled"})
        assert await asyncio.wait_for(reading, PATIENCE) == "done"


async def agent_says_a_lot(agent: FakeAgent) -> None:
    for start in range(0, 3 * MOST_EVENTS, 100):
        agent.say(*({"type": "unheard_of", "number": number} for number in range(start, start + 100)))
        await asyncio.sleep(0)


async def test_a_huge_line_arrives_whole() -> None:
    async with fake_agent() as (client, agent):
        asked = asyncio.ensure_future(client.get_last_assistant_text())
        text = "ü" * (8 << 20)
        agent.answer(await agent.command("get_last_assistant_text"), data={"text": text})
        assert (await asked).text == text


async def test_a_huge_prompt_leaves_whole() -> None:
    async with fake_agent() as (client, agent):
        text = "ü" * (4 << 20)
        asked = asyncio.ensure_future(client.steer(text))
        command = await agent.command("steer")
        assert command["message"] == text
        agent.answer(command)
        await asked


async def test_an_iterator_that_was_left_holds_up_nothing() -> None:
    async with fake_agent() as (client, agent):
        agent.say({"type": "turn_start"})
        async for _ in client.events():
            break
        for number in range(5 * MOST_EVENTS):
            agent.say({"type": "unheard_of", "number": number, "text": "x" * 1000})
            await asyncio.wait_for(agent.drain(), PATIENCE)


async def test_a_closed_iterator_no_longer_counts() -> None:
    async with fake_agent() as (client, agent):
        stream = client.events()
        await agent_says_a_lot(agent)
        await stream.aclose()
        await barrier(client, agent)
        assert [event async for event in stream] == []
