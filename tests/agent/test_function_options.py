"""Functions as tools of an agent: `tools=[function]` and `extra_tools=[function]`."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from fairlead import Agent, Tool, ToolContext, ToolError, ToolResult, events, tool
from fairlead.errors import BadOption
from fairlead.messages import ToolCall, ToolResultMessage
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn
from fairlead.tools import DEFAULT_TOOLS


def an_agent(turns: list[Turn], cwd: Path, **changes: Any) -> Agent:
    return Agent(model=SCRIPTED_MODEL, stream=Scripted([*turns, Turn(text="ok")]), cwd=cwd, isolated=True, **changes)


def calling(*calls: tuple[str, dict[str, Any]]) -> Turn:
    return Turn(tool_calls=[ToolCall(f"c{n}", name, arguments) for n, (name, arguments) in enumerate(calls)])


def results(agent: Agent) -> list[tuple[str, bool]]:
    """What the tools returned, and whether that is an error."""
    return [
        ("".join(getattr(block, "text", "") for block in message.content), message.is_error)
        for message in agent.session.messages
        if isinstance(message, ToolResultMessage)
    ]


def stock(item: str, at_least: int = 1) -> dict[str, int]:
    """Say how many there are.

    Args:
        item: what to count
    """
    if item == "pears":
        raise ToolError("There are no pears.")
    return {item: at_least}


async def sell(item: str) -> str:
    """Sell something."""
    return f"sold {item}"


def a_tool(name: str) -> Tool:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult.text(name)

    return Tool(name, f"The tool {name}.", {"type": "object"}, run)


async def test_functions_are_called_with_checked_arguments(tmp_path: Path) -> None:
    calls = calling(("stock", {"item": "apples", "at_least": 3}), ("sell", {"item": "plums"}), ("stock", {"item": "pears"}))
    async with an_agent([calls, calling(("stock", {"at_least": "many"}))], tmp_path, tools=[stock, sell]) as agent:
        await agent.ask("go")
        assert results(agent)[:3] == [('{"apples":3}', False), ("sold plums", False), ("There are no pears.", True)]
        text, is_error = results(agent)[3]
        assert is_error and text.startswith('Validation failed for tool "stock"')


async def test_tools_are_exactly_those_of_the_list(tmp_path: Path) -> None:
    for given, active in (
        ([stock], ["stock"]),
        (["read", stock, a_tool("mine")], ["read", "stock", "mine"]),
        (["gr*", stock], ["grep", "stock"]),
        ([], []),
        ([a_tool("bash")], ["bash"]),
    ):
        async with an_agent([], tmp_path, tools=given) as agent:
            assert agent.session.tools.active == active and not agent.warnings


async def test_extra_tools_are_added_to_the_others(tmp_path: Path) -> None:
    async with an_agent([], tmp_path, extra_tools=[stock, a_tool("mine")]) as agent:
        assert [name for name in agent.session.tools.active if name not in DEFAULT_TOOLS] == ["stock", "mine"]
    async with an_agent([], tmp_path, tools=["read", sell], extra_tools=[stock], exclude_tools=["sell"]) as agent:
        assert agent.session.tools.active == ["read", "stock"]


async def test_a_plain_function_does_not_block_the_loop_and_reports_progress(tmp_path: Path) -> None:
    gate = threading.Event()

    def wait(context: ToolContext) -> str:
        """Wait."""
        context.progress("waiting")
        assert gate.wait(20)
        return threading.current_thread().name

    async with an_agent([calling(("wait", {}))], tmp_path, tools=[wait]) as agent, aclosing(agent.run("go")) as run:
        async for event in run:
            if isinstance(event, events.ToolUpdate):
                assert event.partial == ToolResult.text("waiting")
                gate.set()
        assert results(agent) == [("fairlead-tool-wait", False)]


async def test_an_abort_ends_the_call_of_a_function_that_blocks(tmp_path: Path) -> None:
    started, gate = threading.Event(), threading.Event()
    contexts: list[ToolContext] = []

    def block(context: ToolContext) -> str:
        """Block."""
        contexts.append(context)
        started.set()
        gate.wait(20)
        return "too late"

    async with an_agent([calling(("block", {}))], tmp_path, tools=[block]) as agent:
        await agent.session.prompt("go")
        assert await asyncio.to_thread(started.wait, 20)
        await agent.session.abort()
        assert results(agent) == [("Command aborted", True)] and contexts[0].cancel.fired
        gate.set()


async def test_a_bug_in_a_function_is_logged_and_shown_to_the_model(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def broken(n: int) -> float:
        """Divide."""
        return 1 / n

    with caplog.at_level(logging.ERROR, "fairlead"):
        async with an_agent([calling(("broken", {"n": 0}))], tmp_path, tools=[broken]) as agent:
            await agent.ask("go")
            assert results(agent) == [("ZeroDivisionError: division by zero", True)]
    assert "in broken" in caplog.text


async def test_a_tool_made_with_options_has_them(tmp_path: Path) -> None:
    @tool(name="slow", description="Never ends.", timeout=0.05, harmless=True)
    async def never() -> None:
        await asyncio.Event().wait()

    assert (never.name, never.description, never.harmless, never.timeout) == ("slow", "Never ends.", True, 0.05)
    async with an_agent([calling(("slow", {}))], tmp_path, tools=[never]) as agent:
        await agent.ask("go")
        assert results(agent) == [("slow did not finish within 0.05 seconds and was stopped.", True)]


def unhinted(item) -> None:  # type: ignore[no-untyped-def]  # pyright: ignore
    """Find it."""


def read(path: str) -> str:
    """Read it."""
    return path


BAD: list[Any] = [
    ({"tools": [unhinted]}, TypeError, "^tools: The parameter item of the tool unhinted needs a type hint"),
    ({"extra_tools": [object]}, TypeError, "^extra_tools: A tool must be a function, not the class object"),
    ({"tools": [lambda: 1]}, TypeError, "^tools: A tool needs a name"),
    ({"tools": [stock, stock]}, BadOption, "^tools: expected different names, found two tools named 'stock'"),
    ({"tools": [stock], "extra_tools": [a_tool("stock")]}, BadOption, "^extra_tools: expected different names"),
    ({"tools": [read]}, BadOption, r"^tools: expected a name that is free, found a function named 'read'.*fairlead.tool\(read\)"),
    ({"tools": [3]}, BadOption, "^tools: expected a list in which each item is a string or a Tool or something to call"),
]


@pytest.mark.parametrize(("options", "error", "problem"), BAD)
def test_a_function_that_cannot_be_a_tool_is_refused_when_the_agent_is_made(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        an_agent([], tmp_path, **options)


async def test_a_tool_may_replace_a_built_in_one(tmp_path: Path) -> None:
    own: Callable[..., Any] = read
    async with an_agent([calling(("read", {"path": "a"}))], tmp_path, tools=[tool(own)]) as agent:
        await agent.ask("go")
        assert results(agent) == [("a", False)]
