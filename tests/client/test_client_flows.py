"""The same flows with every agent that a client can drive: fairlead in each dialect, and (as system tests) real ones of pi.

Of xcsh and omp there are recordings of real sessions. The client does what the recorded host did.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.client.agents import FAIRLEAD, FAIRLEAD_2025, PI, Agent, running
from tests.client.recorded import play, recorded_sessions
from tests.support.stage import bash, calls, says

from fairlead.client import HostCall, MessageAssembler, events
from fairlead.errors import AgentGone, CommandRefused, RunFailed
from fairlead.messages import AssistantMessage


def each(*agents: Agent) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "agent",
        [pytest.param(agent, marks=[pytest.mark.system] if agent in PI else []) for agent in agents],
        ids=[agent.name for agent in agents],
    )


every_agent = each(*FAIRLEAD, FAIRLEAD_2025, *PI)
#: pi of 2025 has only prompt, abort and compact.
with_all_commands = each(*FAIRLEAD, *PI)
with_host_tools = each(*FAIRLEAD)

STORY = says("Once upon a time there was an agent. " * 20, chunk=16)
WAIT = calls(bash("until [ -e go ]; do sleep 0.02; done"))


@with_all_commands
async def test_state_models_and_messages_are_typed(agent: Agent, tmp_path: Path) -> None:
    async with running(agent, says("Hello."), root=tmp_path) as client:
        state = await client.get_state()
        assert state.model is not None
        assert (state.model.id, state.is_streaming, state.message_count) == ("one", False, 0)
        assert {model.id for model in (await client.get_available_models()).models} >= {"one", "two"}
        assert (await client.get_last_assistant_text()).text is None
        assert (await client.ask("Hi")).text == "Hello."
        texts = [message.text() for message in (await client.get_messages()).messages if isinstance(message, AssistantMessage)]
        assert texts == ["Hello."]
        assert (await client.get_last_assistant_text()).text == "Hello."
        assert (await client.get_session_stats()).assistant_messages == 1


@every_agent
async def test_a_run_streams_its_text_and_has_a_result(agent: Agent, tmp_path: Path) -> None:
    async with running(agent, STORY, says("Again."), root=tmp_path) as client:
        pieces: list[str] = []
        assembler = MessageAssembler()
        async with client.run("Tell me a story.") as run:
            async for event in run:
                assembler.add(event)
                match event:
                    case events.MessageUpdate(assistant_message_event=events.TextDelta(delta=delta)):
                        pieces.append(delta)
                        message = assembler.message()
                        assert message is not None
                        # pi 0.73 repeats the whole message, which may be ahead of the delta.
                        assert STORY["text"].startswith(message.text())
                        assert len(message.text()) >= len("".join(pieces))
                    case _:
                        pass
        result = await run
        assert "".join(pieces) == result.text == STORY["text"]
        assert (result.stop_reason, result.aborted) == ("stop", False)
        assert result.usage.total_tokens > 0
        assert (await client.ask("Again?")).text == "Again."


@every_agent
async def test_tools_run_and_their_results_are_messages(agent: Agent, tmp_path: Path) -> None:
    async with running(agent, calls(bash("echo here")), says("Done."), root=tmp_path) as client:
        ended: list[events.ToolExecutionEnd] = []
        async with client.run("Look.") as run:
            async for event in run:
                if isinstance(event, events.ToolExecutionEnd):
                    ended.append(event)
        assert (await run).text == "Done."
        assert [(event.tool_name, event.is_error) for event in ended] == [("bash", False)]
        assert "here" in str(ended[0].raw["result"])


@every_agent
async def test_an_abort_keeps_the_session(agent: Agent, tmp_path: Path) -> None:
    async with running(agent, WAIT, says("Still here."), root=tmp_path) as client:
        stream = client.events()
        run = await client.prompt("Wait.")
        while not isinstance(await anext(stream), events.ToolExecutionStart):
            pass
        await client.abort()
        assert (await run).aborted
        assert (await client.ask("Well?")).text == "Still here."


@with_all_commands
async def test_a_message_can_be_steered_into_a_run(agent: Agent, tmp_path: Path) -> None:
    async with running(agent, WAIT, says("Left."), root=tmp_path) as client:
        stream = client.events()
        run = await client.prompt("Walk.")
        while not isinstance(await anext(stream), events.ToolExecutionStart):
            pass
        await client.steer("Turn left.")
        await client.bash("touch go")
        result = await run
        assert result.text == "Left."
        assert "Turn left." in str(result.messages)


@with_all_commands
async def test_a_second_prompt_is_refused_and_the_first_is_not_disturbed(agent: Agent, tmp_path: Path) -> None:
    async with running(agent, WAIT, says("Done."), root=tmp_path) as client:
        stream = client.events()
        run = await client.prompt("Wait.")
        while not isinstance(await anext(stream), events.ToolExecutionStart):
            pass
        with pytest.raises(CommandRefused, match="already processing"):
            await (await client.prompt("Now!"))
        await client.bash("touch go")
        assert (await run).text == "Done."


@every_agent
async def test_a_run_that_fails_raises(agent: Agent, tmp_path: Path) -> None:
    async with running(agent, {"status": 400, "error": "bad request"}, says("Fine."), root=tmp_path) as client:
        with pytest.raises(RunFailed, match="bad request"):
            await client.ask("Hi")
        assert (await client.ask("And now?")).text == "Fine."


@every_agent
async def test_an_attempt_that_is_retried_does_not_end_the_run(agent: Agent, tmp_path: Path) -> None:
    async with running(agent, {"status": 529, "error": "overloaded"}, says("Fine."), root=tmp_path) as client:
        stream = client.events()
        assert (await client.ask("Hi")).text == "Fine."
        while agent.name not in ("pi-0.73", FAIRLEAD_2025.name) and not isinstance(await anext(stream), events.AutoRetryStart):
            pass  # the provider's library, which pi 0.73 uses, retries by itself; pi of 2025 does not tell of retries


@with_all_commands
async def test_commands_unknown_to_the_agent_are_refused(agent: Agent, tmp_path: Path) -> None:
    async with running(agent, says("ok"), root=tmp_path) as client:
        state = asyncio.ensure_future(client.get_state())
        with pytest.raises(CommandRefused, match="Unknown command: dance"):
            await client.request("dance", style="tango")
        with pytest.raises(CommandRefused, match="Model not found: nope/x"):
            await client.set_model("nope", "x")
        assert (await state).session_id


@with_all_commands
async def test_the_agent_ends_with_its_input(agent: Agent, tmp_path: Path) -> None:
    async with running(agent, says("ok"), root=tmp_path) as client:
        await client.get_state()
        assert await client.stop() == 0


@with_host_tools
async def test_host_tools_run_report_fail_and_are_cancelled(agent: Agent, tmp_path: Path) -> None:
    turns = [calls(("stock", {"item": "lamp"}), ("stock", {"item": "door"})), says("Three."), calls(("wait", {})), says("Well.")]
    async with running(agent, *turns, root=tmp_path) as client:
        waiting = asyncio.Event()

        @client.tool
        def stock(item: str, call: HostCall) -> str:
            """How many there are."""
            call.progress("counting")
            if item != "lamp":
                raise LookupError(f"There is no shelf for a {item}.")
            return f"3 of {item}"

        @client.tool(name="wait")
        async def wait_for_ever() -> None:
            """Wait."""
            waiting.set()
            await asyncio.Event().wait()

        result = await client.ask("How many?")
        assert result.text == "Three."
        assert "3 of lamp" in str(result.messages)
        assert "There is no shelf for a door." in str(result.messages)
        run = await client.prompt("Wait.")
        await waiting.wait()
        await client.abort()
        assert (await run).aborted
        assert (await client.ask("Well?")).text == "Well."
        assert stock and wait_for_ever


@each(FAIRLEAD_2025)
async def test_without_responses_events_report_the_outcome_of_a_command(agent: Agent, tmp_path: Path) -> None:
    async with running(agent, WAIT, says("Still here."), says("A summary."), root=tmp_path) as client:
        stream = client.events()
        with pytest.raises(CommandRefused, match="get_state"):
            await client.get_state()
        run = await client.prompt("Wait.")
        while not isinstance(await anext(stream), events.ToolExecutionStart):
            pass
        with pytest.raises(CommandRefused, match="already processing"):
            await (await client.prompt("Now!"))
        await client.abort()
        assert (await run).aborted
        assert (await client.ask("Well?")).text == "Still here."
        try:
            assert (await client.compact()).summary
        except CommandRefused as error:
            assert error.command == "compact"


PROMPTS = ("prompt", "abort_and_prompt")
RECORDED = ["xcsh", "omp-13", "omp-14", "omp-18.2"]


@pytest.mark.parametrize(("program", "name"), [(program, name) for program in RECORDED for name in recorded_sessions(program)])
async def test_recorded_sessions_of_real_agents_are_understood(program: str, name: str) -> None:
    played = await play(program, name)
    unseen = ("response", "rpc_chunk")
    seen = [event.raw["type"] for event in played.events]
    assert [kind for kind in seen if kind not in unseen] == [
        frame["type"] for frame in played.frames if frame["type"] not in unseen
    ]
    refused = sum(frame["type"] == "response" and not frame["success"] and frame["command"] in PROMPTS for frame in played.frames)
    assert sum(isinstance(outcome, CommandRefused) for outcome in played.outcomes) == refused
    gone = [isinstance(outcome, AgentGone) for outcome in played.outcomes]
    assert not any(gone[:-1])
    assert not gone or gone[-1] == played.cut_off
