"""The same flows with every agent that a client can drive: fairlead in each dialect, and (as system tests) real ones of pi."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.client.agents import FAIRLEAD, PI, Agent, running
from tests.support.stage import bash, calls, says

from fairlead.client import MessageAssembler, events
from fairlead.errors import CommandRefused, RunFailed
from fairlead.messages import AssistantMessage

every_agent = pytest.mark.parametrize(
    "agent",
    [*FAIRLEAD, *(pytest.param(agent, marks=pytest.mark.system) for agent in PI)],
    ids=lambda agent: agent.name,
)

STORY = says("Once upon a time there was an agent. " * 20, chunkSize=16)
WAIT = calls(bash("until [ -e go ]; do sleep 0.02; done"))


@every_agent
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


@every_agent
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


@every_agent
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
        while agent.name != "pi-0.73" and not isinstance(await anext(stream), events.AutoRetryStart):
            pass  # the provider's library, which pi 0.73 uses, retries by itself


@every_agent
async def test_what_the_agent_does_not_know_is_refused(agent: Agent, tmp_path: Path) -> None:
    async with running(agent, says("ok"), root=tmp_path) as client:
        state = asyncio.ensure_future(client.get_state())
        with pytest.raises(CommandRefused, match="Unknown command: dance"):
            await client.request("dance", style="tango")
        with pytest.raises(CommandRefused, match="Model not found: nope/x"):
            await client.set_model("nope", "x")
        assert (await state).session_id


@every_agent
async def test_the_agent_ends_with_its_input(agent: Agent, tmp_path: Path) -> None:
    async with running(agent, says("ok"), root=tmp_path) as client:
        await client.get_state()
        assert await client.stop() == 0
