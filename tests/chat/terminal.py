"""A terminal emulator, for tests of what people see."""

from __future__ import annotations

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
