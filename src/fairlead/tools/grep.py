"""The grep tool: lines that match, found by ripgrep if it is installed and by Python's `re` otherwise.

Which files are searched is decided here in both cases, so only the dialect of regular expressions differs.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from itertools import islice
from pathlib import Path
from typing import Any

from fairlead.core.tool import ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools.background import Stop
from fairlead.tools.globs import Glob
from fairlead.tools.listing import listing
from fairlead.tools.searchers import Line, PythonSearcher, Ripgrep, Searcher, Wanted
from fairlead.tools.walk import walk
from fairlead.tools.workspace import Workspace

_LIMIT = 100
_LINE_LENGTH = 500


async def run_grep(workspace: Workspace, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    root = workspace.resolve(arguments.get("path") or ".")
    limit = int(arguments.get("limit") or _LIMIT)
    wanted = Wanted(
        pattern=arguments["pattern"],
        ignore_case=bool(arguments.get("ignoreCase")),
        literal=bool(arguments.get("literal")),
        context=int(arguments.get("context") or 0),
        limit=limit + 1,  # one more, to know whether there are more
    )
    report = _Report(root, limit, wanted.context)
    searcher = _searcher(workspace)
    stop = Stop()
    take_back = context.cancel.on_fire(stop.ask)
    files = _files(root, workspace.cwd, arguments.get("glob") or "", stop)
    try:
        while not report.full:
            stop.check()
            batch = await asyncio.to_thread(list[str], islice(files, searcher.batch))
            if not batch:
                break
            async with aclosing(searcher.search(wanted, batch, context.cancel)) as found:
                async for path, lines in found:
                    report.add(path, lines)
                    if report.full:
                        break
        stop.check()
    finally:
        take_back()
        stop.ask()
    return report.result()


def _searcher(workspace: Workspace) -> Searcher:
    beside = Path(sys.executable).with_name("rg")
    program = workspace.which("rg") or (str(beside) if os.access(beside, os.X_OK) else None)
    return PythonSearcher() if program is None else Ripgrep(program, workspace.env)


def _files(root: Path, cwd: Path, glob: str, stop: Stop) -> Iterator[str]:
    """The files to search, found while they are asked for. A glob after `!` excludes."""
    if not root.exists():
        raise ToolError(f"Path not found: {root}")
    if root.is_file():
        yield str(root)
        return
    if not root.is_dir():
        raise ToolError(f"{root} is neither a file nor a directory.")
    pattern = Glob(glob.removeprefix("!")) if glob else None
    excluding = glob.startswith("!")
    for entry in walk(root, cwd, stop):
        if entry.is_file and (pattern is None or pattern.matches(entry.parts) != excluding):
            yield os.path.join(root, *entry.parts)  # noqa: PTH118


class _Report:
    """What was found, until it is enough."""

    def __init__(self, root: Path, limit: int, context: int) -> None:
        self.full = False
        self._root = root
        self._limit = limit
        self._context = context
        self._lines: list[str] = []
        self._matches = 0
        self._cut = False

    def add(self, path: str, lines: Sequence[Line]) -> None:
        """Take what was found in one file."""
        name = os.path.relpath(path, self._root) if path != str(self._root) else self._root.name
        name = name.replace(os.sep, "/")
        room = self._limit - self._matches
        matching = [line.number for line in lines if line.matches]
        if len(matching) > room:
            self.full = True
            if room == 0:
                return
            last = matching[room - 1]
            lines = [line for line in lines if line.number <= last or (line.number <= last + self._context and not line.matches)]
        self._matches += min(len(matching), room)
        for line in lines:
            mark = ":" if line.matches else "-"
            self._lines.append(f"{name}{mark}{line.number}{mark} {self._shorten(line.text)}")

    def result(self) -> ToolResult:
        if not self._matches:
            return ToolResult.text("No matches found")
        details: dict[str, Any] = {}
        notices: list[str] = []
        if self.full:
            details["matchLimitReached"] = self._limit
            notices.append(f"{self._limit} matches limit reached. Use limit={self._limit * 2} for more, or refine pattern")
        if self._cut:
            details["linesTruncated"] = True
            notices.append(f"Some lines truncated to {_LINE_LENGTH} chars. Use read tool to see full lines")
        return listing(self._lines, details, notices)

    def _shorten(self, text: str) -> str:
        if len(text) <= _LINE_LENGTH:
            return text
        self._cut = True
        return f"{text[:_LINE_LENGTH]}... [truncated]"
