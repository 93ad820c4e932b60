"""Finding the tool that a query is about."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.session.session_tools import rank_tools, words
from fairlead.session.toolbox import Toolbox


async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    return ToolResult.text("ran")


def tool(name: str, description: str = "", exposure: Any = "deferred", **properties: str) -> Tool:
    schema = {name: {"type": "string", "description": text} for name, text in properties.items()}
    return Tool(name, description or name, {"type": "object", "properties": schema}, run, exposure=exposure)


TOOLS = [
    tool("mcp__tracker__create_issue", "Create a ticket", title="What it is about"),
    tool("mcp__tracker__search_issues", "Find tickets by their text"),
    tool("mcp__peekaboo__app", "Start or end a program"),
    tool("mcp__peekaboo__window", "Move a window"),
    tool("mcp__peekaboo__capture", "Take a screenshot of a window or the whole screen"),
    tool("readCalendarEvents", "List what is planned", day="The day to look at"),
    tool("translate", "把文本翻译成另一种语言"),
]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("create_issue", "mcp__tracker__create_issue"),
        ("tracker__search_issues", "mcp__tracker__search_issues"),
        ("searching for an issue: search issue", "mcp__tracker__search_issues"),
        ("screenshot window", "mcp__peekaboo__capture"),
        ("peekaboo app", "mcp__peekaboo__app"),
        ("calendar", "readCalendarEvents"),
        ("which day", "readCalendarEvents"),
        ("翻译", "translate"),
    ],
)
def test_the_best_match_comes_first(query: str, first: str) -> None:
    assert rank_tools(query, TOOLS)[0] == first


@pytest.mark.parametrize("query", ["", "the of with", "quantum", "!?"])
def test_a_query_that_matches_nothing_finds_nothing(query: str) -> None:
    assert rank_tools(query, TOOLS) == []


def test_words_are_split_at_capitals_and_are_singular() -> None:
    assert words("listHTTPServers of the libraries_and boxes, classes: pass") == [
        "list",
        "http",
        "server",
        "library",
        "box",
        "class",
        "pass",
    ]


def test_the_model_can_search_while_there_are_deferred_tools() -> None:
    toolbox = Toolbox(lambda: {"read": tool("read", exposure="direct")}, ["read"])
    toolbox.replace("mcp:a", [tool("a", exposure="codemode"), tool("b", exposure="direct")])
    assert toolbox.active == ["read", "b"]
    toolbox.replace("mcp:b", [tool("c")])
    assert toolbox.active == ["read", "b", "tool_search"] and "c" in toolbox
    toolbox.replace("mcp:b", [])
    assert toolbox.active == ["read", "b"] and "tool_search" not in toolbox


def test_an_unwanted_search_is_not_offered() -> None:
    toolbox = Toolbox(dict[str, Tool], [])
    toolbox.replace("mcp:a", [tool("a")], searchable=False)
    assert toolbox.active == [] and "tool_search" not in toolbox


def test_tools_that_the_user_excludes_are_not_found() -> None:
    toolbox = Toolbox(dict[str, Tool], [])
    toolbox.replace("mcp:a", [tool("mcp__a__create"), tool("mcp__a__delete")], inactive=["mcp__a__delete"])
    assert list(toolbox.to_be_found()) == ["mcp__a__create"]


def test_an_owner_can_bring_another_search() -> None:
    toolbox = Toolbox(dict[str, Tool], [])
    toolbox.replace("mcp:a", [tool("a")])
    mine = tool("tool_search", "Mine", exposure="direct")
    toolbox.replace("extension", [mine])
    assert toolbox["tool_search"].description == "Mine"
    toolbox.replace("extension", [])
    assert toolbox["tool_search"].description != "Mine"
