"""What is in the scrollback already, although it may still change.

A terminal that becomes lower, or narrower and so has to wrap lines, moves its upper rows into the scrollback. Rows of the live
region that go there cannot be changed. Two things keep them from staying as second copies:

- Text of an answer is final there, also if an open block grows higher than the screen. The rest of the block is drawn without it,
  however it is wrapped by then: letters are compared, not lines.
- Other lines, such as those of a running tool, will change. `Leftovers` remembers them, and paints over them if a higher
  terminal brings them back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from fairlead.chat.view.text import clip, clusters, width, without_styles

#: What depends on the width: spaces, the edge of a quotation, and rules, also those of tables.
_LAYOUT = re.compile(r"[\s▎─┼]+")
_PIECE = re.compile(r"(\x1b\[[\d;:]*m)|([\s▎─┼]+)|(.)", re.DOTALL)
#: Marks of Markdown. They are shown while it is not known what they mean, and disappear later.
_MARKS = frozenset("*_`~[]()|#>-=+:!\\<✻")
#: What stands in their place.
_SIGNS = frozenset("│•☑☐☒")


def letters_of(line: str) -> str:
    """Return the letters of a line, without those that depend on the width of the terminal."""
    return _LAYOUT.sub("", without_styles(line))


def common(settled: str, letters: str) -> tuple[int, int] | None:
    """Compare letters that were shown with those that are shown now. Marks of Markdown may have disappeared.

    Returns:
        How many letters of both are the same text: all of at least one of them. None if the texts differ.
    """
    if letters.startswith(settled):
        return len(settled), len(settled)
    if settled.startswith(letters):
        return len(letters), len(letters)
    first, second = 0, 0
    while first < len(settled) and second < len(letters):
        if settled[first] == letters[second]:
            first += 1
            second += 1
        elif settled[first] in _MARKS:
            first += 1
        elif letters[second] in _SIGNS:
            second += 1
        else:
            return None
    return first, second


class Drawn(NamedTuple):
    """A line of an open block."""

    text: str
    #: What to remember if the line is settled; None: it cannot be settled.
    letters: str | None
    #: Whether it belongs to the line before it, and is settled with that.
    is_more: bool = False


class Drawing(Protocol):
    """A block that can be drawn in any width."""

    def draw(self, columns: int, settled: str = "") -> tuple[list[Drawn], str]:
        """Return the lines of the block without the letters that are settled, and the settled letters that follow it."""
        ...


class Lines:
    """A block whose letters have the same order in every width.

    Args:
        draw: Returns the lines for a number of columns.
    """

    def __init__(self, draw: Callable[[int], Sequence[str]]) -> None:
        self._draw = draw

    def draw(self, columns: int, settled: str = "") -> tuple[list[Drawn], str]:
        return rest_of(self._draw(columns), settled)


def draw_all(drawings: Iterable[Drawing], columns: int, settled: str) -> tuple[list[Drawn], str]:
    """Return the lines of blocks that follow each other. See `Drawing`."""
    lines: list[Drawn] = []
    for drawing in drawings:
        more, settled = drawing.draw(columns, settled)
        lines += more
    return lines, settled


def without(lines: Sequence[str], settled: str) -> tuple[list[str], str]:
    """Return the lines without letters at their start, and the letters that follow the last line."""
    if not settled:
        return list(lines), ""
    drawn, settled = rest_of(lines, settled)
    return [line.text for line in drawn], settled


def rest_of(lines: Sequence[str], settled: str) -> tuple[list[Drawn], str]:
    """Return what `without` returns, with the letters that are not settled of each line."""
    for number, line in enumerate(lines):
        letters = letters_of(line)
        counts = common(settled, letters) if settled else None
        if counts is None:
            return [Drawn(line, letters_of(line)) for line in lines[number:]], ""
        settled = settled[counts[0] :]
        if counts[1] < len(letters):
            first = Drawn(without_first(line, counts[1]), letters[counts[1] :])
            return [first, *(Drawn(line, letters_of(line)) for line in lines[number + 1 :])], ""
    return [], settled


def without_first(line: str, count: int) -> str:
    """Return the line without its first letters, but with its styles and its indentation.

    A word of which only the start would be left out stays whole: it was still arriving when it was settled.
    """
    indent, styles, is_start = "", "", True
    #: Where the word begins that is left out so far, and the styles there.
    word: tuple[int, str] | None = None
    for match in _PIECE.finditer(line):
        style, layout, letter = match.groups()
        if letter and count == 0:
            start, styles = word if word and _is_in_word(letter) else (match.start(), styles)
            return indent + styles + line[start:]
        if style:
            styles += style
        elif letter:
            is_start = False
            count -= 1
            word = (word or (match.start(), styles)) if _is_in_word(letter) else None
        elif is_start:
            indent += styles + layout
            styles = ""
        else:
            word = None
    return ""


def _is_in_word(letter: str) -> bool:
    """Whether a letter belongs to the one before it. Wide ones, as of Chinese, do not: lines break between any of them."""
    return (letter.isalnum() or letter == "_") and width(letter) == 1


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

    def note_committed(self, lines: Sequence[str]) -> None:
        """Remember lines that were written above the live region."""
        if self._lines:
            self._lines += [_Line(line, is_copy=False) for line in lines]
            del self._lines[:-_MOST]

    def note_lost(self, region: Sequence[str], rows: int, columns: int) -> None:
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
    return sum(1 for _ in _wrap(text, columns))


def rows_if_halved(lines: Sequence[str], columns: int) -> int:
    """Return how many rows lines take after the terminal has become half as wide, but not narrower than 40 columns."""
    return sum(rows_of(line, max(min(columns, _NARROW), columns // 2)) for line in lines)


def rows_before(line: str, column: int, columns: int) -> int:
    """Return how many rows of a line that the terminal has wrapped are above the one with a cursor at `column`."""
    kept = clip(without_styles(line), column, "")
    return rows_of(kept + " " * (column - width(kept)) + "x", columns) - 1


def _first_rows(line: str, rows: int, columns: int) -> str:
    return "".join(text for text, _ in zip(_wrap(without_styles(line), columns), range(rows), strict=False))


def _wrap(text: str, columns: int) -> list[str]:
    rows, used = [""], 0
    for cluster, cells in clusters(text):
        if used + cells > columns:
            rows.append("")
            used = 0
        rows[-1] += cluster
        used += cells
    return rows
