"""An agent without an event loop of the caller's: `ask_sync`, `close_sync`, `with`."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from fairlead import Agent, Tool, ToolContext, ToolResult
from fairlead.errors import AgentClosed, ProviderError, WrongEventLoop
from fairlead.messages import ToolCall
from fairlead.testing import SCRIPTED_MODEL, ProviderServer, Scripted, Turn


def an_agent(turns: list[Turn], cwd: Path, **options: Any) -> Agent:
    return Agent(model=SCRIPTED_MODEL, stream=Scripted(turns), cwd=cwd, isolated=True, **options)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "fairlead-agent"]


def test_a_program_without_a_loop_asks_and_closes(tmp_path: Path) -> None:
    look = Turn(tool_calls=[ToolCall("1", "bash", {"command": "echo here"})])
    with an_agent([look, Turn(text="One."), Turn(text="Two.")], tmp_path) as agent:
        first = agent.ask_sync("first")
        assert (first.text, len(first.messages)) == ("One.", 4)
        assert agent.ask_sync("second").text == "Two."
        assert threads() == ["fairlead-agent"]
    assert threads() == []


def test_an_agent_that_was_never_asked_closes_too(tmp_path: Path) -> None:
    with an_agent([Turn(text="One.")], tmp_path):
        assert threads() == []
    assert threads() == []


def test_a_real_connection_is_kept_between_calls(tmp_path: Path) -> None:
    with ProviderServer([{"text": "Hello."}]) as server:
        env = {"ANTHROPIC_API_KEY": "any", "ANTHROPIC_BASE_URL": server.url}
        with Agent(cwd=tmp_path, isolated=True, env=env) as agent:
            assert [agent.ask_sync("hi").text for _ in range(3)] == ["Hello."] * 3


async def test_a_running_loop_does_not_matter(tmp_path: Path) -> None:
    with an_agent([Turn(text="One.")], tmp_path) as agent:
        assert agent.ask_sync("as in a notebook").text == "One."


def test_errors_reach_the_caller(tmp_path: Path) -> None:
    with an_agent([Turn(error="no", status=400)], tmp_path) as agent:
        with pytest.raises(ProviderError, match="no"):
            agent.ask_sync("go")
        with pytest.raises(TypeError, match="images: expected a list"):
            agent.ask_sync("go", images="x.png")  # pyright: ignore[reportCallIssue, reportArgumentType]


async def test_an_agent_that_is_awaited_cannot_be_called_without_a_loop(tmp_path: Path) -> None:
    async with an_agent([Turn(text="One.")], tmp_path) as agent:
        await agent.ask("go")
        with pytest.raises(WrongEventLoop, match="because it was used with `await`"):
            agent.ask_sync("go")
        assert threads() == []


async def test_an_agent_that_is_called_without_a_loop_cannot_be_awaited(tmp_path: Path) -> None:
    with an_agent([Turn(text="One.")], tmp_path) as agent:
        agent.ask_sync("go")
        with pytest.raises(WrongEventLoop, match="is used by blocking calls"):
            await agent.ask("go")


def test_loops_one_after_another_are_fine_but_not_two_at_a_time(tmp_path: Path) -> None:
    agent = an_agent(
        [Turn(text="One."), Turn(text="Two."), Turn(text="Three.", pause=lambda: asyncio.to_thread(other))], tmp_path
    )
    errors: list[Exception] = []

    def other() -> None:
        try:
            asyncio.run(agent.ask("go"))
        except WrongEventLoop as error:
            errors.append(error)

    assert [asyncio.run(agent.ask("go")).text for _ in range(3)] == ["One.", "Two.", "Three."]
    assert {str(error) for error in errors} == {
        "This agent works on the event loop of another thread. Use it there, or make another agent."
    }
    assert agent.ask_sync("go").text == "Three."
    agent.close_sync()
    agent.close_sync()
    assert threads() == []


def test_a_tool_that_would_wait_for_itself_raises_an_explanation(tmp_path: Path) -> None:
    errors: list[Exception] = []

    async def ask(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        try:
            agent.ask_sync("and you?")
        except WrongEventLoop as error:
            errors.append(error)
        return ToolResult.text("ok")

    tool = Tool("ask_again", "Ask.", {"type": "object"}, ask)
    turns = [Turn(tool_calls=[ToolCall("1", "ask_again", {})]), Turn(text="Done.")]
    with an_agent(turns, tmp_path, extra_tools=[tool]) as agent:
        assert agent.ask_sync("go").text == "Done."
    assert "would wait for itself" in str(errors[0])


def test_tools_see_the_context_of_the_caller(tmp_path: Path) -> None:
    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="none")

    async def whose(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult.text(tenant.get())

    tool = Tool("whose", "Whose.", {"type": "object"}, whose)
    turns = [Turn(tool_calls=[ToolCall("1", "whose", {})]), Turn(text="Done.")]
    with an_agent(turns, tmp_path, extra_tools=[tool]) as agent:
        tenant.set("acme")
        result = agent.ask_sync("go")
    assert result.messages[2].content == ToolResult.text("acme").content  # type: ignore[union-attr]


INTERRUPTED = """
import asyncio, os, signal, sys, threading
from fairlead import Agent
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

async def forever():
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.Event().wait()

turns = [Turn(text="x", pause=forever), Turn(text="Back.")]
with Agent(model=SCRIPTED_MODEL, stream=Scripted(turns), isolated=True) as agent:
    try:
        agent.ask_sync("go")
    except KeyboardInterrupt:
        print("interrupted", agent.session.activity.is_streaming)
    print(agent.ask_sync("again"))
"""


def test_ctrl_c_aborts_the_run_and_the_agent_stays_usable(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", INTERRUPTED]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("interrupted False\nBack.\n", "")


def test_the_signature_is_that_of_ask() -> None:
    assert inspect.signature(Agent.ask_sync).parameters.keys() == inspect.signature(Agent.ask).parameters.keys()
    assert Agent.ask_sync.__doc__ and Agent.ask_sync.__doc__.startswith("Prompt the agent and wait")


def test_a_closed_agent_cannot_be_asked(tmp_path: Path) -> None:
    with an_agent([Turn(text="One.")], tmp_path) as agent:
        agent.ask_sync("first")
    with pytest.raises(AgentClosed, match="This agent is closed"):
        agent.ask_sync("second")
    assert threads() == []
    agent.close_sync()  # closing twice is harmless


async def test_a_closed_agent_cannot_be_awaited(tmp_path: Path) -> None:
    async with an_agent([Turn(text="One.")], tmp_path) as agent:
        await agent.ask("first")
    with pytest.raises(AgentClosed):
        await agent.ask("second")
    await agent.close()


_FORKING = """
import os, sys
from fairlead import Agent
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

agent = Agent(model=SCRIPTED_MODEL, stream=Scripted([Turn(text="ok")]), isolated=True)
agent.ask_sync("in the parent")
child = os.fork()
if not child:
    try:
        agent.ask_sync("in the child")
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(agent.ask_sync("in the parent again"))
agent.close_sync()
"""


def test_using_an_agent_in_a_forked_process_raises(tmp_path: Path) -> None:
    """Its thread exists only in the parent: the call would wait forever."""
    done = subprocess.run([sys.executable, "-c", _FORKING], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    first, second = done.stdout.splitlines()
    assert first.endswith("Make the agent after the fork.")
    assert second == "ok"
