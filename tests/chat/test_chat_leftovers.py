"""What happens to live lines that a resize has pushed out of the screen."""

from __future__ import annotations

import pytest
from tests.chat.terminal import Terminal

from fairlead.chat.view.screen import Screen
from fairlead.chat.view.scrollback import Drawn, letters_of, rest_of, without
from fairlead.chat.view.text import RESET


def test_settled_text_is_left_out_however_the_rest_is_wrapped() -> None:
    assert without(["one", "two three", "four five", "", "six"], "onetwothreefour") == (["five", "", "six"], "")
    assert without(["one two"], "onetwothreefour") == ([], "threefour")
    assert without(["three", "four", "five"], "threefour") == (["five"], "")


@pytest.mark.parametrize(
    ("shown", "now", "rest"),
    [
        ("one *two", "one two three", "three"),
        ("a [link](http://x", "a link (http://x.org) b", ".org) b"),
        ("| name | va", "name │ value", "value"),
        ("- item", "• item and more", "and more"),
        ("`code", "code()", "()"),
        ("x = f(a", "x = f(a) * b", ") * b"),
    ],
)
def test_marks_of_markdown_may_disappear_from_settled_text(shown: str, now: str, rest: str) -> None:
    assert without([now], letters_of(shown)) == ([rest], "")


def test_a_word_that_was_settled_while_it_arrived_is_drawn_whole() -> None:
    assert without(["one two12 three"], "onetw") == (["two12 three"], "")
    assert without(["one", "two12 three"], "onetwo") == (["two12 three"], "")
    assert without(["one two, three"], "onetwo") == ([", three"], "")
    assert without(["one two three"], "onetwo") == (["three"], "")
    assert without(["你好吗 two"], "你好") == (["吗 two"], "")
    assert rest_of(["one two12 three"], "onetw") == ([Drawn("two12 three", "o12three")], "")


def test_text_that_has_become_another_is_drawn_again() -> None:
    assert without(["one", "two three", "four"], "onetree") == (["two three", "four"], "")


def test_the_first_line_after_settled_text_has_its_indentation_and_styles() -> None:
    line = f"\x1b[2m▎ {RESET}\x1b[1mone two{RESET}"
    assert without([line], letters_of("▎ one")) == ([f"\x1b[2m▎ {RESET}\x1b[1mtwo{RESET}"], "")


def test_a_line_that_was_lost_in_part_stays_as_it_is() -> None:
    terminal = Terminal(40, 6)
    screen = Screen(terminal.write, terminal.size, reflows=True)
    screen.show(["a" * 30, "b" * 30, "c" * 30, "> "], (3, 2))
    screen.flush()
    terminal.columns = 16
    # What the terminal makes of it: two rows for each line, and the first is in the scrollback.
    terminal.write("\x1b[H\x1b[2J" + "\r\n".join(["a" * 14, "b" * 16, "b" * 14, "c" * 16, "c" * 14, "> "]))
    assert screen.lost_lines() == 0
    screen.cursor_is_in(5)
    assert screen.lost_lines() == 1
    screen.keep(1)
    screen.show(["b", "c", "> "], (2, 2))
    screen.flush()
    assert terminal.visible == ["a" * 14, "b", "c", ">"]
    assert terminal.cursor == (3, 2)
    assert screen.lost_lines() == 0


def test_a_line_that_was_lost_with_the_cursor_in_it_is_painted_over_when_it_comes_back() -> None:
    terminal = Terminal(40, 6)
    screen = Screen(terminal.write, terminal.size, reflows=True)
    screen.show(["a" * 30, "b" * 30, "c" * 30, "d" * 30], None, 0)
    screen.flush()
    terminal.columns = 16
    # Two rows for each line: the first line is in the scrollback, and the cursor in the first row that is left.
    terminal.write("\x1b[H\x1b[2J" + "\r\n".join(["b" * 16, "b" * 14, "c" * 16, "c" * 14, "d" * 16, "d" * 14]) + "\x1b[H")
    screen.cursor_is_in(0)
    screen.show(["a2", "b2"], None, 0)
    screen.flush()
    assert terminal.visible == ["a2", "b2"]
    terminal.columns = 40
    terminal.write("\x1b[H\x1b[2J" + "\r\n".join(["a" * 30, "a2", "b2"]) + "\x1b[2;1H")
    screen.cursor_is_in(1)
    screen.show(["a3"], None, 0)
    screen.flush()
    assert terminal.visible == ["a3"]


def test_a_final_line_among_copies_that_come_back_is_not_cut_in_a_narrower_terminal() -> None:
    terminal = Terminal(40, 6)
    screen = Screen(terminal.write, terminal.size, reflows=True)
    screen.show(["a1", "b1", "c1", "> "], (3, 2))
    screen.flush()
    # A lower terminal moves two lines into its scrollback.
    terminal.rows = 2
    terminal.write("\x1b[H\x1b[2Jc1\r\n> ")
    screen.cursor_is_in(1)
    screen.commit(["one two three four five six seven"])
    screen.show(["> "], (0, 2))
    screen.flush()
    # A higher and narrower one brings them back.
    terminal.columns, terminal.rows = 20, 6
    terminal.write("\x1b[H\x1b[2J" + "\r\n".join(["a1", "b1", "one two three four f", "ive six seven", "> "]))
    screen.cursor_is_in(4)
    screen.show(["> "], (0, 2))
    screen.flush()
    assert terminal.visible == ["one two three four", "five six seven", ">"]
    assert terminal.cursor == (2, 2)
