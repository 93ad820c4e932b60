"""Finds the text that an edit wants to replace, exactly or nearly, in the file as it is."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

from fairlead.tools.background import Stop, split_lines

#: Characters that models write in place of their look-alikes. One for one, so that positions stay the same.
_LOOK_ALIKES = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u00a0\u202f\u205f\u3000", " "),
        **{chr(code): " " for code in range(0x2000, 0x200B)},
    }
)


#: Of a text that is found often, only the first places are told.
_PLACES = 10


@dataclass(frozen=True, slots=True)
class TextMatch:
    """How often a text was found, and where in the original: the first place, and where it and some further ones begin."""

    count: int
    start: int = 0
    end: int = 0
    starts: tuple[int, ...] = ()

    def moved(self, place: Callable[[int], int]) -> TextMatch:
        """Return the same in another text, in which `place` says where each position is."""
        return TextMatch(self.count, place(self.start), place(self.end), tuple(map(place, self.starts)))


class Haystack:
    """A text to be searched in: with line ends of any kind first, then forgiving about trailing blanks and look-alikes.

    Positions are always those of the original text, so that a replacement touches only what was found.
    """

    def __init__(self, original: str, stop: Stop) -> None:
        self._stop = stop
        self._text = original.replace("\r\n", "\n")
        self._carriage_returns: list[int] = []
        if len(self._text) != len(original):
            self._carriage_returns = _ends_of_crlf_lines(original, stop)
        self._forgiving: _Forgiving | None = None

    def find(self, wanted: str) -> TextMatch:
        wanted = wanted.replace("\r\n", "\n")
        found = _count(self._text, wanted, self._stop)
        if not found.count:
            if self._forgiving is None:
                self._forgiving = _Forgiving(self._text, self._stop)
            found = self._forgiving.find(wanted)
        if not found.count or not self._carriage_returns:
            return found
        return found.moved(self._in_original)

    def _in_original(self, position: int) -> int:
        return position + bisect_left(self._carriage_returns, position)


class _Forgiving:
    """The text without trailing blanks and with plain characters; its lines start where the original's do, column by column."""

    def __init__(self, text: str, stop: Stop) -> None:
        self._stop = stop
        lines = split_lines(text, stop)
        plain = [_plain(line) for line in stop.each(lines)]
        self._text = "\n".join(plain)
        self._starts = [0, *accumulate(len(line) + 1 for line in stop.each(plain))]
        self._original_starts = [0, *accumulate(len(line) + 1 for line in stop.each(lines))]

    def find(self, wanted: str) -> TextMatch:
        wanted = "\n".join(_plain(line) for line in wanted.split("\n"))
        if not wanted.strip():
            return TextMatch(0)
        found = _count(self._text, wanted, self._stop)
        return found.moved(self._in_original) if found.count else found

    def _in_original(self, position: int) -> int:
        line = bisect_left(self._starts, position + 1) - 1
        return self._original_starts[line] + position - self._starts[line]


def _plain(line: str) -> str:
    return line.translate(_LOOK_ALIKES).rstrip()


def _count(text: str, wanted: str, stop: Stop) -> TextMatch:
    """Occurrences may overlap: `aa` is twice in `aaa`, and which one is meant is as open as anywhere."""
    start = text.find(wanted)
    if start < 0:
        return TextMatch(0)
    starts = [start]
    count = 1
    at = start
    while (at := text.find(wanted, at + 1)) >= 0:
        stop.check()
        count += 1
        if count <= _PLACES:
            starts.append(at)
    return TextMatch(count, start, start + len(wanted), tuple(starts))


def _ends_of_crlf_lines(original: str, stop: Stop) -> list[int]:
    """Where, once every CRLF has become LF, those LFs are."""
    positions: list[int] = []
    at = original.find("\r\n")
    while at >= 0:
        stop.check()
        positions.append(at - len(positions))
        at = original.find("\r\n", at + 2)
    return positions
