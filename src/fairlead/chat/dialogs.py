"""Questions that take the place of the editor: pickers, confirmations, one line or several to type."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fairlead.chat.input.editor import Editor
from fairlead.chat.view.text import clip, one_line, plain, width, wrap
from fairlead.chat.view.theme import Theme
from fairlead.sessions.completion import rank

T = TypeVar("T")

#: How many columns of a label stay readable beside a detail.
_LABEL = 40
#: A list has labels alone in a terminal with this many columns or fewer.
_NARROW = 24
Cursor = tuple[int, int] | None
Drawn = tuple[list[str], Cursor]


class Dialog(ABC, Generic[T]):
    """A question to the user. `answer` is set when it is answered; None means that the user dismissed it."""

    #: Whether it gets all rows that the terminal has.
    fills = False

    def __init__(self, title: str) -> None:
        self.title = title
        self.answer: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()
        #: Called after each change of what is shown.
        self.changed: Callable[[], None] = lambda: None

    def finish(self, value: T | None) -> None:
        """Answer the question. Later answers have no effect."""
        if not self.answer.done():
            self.answer.set_result(value)

    def key(self, name: str, data: str) -> None:
        """Handle a key: its name in prompt_toolkit, and the text that it stands for."""
        if name in ("escape", "c-c"):
            self.finish(None)

    def appear(self) -> None:
        """Called once when the question is shown: others may have to be answered first."""

    @abstractmethod
    def draw(self, theme: Theme, columns: int, rows: int) -> Drawn:
        """Return the lines to show, at most `rows`, and the cursor."""


class Line:
    """A line of text that the user types in a dialog."""

    def __init__(self, text: str = "", *, secret: bool = False) -> None:
        self.text = text
        self._at = len(text)
        self._secret = secret

    def key(self, name: str, data: str) -> bool:
        """Edit the line. Returns whether the key was one for it."""
        before, after = self.text[: self._at], self.text[self._at :]
        match name:
            case "left" | "c-b":
                self._at = max(0, self._at - 1)
            case "right" | "c-f":
                self._at = min(len(self.text), self._at + 1)
            case "home" | "c-a":
                self._at = 0
            case "end" | "c-e":
                self._at = len(self.text)
            case "c-h" | "backspace":
                before = before[:-1]
            case "delete" | "c-d":
                after = after[1:]
            case "c-u":
                before = ""
            case "c-k":
                after = ""
            case "c-w":
                before = before.rstrip()[: before.rstrip().rfind(" ") + 1]
            case "<bracketed-paste>":
                before += " ".join(plain(data).split("\n")).strip()
            case _ if len(name) == 1 and name.isprintable():
                before += data or name
            case _:
                return False
        if before + after != self.text:
            self.text, self._at = before + after, len(before)
        return True

    def draw(self, columns: int) -> tuple[str, int]:
        """Return the part of the line that fits, and the column of the cursor in it."""
        shown = "•" * len(self.text) if self._secret else self.text
        start = 0
        while width(shown[start : self._at]) >= columns:
            start += 1
        return clip(shown[start:], columns), width(shown[start : self._at])


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the things to pick."""

    label: str
    value: Any
    detail: str = ""
    #: What typed characters are compared with, beside the label.
    keywords: str = ""


def _search_text(choice: Choice) -> str:
    return f"{choice.label} {choice.keywords}"


class Picker(Dialog[Any]):
    """A list to pick from. With `filtered`, typed characters narrow it down; otherwise digits pick.

    `others` names another list, and the Tab key switches to it: `other` is called and returns it.
    """

    def __init__(
        self,
        title: str,
        choices: Sequence[Choice],
        *,
        filtered: bool = True,
        selected: int = 0,
        empty: str = "Nothing matches.",
        hint: str = "",
        on_tab: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(title)
        self._choices = list(choices)
        self._filter = Line() if filtered else None
        self._selected = selected
        self._empty = empty
        self._hint = hint
        self._on_tab = on_tab
        self._page = 5

    def replace(self, title: str, choices: Sequence[Choice], empty: str | None = None, hint: str | None = None) -> None:
        """Show other choices."""
        self.title, self._choices, self._selected = title, list(choices), 0
        self._empty = self._empty if empty is None else empty
        self._hint = self._hint if hint is None else hint
        self.changed()

    def matching(self) -> list[Choice]:
        """Return the choices that fit what was typed."""
        if self._filter is None or not self._filter.text.strip():
            return self._choices
        words = self._filter.text.split()
        found = self._choices
        for word in words:
            close = [choice for choice in found if word.lower() in _search_text(choice).lower()]
            if not close:
                by_text: dict[str, list[Choice]] = {}
                for choice in found:
                    by_text.setdefault(_search_text(choice), []).append(choice)
                close = [choice for text in rank(word, by_text, len(by_text)) for choice in by_text[text]]
            found = close
        return found

    def key(self, name: str, data: str) -> None:
        matching = self.matching()
        last = len(matching) - 1
        match name:
            case "up" | "c-p":
                self._selected = self._selected - 1 if self._selected > 0 else last
            case "down" | "c-n":
                self._selected = self._selected + 1 if self._selected < last else 0
            case "pageup":
                self._selected = max(0, self._selected - self._page)
            case "pagedown":
                self._selected = max(0, min(last, self._selected + self._page))
            case "c-m" | "c-j":
                if matching:
                    self.finish(matching[min(self._selected, last)].value)
            case "c-i" if self._on_tab is not None:
                self._on_tab()
            case _ if self._filter is not None and self._filter.key(name, data):
                self._selected = 0
            case _ if self._filter is None and name.isdigit() and 1 <= int(name) <= min(9, len(matching)):
                self.finish(matching[int(name) - 1].value)
            case _:
                super().key(name, data)

    def draw(self, theme: Theme, columns: int, rows: int) -> Drawn:
        lines = [theme.paint("accent", line) for line in wrap(plain(self.title), columns)][: max(1, rows // 2)]
        cursor: Cursor = None
        if self._filter is not None:
            shown, at = self._filter.draw(columns - 3)
            cursor = (len(lines), 2 + at)
            lines.append(f"{theme.paint('dim', '/')} {shown}")
        matching = self.matching()
        hint = self._hint or "↑↓ move · Enter pick · Esc close"
        self._page = max(1, rows - len(lines) - 1)
        if not matching:
            lines.append(theme.paint("dim", clip(f"  {self._empty}", columns)))
        self._selected = max(0, min(self._selected, len(matching) - 1))
        first = max(0, min(self._selected - self._page // 2, len(matching) - self._page))
        page = matching[first : first + self._page]
        aligned = _label_width(page, columns - len(self._lead(0)))
        for number, choice in enumerate(page, first):
            lines.append(self._row(theme, choice, number, columns, aligned))
        if len(matching) > self._page:
            hint = f"{self._selected + 1} of {len(matching)} · {hint}"
        return [*lines[: rows - 1], theme.paint("dim", clip(hint, columns))], cursor

    def _lead(self, number: int) -> str:
        mark = "▸ " if number == self._selected else "  "
        return f"{mark}{number + 1}. " if self._filter is None and number < 9 else mark

    def _row(self, theme: Theme, choice: Choice, number: int, columns: int, aligned: int) -> str:
        lead = self._lead(number)
        label = lead + clip(one_line(choice.label), aligned if choice.detail else columns - len(lead))
        gap = max(2, len(lead) + aligned + 2 - width(label))
        room = columns - width(label) - gap
        detail = theme.paint("dim", " " * gap + clip(one_line(choice.detail), room)) if choice.detail and room > 4 else ""
        return (theme.paint("selected", label) if number == self._selected else label) + detail


def _label_width(page: Sequence[Choice], columns: int) -> int:
    """Return how wide a label beside a detail is at most. A wide terminal has room for whole details."""
    labels = max((width(one_line(choice.label)) for choice in page), default=0)
    details = max((width(one_line(choice.detail)) for choice in page), default=0)
    room = max(columns - details - 2, min(_LABEL, columns * 2 // 3)) if columns > _NARROW else columns
    return min(labels, room)


class Confirm(Dialog[bool]):
    """A question for yes or no."""

    def __init__(self, title: str, message: str = "") -> None:
        super().__init__(title)
        self._message = message

    def key(self, name: str, data: str) -> None:
        if name in ("y", "Y", "c-m"):
            self.finish(True)
        elif name in ("n", "N"):
            self.finish(False)
        else:
            super().key(name, data)

    def draw(self, theme: Theme, columns: int, rows: int) -> Drawn:
        lines = [theme.paint("accent", line) for line in wrap(plain(self.title), columns)]
        lines += wrap(plain(self._message), columns) if self._message else []
        if len(lines) > rows - 1:
            shown = max(0, rows - 2)
            lines = [*lines[:shown], theme.paint("warning", clip(f"… {len(lines) - shown} more lines do not fit", columns))]
        return [*lines[: rows - 1], theme.paint("dim", clip("y yes · n no · Esc close", columns))], None


class Ask(Dialog[str]):
    """A line to type. A `secret` one is not shown."""

    def __init__(self, title: str, placeholder: str = "", *, secret: bool = False) -> None:
        super().__init__(title)
        self._placeholder = placeholder
        self._line = Line(secret=secret)

    def key(self, name: str, data: str) -> None:
        if name == "c-m":
            self.finish(self._line.text)
        elif not self._line.key(name, data):
            super().key(name, data)

    def draw(self, theme: Theme, columns: int, rows: int) -> Drawn:
        lines = [theme.paint("accent", line) for line in wrap(plain(self.title), columns)][: max(1, rows - 2)]
        shown, at = self._line.draw(columns - 3)
        if not self._line.text and self._placeholder:
            shown = theme.paint("dim", clip(one_line(self._placeholder), columns - 3))
        cursor = (len(lines), 2 + at)
        lines.append(f"{theme.paint('accent', '>')} {shown}")
        return [*lines, theme.paint("dim", clip("Enter send · Esc close", columns))][:rows], cursor


class EditorDialog(Dialog[str]):
    """A text of several lines to write. prompt_toolkit's keys edit it, so the chat gives it the focus."""

    def __init__(self, title: str, prefill: str = "") -> None:
        super().__init__(title)
        self.editor = Editor(lambda: self.changed())
        self.editor.set_text(prefill)

    def send(self) -> None:
        self.finish(self.editor.expand())

    def draw(self, theme: Theme, columns: int, rows: int) -> Drawn:
        lines = [theme.paint("accent", line) for line in wrap(plain(self.title), columns)][: max(1, rows // 3)]
        shown, (row, column) = self.editor.draw(theme, columns, max(1, rows - len(lines) - 1))
        hint = theme.paint("dim", clip("Enter send · Ctrl+J new line · Ctrl+G editor · Esc close", columns))
        return [*lines, *shown, hint], (len(lines) + row, column)
