"""What people see of a call: its kind, its title, the files it is about, and what it changes or would change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.opal.opal_desk import Desk
from tests.tools.box import Box

from fairlead.core.approval import LONGEST_TEXT, FileChange
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import Tool, ToolContext, ToolLocation, ToolResult
from fairlead.errors import ToolError
from fairlead.tools.builtin import builtin_tools
from fairlead.tools.opal.anchors import line_hash


class Place:
    """The tools of one set, in a folder."""

    def __init__(self, root: Path, opal: bool) -> None:
        self.opal = opal
        (root / "logs").mkdir()
        where = Desk(root / "opal") if opal else Box(root / "cwd", root / "logs")
        self.workspace, self.cwd, self.put = where.workspace, where.cwd.resolve(), where.put
        self.tools = where.tools if isinstance(where, Desk) else builtin_tools(where.workspace)

    def change(self, how: str, path: str, old: str, new: str) -> tuple[Tool, dict[str, Any]]:
        """A call that writes a file, or edits the first line of one."""
        if how == "write":
            return self.tools["write_file" if self.opal else "write"], {"path": path, "content": new}
        if self.opal:
            first = old.partition("\n")[0]
            return self.tools["edit_file"], {"path": path, "start": f"1:{line_hash(first)}", "new_string": new.partition("\n")[0]}
        return self.tools["edit"], {"path": path, "edits": [{"oldText": old, "newText": new}]}


@pytest.fixture(params=[False, True], ids=["pi", "opal"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param:
        (tmp_path / "opal").mkdir()
    return Place(tmp_path, request.param)


either = pytest.mark.parametrize("how", ["write", "edit"])


def ran(tool: Tool, arguments: dict[str, Any]) -> ToolResult:
    async def main() -> ToolResult:
        return await tool.run(tool.check_arguments(arguments), ToolContext("c", CancelToken(), lambda partial: None))

    return asyncio.run(main())


def previewed(tool: Tool, arguments: dict[str, Any]) -> list[FileChange]:
    async def main() -> list[FileChange]:
        assert tool.preview is not None
        return await tool.preview(tool.check_arguments(arguments), None, CancelToken())

    return asyncio.run(main())


@either
def test_file_changes_are_shown_before_and_after_the_call(place: Place, how: str) -> None:
    file = place.put("src/a", "one\ntwo\n")
    tool, arguments = place.change(how, "src/a", "one\n", "eins\n")
    whole = "eins\n" if how == "write" else "eins\ntwo\n"
    expected = [FileChange(str(place.cwd / "src/a"), "one\ntwo\n", whole)]
    assert previewed(tool, arguments) == expected
    assert file.read_text() == "one\ntwo\n", "a preview changes nothing"
    result = ran(tool, arguments)
    assert result.changes == expected and file.read_text() == whole
    assert "old_text" not in str(result.details)


def test_a_new_file_has_no_old_text(place: Place) -> None:
    tool, arguments = place.change("write", "new/a", "", "x")
    expected = [FileChange(str(place.cwd / "new/a"), None, "x")]
    assert previewed(tool, arguments) == expected
    assert not (place.cwd / "new").exists()
    assert ran(tool, arguments).changes == expected


@either
def test_large_texts_are_not_kept(place: Place, how: str) -> None:
    old = "a\n" * (LONGEST_TEXT // 2 + 1)
    place.put("a", "first\n" + old)
    tool, arguments = place.change(how, "a", "first\n", "other\n")
    assert previewed(tool, arguments) == []
    assert ran(tool, arguments).changes == []


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a\0b"])
def test_a_binary_file_that_is_overwritten_has_no_texts(place: Place, content: bytes) -> None:
    file = place.put("a", content)
    tool, arguments = place.change("write", "a", "", "text")
    assert previewed(tool, arguments) == []
    assert ran(tool, arguments).changes == [] and file.read_text() == "text"


def test_an_edit_that_cannot_be_made_has_no_preview(place: Place) -> None:
    place.put("a", "one\n")
    with pytest.raises(ToolError):
        previewed(*place.change("edit", "a", "something else\n", "x\n"))


def test_a_write_of_the_same_text_changes_nothing(place: Place) -> None:
    place.put("a", "same\n")
    tool, arguments = place.change("write", "a", "", "same\n")
    assert previewed(tool, arguments) == ran(tool, arguments).changes == []


def test_kinds_say_what_a_tool_does(place: Place) -> None:
    kinds = {name: tool.kind for name, tool in place.tools.items()}
    expected = (
        {"read_file": "read", "write_file": "edit", "edit_file": "edit", "grep": "search", "shell": "execute"}
        if place.opal
        else {
            "read": "read",
            "bash": "execute",
            "edit": "edit",
            "write": "edit",
            "grep": "search",
            "find": "search",
            "ls": "search",
        }
    )
    assert kinds == expected
    assert {tool.idempotent for tool in place.tools.values() if tool.harmless} == {True}
    assert {tool.idempotent for tool in place.tools.values() if not tool.harmless} == {False}


@pytest.mark.parametrize(
    ("name", "arguments", "title"),
    [
        ("read", {"path": "src/a.py"}, "Read src/a.py"),
        ("read", {"path": "src/a.py", "limit": 40}, "Read src/a.py (1-40)"),
        ("read", {"path": "src/a.py", "offset": 10, "limit": 5}, "Read src/a.py (10-14)"),
        ("read", {"path": "src/a.py", "offset": 10}, "Read src/a.py (from line 10)"),
        ("bash", {"command": "ls -la"}, "`ls -la`"),
        ("bash", {"command": "\ncd x\nmake\n"}, "`cd x …`"),
        ("bash", {"command": "x" * 500}, "`" + "x" * 198 + "…"),
        ("edit", {"path": "a", "edits": []}, "Edit a"),
        ("write", {"path": "a"}, "Write a"),
        ("grep", {"pattern": "x+"}, "Search for `x+`"),
        ("grep", {"pattern": "x+", "path": "src"}, "Search for `x+` in src"),
        ("find", {"pattern": "*.py", "path": "."}, "Find `*.py`"),
        ("ls", {}, "List ."),
        # What is missing or has another form than the schema says: the arguments of a call that is still arriving.
        ("read", {}, "read"),
        ("bash", {"command": 7}, "bash"),
        ("grep", {"path": "src"}, "grep"),
    ],
)
def test_titles_say_what_a_call_does(tmp_path: Path, name: str, arguments: dict[str, Any], title: str) -> None:
    assert builtin_tools(Box(tmp_path / "cwd", tmp_path).workspace)[name].call_title(arguments) == title


def test_titles_of_opals_shell_name_the_process(tmp_path: Path) -> None:
    shell = Desk(tmp_path).tools["shell"]
    assert shell.call_title({"command": "ls"}) == "`ls`"
    assert shell.call_title({"action": "kill", "id": "p1"}) == "Kill process p1"
    assert shell.call_title({"action": "wait", "id": "p1"}) == "Wait for process p1"
    assert shell.call_title({"action": "input", "id": "p1", "input": "y"}) == "Write to process p1"


def test_locations_are_absolute_and_have_a_line_where_one_is_named(place: Place) -> None:
    read = place.tools["read_file" if place.opal else "read"]
    assert read.call_locations({"path": "src/a", "offset": 7}) == [ToolLocation(str(place.workspace.cwd / "src/a"), 7)]
    edit, arguments = place.change("edit", "a", "x", "y")
    assert edit.call_locations(arguments) == [ToolLocation(str(place.workspace.cwd / "a"), 1 if place.opal else None)]
    for arguments in ({}, {"path": 7}, {"path": "x://y"}, {"path": "a\0"}):
        assert edit.call_locations(arguments) == []


def test_a_tool_without_a_title_is_called_by_its_label(tmp_path: Path) -> None:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult.text("")

    def tool(**more: Any) -> Tool:
        return Tool("t", "d", {}, run, **more)

    title: Callable[[Any], str] = lambda arguments: "  two\nlines "  # noqa: E731
    assert [tool().call_title({}), tool(label="A tool").call_title({}), tool(title=title).call_title({})] == [
        "t",
        "A tool",
        "two lines",
    ]
    assert tool().call_locations({"path": "a"}) == []
