"""How a client matches what an agent says to what it was asked, whatever the agent's version."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest
from tests.client.fake_agent import PATIENCE, SETTLED, fake_agent, run_frames

from fairlead.client import events
from fairlead.client.decoding import MOST_OPEN_FRAMES, Chunk, ChunkAssembler
from fairlead.errors import AgentGone, CommandRefused, NoAnswer


async def test_answers_may_come_in_any_order() -> None:
    async with fake_agent() as (client, agent):
        one, two = asyncio.ensure_future(client.get_tools()), asyncio.ensure_future(client.get_last_assistant_text())
        first, second = await agent.command("get_tools"), await agent.command("get_last_assistant_text")
        assert (first["id"], second["id"]) == ("req_1", "req_2")
        agent.answer(second, data={"text": "last"})
        assert (await two).text == "last"
        agent.answer(first, data={"tools": []})
        assert (await one).tools == []


async def test_a_refused_command_raises_the_error_of_the_agent() -> None:
    async with fake_agent() as (client, agent):
        asked = asyncio.ensure_future(client.set_model("nope", "x"))
        agent.refuse(await agent.command("set_model"), "Model not found: nope/x", code="no_model")
        with pytest.raises(CommandRefused, match="Model not found: nope/x") as caught:
            await asked
        assert (caught.value.command, caught.value.code) == ("set_model", "no_model")


async def test_an_unknown_command_without_an_id_fails_the_request_of_that_name() -> None:
    async with fake_agent() as (client, agent):
        state, tools = asyncio.ensure_future(client.get_state()), asyncio.ensure_future(client.get_tools())
        await agent.command("get_tools")
        agent.say({"type": "response", "command": "get_tools", "success": False, "error": "Unknown command: get_tools"})
        with pytest.raises(CommandRefused, match="Unknown command"):
            await tools
        assert not state.done()
        agent.answer(agent.others[0], data={"sessionId": "s"})
        assert (await state).session_id == "s"


async def test_a_parse_error_without_an_id_fails_the_oldest_request_that_is_answered_in_turn() -> None:
    async with fake_agent() as (client, agent):
        bash = asyncio.ensure_future(client.bash("sleep 9"))
        ran = await agent.command("bash")
        compact, tools = asyncio.ensure_future(client.set_label("x")), asyncio.ensure_future(client.get_tools())
        asked = await agent.command("get_tools")
        agent.say({"type": "response", "command": "parse", "success": False, "error": "Failed to parse command: Entry not found"})
        with pytest.raises(CommandRefused, match="Entry not found"):
            await compact
        agent.answer(asked, data={"tools": []})
        agent.answer(ran, data={"output": "", "cancelled": False, "truncated": False})
        await asyncio.gather(bash, tools)


async def test_an_error_that_no_request_can_have_caused_becomes_an_event() -> None:
    async with fake_agent() as (client, agent):
        stream = client.events()
        agent.say({"type": "response", "command": "parse", "success": False, "error": "what?"})
        event = await anext(stream)
        assert isinstance(event, events.UnknownEvent)
        assert event.raw["error"] == "what?"


async def test_a_prompt_that_is_accepted_and_then_refused_fails_its_run() -> None:
    async with fake_agent() as (client, agent):
        asked = asyncio.ensure_future(client.prompt("hi"))
        command = await agent.command("prompt")
        agent.answer(command)
        agent.refuse(command, "Agent is already processing.")
        with pytest.raises(CommandRefused, match="already processing"):
            await (await asked)


async def test_a_prompt_that_is_refused_and_then_accepted_is_refused() -> None:
    async with fake_agent() as (client, agent):
        asked = asyncio.ensure_future(client.prompt("hi"))
        command = await agent.command("prompt")
        agent.refuse(command, "Agent is already processing.")
        agent.answer(command)
        with pytest.raises(CommandRefused, match="already processing"):
            await asked
        again = asyncio.ensure_future(client.ask("hi"))
        agent.answer(await agent.command("prompt"))
        agent.say(*run_frames("yes"), SETTLED)
        assert (await again).text == "yes"


async def test_a_late_answer_is_neither_an_event_nor_the_answer_to_another_request() -> None:
    async with fake_agent(timeout=0.05) as (client, agent):
        stream = client.events()
        with pytest.raises(NoAnswer, match=r"did not answer get_tools within 0\.05 seconds"):
            await client.get_tools()
        late = await agent.command("get_tools")
        asked = asyncio.ensure_future(client.get_tools(timeout=None))
        agent.answer(late, data={"tools": []})
        agent.answer(await agent.command("get_tools"), data={"tools": [], "new": 1})
        agent.say({"type": "turn_start"})
        assert (await asked).tools == []
        assert isinstance(await anext(stream), events.TurnStart)


async def test_long_commands_have_no_time_limit_unless_the_call_has_one() -> None:
    async with fake_agent(timeout=0.05) as (client, agent):
        bash = asyncio.ensure_future(client.bash("true"))
        command = await agent.command("bash")
        with pytest.raises(NoAnswer):
            await client.get_state()
        assert not bash.done()
        agent.answer(command, data={"output": "x", "cancelled": False, "truncated": False})
        assert (await bash).output == "x"
        with pytest.raises(NoAnswer):
            await client.bash("true", timeout=0.05)


async def test_a_connection_that_closes_fails_all_that_waits() -> None:
    async with fake_agent() as (client, agent):
        stream = client.events()
        asked, prompted = asyncio.ensure_future(client.get_state()), asyncio.ensure_future(client.prompt("hi"))
        agent.answer(await agent.command("prompt"))
        run = await prompted
        agent.leave()
        for waiting in (asked, run, anext(stream), client.get_state()):
            with pytest.raises(AgentGone, match="closed the connection"):
                await asyncio.wait_for(waiting, PATIENCE)


async def test_fields_that_the_agent_adds_or_leaves_out_do_no_harm() -> None:
    async with fake_agent() as (client, agent):
        asked = asyncio.ensure_future(client.get_state())
        agent.answer(await agent.command("get_state"), data={"sessionId": "s", "model": None, "thinkingLevel": "max", "more": 1})
        state = await asked
        assert (state.session_id, state.model, state.thinking_level, bool(state.is_settled)) == ("s", None, "max", False)
        raw = asyncio.ensure_future(client.request("get_state", verbose=True))
        command = await agent.command("get_state")
        assert command["verbose"] is True
        agent.answer(command, data={"more": 1})
        assert await raw == {"more": 1}


async def test_unknown_events_fields_messages_and_lines_are_kept() -> None:
    async with fake_agent() as (client, agent):
        stream = client.events()
        agent.say({"type": "advisor_cost_changed", "cost": 3}, {"type": "agent_settled", "aborted": True})
        agent.say({"type": "message_end", "message": {"role": "system", "content": "be good"}})
        agent.write(b"Warning: something is deprecated\n[1, 2]\n\n")
        agent.write(b'{"type": "turn_start", "text": "\\ud800"}\n')
        unknown, settled, message, warning, array, lone = [await anext(stream) for _ in range(6)]
        assert isinstance(unknown, events.UnknownEvent)
        assert (unknown.type, unknown.raw) == ("advisor_cost_changed", {"type": "advisor_cost_changed", "cost": 3})
        assert isinstance(settled, events.AgentSettled)
        assert settled.raw["aborted"] is True
        assert isinstance(message, events.MessageEnd)
        assert message.raw["message"]["content"] == "be good"
        assert isinstance(warning, events.UnparsedLine)
        assert warning.text == "Warning: something is deprecated"
        assert isinstance(array, events.UnparsedLine)
        assert isinstance(lone, events.TurnStart)
        assert lone.raw["text"] == "\ufffd"


async def test_a_line_in_chunks_is_put_together() -> None:
    async with fake_agent() as (client, agent):
        stream = client.events()
        agent.say({"type": "ready", "supportedProtocolVersions": [1, 2]})
        agent.answer(await agent.command("negotiate_protocol"), data={"protocolVersion": 2})
        whole = json.dumps({"type": "todo_reminder", "todos": [{"content": "x" * 1000}], "attempt": 1, "maxAttempts": 3}).encode()
        for index, start in enumerate(range(0, len(whole), 400)):
            data = base64.b64encode(whole[start : start + 400]).decode()
            agent.say({"type": "rpc_chunk", "chunkId": "c", "index": index, "count": 3, "byteLength": len(whole), "data": data})
        assert isinstance(await anext(stream), events.Ready)
        reminder = await anext(stream)
        assert isinstance(reminder, events.TodoReminder)
        assert reminder.todos == [{"content": "x" * 1000}]


def part(id: str, index: int, count: int, data: bytes) -> Chunk:
    return Chunk(id, index, count, base64.b64encode(data).decode())


def test_parts_of_frames_that_are_never_completed_are_dropped_and_others_survive() -> None:
    chunks = ChunkAssembler(most_bytes=1000)
    assert chunks.add(part("first", 0, 2, b"x" * 900)) is None
    assert chunks.add(part("second", 1, 2, b"y" * 200)) is None  # the first one is dropped
    assert chunks.add(part("second", 0, 2, b"x" * 200)) == b"x" * 200 + b"y" * 200
    assert chunks.add(part("first", 1, 2, b"x")) is None
    for number in range(MOST_OPEN_FRAMES):
        assert chunks.add(part(f"more {number}", 0, 2, b"x")) is None
    assert chunks.add(part("first", 0, 2, b"x")) is None
    assert chunks.add(Chunk("broken", 0, 1, "x")) is None
    assert chunks.add(part("more 1", 1, 2, b"y")) == b"xy"
    chunks.clear()
    assert chunks.add(part("more 2", 1, 2, b"y")) is None
    assert chunks.add(part("huge", 0, 2, b"x" * 2000)) is None
    assert chunks.add(part("small", 0, 1, b"z")) == b"z"


async def test_a_malformed_part_does_not_end_the_client() -> None:
    async with fake_agent() as (client, agent):
        stream = client.events()
        agent.say({"type": "rpc_chunk", "chunkId": 1, "index": "a", "count": None, "data": 2}, {"type": "turn_start"})
        assert isinstance(await anext(stream), events.UnknownEvent)
        assert isinstance(await anext(stream), events.TurnStart)
