"""Tables for people: columns that fit into the terminal, whatever the script of their texts."""

from __future__ import annotations

import shutil
import sys
import unicodedata
from collections.abc import Callable, Sequence

#: The width of a table that does not go to a terminal.
_WIDTH_OF_FILES = 160
#: The zero width space and joiner, and the selector of emoji.
_ZERO_WIDTH = "\u200b\u200d\ufe0f"


def width_of(text: str) -> int:
    """Return how many cells of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) or char in _ZERO_WIDTH else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def clip(text: str, cells: int) -> str:
    """Return a text in at most this many cells, with `…` for what is left out."""
    if width_of(text) <= cells:
        return text
    kept = text[:cells]
    while kept and width_of(kept) > cells - 1:
        kept = kept[:-1]
    return f"{kept.rstrip()}…"


def end_of(text: str, cells: int) -> str:
    """Return the end of a text in at most this many cells, with `…` for what is left out: it says most about a path."""
    if width_of(text) <= cells:
        return text
    kept = text[-cells:]
    while kept and width_of(kept) > cells - 1:
        kept = kept[1:]
    return f"…{kept}"


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: str = "",
    flexible: int | None = None,
    shortened: Callable[[str, int], str] = clip,
) -> str:
    """Return a table as lines of text.

    Args:
        heads: The names of the columns.
        rows: The cells, in the order of `heads`.
        right: The names of the columns that are aligned to the right, with spaces between them.
        flexible: The index of the column that is shortened if the table is wider than the terminal.
        shortened: Returns a text of that column in at most so many cells.
    """
    columns = range(len(heads))
    widths = [max(width_of(row[column]) for row in (heads, *rows)) for column in columns]
    if flexible is not None:
        others = sum(widths) - widths[flexible] + 2 * (len(heads) - 1)
        widths[flexible] = min(widths[flexible], max(12, terminal_width() - others - 1))
    right_columns = [name in right.split() for name in heads]
    lines: list[str] = []
    for row in (heads, *rows):
        cells = [(shortened if column == flexible else clip)(row[column], widths[column]) for column in columns]
        padded = [
            f"{' ' * (widths[column] - width_of(cell))}{cell}"
            if right_columns[column]
            else f"{cell}{' ' * (widths[column] - width_of(cell))}"
            for column, cell in enumerate(cells)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def terminal_width() -> int:
    """Return the number of columns for tables on standard output."""
    return shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else _WIDTH_OF_FILES
