"""The grep tool, and the anchors that it and the file tools put in front of lines.

An anchor such as `12:a3|text` has the number of the line, and two digits that change with its text.

The digits are Erlang's `phash2(Line, 256)` of the line without blanks at its ends. Opal computes the same, so its anchors are
valid here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from fairlead.core.tool import ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools.search.grep import first_matches, search
from fairlead.tools.search.listing import listing
from fairlead.tools.search.searchers import Line, Wanted
from fairlead.wire.opal.tools.file_access import FileAccess

#: White space in Unicode. Unlike Elixir's trim, `str.strip()` would also remove U+001C to U+001F.
_BLANKS = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_WORD = 0xFFFFFFFF
_GOLDEN = 0x9E3779B9
#: The initial value of phash2 for a binary.
_SEED = 13 * _GOLDEN & _WORD


class Anchor(NamedTuple):
    """A line: its number, from 1, and its hash when it was shown."""

    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"


def line_hash(text: str) -> str:
    """The two digits of a line."""
    return f"{phash2(text.strip(_BLANKS).encode('utf-8', 'replace')) & 0xFF:02x}"


def tagged(number: int, text: str, shown: str | None = None) -> str:
    """A line with its anchor. `shown` is the text to show, if it is not the whole line."""
    return f"{number}:{line_hash(text)}|{text if shown is None else shown}"


def tagged_lines(lines: Iterable[str], first: int) -> Iterator[str]:
    return (tagged(number, line) for number, line in enumerate(lines, first))


#: The most digits of a line number: more than any file needs.
_DIGITS = 18


def read_anchor(text: str, name: str) -> Anchor:
    """Parse the anchor that a model wrote in the argument `name`, perhaps with the line after it. Raises ToolError."""
    number, colon, rest = text.strip().partition(":")
    digits = rest.partition("|")[0].strip().lower()
    is_number = number.isascii() and number.isdigit() and len(number) <= _DIGITS and int(number) > 0
    if not (colon and is_number and len(digits) == 2):
        raise ToolError(f'{name}: expected the tag of a line as read_file shows it, such as "12:a3", found {text[:40]!r}.')
    return Anchor(int(number), digits)


def phash2(data: bytes) -> int:
    """Erlang's `phash2` of a binary, all 32 bits: Bob Jenkins' hash of 1996."""
    size = len(data)
    if not size:
        return _SEED
    a = b = _GOLDEN
    c = _SEED
    whole = size - size % 12
    word = int.from_bytes
    for at in range(0, whole, 12):
        a, b, c = _mix(
            a + word(data[at : at + 4], "little"),
            b + word(data[at + 4 : at + 8], "little"),
            c + word(data[at + 8 : at + 12], "little"),
        )
    rest = data[whole:]
    # The lowest byte of the last word holds the length.
    return _mix(a + word(rest[:4], "little"), b + word(rest[4:8], "little"), c + size + (word(rest[8:], "little") << 8))[2]


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    """Mix three words. Python's integers do not overflow, so bits that C would lose are masked before each right shift."""
    c &= _WORD
    a = (a - b - c & _WORD) ^ c >> 13
    b = (b - c - a ^ a << 8) & _WORD
    c = (c - a - b & _WORD) ^ b >> 13
    a = (a - b - c & _WORD) ^ c >> 12
    b = (b - c - a ^ a << 16) & _WORD
    c = (c - a - b & _WORD) ^ b >> 5
    a = (a - b - c & _WORD) ^ c >> 3
    b = (b - c - a ^ a << 10) & _WORD
    c = (c - a - b & _WORD) ^ b >> 15
    return a, b, c


_CONTEXT, _MOST_CONTEXT = 2, 10
_RESULTS, _MOST_RESULTS = 50, 500
_LINE_LENGTH = 500


async def run_grep(files: FileAccess, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    root = files.find(arguments.get("path") or ".", context.target)
    limit = min(max(arguments.get("max_results", _RESULTS), 1), _MOST_RESULTS)
    wanted = Wanted(
        pattern=arguments["pattern"],
        ignore_case=False,
        literal=False,
        context=min(max(arguments.get("context_lines", _CONTEXT), 0), _MOST_CONTEXT),
        limit=limit + 1,  # one more, to see whether there are more
        whole_lines=True,  # an anchor needs the whole line
    )
    report = _Report(files, limit, wanted.context)
    await search(
        files.workspace,
        root,
        wanted,
        arguments.get("include") or "",
        report,
        context.cancel,
        respect_ignored=not arguments.get("no_ignore", False),
    )
    return report.result()


class _Report:
    """Implements `fairlead.tools.search.grep.Report`."""

    def __init__(self, files: FileAccess, limit: int, context: int) -> None:
        self.full = False
        self._files = files
        self._limit = limit
        self._context = context
        self._sections: list[str] = []
        self._matches = 0

    def add(self, path: str, lines: Sequence[Line]) -> None:
        room = self._limit - self._matches
        lines, count = first_matches(lines, room, self._context)
        self.full = count > room
        self._matches += min(count, room)
        if lines:
            self._sections.append(f"## {self._files.name_of(Path(path))}\n{_groups(lines)}")

    def result(self) -> ToolResult:
        if not self._matches:
            return ToolResult.text("No matches found.")
        if self.full:
            notice = f"Showing {self._limit} matches, and there are more. Refine pattern or path, or raise max_results"
        else:
            notice = f"{self._matches} match{'' if self._matches == 1 else 'es'} found"
        return listing(["\n\n".join(self._sections)], {}, [notice])


def _groups(lines: Sequence[Line]) -> str:
    """The lines with their anchors, and `---` where lines are left out."""
    parts = [_shown(lines[0])]
    for before, line in pairwise(lines):
        if line.number > before.number + 1:
            parts.append("---")
        parts.append(_shown(line))
    return "\n".join(parts)


def _shown(line: Line) -> str:
    text = line.text.removeprefix("\ufeff") if line.number == 1 else line.text
    return tagged(line.number, text, f"{text[:_LINE_LENGTH]}... [truncated]" if len(text) > _LINE_LENGTH else None)
