"""Tables in a terminal: columns that fit, or one record after another where they do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fairlead.chat.view.settled import Drawn, common, letters_of, without_first
from fairlead.chat.view.text import width, wrap
from fairlead.chat.view.theme import Theme

Alignment: TypeAlias = Literal["left", "right", "center"]
Row: TypeAlias = list[str]

_BETWEEN = " │ "
#: The narrowest column of a table that does not fit. Narrower ones are hard to read, so the rows become records then.
_NARROWEST = 7


@dataclass(frozen=True, slots=True)
class Table:
    """A table. Its cells are styled lines."""

    theme: Theme
    header: Row
    rows: Sequence[Row]
    alignments: Sequence[Alignment]

    def lines(self, columns: int) -> list[str]:
        """Return the table as lines of at most `columns` cells. Long cells wrap."""
        return [line for group in self._groups(columns) for line in group]

    def drawn(self, columns: int, settled: str = "") -> tuple[list[Drawn], str]:
        """Return the lines of the rows that are not settled. Only whole rows can be settled. See `Drawing`."""
        lines: list[Drawn] = []
        before = ""
        for row, group in zip((self.header, *self.rows), self._groups(columns), strict=True):
            letters = letters_of("".join(row))
            if settled:
                counts = common(settled, letters)
                settled = settled[counts[0] :] if counts is not None else ""
                if counts is not None and counts[1] == len(letters):
                    continue
                if counts is not None:
                    row = _without_first(row, counts[1])
                    letters = letters[counts[1] :]
                    group = Table(self.theme, self.header, [row], self.alignments)._groups(columns, self._natural())[1]
            before += letters
            if group:
                lines += [Drawn(group[0], before), *(Drawn(line, "", is_more=True) for line in group[1:])]
                before = ""
        return lines, settled

    def _natural(self) -> list[int]:
        return [
            max(width(row[index]) for row in (self.header, *self.rows) if index < len(row)) for index in range(len(self.header))
        ]

    def _groups(self, columns: int, natural: Sequence[int] | None = None) -> list[list[str]]:
        """Return the lines of the header and of each row. `natural` is the width of each column, if there is room for it."""
        theme = self.theme
        widths = _fitting(natural or self._natural(), columns - len(_BETWEEN) * (len(self.header) - 1))
        if widths is None:
            return [[], *_records(theme, self.header, self.rows, columns)] if self.rows else [_names(theme, self.header, columns)]
        between = theme.paint("border", _BETWEEN)
        head = _row_lines([theme.paint("strong", cell) for cell in self.header], widths, self.alignments, between)
        head.append(theme.paint("border", "─┼─".join("─" * each for each in widths)))
        return [head, *(_row_lines(row, widths, self.alignments, between) for row in self.rows)]


def _without_first(row: Row, count: int) -> Row:
    """Return a row without its first letters."""
    left: Row = []
    for cell in row:
        length = len(letters_of(cell))
        left.append(without_first(cell, count) if count < length else "")
        count = max(0, count - length)
    return left


def _fitting(natural: Sequence[int], room: int) -> list[int] | None:
    """Return the width of each column, the widest ones reduced if needed; None if they do not fit."""
    if sum(natural) <= room:
        return [max(1, each) for each in natural]
    widths = [max(1, each) for each in natural]
    left, open_columns = room, len(natural)
    for index in sorted(range(len(natural)), key=lambda index: natural[index]):
        share = left // open_columns
        if widths[index] > share:
            if share < _NARROWEST:
                return None
            widths[index] = share
        left -= widths[index]
        open_columns -= 1
    return widths


def _row_lines(row: Row, widths: Sequence[int], alignments: Sequence[Alignment], between: str) -> list[str]:
    cells = [wrap(row[index] if index < len(row) else "", each) for index, each in enumerate(widths)]
    lines: list[str] = []
    for number in range(max(map(len, cells))):
        parts = [
            _padded(cell[number] if number < len(cell) else "", widths[index], alignments[index])
            for index, cell in enumerate(cells)
        ]
        lines.append(between.join(parts).rstrip())
    return lines


def _padded(text: str, columns: int, alignment: Alignment) -> str:
    room = max(0, columns - width(text))
    if alignment == "right":
        return " " * room + text
    if alignment == "center":
        return " " * (room // 2) + text + " " * (room - room // 2)
    return text + " " * room


def _records(theme: Theme, header: Row, rows: Sequence[Row], columns: int) -> list[list[str]]:
    """Return each row as a record: one line or more for each cell, after the name of its column."""
    records: list[list[str]] = []
    for number, row in enumerate(rows):
        lines = [theme.paint("border", "─" * min(columns, 20))] if number else []
        for name, cell in zip(header, row, strict=False):
            lines += wrap(f"{theme.paint('strong', name)}: {cell}", columns)
        records.append(lines)
    return records


def _names(theme: Theme, header: Row, columns: int) -> list[str]:
    return [line for name in header for line in wrap(theme.paint("strong", name), columns)]
