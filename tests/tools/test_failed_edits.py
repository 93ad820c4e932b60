"""What a failed edit tells the model: similar lines, small differences, duplicates."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.tools.box import Box


def edit(box: Box, path: str, *pairs: tuple[str, str]):
    return box.call("edit", path=path, edits=[{"oldText": old, "newText": new} for old, new in pairs])


SOURCE = """\
class Counter:
    def __init__(self):
        self.count = 0

    def add(self, number):
        self.count += number
        return self.count

    def reset(self):
        self.count = 0
"""
NOT_FOUND = "Could not find the exact text in f.py. The old text must match exactly including all whitespace and newlines."


def missed(box: Box, old: str, text: str = SOURCE, new: str = "zzz") -> str:
    path = box.put("f.py", text)
    done = edit(box, "f.py", (old, new))
    assert done.is_error and done.text.startswith(NOT_FOUND)
    assert path.read_bytes() == text.encode()
    return done.text.removeprefix(NOT_FOUND)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_the_most_similar_lines_are_shown_with_their_numbers(box: Box, line_end: str) -> None:
    old = "    def add(self, num):\n        self.count += num\n        return self.count"
    assert missed(box, old, SOURCE.replace("\n", line_end)) == (
        "\n\nThe most similar text, with line numbers that are not part of it:\n\n"
        "5:     def add(self, number):\n6:         self.count += number\n7:         return self.count\n\n"
        "The first difference is in line 5, where the old text has:     def add(self, num):"
    )


@pytest.mark.parametrize(
    ("old", "difference"),
    [
        (
            "\tdef reset(self):\n\t\tself.count = 0",
            "only in indentation, first in line 9, which begins with 4 spaces; in the old text with 1 tab.",
        ),
        (
            "    def reset(self):\n    self.count = 0",
            "only in indentation, first in line 10, which begins with 8 spaces; in the old text with 4 spaces.",
        ),
        ("def reset( self ) :\n    self.count=0", "only in white space, first in line 9."),
        ("    def Reset(self):\n        self.count = 0", "only in upper and lower case, first in line 9."),
        ("9:     def reset(self):\n10:         self.count = 0", "has line numbers in front of its lines"),
        ("    def reset(self):\\n        self.count = 0", "has backslashes before characters"),
        ("    def add(self, number):\n        return self.count", "The first difference is in line 6"),
    ],
    ids=["tabs", "depth", "blanks", "case", "numbers", "escapes", "a line left out"],
)
def test_a_small_difference_is_reported(box: Box, old: str, difference: str) -> None:
    assert difference in missed(box, old)


def test_quotes_and_entities_are_reported(box: Box) -> None:
    assert "only in its quotation marks, first in line 1." in missed(box, 'print("a")', "print('a')\n")
    assert "has entities such as &lt;" in missed(box, "if a &lt; b &amp;&amp; c:", "x\nif a < b && c:\n")


def test_lines_in_the_middle_that_the_model_forgot_are_shown(box: Box) -> None:
    text = missed(box, "class Counter:\n    def __init__(self):\n    def reset(self):\n        self.count = 0")
    assert "1: class Counter:" in text and "9:     def reset(self):" in text


def test_text_that_is_like_nothing_in_a_short_file_shows_the_file(box: Box) -> None:
    told = missed(box, "SELECT * FROM users WHERE id = 7")
    assert told.startswith("\n\nThe file has these lines") and "1: class Counter:" in told


def test_text_that_is_like_nothing_in_a_long_file_shows_nothing_of_it(box: Box) -> None:
    box.put("long.txt", "".join(f"line {number}\n" for number in range(100)))
    done = edit(box, "long.txt", ("SELECT * FROM users WHERE id = 7", "x"))
    assert done.text.endswith("including all whitespace and newlines.")


def test_an_edit_that_was_made_before_is_recognized(box: Box) -> None:
    told = missed(box, "        self.count -= number", new="        self.count += number")
    assert "The new text is in the file already, from line 6 on: the edit may have been made before." in told


def test_an_edit_that_builds_on_another_one_of_the_same_call_is_recognized(box: Box) -> None:
    box.put("f.py", SOURCE)
    done = edit(box, "f.py", ("def add(", "def increase("), ("def increase(self, number)", "def increase(self)"))
    assert done.text.startswith("Could not find edits[1].oldText in f.py. ")
    assert "Other edits of the call would make this text, but each edit is made to the file as it was" in done.text


def test_lines_of_duplicate_matches_are_listed(box: Box) -> None:
    box.put("f.py", SOURCE)
    unique = "The text must be unique. Please provide more context to make it unique.\n\n"
    found = "Found 2 occurrences of the text in f.py. "
    assert edit(box, "f.py", ("self.count = 0", "x")).text == f"{found}{unique}They begin in the lines 3, 10."
    box.put("f.py", SOURCE.replace("\n", "\r\n").replace("= 0", "= 0  "))
    assert edit(box, "f.py", ("self.count = 0\n", "x")).text == f"{found}{unique}They begin in the lines 3, 10."
    box.put("f.py", "a\n" * 500)
    many = edit(box, "f.py", ("a\n", "b\n")).text
    assert many.endswith("They begin in the lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 490 more places.")


def test_excerpts_of_a_file_are_bounded(box: Box) -> None:
    long = "\n".join(f"value_{number} = {'x' * 2_000}" for number in range(200))
    text = missed(box, long.replace("x = ", "y = ").replace("value_7 ", "value_8 "), long)
    assert 0 < len(text) < 12_000


def test_the_search_for_similar_text_looks_at_each_line_once(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work grows with the file, not with its square, and a file that is too long is not searched."""
    from fairlead.tools.files import matching

    looked_at = 0
    comparable = matching._comparable  # pyright: ignore[reportPrivateUsage]

    def counted(line: str) -> str:
        nonlocal looked_at
        looked_at += 1
        return comparable(line)

    monkeypatch.setattr(matching, "_comparable", counted)
    old = "\n".join(["self.count = 1"] * 300)
    counts: list[int] = []
    for lines in (1_000, 10_000):
        looked_at = 0
        assert "more lines]" in missed(box, old, "self.count = 2\n" * lines)
        counts.append(looked_at)
    assert counts[1] - counts[0] == 9_000
    assert missed(box, "abcd = 1", "abcd = 2\n" * 120_000) == ""


def test_nothing_is_shown_of_a_file_that_may_not_be_read(box: Box) -> None:
    from fairlead.errors import ToolError

    class Closed:
        def check_reading(self, path: Path, found: os.stat_result) -> None:
            raise ToolError("This file is protected.")

        def readable(self, files: Sequence[tuple[str, os.stat_result]]) -> list[bool]:
            return [False for _ in files]

        def check_writing(self, path: Path, found: os.stat_result | None) -> None:
            pass

    box.put("f.py", SOURCE)
    box.workspace.guard = Closed()
    assert edit(box, "f.py", ("self.count = 1", "x")).text == "This file is protected."
