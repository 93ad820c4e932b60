"""read_file, write_file and edit_file: anchors, places, line ends, and what hosts are told of a change."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.opal.opal_desk import Desk, tag, tags

from fairlead.errors import ToolError
from fairlead.tools.background import Stop
from fairlead.tools.files.edit import TextReplacement
from fairlead.tools.opal.anchors import Anchor, line_hash, phash2, read_anchor, tag_line
from fairlead.tools.opal.edit_file import diff_details
from fairlead.wire.opal.opal_codec import meta

VECTORS = json.loads(Path(__file__).with_name("phash2_vectors.json").read_text())["vectors"]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


# Anchors


@pytest.mark.parametrize("vector", VECTORS, ids=range(len(VECTORS)))
def test_line_hashes_are_those_of_erlang(vector: dict[str, str]) -> None:
    assert line_hash(vector["line"]) == vector["hash"]


def test_a_hash_has_all_32_bits_and_starts_from_the_seed_of_erlang() -> None:
    assert phash2(b"") == 13 * 0x9E3779B9 & 0xFFFFFFFF
    assert max(phash2(str(number).encode()) for number in range(100)) > 0xF0000000


def test_blanks_around_a_line_do_not_count_and_control_characters_do() -> None:
    assert line_hash(" \t\u00a0\u2003a\u3000\r\n") == line_hash("a")
    assert line_hash("\x1ca") != line_hash("a")


def test_a_line_is_shown_with_its_number_and_hash() -> None:
    assert tag_line(12, "    return x") == "12:47|    return x"


def test_an_anchor_is_understood_with_the_line_behind_it() -> None:
    assert read_anchor(" 7:A3|some: text ", "start") == Anchor(7, "a3")


@pytest.mark.parametrize("text", ["", "7", "a3", "7:", "7:a", "7:abc", "0:a3", "-1:a3", "x:a3", "٣:a3", "9" * 5000 + ":a3"])
def test_malformed_anchors_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(ToolError, match='start: expected the tag of a line as read_file shows it, such as "12:a3"'):
        read_anchor(text, "start")


# Places


@pytest.mark.parametrize(
    ("tool", "rest"),
    [("read_file", {}), ("write_file", {"content": "x"}), ("edit_file", {"start": "1:65"}), ("grep", {"pattern": "x"})],
)
@pytest.mark.parametrize("path", ["..", "../other", "/etc/passwd", "sub/../../other", "link", "link/x", "~/x"])
def test_no_tool_leaves_the_working_directory(tool: str, rest: dict[str, Any], path: str, desk: Desk) -> None:
    outside = desk.cwd.parent / "other"
    outside.mkdir()
    (desk.cwd / "link").symlink_to(outside)
    assert desk.error(tool, path=path, **rest) == f"Path escapes working directory: {path}"
    assert list(outside.iterdir()) == []


def test_a_link_that_stays_inside_is_followed(desk: Desk) -> None:
    desk.put("real/a.txt", "one\n")
    (desk.cwd / "way").symlink_to("real")
    assert desk.text("read_file", path="way/a.txt") == tag_line(1, "one")


def test_the_folder_of_data_is_open_to_all_but_edits(desk: Desk) -> None:
    plan = desk.data / "plan.md"
    assert desk.text("write_file", path=str(plan), content="step\n") == f"File written: {plan}"
    assert desk.text("read_file", path=str(plan)) == tag_line(1, "step")
    assert f"## {plan}" in desk.text("grep", pattern="step", path=str(plan))
    assert desk.error("edit_file", path=str(plan), start=tag(1, "step")) == f"Path escapes working directory: {plan}"
    assert plan.read_text() == "step\n"


# read_file


def test_a_file_is_read_without_its_mark_and_carriage_returns(desk: Desk) -> None:
    desk.put("a.txt", "\ufeffone\r\n\r\n  two\r\n")
    assert desk.text("read_file", path="a.txt") == f"1:{line_hash('one')}|one\n2:65|\n3:{line_hash('two')}|  two"


def test_an_empty_file_has_one_line_to_hold_on_to(desk: Desk) -> None:
    desk.put("a.txt", "")
    assert desk.text("read_file", path="a.txt") == "1:65|"
    assert desk.call("edit_file", path="a.txt", start="1:65", new_string="x")["ok"]
    assert (desk.cwd / "a.txt").read_text() == "x"


def test_a_partial_read_names_the_next_offset(desk: Desk) -> None:
    desk.put("a.txt", "".join(f"line {n}\n" for n in range(1, 11)))
    shown = desk.text("read_file", path="a.txt", offset=3, limit=2)
    assert shown == (f"{tag_line(3, 'line 3')}\n{tag_line(4, 'line 4')}\n\n[Showing lines 3-4 of 10. Use offset=5 to continue.]")
    assert desk.text("read_file", path="a.txt", offset=9.0, limit=None).startswith("9:")
    assert desk.error("read_file", path="a.txt", offset=11) == "Offset 11 is beyond end of file (10 lines total)"


def test_a_long_file_is_cut_at_2000_lines_or_50_kilobytes_with_its_anchors(desk: Desk) -> None:
    desk.put("many.txt", "x\n" * 3000)
    assert desk.text("read_file", path="many.txt").endswith("[Showing lines 1-2000 of 3000. Use offset=2001 to continue.]")
    desk.put("wide.txt", ("y" * 99 + "\n") * 1000)
    shown, _, notice = desk.text("read_file", path="wide.txt").partition("\n\n")
    assert 49 * 1024 < len(shown) <= 50 * 1024
    last = shown.count("\n") + 1
    assert notice == f"[Showing lines 1-{last} of 1000. Use offset={last + 1} to continue.]"
    desk.put("one.txt", "z" * 60_000)
    assert "Line 1 is 58.6KB, exceeds 50.0KB limit" in desk.text("read_file", path="one.txt")


# write_file


def test_a_new_file_is_written_as_given_with_its_folders(desk: Desk) -> None:
    result = desk.call("write_file", path="new/dir/a.txt", content="one\r\ntwo\n")
    assert result == {
        "ok": True,
        "output": f"File written: {desk.cwd / 'new/dir/a.txt'}",
        "meta": {
            "diff": {
                "path": "new/dir/a.txt",
                "lines_added": 2,
                "lines_removed": 0,
                "hunks": [
                    {
                        "old_start": 1,
                        "new_start": 1,
                        "lines": [{"op": "ins", "text": "one", "new_no": 1}, {"op": "ins", "text": "two", "new_no": 2}],
                    }
                ],
            }
        },
    }
    assert (desk.cwd / "new/dir/a.txt").read_bytes() == b"one\r\ntwo\n"


def test_the_mark_and_line_ends_of_a_file_that_is_replaced_are_kept(desk: Desk) -> None:
    path = desk.put("a.txt", "\ufeffone\r\ntwo\r\n")
    desk.text("write_file", path="a.txt", content="one\nthree\n")
    assert path.read_bytes() == "\ufeffone\r\nthree\r\n".encode()
    path = desk.put("b.txt", "one\ntwo\n")
    desk.text("write_file", path="b.txt", content="one\r\nthree\r\n")
    assert path.read_bytes() == b"one\nthree\n"


def test_binary_files_are_replaced_without_a_diff(desk: Desk) -> None:
    path = desk.put("a.bin", b"\xff\x00\xfe")
    assert "meta" not in desk.call("write_file", path="a.bin", content="text\n")
    assert path.read_bytes() == b"text\n"


def test_writing_what_is_there_already_changes_nothing_in_the_diff(desk: Desk) -> None:
    desk.put("a.txt", "same\n")
    assert desk.call("write_file", path="a.txt", content="same\n")["meta"]["diff"]["hunks"] == []


# edit_file

ABC = ("alpha", "beta", "gamma", "delta")


@pytest.mark.parametrize(
    ("before", "arguments", "after"),
    [
        ("a\nb\nc\n", {"start": 2, "new_string": "x\ny"}, "a\nx\ny\nc\n"),
        ("a\nb\nc\n", {"start": 2, "new_string": "x\n"}, "a\nx\nc\n"),
        ("a\nb\nc\n", {"start": 2, "through": 3, "new_string": "x"}, "a\nx\n"),
        ("a\nb\nc\n", {"start": 2, "new_string": "\n"}, "a\n\nc\n"),
        ("a\nb\nc\n", {"start": 2}, "a\nc\n"),
        ("a\nb\nc\n", {"start": 1, "through": 3}, ""),
        ("a\nb\nc", {"start": 3}, "a\nb"),
        ("a\nb\nc", {"start": 3, "new_string": "x"}, "a\nb\nx"),
        ("a", {"start": 1}, ""),
        ("a\nb\n", {"start": 1, "operation": "insert_after", "new_string": "x"}, "a\nx\nb\n"),
        ("a\nb\n", {"start": 1, "operation": "insert_before", "new_string": "x"}, "x\na\nb\n"),
        ("a\nb\n", {"start": 2, "operation": "insert_after", "new_string": "x"}, "a\nb\nx\n"),
        ("a\nb", {"start": 2, "operation": "insert_after", "new_string": "x"}, "a\nb\nx"),
        ("a\nb\n", {"start": 3, "operation": "insert_before", "new_string": "x"}, "a\nb\nx\n"),
        ("a\nb\n", {"start": 1, "through": 2, "operation": "insert_after", "new_string": "x"}, "a\nx\nb\n"),
        ("a\nb\n", {"start": 1, "operation": "insert_after"}, "a\n\nb\n"),
        ("\ufeffa\r\nb\r\nc\r\n", {"start": 2, "new_string": "x\ny"}, "\ufeffa\r\nx\r\ny\r\nc\r\n"),
        ("a\r\nb", {"start": 2, "operation": "insert_after", "new_string": "x"}, "a\r\nb\r\nx"),
        ("a\r\nb", {"start": 2}, "a"),
        ("a\r\nb\nc\n", {"start": 2, "new_string": "x"}, "a\r\nx\nc\n"),
        ("a\x0cb\nc\n", {"start": 2, "new_string": "x"}, "a\x0cb\nx\n"),
    ],
)
def test_whole_lines_are_changed_and_all_else_stays(before: str, arguments: dict[str, Any], after: str, desk: Desk) -> None:
    path = desk.put("a.txt", before)
    anchors = tags(*before.removeprefix("\ufeff").split("\n"))
    named: dict[str, Any] = {
        name: anchors[value - 1] if name in ("start", "through") else value for name, value in arguments.items()
    }
    desk.text("edit_file", path="a.txt", **named)
    assert path.read_bytes().decode() == after


def test_edit_results_show_removed_lines_and_new_tags(desk: Desk) -> None:
    path = desk.put("a.txt", "\n".join(ABC) + "\n")
    result = desk.call("edit_file", path="a.txt", start=tag(2, "beta"), through=tag(3, "gamma"), new_string="x")
    assert result["output"] == (
        f"Edit applied to: {path}\n\nReplaced content:\n{tag_line(2, 'beta')}\n{tag_line(3, 'gamma')}\n\n"
        f"New content:\n{tag_line(2, 'x')}"
    )
    assert result["meta"] == {
        "diff": {
            "path": "a.txt",
            "lines_added": 1,
            "lines_removed": 2,
            "hunks": [
                {
                    "old_start": 1,
                    "new_start": 1,
                    "lines": [
                        {"op": "eq", "text": "alpha", "old_no": 1, "new_no": 1},
                        {"op": "del", "text": "beta", "old_no": 2},
                        {"op": "del", "text": "gamma", "old_no": 3},
                        {"op": "ins", "text": "x", "new_no": 2},
                        {"op": "eq", "text": "delta", "old_no": 4, "new_no": 3},
                    ],
                }
            ],
        }
    }
    inserted = desk.text("edit_file", path="a.txt", start=tag(2, "x"), operation="insert_after", new_string="y")
    assert inserted == f"Edit applied to: {path}\n\nNew content:\n{tag_line(3, 'y')}"


def test_a_line_that_changed_is_not_touched_and_the_present_ones_are_shown(desk: Desk) -> None:
    path = desk.put("a.txt", "\n".join(ABC) + "\n")
    stale = tag(2, "beta")
    path.write_text("new first line\n" + "\n".join(ABC) + "\n")
    error = desk.error("edit_file", path="a.txt", start=stale, new_string="x")
    now = tag(2, "alpha")
    assert error.startswith(f"Line 2 of a.txt is not {stale} any more: its tag is {now}. Nothing was changed.")
    assert f"\n{tag_line(3, 'beta')}\n" in error
    assert path.read_text().startswith("new first line\nalpha\nbeta")
    assert "is not 3:00 any more" in desk.error("edit_file", path="a.txt", start=tag(2, "alpha"), through="3:00")


def test_a_line_that_has_moved_is_found_again(desk: Desk) -> None:
    desk.put("a.txt", "".join(f"line {number}\n" for number in range(60)) + "the one I mean\n")
    error = desk.error("edit_file", path="a.txt", start=tag(3, "the one I mean"), new_string="x")
    assert f"{tag(3, 'the one I mean')} may have moved. These have the same digits:" in error
    assert f"\n{tag(61, 'the one I mean')}|the one I mean\n" in error
    assert "may have moved" not in desk.error("edit_file", path="a.txt", start=tag(3, "nowhere to be found"), new_string="x")


@pytest.mark.parametrize("tool", ["read_file", "edit_file"])
def test_refusing_binary_files_names_no_missing_tool(desk: Desk, tool: str) -> None:
    desk.put("f", b"a\0b\n")
    arguments = {"start": "1:00"} if tool == "edit_file" else {}
    error = desk.error(tool, path="f", **arguments)
    assert "a shell command" in error
    assert "bash" not in error


def test_lines_that_cannot_be_meant_are_refused(desk: Desk) -> None:
    path = desk.put("a.txt", "alpha\nbeta\n")
    assert "a.txt has no line 9: it ends with line 3." in desk.error("edit_file", path="a.txt", start="9:65")
    assert "is a line before start" in desk.error("edit_file", path="a.txt", start=tag(2, "beta"), through=tag(1, "alpha"))
    assert "No changes made" in desk.error("edit_file", path="a.txt", start=tag(1, "alpha"), new_string="alpha")
    assert path.read_text() == "alpha\nbeta\n"


async def test_edits_that_were_asked_for_at_once_happen_one_after_another(desk: Desk) -> None:
    path = desk.put("a.txt", "".join(f"line {n}\n" for n in range(1, 9)))
    edits = [desk.acall("edit_file", path="a.txt", start=tag(n, f"line {n}"), new_string=f"edited {n}") for n in range(1, 9)]
    assert all(result["ok"] for result in await asyncio.gather(*edits))
    assert path.read_text() == "".join(f"edited {n}\n" for n in range(1, 9))


async def test_of_two_edits_of_one_line_at_once_the_second_is_refused(desk: Desk) -> None:
    path = desk.put("a.txt", "one\ntwo\n")
    first, second = await asyncio.gather(
        *(desk.acall("edit_file", path="a.txt", start=tag(1, "one"), new_string=text) for text in ("first", "second"))
    )
    assert first["ok"]
    assert tag_line(1, "first") in second["error"]
    assert path.read_text() == "first\ntwo\n"


def test_a_file_that_others_keep_changing_is_edited_or_refused_but_never_torn(desk: Desk) -> None:
    """Another writer replaces the first line again and again; each edit changes the last one."""
    path = desk.put("a.txt", "0\n" + "filler\n" * 500 + "end 0\n")
    enough = threading.Event()

    def others() -> None:
        count = 0
        while not enough.is_set():
            count += 1
            beside = path.with_name("beside")
            lines = path.read_text().split("\n")
            beside.write_text("\n".join([str(count), *lines[1:]]))
            beside.replace(path)

    other = threading.Thread(target=others)
    other.start()
    refused = edited = 0
    try:
        for number in range(40):
            last = path.read_text().split("\n")[501]
            result = desk.call("edit_file", path="a.txt", start=tag(502, last), new_string=f"end {number + 1}")
            edited += result["ok"]
            refused += not result["ok"] and ("changed by someone else" in result["error"] or "any more" in result["error"])
    finally:
        enough.set()
        other.join()
    assert edited + refused == 40
    lines = path.read_text().split("\n")
    assert lines[1:501] == ["filler"] * 500
    assert lines[501].startswith("end ") and lines[502:] == [""]


# What hosts are told of a change


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12), st.booleans(), st.booleans())
def test_a_diff_leads_from_the_old_text_to_the_new_one(old: list[str], new: list[str], ended: bool, ends: bool) -> None:
    before = "\n".join(old) + ("\n" if ended and old else "")
    after = "\n".join(new) + ("\n" if ends and new else "")
    diff = diff_details(before, TextReplacement(0, len(before), after), "a", Stop())["meta"]["diff"]
    old_lines, rebuilt, at = before.split("\n")[: len(old)], list[str](), 0
    for hunk in diff["hunks"]:
        rebuilt += old_lines[at : hunk["old_start"] - 1]
        at = hunk["old_start"] - 1
        assert hunk["new_start"] == len(rebuilt) + 1
        for line in hunk["lines"]:
            if line["op"] != "ins":
                assert (line["old_no"], line["text"]) == (at + 1, old_lines[at])
                at += 1
            if line["op"] != "del":
                rebuilt.append(line["text"])
                assert line["new_no"] == len(rebuilt)
    assert rebuilt + old_lines[at:] == new
    ops = [line["op"] for hunk in diff["hunks"] for line in hunk["lines"]]
    assert (ops.count("ins"), ops.count("del")) == (diff["lines_added"], diff["lines_removed"])


def test_a_diff_shows_three_lines_around_a_change() -> None:
    before = "".join(f"{n}\n" for n in range(1, 31))
    after = before.replace("10\n", "ten\n").replace("25\n", "")
    hunks = diff_details(before, TextReplacement(0, len(before), after), "a", Stop())["meta"]["diff"]["hunks"]
    assert [(hunk["old_start"], hunk["new_start"], len(hunk["lines"])) for hunk in hunks] == [(7, 7, 8), (22, 22, 7)]


def test_a_huge_diff_is_cut_with_a_note(desk: Desk) -> None:
    diff = desk.call("write_file", path="a.txt", content="x\n" * 5000)["meta"]["diff"]
    assert diff["lines_added"] == 5000
    assert diff["truncated"]
    assert len(diff["hunks"][0]["lines"]) == 2000


# What people are told of a call


WORDS: list[tuple[str, dict[str, Any], str]] = [
    ("read_file", {"path": "p"}, "Read p"),
    ("write_file", {"path": "p"}, "Write p"),
    ("edit_file", {"path": "p"}, "Edit p"),
    ("grep", {"pattern": "pat"}, "Grep pat"),
    ("shell", {"command": "x" * 57}, f"Run `{'x' * 57}`"),
    ("shell", {"command": "x" * 58}, f"Run `{'x' * 57}...`"),
    ("shell", {"action": "kill", "id": "p1"}, "Kill p1"),
    ("sub_agent", {"prompt": "look"}, "Sub-agent: look"),
    ("tasks", {"action": "insert"}, "Add task"),
    ("tasks", {"action": "list"}, "Query tasks"),
    ("tasks", {"action": "update", "id": 1}, "Update task"),
    ("tasks", {"action": "delete"}, "Remove task"),
    ("tasks", {"action": "batch", "ops": [{}, {}]}, "Batch 2 ops"),
    ("use_skill", {"skill_name": "n"}, "Loading skill: n"),
    ("ask_user", {"question": "q" * 61}, "q" * 60 + "..."),
    ("debug_state", {}, "Inspect runtime state"),
    ("nobody_has_this", {}, "nobody_has_this"),
    ("read_file", {"path": 5}, "Read file"),
    ("tasks", {"action": ["x"]}, "Tasks"),
]


@pytest.mark.parametrize(("tool", "arguments", "words"), WORDS)
def test_a_call_is_described_in_a_few_words(tool: str, arguments: dict[str, Any], words: str) -> None:
    assert meta(tool, arguments) == words
