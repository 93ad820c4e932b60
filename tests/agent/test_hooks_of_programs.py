"""`hooks=`: functions of the program around tool calls and prompts, and for events."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead import Agent, Hooks, events
from fairlead.errors import BadOption
from fairlead.extension import Amend, Block, Handled, Input, ToolCallEvent, ToolResultEvent, Transform
from fairlead.messages import ToolCall, ToolResultMessage, UserMessage, user_text
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn


def double(n: int) -> int:
    """Double a number."""
    return 2 * n


def call(n: Any) -> Turn:
    return Turn(tool_calls=[ToolCall("c1", "double", {"n": n})])


def an_agent(turns: list[Turn], cwd: Path, hooks: Hooks, **changes: Any) -> tuple[Agent, Scripted]:
    model = Scripted([*turns, Turn(text="ok"), Turn(text="ok")])
    options: dict[str, Any] = {"tools": [double], "isolated": True, **changes}
    return Agent(model=SCRIPTED_MODEL, stream=model, cwd=cwd, hooks=hooks, **options), model


def results(agent: Agent) -> list[tuple[str, bool]]:
    return [
        ("".join(getattr(block, "text", "") for block in message.content), message.is_error)
        for message in agent.session.messages
        if isinstance(message, ToolResultMessage)
    ]


def as_async(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    async def hook(event: Any) -> Any:
        await asyncio.sleep(0)
        return function(event)

    return hook


@pytest.fixture(params=["plain", "async"])
def kind(request: pytest.FixtureRequest) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Make a hook of either kind from a plain function."""
    return as_async if request.param == "async" else (lambda function: function)


async def test_before_tool_blocks_and_changes_calls(tmp_path: Path, kind: Any) -> None:
    def judge(event: ToolCallEvent) -> Block | None:
        assert (event.tool_name, event.call_id) == ("double", "c1")
        if event.arguments["n"] == 13:
            return Block("Not that number.")
        event.arguments["n"] += 1
        return None

    agent, _ = an_agent([call(13), call(2)], tmp_path, Hooks(before_tool=kind(judge)))
    async with agent:
        await agent.ask("go")
        assert results(agent) == [("Not that number.", True), ("6", False)]


async def test_changed_arguments_are_checked_against_the_schema(tmp_path: Path) -> None:
    def spoil(event: ToolCallEvent) -> None:
        event.arguments["n"] = "many"

    agent, _ = an_agent([call(2)], tmp_path, Hooks(before_tool=spoil))
    async with agent:
        await agent.ask("go")
        ((text, is_error),) = results(agent)
        assert is_error and text.startswith('Validation failed for tool "double"')


async def test_a_before_tool_hook_that_fails_refuses_the_call(tmp_path: Path, kind: Any) -> None:
    ran: list[int] = []

    def count(n: int) -> None:
        """Count."""
        ran.append(n)

    def broken(event: ToolCallEvent) -> Any:
        return 1 / 0 if event.arguments["n"] == 1 else "yes"

    calls = Turn(tool_calls=[ToolCall("a", "count", {"n": 1}), ToolCall("b", "count", {"n": 2})])
    agent, _ = an_agent([calls], tmp_path, Hooks(before_tool=kind(broken)), tools=[count])
    async with agent:
        await agent.ask("go")
        wrong = "A handler of tool_call must return Block or None, not str."
        assert results(agent) == [("division by zero", True), (wrong, True)] and ran == []


async def test_a_hook_that_takes_too_long_refuses_the_call(tmp_path: Path, kind: Any) -> None:
    home, gate = tmp_path / "home", threading.Event()
    home.mkdir()
    (home / "settings.json").write_text('{"extensionTimeoutSeconds": 0.1}')

    async def hang(event: ToolCallEvent) -> None:
        await asyncio.Event().wait()

    def block(event: ToolCallEvent) -> None:
        gate.wait(20)

    env = {"FAIRLEAD_HOME": str(home), "HOME": str(tmp_path)}
    hooks = Hooks(before_tool=hang if kind is as_async else block)
    agent, _ = an_agent([call(2)], tmp_path, hooks, isolated=False, env=env)
    async with agent:
        await agent.ask("go")
        gate.set()
        ((text, is_error),) = results(agent)
        assert is_error and "0.1 seconds" in text


async def test_after_tool_changes_the_result(tmp_path: Path, kind: Any) -> None:
    def redact(event: ToolResultEvent) -> Amend:
        assert (event.tool_name, event.arguments, event.is_error) == ("double", {"n": 2}, False)
        return Amend(f"<{getattr(event.content[0], 'text', '')}>", is_error=True)

    agent, _ = an_agent([call(2)], tmp_path, Hooks(after_tool=kind(redact)))
    async with agent:
        await agent.ask("go")
        assert results(agent) == [("<4>", True)]


async def test_the_result_is_not_shown_if_after_tool_fails(tmp_path: Path, kind: Any) -> None:
    def broken(event: ToolResultEvent) -> None:
        raise LookupError("no filter")

    agent, _ = an_agent([call(2)], tmp_path, Hooks(after_tool=kind(broken)))
    async with agent:
        await agent.ask("go")
        assert results(agent) == [("LookupError: no filter", True)]


async def test_before_prompt_changes_handles_and_refuses_prompts(tmp_path: Path, kind: Any) -> None:
    def hear(event: Input) -> Transform | Handled | None:
        if event.text == "ping":
            return Handled()
        if event.text == "bad":
            raise LookupError("no such prompt")
        return Transform(event.text.upper())

    agent, model = an_agent([], tmp_path, Hooks(before_prompt=kind(hear)))
    async with agent:
        assert [event async for event in agent.run("ping")] == []
        with pytest.raises(LookupError, match="no such prompt"):
            await agent.ask("bad")
        assert agent.session.messages == []
        await agent.ask("hello")
        (message,) = model.requests[0].messages
        assert isinstance(message, UserMessage) and user_text(message) == "HELLO"


async def test_on_event_gets_every_event_in_order(tmp_path: Path, kind: Any) -> None:
    heard: list[events.Event] = []
    agent, _ = an_agent([call(2)], tmp_path, Hooks(on_event=kind(heard.append)))
    async with agent:
        seen = [event async for event in agent.run("go")]
    assert [event for event in heard if event in seen] == seen
    assert isinstance(heard[-1], events.AgentSettled)


async def test_a_slow_event_hook_makes_the_run_wait_but_not_an_abort(tmp_path: Path) -> None:
    gate = asyncio.Event()
    heard: list[events.Event] = []

    async def slow(event: events.Event) -> None:
        await gate.wait()
        heard.append(event)

    agent, model = an_agent([call(n) for n in range(200)], tmp_path, Hooks(on_event=slow))
    paced = agent.session._events  # pyright: ignore[reportPrivateUsage]
    async with agent, asyncio.timeout(30):
        await agent.session.prompt("go")
        while not paced.paused:  # noqa: ASYNC110
            await asyncio.sleep(0)
        before = len(model.requests)
        for _ in range(1000):
            await asyncio.sleep(0)
        assert len(model.requests) <= before + 1 and agent.session.activity.is_streaming
        await agent.session.abort()
        assert not agent.session.activity.is_streaming
        gate.set()
    assert isinstance(heard[-1], events.AgentSettled)


async def test_a_bug_in_an_event_hook_is_logged(tmp_path: Path, kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    def broken(event: events.Event) -> None:
        raise LookupError("not an event of mine")

    agent, _ = an_agent([], tmp_path, Hooks(on_event=kind(broken)))
    with caplog.at_level(logging.ERROR, "fairlead"):
        async with agent:
            assert str(await agent.ask("go")) == "ok"
    assert "not an event of mine" in caplog.text


EXTENSION = """
from fairlead.extension import Amend
def setup(fl):
    @fl.on("tool_call")
    def call(event):
        event.arguments["n"] *= 10
    @fl.on("tool_result")
    def result(event):
        return Amend(event.content[0].text + " from the extension")
"""


async def test_hooks_come_after_extensions_and_survive_a_reload(tmp_path: Path) -> None:
    (tmp_path / "ten.py").write_text(EXTENSION)
    seen: list[int] = []

    def before(event: ToolCallEvent) -> None:
        seen.append(event.arguments["n"])

    def after(event: ToolResultEvent) -> Amend:
        return Amend(f"{getattr(event.content[0], 'text', '')} and the hook")

    hooks = Hooks(before_tool=before, after_tool=after)
    agent, _ = an_agent([call(2), Turn(text="ok"), call(3)], tmp_path, hooks, extensions=[tmp_path / "ten.py"])
    async with agent:
        await agent.ask("go")
        await agent.reload_extensions()
        await agent.ask("again")
        assert seen == [20, 30]
        assert results(agent) == [(f"{n} from the extension and the hook", False) for n in (40, 60)]


async def test_hooks_cover_the_tool_calls_of_sub_agents(tmp_path: Path) -> None:
    def judge(event: ToolCallEvent) -> Block | None:
        return Block("Not for sub-agents.") if event.tool_name == "double" else None

    task = {"agent": "task", "tasks": [{"id": "one", "description": "d", "assignment": "Double 2."}]}
    turns = [Turn(tool_calls=[ToolCall("t", "task", task)]), call(2), Turn(text="It was refused.")]
    agent, model = an_agent(turns, tmp_path, Hooks(before_tool=judge), tools=["task", double])
    async with agent:
        await agent.ask("go")
        (refused,) = [
            message
            for request in model.requests
            for message in request.messages
            if isinstance(message, ToolResultMessage) and message.tool_name == "double"
        ]
        assert refused.is_error and getattr(refused.content[0], "text", "") == "Not for sub-agents."


def test_a_hook_that_is_not_callable_is_refused() -> None:
    with pytest.raises(TypeError, match="hooks: before_tool: expected a function or None, found 'bash'"):
        Hooks(before_tool="bash")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="nexpected keyword argument"):
        Hooks(before_tol=print)  # pyright: ignore[reportCallIssue]
    with pytest.raises(BadOption, match=r"^hooks: expected a Hooks or None"):
        Agent(hooks=print)  # pyright: ignore[reportArgumentType]
