"""The searcher for machines without ripgrep. It runs in a separate process, because `re` cannot be interrupted."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections import deque
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import msgspec

from fairlead.platform.open_files import LIST, READ, open_below, open_real
from fairlead.tools.search.searchers import Found, Line, SearchRequest, Wanted

#: More of a line is not shown.
_SHOWN = 501


def main() -> None:
    """Read a `SearchRequest` from standard input, write a `Found` per line."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=SearchRequest)
    wanted = request.wanted
    try:
        pattern = re.compile(
            re.escape(wanted.pattern) if wanted.literal else wanted.pattern, re.IGNORECASE if wanted.ignore_case else 0
        )
    except (re.error, RecursionError, OverflowError) as error:
        _answer(Found(error=f"It is not a valid regular expression: {error}"))
        return
    try:
        folder = open_real(Path(os.fsdecode(request.folder)), LIST)
    except OSError:  # gone, unreadable, or a link by now
        return
    for index, names in enumerate(request.files):
        try:
            with os.fdopen(open_below(folder, [os.fsdecode(name) for name in names], READ), "rb") as file:
                found = os.fstat(file.fileno())
                lines = _search(file, pattern, wanted) if stat.S_ISREG(found.st_mode) else []
        except OSError:  # gone or unreadable
            continue
        if lines:
            _answer(Found(index, lines, [int(field) for field in found[:10]]))


def _answer(found: Found) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    sys.stdout.buffer.flush()


def _search(file: BinaryIO, pattern: re.Pattern[str], wanted: Wanted) -> list[Line]:
    """Return the lines that match and those around them; none if the file turns out to be binary."""
    found: list[Line] = []
    before: deque[Line] = deque(maxlen=wanted.context)
    matches = after = 0
    shown = None if wanted.whole_lines else _SHOWN
    for number, text in enumerate(_read_lines(file), 1):
        if "\0" in text:
            return []
        if matches < wanted.limit and pattern.search(text) is not None:
            found += (*before, Line(number, text[:shown], True))
            before.clear()
            matches += 1
            after = wanted.context
        elif after:
            found.append(Line(number, text[:shown], False))
            after -= 1
        else:
            before.append(Line(number, text[:shown], False))
    return found


def _read_lines(file: BinaryIO) -> Iterator[str]:
    first = file.readline()
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        lines = (first + file.read()).decode("utf-16", "replace").split("\n")
        if not lines[-1]:
            lines.pop()  # what follows the last newline is not a line
    else:
        lines = (line.decode("utf-8", "replace") for line in chain((first.removeprefix(b"\xef\xbb\xbf"),), file) if line)
    for line in lines:
        yield line.rstrip("\r\n")
