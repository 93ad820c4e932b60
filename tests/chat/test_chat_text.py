"""How wide text is, where it wraps, and what a terminal never gets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.chat.terminal import Terminal

from fairlead.chat.view.text import RESET, clip, plain, visible, width, without_styles, wrap

BOLD, RED = "\x1b[1m", "\x1b[31m"


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("", 0),
        ("word", 4),
        (f"{BOLD}word{RESET}", 4),
        ("你好", 4),
        ("e\u0301", 1),
        ("👍🏽", 2),
        ("👨‍👩‍👧", 2),
        ("שלום", 4),
        ("─│•…", 4),
    ],
)
def test_width_counts_cells(text: str, cells: int) -> None:
    assert width(text) == cells


@pytest.mark.parametrize(
    ("text", "columns", "lines"),
    [
        ("one two three", 7, ["one two", "three"]),
        ("one  two", 8, ["one  two"]),
        ("one   two", 5, ["one", "two"]),
        ("  indented", 20, ["  indented"]),
        ("", 5, [""]),
        ("a\n\nb", 5, ["a", "", "b"]),
        ("incomprehensibilities", 10, ["incomprehe", "nsibilitie", "s"]),
        ("see incomprehensibilities", 12, ["see incompre", "hensibilitie", "s"]),
        ("中文没有空格也要换行", 7, ["中文没", "有空格", "也要换", "行"]),
        ("wide 中文 text", 8, ["wide 中", "文 text"]),
    ],
)
def test_text_wraps_at_spaces_and_breaks_long_words(text: str, columns: int, lines: list[str]) -> None:
    assert wrap(text, columns) == lines


def test_a_style_continues_on_the_next_line_and_ends_with_each_line() -> None:
    assert wrap(f"{BOLD}one {RED}two{RESET} three", 4) == [
        f"{BOLD}one{RESET}",
        f"{BOLD}{RED}two{RESET}",
        "thre",
        "e",
    ]


TEXT = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp", "Cf")) | st.sampled_from(" \n你e\u0301👍 "), max_size=60)


@settings(deadline=None)
@given(TEXT, st.integers(2, 20))
def test_no_wrapped_line_is_too_wide_and_no_letter_is_lost(text: str, columns: int) -> None:
    lines = wrap(text, columns)
    assert all(width(line) <= columns for line in lines)
    assert "".join("".join(lines).split(" ")) == "".join(text.replace("\n", " ").split(" "))


@settings(deadline=None)
@given(TEXT, st.integers(0, 20))
def test_a_clipped_line_fits(text: str, columns: int) -> None:
    line = text.replace("\n", " ")
    clipped = clip(f"{RED}{line}{RESET}", columns)
    assert width(clipped) <= columns
    if width(line) <= columns:
        assert without_styles(clipped) == line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text\n", "plain text\n"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("a\x1b[2J\x1b[1;1Hb", "ab"),
        ("a\x1b]0;title\x07b\x1b]2;title\x1b\\c", "abc"),
        ("a\x1b]0;a title without end\nb", "a\nb"),
        ("a\x1bP+q544e\x1b\\b\x1b_apc\x1b\\c", "abc"),
        ("a\x9b2Jb\x9d0;title\x9cc", "abc"),
        ("a\x1b(0b\x1bcc\x1b", "abc"),
        ("a\tb", "a       b"),
        ("你\tb", "你      b"),
        ("10%\r50%\r100%\ndone\r\n", "100%\ndone\n"),
        ("ab\x08c", "ac"),
        ("a\x00\x07\x7fb", "ab"),
        ("safe\u202egnp.exe", "safegnp.exe"),
        ("half \ud83d", "half \ufffd"),
        ("page\x0cbreak", "page break"),
    ],
)
def test_text_from_elsewhere_is_harmless(text: str, shown: str) -> None:
    assert plain(text) == shown


@settings(deadline=None)
@given(st.text(st.sampled_from("ab1;?[]()m\x1b\x07\x9b\x9c\x9d\x90\\\r\n\t\x08PX^_\x18\x1a你"), max_size=40))
def test_a_terminal_obeys_nothing_in_plain_text(text: str) -> None:
    terminal = Terminal(80, 10)
    terminal.write("\x1b[5;5H" + plain(text).replace("\n", ""))
    assert terminal.title == ""
    assert terminal.cursor[0] in (4, 5, 6)
    assert not {ord(character) for character in plain(text)} & {*range(10), *range(11, 32), *range(127, 160)}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("make\ttest\n", "make\ttest\n"),
        ("rm -rf ~ #\rls", "rm -rf ~ #^Mls"),
        ("a\r\nb", "a\nb"),
        ("echo \x1b]0;rm x\x07", "echo ^[]0;rm x^G"),
        ("rm x\x08\x08\x08\x08ls", "rm x^H^H^H^Hls"),
        ("a\u202eb\u200bc\x9b2J", "a<U+202E>b<U+200B>c<U+009B>2J"),
        ("a\u3164b\u00a0c\u2800d\u034fe\ufe0ff", "a<U+3164>b<U+00A0>c<U+2800>d<U+034F>e<U+FE0F>f"),
        ("漢字 👨\u200d👩", "漢字 👨\u200d👩"),
    ],
)
def test_nothing_is_hidden_in_text_that_the_user_has_to_judge(text: str, shown: str) -> None:
    assert visible(text) == shown
