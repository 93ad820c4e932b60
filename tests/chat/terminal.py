"""Terminal emulators, for tests of what people see."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, cast

import pyte


class Terminal:
    """A terminal of the given size. `write` and `size` are what a `Screen` needs."""

    def __init__(self, columns: int = 40, rows: int = 10) -> None:
        self._screen: Any = pyte.HistoryScreen(columns, rows, history=10_000, ratio=0.5)
        self._stream = pyte.Stream(self._screen)
        self.columns, self.rows = columns, rows
        self.written: list[str] = []

    def write(self, text: str) -> None:
        self.written.append(text)
        # A terminal driver turns "\n" into "\r\n"; the screen never relies on it.
        self._stream.feed(text)

    def size(self) -> tuple[int, int]:
        return self.columns, self.rows

    def resize(self, columns: int, rows: int) -> None:
        """Change the size as a terminal does that does not wrap lines again."""
        self.columns, self.rows = columns, rows
        self._screen.resize(rows, columns)

    @property
    def visible(self) -> list[str]:
        """The rows on the screen, without spaces at their end and without the empty rows below the last."""
        rows = [line.rstrip() for line in cast("list[str]", self._screen.display)]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    @property
    def scrollback(self) -> list[str]:
        """The rows that have left the screen."""
        return [self._text(row) for row in self._screen.history.top]

    @property
    def everything(self) -> list[str]:
        return self.scrollback + self.visible

    def _text(self, row: Any) -> str:
        text = ""
        for column in range(self.columns):
            text += row[column].data
        return text.rstrip()

    def cell(self, row: int, column: int) -> Any:
        """One cell of the screen: `data`, `fg`, `bg`, `bold`, `italics`, `underscore`, `reverse`."""
        return self._screen.buffer[row][column]

    @property
    def cursor(self) -> tuple[int, int]:
        return self._screen.cursor.y, self._screen.cursor.x

    @property
    def cursor_hidden(self) -> bool:
        return self._screen.cursor.hidden

    @property
    def title(self) -> str:
        return self._screen.title


@dataclass
class _Row:
    text: str = ""
    #: Whether the next row continues it.
    is_wrapped: bool = False


class WrappingTerminal:
    """A terminal that wraps its lines again when its width changes, as tmux does. Each character takes one cell.

    It knows only what a `Screen` writes.
    """

    _PIECE = re.compile(r"\x1b\[(\??[\d;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        #: The scrollback, then the screen.
        self._rows = [_Row() for _ in range(rows)]
        self._row, self._column = 0, 0
        self._wraps = True

    def size(self) -> tuple[int, int]:
        return self.columns, self.rows

    @property
    def cursor(self) -> tuple[int, int]:
        return self._row - self._top, self._column

    @property
    def text(self) -> str:
        """The scrollback and the screen. A line that the terminal has wrapped is one line."""
        return "".join(row.text if row.is_wrapped else row.text.rstrip() + "\n" for row in self._rows).rstrip()

    @property
    def _top(self) -> int:
        return len(self._rows) - self.rows

    def write(self, text: str) -> None:
        for match in self._PIECE.finditer(text):
            number, command, control, letters = match.groups()
            if letters:
                self._put(letters)
            elif control == "\r":
                self._column = 0
            elif control:
                self._feed_line()
            elif command == "A":
                self._row = max(self._top, self._row - int(number))
            elif command == "C":
                self._column = min(self.columns - 1, self._column + int(number))
            elif command == "K":
                self._rows[self._row] = _Row()
            elif command == "J":
                row = self._rows[self._row]
                row.text = row.text[: self._column].ljust(len(row.text))
                self._rows[self._row + 1 :] = [_Row() for _ in self._rows[self._row + 1 :]]
            elif number == "?7":
                self._wraps = command == "h"

    def _put(self, letters: str) -> None:
        while letters:
            if self._column >= self.columns:
                self._rows[self._row].is_wrapped = True
                self._feed_line()
                self._column = 0
            room = self.columns - self._column
            part, letters = letters[:room], letters[room:]
            if not self._wraps and letters:  # the last column gets one after the other
                part, letters = part[:-1] + letters[-1], ""
            row, end = self._rows[self._row], self._column + len(part)
            row.text = row.text[: self._column].ljust(self._column) + part + row.text[end:]
            self._column = end if self._wraps else min(end, self.columns - 1)

    def _feed_line(self) -> None:
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append(_Row())

    def resize(self, columns: int, rows: int) -> None:
        """Change the size. A lower terminal drops rows below the cursor first, a higher one brings rows back first."""
        if rows < self.rows:
            dropped = min(self.rows - rows, len(self._rows) - 1 - self._row)
            del self._rows[len(self._rows) - dropped :]
        else:
            self._rows += [_Row() for _ in range(rows - len(self._rows))]
        self.rows = rows
        if columns != self.columns:
            self.columns = columns
            self._wrap_again()
        if self._row < self._top:
            self._row, self._column = self._top, 0

    def _wrap_again(self) -> None:
        rows: list[_Row] = []
        line, cursor = "", (self._row, self._column)
        #: Where the cursor is in the line; None: in another one, -1: behind its end.
        place: int | None = None
        for number, row in enumerate(self._rows):
            if number == self._row:
                place = len(line) + self._column if self._column < len(row.text) else -1
            line += row.text
            if row.is_wrapped and number + 1 < len(self._rows):
                continue
            parts = [line[start : start + self.columns] for start in range(0, len(line), self.columns)] or [""]
            if place is not None:
                at = divmod(place, self.columns) if place >= 0 else (len(parts) - 1, len(parts[-1]))
                cursor = len(rows) + at[0], at[1]
            rows += [*(_Row(part, is_wrapped=True) for part in parts[:-1]), _Row(parts[-1])]
            line, place = "", None
        self._rows = rows + [_Row() for _ in range(self.rows - len(rows))]
        self._row, self._column = cursor
