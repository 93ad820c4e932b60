"""Text that is in the scrollback already, although the block that it belongs to may still change.

A resize moves rows out of the screen, and an open block may grow higher than the screen. What has left the screen is final. The
rest of the block is drawn without it, however it is wrapped by then: letters are compared, not lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from fairlead.chat.view.text import width, without_styles

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

    def drawn(self, columns: int, settled: str = "") -> tuple[list[Drawn], str]:
        """Return the lines of the block without the letters that are settled, and the settled letters that follow it."""
        ...


class Lines:
    """A block whose letters have the same order in every width.

    Args:
        draw: Returns the lines for a number of columns.
    """

    def __init__(self, draw: Callable[[int], Sequence[str]]) -> None:
        self._draw = draw

    def drawn(self, columns: int, settled: str = "") -> tuple[list[Drawn], str]:
        return rest_of(self._draw(columns), settled)


def draw_all(drawings: Iterable[Drawing], columns: int, settled: str) -> tuple[list[Drawn], str]:
    """Return the lines of blocks that follow each other. See `Drawing`."""
    lines: list[Drawn] = []
    for drawing in drawings:
        more, settled = drawing.drawn(columns, settled)
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
