"""Live lines that a resize has pushed out of the screen.

A terminal that becomes lower, or narrower and so has to wrap lines, moves its upper rows into the scrollback. Rows of the live
region that go there cannot be changed. Two things keep them from staying as second copies:

- Text of an answer is final there. `chat.view.settled` leaves it out of what is drawn later.
- Other lines, such as those of a running tool, will change. `Leftovers` remembers them, and paints over them if a higher
  terminal brings them back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fairlead.chat.view.text import clip, clusters, width, without_styles

#: How many lines are remembered: more than a terminal brings back.
_MOST = 400
#: Few terminals become narrower than this.
_NARROW = 40


@dataclass(slots=True)
class _Line:
    text: str
    #: Whether it is an old copy; else it was written for good, after the copies before it.
    is_copy: bool
    #: Whether the terminal takes the next line for its continuation, because it was wrapped there when it left the screen.
    is_wrapped: bool = False


class Leftovers:
    """The lines directly above the live region, from the first old copy on.

    Args:
        reflows: Whether the terminal wraps existing lines again when its width changes.
    """

    def __init__(self, *, reflows: bool) -> None:
        self._rows_of: Callable[[str, int], int] = rows_of if reflows else lambda line, columns: 1
        self._lines: list[_Line] = []

    def clear(self) -> None:
        """Forget all copies."""
        self._lines.clear()

    def committed(self, lines: Sequence[str]) -> None:
        """Remember lines that were written above the live region."""
        if self._lines:
            self._lines += [_Line(line, is_copy=False) for line in lines]
            del self._lines[:-_MOST]

    def lost(self, region: Sequence[str], rows: int, columns: int) -> None:
        """Remember that the first rows of the live region have left the screen."""
        for line in region:
            height = self._rows_of(line, columns)
            if height > rows:
                if rows > 0:
                    self._lines.append(_Line(_first_rows(line, rows, columns), is_copy=True, is_wrapped=True))
                return
            self._lines.append(_Line(without_styles(line), is_copy=True))
            rows -= height

    def back(self, rows: int, columns: int, region: Sequence[str]) -> tuple[int, list[str]]:
        """Forget the copies that are on the screen again, and the lines after them.

        Args:
            rows: How many rows of the screen are above the live region.
            columns: The columns of the terminal.
            region: The lines of the live region.

        Returns:
            How many rows above the region have to be painted over, and the lines that have to be committed there again.
        """
        used, first, first_rows = 0, len(self._lines), 0
        following = without_styles(region[0]) if region else ""
        for index in range(len(self._lines) - 1, -1, -1):
            line = self._lines[index]
            if line.is_wrapped:
                height = self._rows_of(line.text + following, columns) - self._rows_of(following, columns)
            else:
                height = self._rows_of(line.text, columns)
            if used + height > rows:
                if line.is_copy and used < rows:
                    line.text = _first_rows(line.text, used + height - rows, columns)
                    line.is_wrapped = True
                    first, first_rows = index + 1, rows
                break
            used += height
            following = line.text
            if line.is_copy:
                first, first_rows = index, used
        again = [line.text for line in self._lines[first:] if not line.is_copy]
        del self._lines[first:]
        return first_rows, again


def rows_of(line: str, columns: int) -> int:
    """Return how many rows a line takes after the terminal has wrapped it."""
    text = without_styles(line)
    if text.isascii():
        return max(1, -(-len(text) // max(1, columns)))
    return sum(1 for _ in _wrapped(text, columns))


def rows_if_halved(lines: Sequence[str], columns: int) -> int:
    """Return how many rows lines take after the terminal has become half as wide, but not narrower than 40 columns."""
    return sum(rows_of(line, max(min(columns, _NARROW), columns // 2)) for line in lines)


def rows_before(line: str, column: int, columns: int) -> int:
    """Return how many rows of a line that the terminal has wrapped are above the one with a cursor at `column`."""
    kept = clip(without_styles(line), column, "")
    return rows_of(kept + " " * (column - width(kept)) + "x", columns) - 1


def _first_rows(line: str, rows: int, columns: int) -> str:
    return "".join(text for text, _ in zip(_wrapped(without_styles(line), columns), range(rows), strict=False))


def _wrapped(text: str, columns: int) -> list[str]:
    rows, used = [""], 0
    for cluster, cells in clusters(text):
        if used + cells > columns:
            rows.append("")
            used = 0
        rows[-1] += cluster
        used += cells
    return rows
