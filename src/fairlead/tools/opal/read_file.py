"""Opal's read_file and grep tools. They put an anchor in front of each line."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools import PATH, file_locations, grep_title, integer, object_schema, read_title, repair_arguments, string
from fairlead.tools.background import in_thread
from fairlead.tools.files import read
from fairlead.tools.opal.anchors import FileAccess, tag_line
from fairlead.tools.search import contents, search_tools, searchers
from fairlead.tools.truncate import MAX_BYTES, format_size

_PARAMETERS = object_schema(
    {
        "path": string("The file, in the working directory"),
        "offset": integer("First line to read, from 1"),
        "limit": integer("How many lines to read at most"),
    },
    "path",
)


def read_file_tool(files: FileAccess) -> Tool:
    return Tool(
        name="read_file",
        description=(
            "Read a text file or an image. Every line of text comes as N:hh|text: edit_file takes N:hh to name the line. At most"
            " 2000 lines or 50KB are returned; continue with offset, which the result names."
        ),
        parameters=_PARAMETERS,
        run=partial(_run_read_file, files),
        kind="read",
        title=read_title,
        locations=partial(file_locations, files.workspace),
        idempotent=True,
        subject=PATH,
        harmless=True,
        snippet="Read files, with a tag before every line",
        guidelines=("Look at files with read_file, not with cat or sed.",),
        timeout=files.workspace.default_timeout,
        prepare=repair_arguments,
    )


async def _run_read_file(files: FileAccess, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    target = files.find(arguments["path"], context.target)
    offset, limit = max(arguments.get("offset") or 1, 1), arguments.get("limit")

    def show(window: read.Window) -> ToolResult:
        return ToolResult.text(_format_window(window, offset))

    return await in_thread(
        context.cancel, lambda stop: read.read_file(files.workspace, target, offset, max(limit, 1) if limit else None, show, stop)
    )


def _format_window(window: read.Window, offset: int) -> str:
    total = window.total_lines
    if offset > max(total, 1):
        raise ToolError(f"Offset {offset} is beyond end of file ({total} lines total)")
    if total and not window.lines:
        size = format_size(window.first_line_bytes)
        return (
            f"[Line {offset} is {size}, exceeds {format_size(MAX_BYTES)} limit. Look at it with shell, for example with cut -c.]"
        )
    lines = window.content.decode("utf-8", "replace").removesuffix("\n").split("\n")
    if offset == 1:
        lines[0] = lines[0].removeprefix("\ufeff")
    shown: list[str] = []
    room = MAX_BYTES
    for number, line in enumerate(lines, offset):
        line = tag_line(number, line.removesuffix("\r"))
        room -= len(line.encode()) + 1
        if room < 0 and shown:  # anchors take room too, but a single line that fits without its anchor is shown
            break
        shown.append(line)
    after = offset + len(shown)
    text = "\n".join(shown)
    if after <= total:
        text += f"\n\n[Showing lines {offset}-{after - 1} of {total}. Use offset={after} to continue.]"
    return text


_CONTEXT, _MOST_CONTEXT = 2, 10
_RESULTS, _MOST_RESULTS = 50, 500
_LINE_LENGTH = 500

_GREP_PARAMETERS = object_schema(
    {
        "pattern": string("A regular expression"),
        "path": string("File or folder to search; the working directory if left out"),
        "include": string("Only files whose names match this, such as *.py or *.{ts,tsx}"),
        "context_lines": integer("Lines to show before and after each match, 0 to 10; 2 if left out"),
        "max_results": integer("How many matches at most, 1 to 500; 50 if left out"),
        "no_ignore": {"type": "boolean", "description": "Search also what .gitignore names"},
    },
    "pattern",
)


def grep_tool(files: FileAccess) -> Tool:
    return Tool(
        name="grep",
        description=(
            "Search the contents of files for a regular expression. Lines come file by file as N:hh|text, with the tags that"
            " edit_file takes. Files named in .gitignore and binary files are skipped."
        ),
        parameters=_GREP_PARAMETERS,
        run=partial(_run_grep, files),
        kind="search",
        title=grep_title,
        idempotent=True,
        subject=PATH,
        harmless=True,
        snippet="Search file contents, respecting .gitignore",
        timeout=files.workspace.default_timeout,
        prepare=repair_arguments,
    )


async def _run_grep(files: FileAccess, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    root = files.find(arguments.get("path") or ".", context.target)
    limit = min(max(arguments.get("max_results", _RESULTS), 1), _MOST_RESULTS)
    wanted = searchers.Wanted(
        pattern=arguments["pattern"],
        ignore_case=False,
        literal=False,
        context=min(max(arguments.get("context_lines", _CONTEXT), 0), _MOST_CONTEXT),
        limit=limit + 1,  # one more, to see whether there are more
        whole_lines=True,  # an anchor needs the whole line
    )
    report = _Report(files, limit, wanted.context)
    await contents.search(
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
    """Implements `fairlead.tools.search.contents.Report`."""

    def __init__(self, files: FileAccess, limit: int, context: int) -> None:
        self.full = False
        self._files = files
        self._limit = limit
        self._context = context
        self._sections: list[str] = []
        self._matches = 0

    def add(self, path: str, lines: Sequence[searchers.Line]) -> None:
        room = self._limit - self._matches
        lines, count = contents.first_matches(lines, room, self._context)
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
        return search_tools.listing(["\n\n".join(self._sections)], {}, [notice])


def _groups(lines: Sequence[searchers.Line]) -> str:
    """The lines with their anchors, and `---` where lines are left out."""
    parts = [_format_line(lines[0])]
    for before, line in pairwise(lines):
        if line.number > before.number + 1:
            parts.append("---")
        parts.append(_format_line(line))
    return "\n".join(parts)


def _format_line(line: searchers.Line) -> str:
    text = line.text.removeprefix("\ufeff") if line.number == 1 else line.text
    return tag_line(line.number, text, f"{text[:_LINE_LENGTH]}... [truncated]" if len(text) > _LINE_LENGTH else None)
