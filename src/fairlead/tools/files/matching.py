"""Finds the text that an edit wants to replace: exactly, nearly, or else the most similar part of the file.

`similar_text` helps a model to correct an edit whose text is not in the file. It compares lines by the groups of three characters
that they share. Each group that a line of the file has in common with a line of the text is a vote for the place at which the
text would then begin. Of the places with the most votes, the one that has most of the text is shown. The work grows with the
length of the file, and a file that is too long is not searched.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from msgspec import Struct

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


class TextMatch(Struct, frozen=True):
    """How often a text was found, and where in the original: the first place, and where it and some further ones begin."""

    count: int
    start: int = 0
    end: int = 0
    starts: tuple[int, ...] = ()

    def move(self, place: Callable[[int], int]) -> TextMatch:
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
        return found.move(self._in_original)

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
        return found.move(self._in_original) if found.count else found

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


#: A larger file is not searched. Lines and characters of the text that are looked at, and characters of a line of the file.
_MAX_FILE = 1024 * 1024
_MAX_LINES, _MAX_TEXT, _MAX_LINE = 60, 4_000, 1_000
#: Places that are looked at closely, and how much of the text the best of them has to have.
_CANDIDATES = 8
_ENOUGH = 0.5
#: Lines that the file may have in the middle of the text.
_BETWEEN = 10
#: How much is shown: lines, and characters of a line.
_LINES_SHOWN, _LINE_SHOWN = 30, 300
#: A text of at most this many characters is shown as a whole if nothing in it is similar.
_SHORT_TEXT = 1_500
_GROUP = 3
_NUMBERED = re.compile(r"^[ \t]*\d+(?:[:|\t]|\u2192) ?", re.MULTILINE)


class _Found(Struct, frozen=True):
    """Lines of a file, of which the first has the number `first`."""

    first: int
    lines: list[str]


def similar_text(text: str, wanted: str, stop: Stop) -> str:
    """The lines of `text` that are most like `wanted`, with their numbers and how they differ.

    If none are like it, all lines of a short text: the model has probably not read it. Otherwise empty.
    """
    if len(text) > _MAX_FILE or not wanted.strip():
        return ""
    text, wanted = text.replace("\r\n", "\n"), wanted.replace("\r\n", "\n")
    found, difference = _find_after_slip(text, wanted)
    if found is None:
        found = _most_similar(split_lines(text, stop), _lines(wanted), stop)
        difference = "" if found is None else _difference(found, _lines(wanted))
    if found is None:
        lines = text.rstrip("\n").split("\n")
        if not text.strip() or len(text) > _SHORT_TEXT or len(lines) > _LINES_SHOWN:
            return ""
        numbered = "\n".join(f"{number}: {_cut(line)}" for number, line in enumerate(lines, 1))
        return f"The file has these lines, with line numbers that are not part of it:\n\n{numbered}"
    shown = [f"{number}: {_cut(line)}" for number, line in enumerate(found.lines[:_LINES_SHOWN], found.first)]
    if len(found.lines) > _LINES_SHOWN:
        shown.append(f"[{len(found.lines) - _LINES_SHOWN} more lines]")
    text = "\n".join(shown)
    return f"The most similar text, with line numbers that are not part of it:\n\n{text}\n\n{difference}"


def line_numbers(text: str, positions: Sequence[int]) -> list[int]:
    """Return the numbers of the lines in which these positions are. The positions are in order."""
    numbers: list[int] = []
    number, before = 1, 0
    for position in positions:
        number += text.count("\n", before, position)
        before = position
        if not numbers or numbers[-1] != number:
            numbers.append(number)
    return numbers


def _find_after_slip(text: str, wanted: str) -> tuple[_Found | None, str]:
    """Return the wanted text if it is there once a usual slip is undone, and what the slip is."""
    for undo, slip in _SLIPS:
        meant = undo(wanted)
        at = text.find(meant) if meant != wanted and meant.strip() else -1
        if at >= 0:
            [first] = line_numbers(text, [at])
            start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at + len(meant.rstrip("\n")))
            return _Found(first, text[start : end if end >= 0 else None].split("\n")), slip
    return None, ""


def _unescape(text: str) -> str:
    for written, meant in (("\\n", "\n"), ("\\t", "\t"), ('\\"', '"'), ("\\'", "'"), ("\\\\", "\\")):
        text = text.replace(written, meant)
    return text


def _without_entities(text: str) -> str:
    for written, meant in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#39;", "'"), ("&amp;", "&")):
        text = text.replace(written, meant)
    return text


def _without_numbers(text: str) -> str:
    numbered = len(_NUMBERED.findall(text))
    return _NUMBERED.sub("", text) if numbered == sum(bool(line.strip()) for line in text.split("\n")) else text


_SLIPS: tuple[tuple[Callable[[str], str], str], ...] = (
    (_without_numbers, "The old text has line numbers in front of its lines, which the file does not have: leave them out."),
    (
        _unescape,
        'The old text has backslashes before characters (such as \\n or \\") that the file has without: leave them out.',
    ),
    (_without_entities, "The old text has entities such as &lt; where the file has the characters themselves: write those."),
)


def _lines(wanted: str) -> list[str]:
    """Return the lines of a text, without empty ones at its ends."""
    lines = wanted.split("\n")
    kept = [number for number, line in enumerate(lines) if line.strip()]
    return lines[kept[0] : kept[-1] + 1]


def _most_similar(lines: list[str], wanted: Sequence[str], stop: Stop) -> _Found | None:
    looked_at = [_comparable(line) for line in wanted[:_MAX_LINES]]
    groups = Counter(_groups(looked_at))
    best, most = None, 0.0
    for start, end in _windows(_places(lines, looked_at, stop), len(wanted)):
        stop.check()
        there = Counter(_groups(_comparable(line[:_MAX_LINE]) for line in lines[start : min(end, start + 2 * _MAX_LINES)]))
        shared = (groups & there).total()
        # What the text has counts most; of places that have the same, the one with the least beside it is best.
        share, alike = shared / groups.total(), 2 * shared / (groups.total() + there.total())
        if share >= _ENOUGH and share + alike > most:
            best, most = _Found(start + 1, lines[start:end]), share + alike
    return best


def _windows(starts: Sequence[int], length: int) -> Iterator[tuple[int, int]]:
    """The lines to look at: those at each place, and those from one place to another if the file may have lines in between."""
    for start in starts:
        for other in starts:
            if start <= other <= start + length + _BETWEEN:
                yield max(0, start), max(1, other + length)


def _places(lines: Sequence[str], wanted: Sequence[str], stop: Stop) -> list[int]:
    """Return where the text may begin, the likeliest place first, counted from 0. A place may be before the first line."""
    numbers_of: dict[str, list[int]] = {}
    for number, line in enumerate(wanted):
        for group in set(_groups([line])):
            numbers_of.setdefault(group, []).append(number)
    # What is in many lines says little about the place, and would make the work grow with the square of the text.
    telling = {group for group, numbers in numbers_of.items() if len(numbers) <= _CANDIDATES} or set(numbers_of)
    votes: Counter[int] = Counter()
    for number, line in enumerate(stop.each(lines)):
        for group in telling.intersection(_groups([_comparable(line[:_MAX_LINE])])):
            for offset in numbers_of[group][:_CANDIDATES]:
                votes[number - offset] += 1
    return [place for place, _ in votes.most_common(_CANDIDATES)]


def _groups(lines: Iterable[str]) -> list[str]:
    """Return the groups of characters of some lines; a line that is shorter than a group is one itself."""
    groups: list[str] = []
    left = _MAX_TEXT
    for line in lines:
        line = line[:left]
        left -= len(line)
        groups += [line[at : at + _GROUP] for at in range(max(1, len(line) - _GROUP + 1))] if line else []
    return groups


def _difference(found: _Found, wanted: Sequence[str]) -> str:
    for same, what in _SMALL_DIFFERENCES:
        if len(found.lines) == len(wanted) and [same(line) for line in found.lines] == [same(line) for line in wanted]:
            number, line, other = next(
                (number, line, other)
                for number, (line, other) in enumerate(zip(found.lines, wanted, strict=True), found.first)
                if line != other
            )
            said = f"The old text differs from it only in {what}, first in line {number}"
            if same is str.strip:
                said += f", which begins with {_indentation(line)}; in the old text with {_indentation(other)}"
            return f"{said}."
    for number, (line, other) in enumerate(zip(found.lines, wanted, strict=False), found.first):
        if line != other:
            return f"The first difference is in line {number}, where the old text has: {_cut(other)}"
    return "The old text continues after it." if len(wanted) > len(found.lines) else ""


def _indentation(line: str) -> str:
    blanks = line[: len(line) - len(line.lstrip())]
    named = [(blanks.count(" "), "space"), (blanks.count("\t"), "tab")]
    parts = [f"{count} {name}{'s' if count > 1 else ''}" for count, name in named if count]
    return " and ".join(parts) or "neither space nor tab"


def _unquote(line: str) -> str:
    return line.replace("'", '"').replace("`", '"')


def _remove_blanks(line: str) -> str:
    return "".join(line.split())


_SMALL_DIFFERENCES: tuple[tuple[Callable[[str], str], str], ...] = (
    (str.strip, "indentation"),
    (_remove_blanks, "white space"),
    (_unquote, "its quotation marks"),
    (str.casefold, "upper and lower case"),
)


def _comparable(line: str) -> str:
    return " ".join(line.casefold().split())


def _cut(line: str) -> str:
    return line if len(line) <= _LINE_SHOWN else f"{line[:_LINE_SHOWN]}... [{len(line) - _LINE_SHOWN} more characters]"
