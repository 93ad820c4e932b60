"""The tools of a session, and those that others bring."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import BadCommand
from fairlead.session.toolbox import Toolbox


async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    return ToolResult.text("done")


def tool(name: str) -> Tool:
    return Tool(name, f"Does {name}", {"type": "object"}, run)


def a_toolbox() -> Toolbox:
    return Toolbox(lambda: {name: tool(name) for name in ("read", "bash")}, ["bash", "nothing"])


def test_only_tools_that_there_are_can_be_active() -> None:
    toolbox = a_toolbox()
    assert toolbox.active == ["bash"]
    with pytest.raises(BadCommand, match=r"Unknown tool: x, y\. The tools are: read, bash"):
        toolbox.activate(["read", "x", "y"])
    assert toolbox.active == ["bash"]
    toolbox.activate(["read", "bash", "read"])
    assert list(toolbox.active_tools()) == ["read", "bash"]


def test_every_change_shows_in_the_active_and_the_declared_tools() -> None:
    toolbox = a_toolbox()

    def names() -> tuple[list[str], list[str]]:
        return list(toolbox.active_tools()), list(toolbox.list_declared())

    assert names() == (["bash"], ["bash"])
    toolbox.activate(["read", "bash"])
    assert names() == (["read", "bash"], ["read", "bash"])
    toolbox.replace("Host", [tool("a")])
    assert names() == (["read", "bash", "a"], ["read", "bash", "a"])
    toolbox.present({"a"}, {"bash": "Another text"})
    assert names() == (["read", "bash", "a"], ["read", "bash"])
    assert toolbox.list_declared()["bash"].description == "Another text"
    toolbox.replace("Host", [])
    assert names() == (["read", "bash"], ["read", "bash"])
    toolbox.present()
    assert toolbox.list_declared()["bash"].description == "Does bash"


def test_added_tools_follow_the_others_and_are_active_by_default() -> None:
    toolbox = a_toolbox()
    toolbox.replace("Host", [tool("a"), tool("b")], inactive={"b"})
    assert list(toolbox) == ["read", "bash", "a", "b"]
    assert toolbox.active == ["bash", "a"]


def test_each_owner_replaces_its_own_tools_only() -> None:
    toolbox = a_toolbox()
    toolbox.replace("Host", [tool("a")])
    toolbox.replace("Server", [tool("b")])
    toolbox.replace("Host", [tool("c")])
    assert list(toolbox) == ["read", "bash", "b", "c"]
    assert toolbox.active == ["bash", "c", "b"]
    toolbox.replace("Host", [])
    assert list(toolbox) == ["read", "bash", "b"]


def test_a_name_that_stays_keeps_its_place_among_the_active_ones() -> None:
    toolbox = a_toolbox()
    toolbox.replace("Host", [tool("a"), tool("b"), tool("c")], inactive={"c"})
    toolbox.activate(["c", "a", "read"])
    changed = tool("a")
    toolbox.replace("Host", [tool("b"), changed, tool("c"), tool("d")])
    assert toolbox.active == ["c", "a", "read", "d"]
    assert toolbox["a"] is changed


@pytest.mark.parametrize("name", ["read", "b"])
def test_a_tool_name_of_another_owner_is_refused_and_changes_nothing(name: str) -> None:
    toolbox = a_toolbox()
    toolbox.replace("Server", [tool("b")])
    toolbox.replace("Host", [tool("a")])
    tools, active = dict(toolbox), toolbox.active
    with pytest.raises(BadCommand, match=f'Host tool "{name}" conflicts with an existing tool'):
        toolbox.replace("Host", [tool("c"), tool(name)])
    assert (dict(toolbox), toolbox.active) == (tools, active)


def test_tools_are_listed_in_the_order_of_their_owners() -> None:
    toolbox = a_toolbox()
    for owner in ("first", "second"):
        toolbox.replace(owner, [])
    toolbox.replace("second", [tool("late")])
    toolbox.replace("first", [tool("later"), tool("latest")])
    assert toolbox.active == ["bash", "later", "latest", "late"]


def test_tools_are_made_when_they_are_first_needed() -> None:
    made: list[str] = []

    def make(name: str) -> Tool:
        made.append(name)
        return tool(name)

    toolbox = Toolbox(lambda: {"read": make("read")}, ["read"])
    toolbox.bring_later("Todo", lambda: [make("todo")])
    toolbox.bring_later("Host", lambda: [make("host")])
    assert made == []
    assert toolbox.active == ["read", "todo", "host"]
    toolbox.replace("Todo", [])
    toolbox.bring_later("Server", lambda: [make("server")])
    assert list(toolbox) == toolbox.active == ["read", "host", "server"]
    assert made == ["read", "todo", "host", "server"], "each once"


async def test_closing_a_toolbox_makes_no_tools() -> None:
    made: list[str] = []
    toolbox = Toolbox(lambda: {name: tool(name) for name in made.append("made") or ["read"]}, ["read"])
    await toolbox.close()
    assert made == []


async def test_a_tool_that_fails_to_close_does_not_keep_the_others_open() -> None:
    closed: list[str] = []

    async def fails() -> None:
        raise RuntimeError("cannot be closed")

    async def closes() -> None:
        closed.append("bash")

    made = {"read": replace(tool("read"), bound=True, close=fails), "bash": replace(tool("bash"), bound=True, close=closes)}
    toolbox = Toolbox(lambda: made, [])
    toolbox.fill()
    await toolbox.close()
    assert closed == ["bash"]
