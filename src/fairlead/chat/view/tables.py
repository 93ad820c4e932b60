"""Tables in a terminal: columns that fit, or one record after another where they do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from fairlead.chat.view.text import width, wrap
from fairlead.chat.view.theme import Theme

Alignment: TypeAlias = Literal["left", "right", "center"]
Row: TypeAlias = list[str]

_BETWEEN = " │ "
#: The narrowest column of a table that does not fit. Narrower ones are hard to read, so the rows become records then.
_NARROWEST = 7


def table_lines(theme: Theme, header: Row, rows: Sequence[Row], alignments: Sequence[Alignment], columns: int) -> list[str]:
    """Return a table as lines of at most `columns` cells. Cells are styled lines; long ones wrap."""
    count = len(header)
    if not count:
        return []
    natural = [max(width(row[index]) for row in (header, *rows) if index < len(row)) for index in range(count)]
    widths = _fitting(natural, columns - len(_BETWEEN) * (count - 1))
    if widths is None:
        return _records(theme, header, rows, columns)
    between = theme.paint("border", _BETWEEN)
    lines = _row_lines([theme.paint("strong", cell) for cell in header], widths, alignments, between)
    lines.append(theme.paint("border", "─┼─".join("─" * each for each in widths)))
    for row in rows:
        lines += _row_lines(row, widths, alignments, between)
    return lines


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


def _records(theme: Theme, header: Row, rows: Sequence[Row], columns: int) -> list[str]:
    """Return each row as a record: one line or more for each cell, after the name of its column."""
    lines: list[str] = []
    for number, row in enumerate(rows):
        if number:
            lines.append(theme.paint("border", "─" * min(columns, 20)))
        for name, cell in zip(header, row, strict=False):
            first, *rest = wrap(f"{theme.paint('strong', name)}: {cell}", columns)
            lines += (first, *rest)
    return lines or [line for name in header for line in wrap(theme.paint("strong", name), columns)]
