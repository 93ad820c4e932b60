"""edit: what is matched, what is refused, what changes on disk, how it is shown."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from pathlib import Path

import pytest
from tests.tools.box import Box

from fairlead.core.runtime import CancelToken, TimedOut
from fairlead.core.tool import ToolContext
from fairlead.session.asyncio_runtime import AsyncioRuntime
from fairlead.tools.background import Stop
from fairlead.tools.builtin import builtin_tools
from fairlead.tools.files import edit as diff
from fairlead.tools.files.edit import TextReplacement


def edit(box: Box, path: str, *pairs: tuple[str, str]):
    return box.call("edit", path=path, edits=[{"oldText": old, "newText": new} for old, new in pairs])


def test_a_replacement_is_reported_with_its_diff(box: Box) -> None:
    path = box.put("a.txt", "alpha\nbeta\ngamma\n")
    done = edit(box, "a.txt", ("beta", "BETA"))
    assert (done.text, done.is_error) == ("Successfully replaced 1 block(s) in a.txt.", False)
    assert done.details == {
        "diff": " 1 alpha\n-2 beta\n+2 BETA\n 3 gamma",
        "patch": "--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n alpha\n-beta\n+BETA\n gamma\n",
        "firstChangedLine": 2,
    }
    assert path.read_text() == "alpha\nBETA\ngamma\n"


def test_older_and_sloppy_forms_are_accepted(box: Box) -> None:
    box.put("f.txt", "one one\n")
    done = box.call("edit", path="f.txt", oldText="one one", newText="two")
    assert done.details["diff"] == "-1 one one\n+1 two"
    assert not box.call("edit", path="f.txt", edits='[{"oldText": "two", "newText": "three"}]').is_error
    assert (box.cwd / "f.txt").read_text() == "three\n"
    assert "Validation failed" in box.call("edit", path="f.txt", edits="three").text
    assert "Validation failed" in box.call("edit", path="f.txt", edits=[]).text


def test_refusals_say_why_and_change_nothing(box: Box) -> None:
    path = box.put("f.txt", "one one\n")
    assert edit(box, "missing.txt", ("x", "y")).text == "Could not edit file: missing.txt. Error code: ENOENT."
    assert edit(box, "f.txt", ("one", "two")).text == (
        "Found 2 occurrences of the text in f.txt. The text must be unique. Please provide more context to make it unique."
        "\n\nAll of them are in line 1."
    )
    assert edit(box, "f.txt", ("zzz", "two")).text == (
        "Could not find the exact text in f.txt. The old text must match exactly including all whitespace and newlines."
        "\n\nThe file has these lines, with line numbers that are not part of it:\n\n1: one one"
    )
    assert edit(box, "f.txt", ("one one", "one one")).text.startswith(
        "No changes made to f.txt. The replacement produced identical content."
    )
    assert "must not be empty in f.txt" in edit(box, "f.txt", ("", "x")).text
    assert "Could not find edits[1].oldText in f.txt" in edit(box, "f.txt", ("one one", "x"), ("zzz", "y")).text
    assert path.read_text() == "one one\n"


def test_overlapping_occurrences_count(box: Box) -> None:
    box.put("f.txt", "aaa")
    assert edit(box, "f.txt", ("aa", "b")).text.startswith("Found 2 occurrences")


def test_all_edits_see_the_original(box: Box) -> None:
    path = box.put("f.txt", "a\nb\nc\n")
    assert edit(box, "f.txt", ("c", "a"), ("a", "b"), ("b", "c")).text == "Successfully replaced 3 block(s) in f.txt."
    assert path.read_text() == "b\nc\na\n"


def test_edits_must_not_overlap(box: Box) -> None:
    path = box.put("f.txt", "one two three\n")
    assert "edits[0] and edits[1] overlap in f.txt" in edit(box, "f.txt", ("two three", "x"), ("one two", "y")).text
    assert not edit(box, "f.txt", ("one ", "1"), ("two ", "2")).is_error
    assert path.read_text() == "12three\n"


def test_line_ends_and_byte_order_mark_are_kept(box: Box) -> None:
    path = box.put("dos.txt", b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n")
    assert not edit(box, "dos.txt", ("one\ntwo", "1\n2\n2.5")).is_error
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n2.5\r\nthree\r\n"
    assert not edit(box, "dos.txt", ("\ufeff1\r\n", "eins\n")).is_error
    assert path.read_bytes() == b"\xef\xbb\xbfeins\r\n2\r\n2.5\r\nthree\r\n"


def test_mixed_line_ends_stay_mixed(box: Box) -> None:
    path = box.put("mixed.txt", b"a\r\nb\nc\r\nd\ne\n")
    assert not edit(box, "mixed.txt", ("b\nc\nd", "B\nC\nD")).is_error
    assert path.read_bytes() == b"a\r\nB\nC\nD\ne\n"
    assert not edit(box, "mixed.txt", ("e", "e\nf")).is_error
    assert path.read_bytes().startswith(b"a\r\n")


def test_near_misses_are_found_and_the_rest_stays(box: Box) -> None:
    path = box.put("n.txt", "keep  \nsay \u201chello\u201d \u2014 it\u2019s\u00a0me   \n  next\t\nkeep \u2018too\u2019  \n")
    done = edit(box, "n.txt", ('say "hello" - it\'s me\n  next\n', "say bye\n"))
    assert not done.is_error
    assert path.read_text() == "keep  \nsay bye\nkeep \u2018too\u2019  \n"


def test_near_misses_in_the_request_are_found_too(box: Box) -> None:
    path = box.put("n.txt", "x = 'a'\r\ny = 2\r\n")
    assert not edit(box, "n.txt", ("x = \u2018a\u2019   \ny = 2", "z\nz")).is_error
    assert path.read_bytes() == b"z\r\nz\r\n"


def test_near_misses_must_be_unique(box: Box) -> None:
    box.put("n.txt", "a \u2013 b\na \u2014 b\n")
    assert edit(box, "n.txt", ("a - b", "x")).text.startswith("Found 2 occurrences")


def test_blanks_alone_match_nothing_nearly(box: Box) -> None:
    box.put("n.txt", "a\nb\n")
    assert edit(box, "n.txt", ("   \n   ", "x")).text.startswith("Could not find")


def test_binary_files_are_not_edited(box: Box) -> None:
    latin = box.put("latin.txt", b"caf\xe9\n")
    binary = box.put("binary", b"abc\0def")
    assert "is not UTF-8 text" in edit(box, "latin.txt", ("caf", "x")).text
    assert "is a binary file" in edit(box, "binary", ("abc", "x")).text
    assert (latin.read_bytes(), binary.read_bytes()) == (b"caf\xe9\n", b"abc\0def")
    os.mkfifo(box.cwd / "fifo")
    assert "named pipe" in edit(box, "fifo", ("a", "b")).text
    assert "is a directory" in edit(box, ".", ("a", "b")).text


def test_a_monstrous_file_is_not_loaded(box: Box) -> None:
    with (box.cwd / "monster").open("wb") as file:
        file.truncate(1 << 40)
    assert "monster is too large to edit (1048576.0MB; the limit is 256.0MB)" in edit(box, "monster", ("a", "b")).text


def test_a_file_changed_meanwhile_is_not_overwritten(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    path = box.put("f.txt", "one\n")
    apply = diff.apply

    def intrude(original: str, replacements: list[TextReplacement]):
        path.write_text("one, and someone else's work\n")
        return apply(original, replacements)

    monkeypatch.setattr(diff, "apply", intrude)
    done = edit(box, "f.txt", ("one", "two"))
    assert "was changed by someone else" in done.text
    assert path.read_text() == "one, and someone else's work\n"
    assert list(box.cwd.iterdir()) == [path]


def test_a_file_only_touched_meanwhile_is_edited(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    path = box.put("f.txt", "one\n")
    apply = diff.apply

    def touch(original: str, replacements: list[TextReplacement]):
        os.utime(path, ns=(1, 1))
        return apply(original, replacements)

    monkeypatch.setattr(diff, "apply", touch)
    assert not edit(box, "f.txt", ("one", "two")).is_error
    assert path.read_text() == "two\n"


def test_distant_changes_are_shown_apart_and_numbers_aligned(box: Box) -> None:
    box.put("f.txt", "".join(f"l{i}\n" for i in range(1, 101)))
    done = edit(box, "f.txt", ("l10\n", "ten\nten and a half\n"), ("l90\n", ""))
    assert done.details["diff"].split("\n") == [
        "     ...",
        *(f"   {i} l{i}" if i < 10 else f"  {i} l{i}" for i in range(6, 10)),
        "- 10 l10",
        "+ 10 ten",
        "+ 11 ten and a half",
        *(f"  {i} l{i}" for i in range(11, 15)),
        "     ...",
        *(f"  {i} l{i}" for i in range(86, 90)),
        "- 90 l90",
        *(f"  {i} l{i}" for i in range(91, 95)),
        "     ...",
    ]
    assert done.details["firstChangedLine"] == 10


def test_joined_lines_are_shown_as_joined(box: Box) -> None:
    box.put("f.txt", "a\nb\nc\n")
    assert edit(box, "f.txt", ("a\n", "a")).details["diff"] == "-1 a\n-2 b\n+1 ab\n 3 c"


def test_twenty_thousand_lines_are_edited_fast(box: Box) -> None:
    path = box.put("big.txt", "".join(f"line number {i}\n" for i in range(20_000)))
    begun = time.perf_counter()
    done = edit(box, "big.txt", ("line number 0\n", "first\n"), ("line number 19999\n", "last \u2014 one\n"))
    assert not done.is_error
    assert time.perf_counter() - begun < 2
    assert path.read_text().startswith("first\nline number 1\n")


CASES = [
    ("a\nb\nc\n", [("b", "B")]),
    ("a\nb\nc", [("c", "C")]),
    ("a\nb\nc", [("c", "c\n")]),
    ("a\nb\nc\n", [("c\n", "c")]),
    ("a\nb\nc\n", [("a\n", "")]),
    ("a\nb\nc\n", [("b\nc\n", "")]),
    ("a\nb\nc\n", [("a\nb\nc\n", "")]),
    ("a\nb\nc\n", [("a\nb\nc\n", "x")]),
    ("a\nb\n", [("\nb", "")]),
    ("a\nb\n", [("a\n", "a")]),
    ("a\nb\n", [("a\n", "a\nx\n")]),
    ("ab\ncd\nef\n", [("b\nc", "B\nC"), ("d\ne", "D\nE")]),
    ("ab cd\n", [("a", "1"), ("b", "2"), ("cd", "3\n4")]),
    ("".join(f"{i}\n" for i in range(40)), [("\n3\n4\n", "\nx\n"), ("\n30\n", "\ny\nz\n30\n"), ("\n35\n", "\n")]),
    ("x\n" * 5 + "m\n" + "x\n" * 5, [("m\n", "x\nm\nx\n")]),
    ("\f\na\x0bb\u2028c\nd\n", [("b", "B")]),
]


@pytest.mark.parametrize(("before", "pairs"), CASES)
def test_the_patch_turns_the_old_file_into_the_new(tmp_path: Path, before: str, pairs: list[tuple[str, str]]) -> None:
    places = [TextReplacement(before.index(old), before.index(old) + len(old), new) for old, new in pairs]
    after = diff.apply(before, places)
    described = diff.describe(before, places, "f.txt", Stop())
    (tmp_path / "f.txt").write_text(before, newline="")
    subprocess.run(["git", "apply", "-p0", "--unidiff-zero"], cwd=tmp_path, input=described.patch, text=True, check=True)
    result = (tmp_path / "f.txt").read_text() if (tmp_path / "f.txt").exists() else ""
    assert result == after
    removed = [line for line in described.numbered.split("\n") if line.startswith("-")]
    assert len(removed) == sum(line.startswith("-") for line in described.patch.split("\n")[2:])


def million_lines(box: Box):
    return box.put("big.txt", "".join(f"line {i}\n" for i in range(1_000_000)))


#: Found only by the search for near misses, which takes about a second in a million lines.
NEARLY = {"path": "big.txt", "edits": [{"oldText": "line 7  \nline 8  \n", "newText": "changed\n"}]}


async def test_an_aborted_edit_of_a_huge_file_ends_soon_and_changes_nothing(box: Box) -> None:
    path = million_lines(box)
    before = (path.stat().st_ino, path.stat().st_size, path.stat().st_mtime_ns)
    cancel = CancelToken()
    editing = asyncio.create_task(box.acall("edit", NEARLY, cancel))
    await asyncio.sleep(0)
    cancel.fire()
    done = await editing
    assert (done.text, done.is_error) == ("Operation aborted", True)
    assert (path.stat().st_ino, path.stat().st_size, path.stat().st_mtime_ns) == before
    assert list(box.cwd.iterdir()) == [path]


async def test_an_edit_that_is_cut_off_does_not_change_the_file_later(box: Box) -> None:
    path = million_lines(box)
    tool = builtin_tools(box.workspace)["edit"]
    context = ToolContext("call", CancelToken(), lambda _: None)
    with pytest.raises(TimedOut):
        await AsyncioRuntime().run_bounded(tool.run(NEARLY, context), context.cancel, timeout=0.02, grace=0.4)
    # The next change of the file waits for the thread of the one before.
    assert not (
        await box.acall("edit", {"path": "big.txt", "edits": [{"oldText": "line 999999\n", "newText": "end\n"}]})
    ).is_error
    text = path.read_text()
    assert text.startswith("line 0\n")
    assert "changed" not in text
    assert text.endswith("line 999998\nend\n")


def test_a_file_that_cannot_be_read_is_named_with_the_reason(box: Box) -> None:
    assert edit(box, "/proc/self/mem", ("a", "b")).text == "Could not edit file: /proc/self/mem. Error code: EIO."
