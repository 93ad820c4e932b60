"""Puts one frame together: the open part of the conversation, the editor or a dialog, and the footer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fairlead.chat.dialogs import Cursor, Dialog, Picker
from fairlead.chat.input.completion import Menu
from fairlead.chat.input.editor import Editor
from fairlead.chat.view.footer import SPINNER, Facts, footer_lines, queue_lines
from fairlead.chat.view.leftovers import rows_if_halved
from fairlead.chat.view.text import clip, one_line, plain, width
from fairlead.chat.view.theme import Theme

#: A terminal with fewer rows has no empty lines around the editor.
_LOW = 10
#: A dialog gets as many rows as this if the terminal has them.
_LOWEST_DIALOG = 8
#: The rows of the spinner, of the call that the dialog is about, and of the empty lines between them, in a narrow terminal.
_BESIDE_DIALOG = 7
#: How many rows of a list may wrap: fewer than a chat has above it when it begins.
_MOST_WRAPPED = 6
_EMPTY_HINT = "Ask for a change, or /help"


class Live(Protocol):
    """The open part of the conversation."""

    def live(self, columns: int, rows: int, spare: int, *, only_text: bool) -> list[str]: ...

    def text_lines(self) -> int:
        """Return how many of the last live lines, from the first, become final if they leave the screen."""
        ...


class Additions(Protocol):
    """What extensions show."""

    statuses: dict[str, str]
    above: dict[str, list[str]]
    below: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Frame:
    """Everything that a frame shows. `columns` is less than the terminal has."""

    theme: Theme
    columns: int
    rows: int
    editor: Editor
    dialog: Dialog[Any] | None
    menu: Menu | None
    facts: Facts
    ui: Additions
    queued: tuple[list[str], list[str]]
    #: What the spinner says, and how many seconds it has been turning.
    activity: tuple[str, float] | None
    hint: str
    #: The end of what a shell command of the user has printed so far.
    command_tail: str = ""


def compose(frame: Frame, transcript: Live) -> tuple[list[str], Cursor, int]:
    """Return the lines of the live region, fewer than the terminal has, the cursor, and where it waits if it is hidden.

    What can change takes no more rows than the terminal has, even if it becomes half as wide and wraps them: rows that it would
    move into the scrollback would stay there.
    """
    theme, columns, rows = frame.theme, frame.columns, frame.rows
    gap = [] if rows < _LOW else [""]
    # A low terminal has no other lines that can change while it shows a question. They would leave copies if it became narrow.
    is_alone = frame.dialog is not None and rows < _LOW
    foot = [] if is_alone else footer_lines(frame.facts, frame.ui.statuses, theme, columns)[: 1 if rows < 2 * _LOW else None]
    if frame.hint:
        foot = [theme.paint("warning", clip(frame.hint, columns)), *foot[1:]]
    room = rows - 1 - len(foot)
    under: list[str] = []
    if frame.dialog is not None:
        most = max(1, min(room - 2 * len(gap), max(_LOWEST_DIALOG, rows * 2 // 3)))
        middle, cursor = frame.dialog.draw(theme, columns, most)
        while most > _LOWEST_DIALOG and (excess := _excess(frame.dialog, middle, foot, columns, rows)) > 0:
            most = max(_LOWEST_DIALOG, most - (excess + 1) // 2)
            middle, cursor = frame.dialog.draw(theme, columns, most)
        under = [*gap]
    else:
        middle, cursor = frame.editor.draw(theme, columns, max(1, min(12, rows // 3)), _EMPTY_HINT)
        free = max(0, room - len(middle) - len(gap))
        under = [*(_menu_lines(frame) or _widgets(frame.ui.below, columns, rows))[:free], *gap]
    # The most important lines of these are the last.
    free = room - len(middle) - len(under) - 2 * len(gap)
    above = _above(frame)[-free:] if free > 0 and not is_alone else []
    top = [*gap, *above, *(gap if above else ())]
    rest = room - len(top) - len(middle) - len(under)
    spare = rows - rows_if_halved([*top, *middle, *under, *foot], columns)
    live = transcript.live(columns, rest, spare, only_text=is_alone)
    if cursor is not None:
        cursor = (len(live) + len(top) + cursor[0], cursor[1])
    parked = transcript.text_lines() if live else 0
    return [*live, *top, *middle, *under, *foot], cursor, parked


def _excess(dialog: Dialog[Any], lines: Sequence[str], foot: Sequence[str], columns: int, rows: int) -> int:
    """Return how many rows too many a dialog would take in a terminal that has become half as wide."""
    halved = rows_if_halved(lines, columns)
    excess = halved + rows_if_halved(foot, columns) + _BESIDE_DIALOG - rows
    # The terminal may have free rows below, as after its start. Then only as many as are above can go into the scrollback.
    return max(excess, halved - len(lines) - _MOST_WRAPPED) if isinstance(dialog, Picker) else excess


def _above(frame: Frame) -> list[str]:
    theme, columns, rows = frame.theme, frame.columns, frame.rows
    tail = plain(frame.command_tail).rstrip("\n").split("\n")[-max(1, rows // 4) :] if frame.command_tail else []
    lines = [theme.paint("dim", clip(f"  {line}", columns)) for line in tail] + _widgets(frame.ui.above, columns, rows)
    if frame.activity is not None:
        text, seconds = frame.activity
        picture = SPINNER[int(seconds * 10) % len(SPINNER)]
        said = clip(f" {one_line(text)}", columns - 1)
        room = columns - width(said) - 1
        lines.append(theme.paint("accent", picture) + said + theme.paint("dim", clip(" · Esc stops", room) if room > 12 else ""))
    return lines + queue_lines(*frame.queued, theme, columns, 1 if rows < 2 * _LOW else 3)


def _widgets(widgets: Mapping[str, list[str]], columns: int, rows: int) -> list[str]:
    lines = [clip(line, columns) for key in sorted(widgets) for line in plain("\n".join(widgets[key])).split("\n")]
    return lines[: max(1, rows // 4)]


def _menu_lines(frame: Frame) -> list[str]:
    menu, theme, columns = frame.menu, frame.theme, frame.columns
    if menu is None:
        return []
    page = max(1, min(8, frame.rows // 3))
    first = max(0, min(menu.selected - page // 2, len(menu.items) - page))
    names = [clip(one_line(item.label or item.text), columns - 4) for item in menu.items[first : first + page]]
    aligned = min(max(map(width, names), default=0), columns // 2)
    lines: list[str] = []
    for number, (name, item) in enumerate(zip(names, menu.items[first : first + page], strict=True), first):
        chosen = number == menu.selected
        shown = f"{'▸ ' if chosen else '  '}{name}"
        room = columns - max(width(shown), aligned + 2) - 2
        gap = " " * max(2, aligned + 4 - width(shown))
        detail = theme.paint("dim", gap + clip(one_line(item.detail), room)) if item.detail and room > 6 else ""
        lines.append((theme.paint("selected", shown) if chosen else shown) + detail)
    if len(menu.items) > page:
        lines.append(theme.paint("dim", f"  {menu.selected + 1} of {len(menu.items)}"))
    return lines
