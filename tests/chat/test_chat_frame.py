"""One frame of the chat, in terminals of all sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fairlead.chat.dialogs import Ask, Choice, Confirm, Dialog, Picker
from fairlead.chat.input.editor import Editor
from fairlead.chat.status import Facts
from fairlead.chat.view.frame import Frame, compose
from fairlead.chat.view.text import width, without_styles
from fairlead.chat.view.theme import DARK, PLAIN
from fairlead.sessions.completion import Item, Menu


class Live:
    """An open answer that takes all the room it gets."""

    def live(self, columns: int, rows: int, spare: int, *, only_text: bool = False) -> list[str]:
        self.only_text = only_text
        return ["x" * columns] * rows

    def text_lines(self) -> int:
        return 0


class Decorations:
    def __init__(self) -> None:
        self.statuses = {"a": "status " * 30}
        self.above = {"a": ["widget\n" + "widget " * 30] * 50}
        self.below = {"b": ["widget " * 30] * 50}


def a_frame(columns: int, rows: int, dialog: Dialog[Any] | None = None, menu: Menu | None = None) -> Frame:
    editor = Editor(lambda: None)
    editor.set_text("some words " * 100)
    facts = Facts("~/project", "main", "a name", "a-model", "high", 50, 1000, 1, 9, "ask")
    queued = (["waiting " * 20] * 10, ["later"] * 10)
    return Frame(
        DARK,
        columns,
        rows,
        editor,
        dialog,
        menu,
        facts,
        Decorations(),
        queued,
        ("$ make\nmake test 1m 15s", 75.0),
        "",
        "out\n" * 50,
    )


@pytest.mark.parametrize(("columns", "rows"), [(99, 30), (79, 24), (39, 12), (19, 16), (199, 60)])
@pytest.mark.parametrize("kind", ["editor", "menu", "confirm", "picker"])
async def test_a_frame_is_never_larger_than_the_terminal(columns: int, rows: int, kind: str) -> None:
    menu = Menu("file", 1, [Item(f"file {number}" * 10, "detail " * 30) for number in range(40)], 20) if kind == "menu" else None
    choices = [Choice(f"choice {number}" * 9, number) for number in range(50)]
    dialogs: dict[str, Dialog[Any]] = {"confirm": Confirm("Sure? " * 50, "text " * 500), "picker": Picker("Pick", choices)}
    lines, cursor, _ = compose(a_frame(columns, rows, dialogs.get(kind), menu), Live())
    assert all(width(line) <= columns for line in lines)
    assert len(lines) <= rows
    if cursor is not None:
        assert cursor[0] < len(lines) and cursor[1] <= columns


def test_the_spinner_describes_the_activity_in_one_line() -> None:
    lines, _, _ = compose(a_frame(79, 40), Live())
    assert any("$ make make test 1m 15s" in line for line in lines)


async def test_no_line_of_a_frame_has_a_line_break() -> None:
    menu = Menu("file", 1, [Item("a\nfile", "its\ndetail")])
    pickers = [Picker("Two\nlines", [Choice("a\nlabel", 1, "a\ndetail")]), Picker("", [Choice("a\nlabel", 1)], filtered=False)]
    for dialog in (*pickers, Ask("Your\nname?", "first\nand last"), None):
        lines, _, _ = compose(a_frame(79, 24, dialog, menu), Live())
        assert not [line for line in lines if "\n" in line]


async def test_a_question_in_a_low_terminal_has_no_other_lines_beside_it_that_can_change() -> None:
    question = Confirm("Sure?")
    for rows, is_alone in ((8, True), (50, False)):
        live = Live()
        lines, _, _ = compose(a_frame(79, rows, question), live)
        shown = [line for line in map(without_styles, lines) if not line.startswith("x")]
        assert live.only_text == is_alone
        assert (shown == ["Sure?", "y yes · n no · Esc close"]) == is_alone
        assert any("a-model" in line for line in shown) != is_alone


async def test_few_rows_of_a_list_wrap_if_the_terminal_becomes_half_as_wide() -> None:
    counts: list[int] = []
    for width_of_label in (60, 30):
        picker = Picker("Pick", [Choice("y" * width_of_label, number) for number in range(50)])
        lines, _, _ = compose(a_frame(99, 60, picker), Live())
        counts.append(sum("yyy" in line for line in lines))
    assert counts[0] == 6 and counts[1] > 20


def test_widgets_keep_their_colours_and_nothing_else() -> None:
    frame = replace(a_frame(60, 60), queued=([], []), command_tail="")
    frame.ui.above = {"a": ["\x1b[31mred\x1b[0m \x1b[2Jtext"]}
    lines, _, _ = compose(frame, Live())
    assert any("\x1b[31mred\x1b[0m text" in line for line in lines)
    lines, _, _ = compose(replace(frame, theme=PLAIN), Live())
    assert any("red text" in line for line in lines)
