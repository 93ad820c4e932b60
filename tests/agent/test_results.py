"""What `ask` returns, and what it raises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fairlead import Agent, Hooks, Result
from fairlead.core.model import Price
from fairlead.errors import BadOption, LimitReached, ProviderError, RunAborted, RunTimeout
from fairlead.events import AgentSettled, MessageEnd, ToolRunning
from fairlead.messages import ImageContent, ToolCall, Usage
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489")
#: The price of a scripted turn.
TURN = (100 * 3 + 50 * 15) / 1e6


def an_agent(turns: list[Turn], cwd: Path, **options: Any) -> Agent:
    return Agent(model=SCRIPTED_MODEL, stream=Scripted(turns), cwd=cwd, isolated=True, **options)


def calling(command: str = "true") -> Turn:
    return Turn(text="I will look.", tool_calls=[ToolCall("1", "bash", {"command": command})])


async def test_a_result_tells_what_a_prompt_came_to(tmp_path: Path) -> None:
    async with an_agent([Turn(text="Earlier."), calling("echo x"), Turn(text="Done.")], tmp_path) as agent:
        await agent.ask("before")
        result = await agent.ask("go")
        assert isinstance(result, Result)
        assert (result.text, str(result), result.output, result.stop_reason) == ("Done.", "Done.", "Done.", "stop")
        assert [message.role for message in result.messages] == ["user", "assistant", "toolResult", "assistant"]
        assert (result.usage.input, result.usage.output) == (200, 100)
        assert result.cost == pytest.approx(2 * TURN) == result.usage.cost.total
        assert result.session_id == agent.session.history.id
        assert 0 < result.duration < 60


async def test_retries_and_sub_agents_count_for_the_cost(tmp_path: Path) -> None:
    task = ToolCall("1", "task", {"agent": "task", "tasks": [{"id": "a", "description": "d", "assignment": "look"}]})
    turns = [Turn(error="overloaded", transient=True), Turn(tool_calls=[task]), Turn(text="found"), Turn(text="Done.")]
    async with an_agent(turns, tmp_path, tools=["task"]) as agent:
        result = await agent.ask("go")
        assert result.text == "Done." and result.cost == pytest.approx(4 * TURN)
        assert agent.session.usage.totals.cost == pytest.approx(4 * TURN)


async def test_a_failure_keeps_what_was_done_before_it(tmp_path: Path) -> None:
    async with an_agent([calling(), Turn(error="no", status=400)], tmp_path) as agent:
        with pytest.raises(ProviderError, match=r"^no$") as caught:
            await agent.ask("go")
        assert caught.value.status == 400
        assert caught.value.result.text == "I will look."
        assert (caught.value.result.stop_reason, len(caught.value.result.messages)) == ("error", 4)


async def test_max_turns_of_one_prompt_overrides_that_of_the_agent(tmp_path: Path) -> None:
    async with an_agent([calling(), calling("echo 2"), Turn(text="Done.")], tmp_path, max_turns=1) as agent:
        settled: list[AgentSettled] = []
        agent.session.subscribe(lambda event: settled.append(event) if isinstance(event, AgentSettled) else None)
        with pytest.raises(LimitReached, match="after 1 turn") as caught:
            await agent.ask("go")
        assert [message.role for message in caught.value.result.messages] == ["user", "assistant", "toolResult", "assistant"]
        assert (await agent.ask("go on", max_turns=3)).text == "Done."
        assert len(settled) == 2


async def test_max_cost_ends_the_run_before_the_next_model_call(tmp_path: Path) -> None:
    async with an_agent([calling("echo once > done"), Turn(text="Never."), Turn(text="Later.")], tmp_path) as agent:
        with pytest.raises(LimitReached, match=r"it has cost \$0\.00105, and max_cost is \$0\.001\.") as caught:
            await agent.ask("go", max_cost=0.001)
        assert caught.value.result.cost == pytest.approx(TURN)
        assert (tmp_path / "done").exists()  # the calls of the last turn have run
        assert not agent.session.activity.is_streaming
        assert (await agent.ask("go on", max_cost=1)).text == "Never."


async def test_an_answer_that_reaches_the_limit_is_still_an_answer(tmp_path: Path) -> None:
    async with an_agent([Turn(text="Dear.")], tmp_path, max_cost=TURN / 2) as agent:
        assert (await agent.ask("go")).text == "Dear."


async def test_failed_attempts_count_for_max_cost(tmp_path: Path) -> None:
    turns = [Turn(text="half", error="overloaded", transient=True), Turn(text="Never.")]
    async with an_agent(turns, tmp_path, max_cost=TURN) as agent, asyncio.timeout(20):
        with pytest.raises(LimitReached, match="max_cost") as caught:
            await agent.ask("go")
        assert caught.value.result.text == "half"
        assert len(agent.session.messages) >= 1


async def test_sub_agents_are_stopped_at_max_cost(tmp_path: Path) -> None:
    task = ToolCall("1", "task", {"agent": "task", "tasks": [{"id": "a", "description": "d", "assignment": "look"}]})
    turns = [Turn(tool_calls=[task]), calling(), *[calling(f"echo {number}") for number in range(20)]]
    model = Scripted(turns)
    agent = Agent(model=SCRIPTED_MODEL, stream=model, cwd=tmp_path, isolated=True, max_cost=3 * TURN, tools=["task", "bash"])
    async with agent, asyncio.timeout(20):
        with pytest.raises(LimitReached, match="max_cost"):
            await agent.ask("go")
        assert len(model.requests) == 3  # the second and the third are the sub-agent's
        assert agent.session.usage.totals.cost == pytest.approx(3 * TURN)


async def test_a_timeout_aborts_the_run_and_waits_for_its_end(tmp_path: Path) -> None:
    async with an_agent([calling("sleep 60"), Turn(text="Back.")], tmp_path) as agent, asyncio.timeout(20):
        with pytest.raises(RunTimeout, match=r"^The prompt took longer than 0.2 seconds \(timeout\)\.$") as caught:
            await agent.ask("go", timeout=0.2)
        assert isinstance(caught.value, TimeoutError) and isinstance(caught.value, LimitReached)
        assert caught.value.result.text == "I will look."
        assert not agent.session.activity.is_streaming
        assert (await agent.ask("again")).text == "Back."


async def test_a_timeout_also_ends_the_time_before_a_run(tmp_path: Path) -> None:
    async def forever(event: object) -> None:
        await asyncio.Event().wait()

    hooks = Hooks(before_prompt=forever)
    async with an_agent([Turn(text="Never.")], tmp_path, hooks=hooks) as agent, asyncio.timeout(20):
        with pytest.raises(RunTimeout) as caught:
            await agent.ask("go", timeout=0.1)
        assert (caught.value.result.text, caught.value.result.stop_reason, agent.session.messages) == ("", None, [])


async def test_a_limit_ends_the_events_of_a_run(tmp_path: Path) -> None:
    async with an_agent([calling("sleep 60")], tmp_path, timeout=0.2) as agent, asyncio.timeout(20):
        events = [event async for event in agent.run("go")]
        assert [event for event in events if isinstance(event, AgentSettled)] == [AgentSettled(aborted=True)] == events[-1:]


async def test_an_aborted_run_reports_its_partial_result(tmp_path: Path) -> None:
    async with an_agent([calling(), Turn(text="x", pause=asyncio.Event().wait)], tmp_path) as agent, asyncio.timeout(20):
        asking = asyncio.create_task(agent.ask("go"))
        ended = asyncio.Event()
        agent.session.subscribe(
            lambda event: ended.set() if isinstance(event, MessageEnd) and event.message.role == "toolResult" else None
        )
        await ended.wait()
        await agent.session.abort()
        with pytest.raises(RunAborted) as caught:
            await asking
        assert caught.value.result.text == "I will look."


@pytest.mark.parametrize(
    ("prompt", "keywords", "said"),
    [
        (3, {}, "prompt: expected a string, found int."),
        ("x", {"images": ["x.png"]}, "images: expected a list of ImageContent, found str as item 0."),
        ("x", {"images": "x.png"}, "images: expected a list of ImageContent, found str."),
        ("x", {"images": ImageContent("", "image/png")}, "images: expected a list of ImageContent, found ImageContent."),
    ],
)
async def test_arguments_of_a_wrong_type_are_refused(tmp_path: Path, prompt: Any, keywords: Any, said: str) -> None:
    async with an_agent([Turn(text="x")], tmp_path) as agent:
        with pytest.raises(TypeError) as caught:
            await agent.ask(prompt, **keywords)
        assert str(caught.value).startswith(said)
        with pytest.raises(TypeError):
            agent.run(prompt, **keywords)
        assert agent.session.messages == []


@pytest.mark.parametrize(
    "limit", [{"expand": "no"}, {"max_turns": -1}, {"max_turns": 1.5}, {"max_cost": 0}, {"max_cost": "1"}, {"timeout": -3}]
)
async def test_values_that_make_no_sense_are_refused(tmp_path: Path, limit: Any) -> None:
    async with an_agent([Turn(text="x")], tmp_path) as agent:
        with pytest.raises(BadOption, match=f"^{next(iter(limit))}: expected "):
            await agent.ask("x", **limit)


async def test_images_are_made_from_files_and_bytes(tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(PNG)
    image = ImageContent.from_file(tmp_path / "dot.png")
    assert image == ImageContent.from_bytes(PNG) and image.mime_type == "image/png"
    assert ImageContent.from_bytes(b"?", "image/png") == ImageContent("Pw==", "image/png")
    (tmp_path / "text.png").write_text("no image")
    with pytest.raises(ValueError, match=r"text\.png is not a PNG, JPEG, GIF or WebP image\."):
        ImageContent.from_file(tmp_path / "text.png")
    async with an_agent([Turn(text="A dot.", usage=Usage())], tmp_path) as agent:
        assert str(await agent.ask("What is it?", images=[image])) == "A dot."


async def cancelled(*_: object) -> Any:
    """Await a task that some other code has cancelled."""
    task = asyncio.create_task(asyncio.sleep(60))
    asyncio.get_running_loop().call_soon(task.cancel)
    return await task


async def test_a_cancellation_within_a_tool_fails_that_call_alone(tmp_path: Path) -> None:
    async def fetch() -> str:
        """Fetch something."""
        return await cancelled()

    turns = [Turn(tool_calls=[ToolCall("1", "fetch", {})]), Turn(text="It failed.")]
    async with an_agent(turns, tmp_path, tools=[fetch]) as agent:
        result = await agent.ask("Fetch it.")
    assert result.text == "It failed."
    assert "It was cancelled, but not by the agent." in str(result.messages[2])


async def test_a_cancellation_within_on_approval_refuses_the_call(tmp_path: Path) -> None:
    async with an_agent([calling("touch ran"), Turn(text="ok")], tmp_path, on_approval=cancelled) as agent:
        result = await agent.ask("Do it.")
    assert result.text == "ok"
    assert not (tmp_path / "ran").exists()


async def test_a_cancellation_within_the_model_fails_the_run(tmp_path: Path) -> None:
    async def stream(request: object, cancel: object) -> AsyncIterator[Any]:
        yield await cancelled()

    async with Agent(model=SCRIPTED_MODEL, stream=stream, cwd=tmp_path, isolated=True) as agent:
        for _ in range(2):
            with pytest.raises(ProviderError, match="It was cancelled, but not by the agent"):
                await agent.ask("Say hello.")


async def test_a_prompt_after_leaving_the_events_early_waits_for_the_abort(tmp_path: Path) -> None:
    async with an_agent([calling("sleep 60"), Turn(text="Next.")], tmp_path) as agent:
        async for event in agent.run("Wait."):
            if isinstance(event, ToolRunning):
                break
        assert (await agent.ask("And now?")).text == "Next."


async def test_the_limits_of_the_agent_apply_to_prompts_of_its_session(tmp_path: Path) -> None:
    async with an_agent([calling("sleep 60"), Turn(text="Next.")], tmp_path, timeout=0.2) as agent:
        await agent.session.prompt("Wait.")
        await agent.session.activity.idle()
        end = agent.session.activity.last_end
        assert end is not None and end.message.stop_reason == "aborted"
        assert (await agent.ask("And now?")).text == "Next."  # the time of the first run does not count
    async with an_agent([calling()], tmp_path, max_cost=1.5 * TURN) as agent:
        await agent.session.prompt("Look.")
        await agent.session.activity.idle()
        end = agent.session.activity.last_end
        assert end is not None and end.is_final
        assert "max_cost is $" in (end.message.error_message or "")
        assert len([message for message in agent.session.messages if message.role == "assistant"]) == 3


async def test_a_cost_limit_without_prices_is_warned_about(tmp_path: Path) -> None:
    free = replace(SCRIPTED_MODEL, cost=Price())
    script = Scripted([Turn(text="ok")], model=free)
    async with Agent(model=free, stream=script, cwd=tmp_path, isolated=True) as agent:
        await agent.ask("hi")
        assert agent.warnings == []
        for _ in range(2):
            await agent.ask("hi", max_cost=1)
        assert agent.warnings == ["max_cost has no effect: the price of scripted/scripted-1 is not known, or it is free."]
