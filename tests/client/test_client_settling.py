"""When a run is over, as agents of different versions say it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.client.fake_agent import SETTLED, FakeAgent, Frame, assistant, fake_agent, run_frames

from fairlead.client import Client, MessageAssembler, Run, events
from fairlead.client.decoding import FrameDecoder
from fairlead.errors import CommandRefused, RunFailed

RETRY: list[Frame] = [
    *run_frames("", stopReason="error", errorMessage="529 overloaded"),
    {"type": "auto_retry_start", "attempt": 1, "maxAttempts": 3, "delayMs": 1, "errorMessage": "529 overloaded"},
]


async def prompted(client: Client, agent: FakeAgent, text: str = "hi", **data: Any) -> Run:
    """A run whose prompt the agent has accepted."""
    asked = asyncio.ensure_future(client.prompt(text))
    agent.answer(await agent.command("prompt"), **data)
    return await asked


async def test_a_run_has_a_result() -> None:
    async with fake_agent() as (client, agent):
        run = await prompted(client, agent)
        agent.say(*run_frames("first")[:-1], *run_frames("second"), SETTLED)
        result = await run
        assert (result.text, result.stop_reason, result.aborted, result.handled) == ("second", "stop", False, False)
        assert len(result.messages) == 4
        assert (result.usage.input, result.usage.total_tokens) == (20, 30)


async def test_an_attempt_that_is_retried_does_not_end_the_run() -> None:
    async with fake_agent() as (client, agent):
        run = await prompted(client, agent)
        failed = RETRY[-2] | {"willRetry": True}
        agent.say(*RETRY[:-2], failed, RETRY[-1], *run_frames("ok"))
        states = asyncio.ensure_future(agent.answer_states(isSettled=False))
        await asyncio.sleep(0)
        assert not run.done
        agent.say(SETTLED)
        assert (await run).text == "ok"
        states.cancel()


async def test_without_agent_settled_the_run_ends_when_the_agent_is_idle() -> None:
    """pi 0.73, omp 14, xcsh."""
    async with fake_agent() as (client, agent):
        run = await prompted(client, agent)
        agent.say(*run_frames("ok"))
        agent.answer(await agent.command("get_state"), data={"isStreaming": True})
        assert not run.done
        agent.answer(await agent.command("get_state"), data={"isStreaming": False, "isCompacting": False})
        assert (await run).text == "ok"


async def test_without_agent_settled_a_retry_is_waited_for_although_the_state_says_idle() -> None:
    """pi 0.73 counts as idle between two attempts."""
    async with fake_agent() as (client, agent):
        run = await prompted(client, agent)
        agent.say(*RETRY)
        agent.answer(await agent.command("get_state"), data={"isStreaming": False})
        agent.say(*run_frames("ok"))
        agent.answer(await agent.command("get_state"), data={"isStreaming": False})
        assert (await run).text == "ok"


async def test_without_agent_settled_retries_that_are_over_end_the_run() -> None:
    async with fake_agent() as (client, agent):
        run = await prompted(client, agent)
        agent.say(*RETRY, {"type": "auto_retry_end", "success": False, "attempt": 1, "finalError": "Retry cancelled"})
        states = asyncio.ensure_future(agent.answer_states(isStreaming=False))
        with pytest.raises(RunFailed, match="529 overloaded"):
            await run
        states.cancel()


async def test_a_run_that_a_new_session_cuts_off_without_an_event_is_aborted() -> None:
    """pi 0.73 never sends the agent_end of such a run."""
    async with fake_agent() as (client, agent):
        run = await prompted(client, agent)
        agent.say({"type": "agent_start"})
        moved = asyncio.ensure_future(client.new_session())
        agent.answer(await agent.command("new_session"), data={"cancelled": False})
        await moved
        agent.answer(await agent.command("get_state"), data={"isStreaming": False})
        assert (await run).aborted


async def test_an_agent_settled_of_an_earlier_run_does_not_end_the_next_one() -> None:
    async with fake_agent() as (client, agent):
        run = await prompted(client, agent)
        agent.say(SETTLED, *run_frames("ok")[:2], SETTLED, *run_frames("ok")[2:])
        tools = asyncio.ensure_future(client.get_tools())
        agent.answer(await agent.command("get_tools"), data={"tools": []})
        await tools
        assert not run.done
        agent.say(SETTLED)
        assert (await run).text == "ok"


async def test_prompt_result_ends_the_run_of_its_prompt() -> None:
    """omp 18.3."""
    async with fake_agent() as (client, agent):
        one = await prompted(client, agent)
        agent.say({"type": "agent_start"})
        two = await prompted(client, agent)
        agent.say(*run_frames("ok")[1:])
        told = {"type": "prompt_result", "agentInvoked": True, "sessionSettled": True}
        agent.say({**told, "id": two.id, "status": "completed"})
        assert (await two).text == "ok"
        assert not one.done
        error = {"message": "no credit", "retryable": False}
        agent.say({**told, "id": one.id, "status": "error", "error": error}, {"type": "session_settled"})
        with pytest.raises(RunFailed, match="no credit"):
            await one


async def test_an_agent_end_that_is_not_terminal_does_not_end_the_run() -> None:
    """omp 18.2."""
    async with fake_agent() as (client, agent):
        run = await prompted(client, agent)
        agent.say(*run_frames("one")[:-1], run_frames("one")[-1] | {"isTerminal": False})
        agent.say(*run_frames("two")[:-1], run_frames("two")[-1] | {"isTerminal": True})
        agent.answer(await agent.command("get_state"), data={"isStreaming": False})
        assert (await run).text == "two"


@pytest.mark.parametrize("data", [{"disposition": "handled"}, {"agentInvoked": False}])
async def test_a_prompt_that_starts_no_run_is_over_at_once(data: dict[str, Any]) -> None:
    """pi 1.5 and omp 18 say so."""
    async with fake_agent() as (client, agent):
        result = await (await prompted(client, agent, "/greet", data=data))
        assert (result.handled, result.text, result.messages) == (True, "", [])


async def test_a_slash_command_after_which_the_agent_stays_idle_is_over() -> None:
    """Agents before pi 1.5 do not say that a command started no run."""
    async with fake_agent() as (client, agent):
        run = await prompted(client, agent, "/greet")
        states = asyncio.ensure_future(agent.answer_states(isStreaming=False))
        assert (await run).handled
        states.cancel()


async def test_a_queued_prompt_ends_with_the_run_that_it_joined() -> None:
    async with fake_agent() as (client, agent):
        first = await prompted(client, agent)
        agent.say({"type": "agent_start"})
        second = await prompted(client, agent, data={"disposition": "queued"})
        agent.say(*run_frames("ok")[1:], SETTLED)
        assert [(await run).text for run in (first, second)] == ["ok", "ok"]


async def test_a_failed_run_raises_and_has_the_result() -> None:
    async with fake_agent() as (client, agent):
        run = await prompted(client, agent)
        agent.say(*run_frames("half", stopReason="error", errorMessage="terminated"), SETTLED)
        with pytest.raises(RunFailed, match="terminated") as caught:
            await run
        assert (caught.value.result.text, caught.value.result.stop_reason) == ("half", "error")


async def test_an_aborted_run_has_a_result() -> None:
    async with fake_agent() as (client, agent):
        run = await prompted(client, agent)
        agent.say(*run_frames("half", stopReason="aborted", errorMessage="Request was aborted"), SETTLED)
        result = await run
        assert (result.text, result.aborted) == ("half", True)


async def test_an_abort_that_pi_reports_as_an_error_is_an_abort() -> None:
    async with fake_agent() as (client, agent):
        run = await prompted(client, agent)
        agent.say(*run_frames("", stopReason="error", errorMessage="aborted")[:-1])
        aborting = asyncio.ensure_future(client.abort())
        command = await agent.command("abort")
        agent.say(run_frames("")[-1], SETTLED)
        agent.answer(command)
        await aborting
        assert (await run).aborted


async def test_a_run_ends_its_events_even_if_no_event_says_so() -> None:
    async with fake_agent() as (client, agent):

        async def kinds() -> list[str]:
            async with client.run("hi") as run:
                return [type(event).__name__ async for event in run]

        reading = asyncio.ensure_future(kinds())
        agent.answer(await agent.command("prompt"))
        agent.say(*run_frames("ok"))
        agent.answer(await agent.command("get_state"), data={"isStreaming": False})
        assert await reading == ["AgentStart", "MessageEnd", "MessageEnd", "AgentEnd"]


async def test_leaving_a_run_early_aborts_it() -> None:
    async with fake_agent() as (client, agent):

        async def read_one() -> None:
            async with client.run("hi") as run:
                await anext(run)

        reading = asyncio.ensure_future(read_one())
        agent.answer(await agent.command("prompt"))
        agent.say({"type": "agent_start"})
        agent.answer(await agent.command("abort"))
        await reading


async def test_an_error_inside_the_block_of_a_run_aborts_it() -> None:
    async with fake_agent() as (client, agent):

        async def stumble() -> None:
            async with client.run("hi"):
                raise LookupError("oops")

        reading = asyncio.ensure_future(stumble())
        agent.answer(await agent.command("prompt"))
        with pytest.raises(LookupError):
            await reading
        agent.answer(await agent.command("abort"))


async def test_cancelling_a_question_aborts_its_run() -> None:
    async with fake_agent() as (client, agent):
        asking = asyncio.ensure_future(client.ask("hi"))
        agent.answer(await agent.command("prompt"))
        agent.say({"type": "agent_start"})
        await asyncio.sleep(0)
        asking.cancel()
        agent.answer(await agent.command("abort"))
        with pytest.raises(asyncio.CancelledError):
            await asking


async def test_a_question_that_takes_too_long_is_aborted() -> None:
    async with fake_agent() as (client, agent):
        asking = asyncio.ensure_future(client.ask("hi", timeout=0.05))
        agent.answer(await agent.command("prompt"))
        agent.answer(await agent.command("abort"))
        with pytest.raises(TimeoutError):
            await asking


async def test_the_end_of_a_run_that_was_aborted_for_a_prompt_does_not_end_the_prompt() -> None:
    async with fake_agent() as (client, agent):
        old = await prompted(client, agent)
        agent.say(*run_frames("old")[:2])
        asked = asyncio.ensure_future(client.abort_and_prompt("now"))
        command = await agent.command("abort_and_prompt")
        agent.say(*run_frames("old", stopReason="aborted")[2:], SETTLED)
        agent.answer(command)
        new = await asked
        assert (await old).aborted
        assert not new.done
        agent.say(*run_frames("new"), SETTLED)
        result = await new
        assert (result.text, len(result.messages)) == ("new", 2)


async def test_a_prompt_that_is_refused_leaves_nothing_behind() -> None:
    async with fake_agent() as (client, agent):
        asked = asyncio.ensure_future(client.prompt("hi"))
        agent.refuse(await agent.command("prompt"), "No model selected.")
        with pytest.raises(CommandRefused, match="No model selected"):
            await asked
        run = await prompted(client, agent)
        agent.say(*run_frames("ok"), SETTLED)
        assert (await run).text == "ok"


def test_the_message_so_far_is_put_together_from_deltas_and_from_whole_messages() -> None:
    def update(**inner: Any) -> Frame:
        return {"type": "message_update", "usage": assistant("")["usage"], "assistantMessageEvent": inner}

    assembler, decoder = MessageAssembler(), FrameDecoder(events.EVENTS)

    def add(*frames: Frame) -> Any:
        for frame in frames:
            event = decoder.decode(json.dumps(frame).encode())
            assert isinstance(event, events.Event)
            assembler.add(event)
        return assembler.message()

    message = add(
        {"type": "message_start", "message": assistant("", stopReason="pending")},
        update(type="thinking_start", contentIndex=0),
        update(type="thinking_delta", contentIndex=0, delta="hm"),
        update(type="thinking_end", contentIndex=0, content="hmm"),
        update(type="text_start", contentIndex=1),
        update(type="text_delta", contentIndex=1, delta="Hel"),
        update(type="text_delta", contentIndex=1, delta="lo"),
        update(type="toolcall_start", contentIndex=2, id="t", toolName="bash"),
        update(type="toolcall_delta", contentIndex=2, delta='{"command": "ec'),
    )
    thinking, text, call = message.content
    assert (thinking.thinking, text.text, call.arguments) == ("hmm", "Hello", {"command": "ec"})
    whole = update(type="text_delta", contentIndex=1, delta="!", partial=assistant("all")) | {"message": assistant("all")}
    del whole["usage"]  # pi 0.73
    assert add(whole).text() == "all"
    assert add({"type": "message_end", "message": assistant("all")}) is None
