"""The grep tool: the lines that match, one per line, with file and number."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.tools import PATH, object_schema, string
from fairlead.tools.search import contents, searchers
from fairlead.tools.search.listing import listing
from fairlead.tools.titles import grep_title
from fairlead.tools.workspace import Workspace

_LIMIT = 100
#: No result is that long, so larger numbers mean the same.
_MOST = 1_000_000
_LINE_LENGTH = 500

_PARAMETERS = object_schema(
    {
        "pattern": string("A regular expression, or plain text with literal"),
        "path": string("File or folder to search; the working directory if left out"),
        "glob": string("Only files that match this, such as *.py or src/**/*.ts"),
        "ignoreCase": {"type": "boolean", "description": "Upper and lower case are the same"},
        "literal": {"type": "boolean", "description": "The pattern is plain text"},
        "context": {"type": "integer", "minimum": 0, "description": "Lines to show before and after each match"},
        "limit": {"type": "integer", "minimum": 1, "description": "How many matches at most; 100 if left out"},
    },
    "pattern",
)


def grep_tool(workspace: Workspace) -> Tool:
    return Tool(
        name="grep",
        label="grep",
        description=(
            "Search the contents of files for a regular expression. Gives file, line number and line, 100 matches at most unless"
            " limit says otherwise; lines are cut at 500 characters. Files named in .gitignore and binary files are skipped."
        ),
        parameters=_PARAMETERS,
        run=partial(_run_grep, workspace),
        kind="search",
        title=grep_title,
        idempotent=True,
        subject=PATH,
        snippet="Search file contents, respecting .gitignore",
        harmless=True,
        timeout=workspace.default_timeout,
    )


async def _run_grep(workspace: Workspace, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    root = workspace.locate(arguments.get("path") or ".", context.target)
    limit = int(min(arguments.get("limit") or _LIMIT, _MOST))
    wanted = searchers.Wanted(
        pattern=arguments["pattern"],
        ignore_case=bool(arguments.get("ignoreCase")),
        literal=bool(arguments.get("literal")),
        context=int(min(arguments.get("context") or 0, _MOST)),
        limit=limit + 1,  # one more, to know whether there are more
    )
    report = _GrepReport(root.named, limit, wanted.context)
    await contents.search(workspace, root, wanted, arguments.get("glob") or "", report, context.cancel)
    return report.result()


class _GrepReport:
    """Implements `contents.Report` for the result of the grep tool."""

    def __init__(self, root: Path, limit: int, context: int) -> None:
        self.full = False
        self._root = root
        self._prefix = f"{str(root).rstrip(os.sep)}{os.sep}"
        self._limit = limit
        self._context = context
        self._lines: list[str] = []
        self._matches = 0
        self._cut = False

    def add(self, path: str, lines: Sequence[searchers.Line]) -> None:
        name = path.removeprefix(self._prefix) if path != str(self._root) else self._root.name
        name = name.replace(os.sep, "/")
        room = self._limit - self._matches
        lines, count = contents.first_matches(lines, room, self._context)
        self.full = count > room
        self._matches += min(count, room)
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
