"""The panels of tool calls and the diffs in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairlead import FileChange
from fairlead.chat.view.code import draw, parse_numbered, parse_unified
from fairlead.chat.view.panels import ToolPanel
from fairlead.chat.view.text import width, without_styles
from fairlead.chat.view.theme import DARK, PLAIN, Theme
from fairlead.chat.view.tool_titles import call_title, format_count, format_elapsed, partial_title, size
from fairlead.messages import ImageContent, TextContent

OLD = "".join(f"line {number}\n" for number in range(1, 41))
NEW = OLD.replace("line 3\n", "line three\nand more\n").replace("line 38\n", "")


def bare(lines: list[str]) -> list[str]:
    return [without_styles(line) for line in lines]


def diff_lines(diff: str, theme: Theme, columns: int) -> list[str]:
    return draw(parse_unified(diff), theme, columns, names=True)


def a_panel(name: str, clock: Callable[[], float] = lambda: 0.0, **arguments: Any) -> ToolPanel:
    return ToolPanel(PLAIN, name, clock, arguments)


def ended(panel: ToolPanel, text: str, *, failed: bool = False, **rest: Any) -> ToolPanel:
    details = rest.pop("details", None)
    panel.end([TextContent(text)], details, failed=failed, **rest)
    return panel


@pytest.mark.parametrize(
    ("name", "arguments", "title"),
    [
        ("bash", {"command": "ls -la"}, ("$", "ls -la")),
        ("read", {"path": "a.py"}, ("Read", "a.py")),
        ("read", {"path": "a.py", "offset": 10, "limit": 5}, ("Read", "a.py:10-14")),
        ("edit", {"path": "a.py"}, ("Edit", "a.py")),
        ("grep", {"pattern": "x+", "path": "src"}, ("Search", "x+ in src")),
        ("bash", {"command": 7}, ("$", "")),
        ("bash", {"command": "rm x\recho y"}, ("$", "rm x^Mecho y")),
        ("bash", {"command": "rm x \x1b]0;echo y"}, ("$", "rm x ^[]0;echo y")),
        ("write", {"path": "a\u202egnp.py"}, ("Write", "a<U+202E>gnp.py")),
        ("mcp_tool", {"query": "a\x1b[2Jb", "count": 3}, ("mcp_tool", "query=a^[[2Jb count=3")),
    ],
)
def test_a_title_says_what_a_call_does(name: str, arguments: dict[str, Any], title: tuple[str, str]) -> None:
    assert call_title(name, arguments) == title


def test_a_title_is_known_before_the_arguments_are_complete() -> None:
    assert partial_title("write", '{"path": "src/new.py", "content": "import') == ("Write", "src/new.py")
    assert partial_title("bash", r'{"command": "echo \"\u00fc\" \\ \u00') == ("$", 'echo "ü" \\ ')
    assert partial_title("bash", r'{"command": "make\nmake test') == ("$", "make")


def test_a_panel_shows_that_arguments_arrive() -> None:
    panel = ToolPanel(PLAIN, "write", lambda: 0.0)
    panel.add_json('{"path": "a.py", "content": "' + "x" * 5000)
    assert bare(panel.running(60)) == ["⠋ Write a.py  5.0 kB"]


def test_a_long_title_leaves_room_for_what_follows() -> None:
    panel = ToolPanel(PLAIN, "bash", lambda: 0.0)
    panel.add_json('{"command": "' + "word " * 20)
    assert bare(panel.running(40)) == ["⠋ $ word word word word word wo …  113 B"]


def test_a_running_command_shows_the_time_and_the_end_of_its_output() -> None:
    time = 0.0
    panel = a_panel("bash", lambda: time, command="make")
    panel.start({"command": "make"})
    panel.update([TextContent("\n".join(f"step {number}" for number in range(100)))], None)
    time = 75.0
    lines = bare(panel.running(40))
    assert lines[0] == "⠋ $ make  1m 15s"
    assert lines[1:] == [f"  │ step {number}" for number in range(95, 100)]


def test_output_cannot_leave_its_panel() -> None:
    panel = a_panel("bash", command="x")
    panel.start({"command": "x"})
    panel.update([TextContent("a\x1b[2J\x1b]0;title\x07b\rc\n" + "w" * 100)], None)
    assert bare(panel.running(20, tail=9)) == ["⠋ $ x", "  │ c", *["  │ " + "w" * 16] * 6, "  │ wwww"]


def test_a_running_call_takes_no_more_rows_in_a_terminal_half_as_wide() -> None:
    panel = a_panel("bash", command="word " * 100)
    panel.start({"command": "word " * 100})
    panel.update([TextContent("output " * 100)], None)
    assert all(width(line) <= 50 for line in bare(panel.running(100)))


def test_a_finished_command_folds_long_output() -> None:
    panel = ended(a_panel("bash", command="seq 40"), "\n".join(map(str, range(40))), duration_ms=2500)
    assert bare(panel.final_lines(60, is_long=False)) == [
        "● $ seq 40  2.5s",
        "  │ 0",
        "  │ 1",
        "  │ … 32 more lines",
        *(f"  │ {number}" for number in range(34, 40)),
    ]
    assert len(panel.final_lines(60, is_long=True)) == 41


def test_a_failed_command_shows_its_exit_code_once() -> None:
    panel = ended(a_panel("bash", command="false"), "oops\n\nCommand exited with code 3", failed=True)
    assert bare(panel.final_lines(60, is_long=False)) == ["✗ $ false  exit 3", "  │ oops"]


def test_a_long_command_is_cut_and_wraps_under_itself() -> None:
    panel = ended(a_panel("bash", command="\n".join(f"echo {number}" for number in range(9))), "(no output)")
    assert bare(panel.final_lines(60, is_long=False)) == ["● $ echo 0", "  echo 1", "  echo 2 …"]


def test_a_read_file_is_counted_and_not_shown() -> None:
    panel = ended(a_panel("read", path="a.py"), "one\ntwo")
    assert bare(panel.final_lines(60, is_long=False)) == ["● Read a.py  2 lines"]
    assert bare(panel.final_lines(60, is_long=True)) == ["● Read a.py", "  │ one", "  │ two"]


def test_an_image_is_one_line() -> None:
    panel = a_panel("read", path="a.png")
    panel.end([TextContent("Read image file"), ImageContent("A" * 4000, "image/png")], None, failed=False)
    assert bare(panel.final_lines(60, is_long=False)) == ["● Read a.png  ▣ image/png, 3.0 kB"]


def test_an_edit_shows_its_diff() -> None:
    panel = ended(a_panel("edit", path="a.py"), "done", changes=[FileChange("/tmp/a.py", OLD, NEW)])
    assert bare(panel.final_lines(60, is_long=False)) == [
        "● Edit a.py  +2 -2",
        "  │  1   line 1",
        "  │  2   line 2",
        "  │  3 - line 3",
        "  │  3 + line three",
        "  │  4 + and more",
        "  │  5   line 4",
        "  │  6   line 5",
        "  │  7   line 6",
        "  │    ⋮",
        "  │ 36   line 35",
        "  │ 37   line 36",
        "  │ 38   line 37",
        "  │ 38 - line 38",
        "  │ 39   line 39",
        "  │ 40   line 40",
    ]


def test_a_diff_of_a_past_edit_comes_from_its_details() -> None:
    details = {"diff": " 1 same\n-2 old\n+2 new\n   ..."}
    panel = ended(a_panel("edit", path="a.py"), "done", details=details)
    assert bare(panel.final_lines(60, is_long=False)) == ["● Edit a.py  +1 -1", "  │ 1   same", "  │ 2 - old", "  │ 2 + new"]


def test_diffs_have_colours_and_file_names() -> None:
    lines = diff_lines(FileChange("/tmp/a.py", "a\n", "b\n").diff(), DARK, 40)
    assert lines == [
        "\x1b[1m/tmp/a.py\x1b[0m",
        f"{DARK.dim}1 \x1b[0m{DARK.removed}- \x1b[0m{DARK.removed}a\x1b[0m",
        f"{DARK.dim}1 \x1b[0m{DARK.added}+ \x1b[0m{DARK.added}b\x1b[0m",
    ]


def test_the_part_of_a_line_that_differs_is_marked() -> None:
    lines = diff_lines(FileChange("/a.py", "    return value + 1\n", "    return value * 12\n").diff(), DARK, 60)
    assert f"{DARK.removed_part}+ 1\x1b[0m" in lines[1]
    assert f"{DARK.added_part}* 12\x1b[0m" in lines[2]
    assert bare(lines[1:]) == ["1 -     return value + 1", "1 +     return value * 12"]


def test_lines_without_much_in_common_are_not_marked() -> None:
    lines = diff_lines(FileChange("/a.py", "one\n", "something else\n").diff(), DARK, 60)
    assert not any(DARK.added_part in line or DARK.removed_part in line for line in lines)


@pytest.mark.parametrize("columns", [10, 20, 40])
def test_diffs_fit_narrow_terminals(columns: int) -> None:
    change = FileChange("/a/very/long/path/to/a/file.py", "x" * 50 + "\n", "你好" * 20 + "\n")
    assert all(width(line) <= columns for line in diff_lines(change.diff(), PLAIN, columns))


def test_a_removed_line_that_looks_like_a_header_is_a_line() -> None:
    diff = FileChange("/a.sql", "-- comment\nx\n", "x\n").diff()
    assert bare(diff_lines(diff, PLAIN, 40)) == ["/a.sql", "1 - -- comment", "1   x"]
    diff = FileChange("/a.sql", "-- a\n", "++ b\n").diff()
    assert bare(diff_lines(diff, PLAIN, 40)) == ["/a.sql", "1 - -- a", "1 + ++ b"]


def test_control_characters_in_a_diff_are_reported() -> None:
    assert bare(draw(parse_numbered("+1 a\x1b[2Jb"), PLAIN, 40)) == ["1 + a^[[2Jb"]
    assert bare(draw(parse_unified("--- a\n+++ b\n@@ -0,0 +1 @@\n+rm x\recho y\n"), PLAIN, 40)) == ["1 + rm x^Mecho y"]


def test_a_todo_list_is_drawn_as_a_list() -> None:
    tasks = [{"content": "one", "status": "completed"}, {"content": "two", "status": "in_progress"}, {"content": "three"}]
    panel = ended(a_panel("todo_write"), "text", details={"phases": [{"name": "Work", "tasks": tasks}]})
    assert bare(panel.final_lines(60, is_long=False)) == ["● Todo list", "  │ ☑ one", "  │ ▸ two", "  │ ☐ three"]


def test_sub_agents_show_what_they_do() -> None:
    panel = a_panel("task", agent="explore")
    panel.start({"agent": "explore"})
    running = {
        "status": "running",
        "description": "Look around",
        "toolCount": 1,
        "recentTools": [{"tool": "read", "args": "a.py"}],
    }
    done = {"status": "completed", "description": "Other", "tokens": 1500, "durationMs": 61000}
    panel.update([TextContent("")], {"progress": [running, done]})
    assert bare(panel.running(60)) == [
        "⠋ Agents explore",
        "  │ ◐ Look around · 1 tool call",
        "  │   read a.py",
        "  │ ● Other · 1.5k tokens · 1m 01s",
    ]


@pytest.mark.parametrize(("seconds", "text"), [(0.44, "0.4s"), (12.7, "12s"), (125, "2m 05s"), (3720, "1h 02m")])
def test_times_are_short(seconds: float, text: str) -> None:
    assert format_elapsed(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 messages"), (1, "1 message"), (1200, "1,200 messages")])
def test_only_one_thing_is_singular(count: int, text: str) -> None:
    assert format_count(count, "message") == text


@pytest.mark.parametrize(("count", "text"), [(812, "812 B"), (3400, "3.4 kB"), (12_300_000, "12 MB")])
def test_sizes_are_short(count: int, text: str) -> None:
    assert size(count) == text
