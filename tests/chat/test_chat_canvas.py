"""Components of extensions in the chat: their lines and keys, and how the user gets rid of them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fairlead import Sheet
from fairlead.chat.canvas import SheetDialog, draw_sheet
from fairlead.chat.input.keyboard import Sequences, plain_key
from fairlead.chat.view.text import keep_styles, width
from fairlead.chat.view.theme import DARK, PLAIN


class Owner:
    """Notes the keys that sheets get."""

    def __init__(self) -> None:
        self.pressed: list[str] = []

    def press(self, sheet: Sheet, data: str) -> None:
        self.pressed.append(data)

    def resize(self, columns: int, rows: int) -> None: ...

    def follow_editor(self, text: str, at: int) -> None: ...


def a_sheet(*lines: str, cursor: tuple[int, int] | None = None) -> tuple[Sheet, Owner]:
    owner = Owner()
    sheet = Sheet("dialog", "", owner)
    sheet.lines, sheet.cursor = lines, cursor
    return sheet, owner


def a_dialog(sheet: Sheet) -> tuple[SheetDialog, asyncio.Queue[str]]:
    hints = asyncio.Queue[str]()
    return SheetDialog(sheet, cast("Any", SimpleNamespace(hint=hints.put_nowait))), hints


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
        ("a\x1b]0;title\x07b\x1b[2Jc\x1b[10;10Hd", "abcd"),
        ("a\x1b]52;c;\x1b[31mx", "a\x1b[31mx"),
        ("a\r\nb\x00c\x9b31md\u202ee", "a bcde"),
        ("\ta", "   a"),
    ],
)
def test_a_line_keeps_its_styles_alone(line: str, shown: str) -> None:
    assert keep_styles(line) == shown


def test_of_many_lines_those_around_the_cursor_or_the_last_are_shown() -> None:
    lines = [f"line {number}" for number in range(100)]
    assert draw_sheet(a_sheet(*lines)[0], DARK, 40, 3) == (["line 97", "line 98", "line 99"], None)
    assert draw_sheet(a_sheet(*lines, cursor=(10, 99))[0], DARK, 40, 3) == (["line 10", "line 11", "line 12"], (0, 39))
    assert draw_sheet(a_sheet("a", cursor=(5, -3))[0], DARK, 40, 3) == (["a"], None)
    shown, _ = draw_sheet(a_sheet("\x1b[1m" + "wide 漢字 " * 50)[0], PLAIN, 20, 3)
    assert width(shown[0]) <= 20 and "\x1b" not in shown[0]


async def test_ctrl_c_twice_closes_a_component_whatever_it_does() -> None:
    sheet, owner = a_sheet("draws")
    dialog, hints = a_dialog(sheet)
    dialog.press("\x03")
    assert owner.pressed == ["\x03"] and not dialog.answer.done()
    assert await hints.get() == "Ctrl+C again closes this"
    sheet.lines = ("draws again",)
    dialog.press("\x03")
    assert dialog.answer.done() and hints.empty()


async def test_escape_closes_a_component_that_has_no_use_for_it() -> None:
    sheet, owner = a_sheet("still")
    dialog, _ = a_dialog(sheet)
    for _ in range(2):
        dialog.press("\x1b")
    assert owner.pressed == ["\x1b"] * 2 and not dialog.answer.done()
    dialog.press("\x1b")
    assert dialog.answer.done()
    moving, owner = a_sheet("0")
    dialog, _ = a_dialog(moving)
    for number in range(9):
        dialog.press("\x1b")
        moving.lines = (str(number + 1),)
    assert owner.pressed == ["\x1b"] * 9 and not dialog.answer.done()


async def test_keys_between_two_presses_start_the_count_again() -> None:
    sheet, owner = a_sheet("x")
    dialog, _ = a_dialog(sheet)
    for key in ("\x03", "a", "\x1b", "\x1b", "\x03"):
        dialog.press(key)
    assert owner.pressed == ["\x03", "a", "\x1b", "\x1b", "\x03"] and not dialog.answer.done()


async def test_what_a_terminal_sends_is_divided_into_keys() -> None:
    keys: list[str] = []
    pressed = asyncio.Queue[str]()

    def press(key: str) -> None:
        keys.append(key)
        pressed.put_nowait(key)

    sequences = Sequences(press)
    sequences.feed("aé\x1b[A\x1bOB\x1bb\x1b\x1b[C\x1b[200~two\nlines\x1b[201~\r\x1b[1;5D\x7f")
    assert keys == [
        "a",
        "é",
        "\x1b[A",
        "\x1bOB",
        "\x1bb",
        "\x1b\x1b[C",
        "\x1b[200~two\nlines\x1b[201~",
        "\r",
        "\x1b[1;5D",
        "\x7f",
    ]
    keys.clear()
    sequences.feed("\x1b")
    sequences.feed("[A\x1b[1;")
    sequences.feed("2Bx\x1b")
    assert keys == ["\x1b[A", "\x1b[1;2B", "x"]
    while await pressed.get() != "\x1b":
        pass
    assert len(keys) == 4
    sequences.feed("\x1b[" + "1" * 100)
    assert keys[4] == "\x1b[" + "1" * 100


@pytest.mark.parametrize(
    ("sent", "plain"),
    [
        ("\x1b[27u", "\x1b"),
        ("\x1b[99;5u", "\x03"),
        ("\x1b[27;5;122~", "\x1a"),
        ("\x1b[98;3u", "\x1bb"),
        ("\x1b[97;2u", "A"),
        ("\x1b[13u", "\r"),
        ("\x1b[13;2u", "\x1b[13;2u"),
        ("\x1b[13;3u", "\x1b\r"),
        ("\x1b[9;2u", "\x1b[Z"),
        ("\x1b[127u", "\x7f"),
        ("\x1b[97;9u", "\x1b[97;9u"),
        ("\x1b[49;5u", "\x1b[49;5u"),
        ("\x1b[A", "\x1b[A"),
        ("q", "q"),
    ],
)
def test_keys_have_one_form_in_all_terminals(sent: str, plain: str) -> None:
    assert plain_key(sent) == plain
