"""The find, ls and grep tools: names of files and folders, or lines with file and number, as a list of lines."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fairlead.core.lenient import scrub_text
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.platform.open_files import LIST, opened_folder
from fairlead.tools import PATH, find_title, grep_title, ls_title, object_schema, string
from fairlead.tools.background import Stop, in_thread
from fairlead.tools.files.targets import became_link, failure, stat_target
from fairlead.tools.search import contents, globs, searchers, walk
from fairlead.tools.truncate import MAX_BYTES, format_size, head
from fairlead.tools.workspace import Workspace

_MOST_FOUND = 1000
_MOST_LISTED = 500
_FIND_PARAMETERS = object_schema(
    {
        "pattern": string("A glob such as *.py, which matches names, or src/**/*.ts, which matches paths; both at any depth"),
        "path": string("Folder to search; the working directory if left out"),
        "limit": {"type": "integer", "minimum": 1, "description": "How many results at most; 1000 if left out"},
    },
    "pattern",
)
_LS_PARAMETERS = object_schema(
    {
        "path": string("The folder; the working directory if left out"),
        "limit": {"type": "integer", "minimum": 1, "description": "How many entries at most; 500 if left out"},
    },
)


def find_tool(workspace: Workspace) -> Tool:
    return Tool(
        name="find",
        label="find",
        description=(
            "Find files and folders by a glob pattern. Gives paths relative to the folder searched, 1000 at most unless limit"
            " says otherwise. What .gitignore names is skipped."
        ),
        parameters=_FIND_PARAMETERS,
        run=partial(_run_find, workspace),
        kind="search",
        title=find_title,
        idempotent=True,
        subject=PATH,
        snippet="Find files by name, respecting .gitignore",
        harmless=True,
        timeout=workspace.default_timeout,
    )


async def _run_find(workspace: Workspace, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    root = workspace.locate(arguments.get("path") or ".", context.target)
    glob = globs.Glob(arguments["pattern"])
    limit = int(arguments.get("limit") or _MOST_FOUND)

    def find(stop: Stop) -> ToolResult:
        there = stat_target(root)
        if there is None:
            raise ToolError(f"Path not found: {root.named}")
        if not stat.S_ISDIR(there.st_mode):
            raise ToolError(f"Not a directory: {root.named}")
        found: list[str] = []
        for entry in walk.walk(root.real, workspace.cwd, stop):
            if glob.matches(entry.parts):
                if len(found) == limit:
                    notice = f"{limit} results limit reached. Use limit={limit * 2} for more, or refine pattern"
                    return listing(found, {"resultLimitReached": limit}, [notice])
                found.append("/".join(entry.parts) + ("/" if entry.is_folder else ""))
        return listing(found or ["No files found matching pattern"], {})

    return await in_thread(context.cancel, find)


def ls_tool(workspace: Workspace) -> Tool:
    return Tool(
        name="ls",
        label="ls",
        description="List a folder in alphabetical order, hidden files included; folders end with /.",
        parameters=_LS_PARAMETERS,
        run=partial(_run_ls, workspace),
        kind="search",
        title=ls_title,
        idempotent=True,
        subject=PATH,
        snippet="List folders",
        harmless=True,
        timeout=workspace.default_timeout,
    )


async def _run_ls(workspace: Workspace, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    target = workspace.locate(arguments.get("path") or ".", context.target)
    limit = int(arguments.get("limit") or _MOST_LISTED)

    def ls(stop: Stop) -> ToolResult:
        try:
            with opened_folder(target.real, LIST) as folder, os.scandir(folder) as found:
                names = [entry.name + ("/" if _is_folder(entry) else "") for entry in stop.each(found)]
        except FileNotFoundError:
            raise ToolError(f"Path not found: {target.named}") from None
        except OSError as error:
            if isinstance(error, NotADirectoryError) and not became_link(error, target):
                raise ToolError(f"Not a directory: {target.named}") from None
            raise failure(error, "scandir", target) from error
        names.sort(key=lambda name: (name.lower(), name))
        if len(names) > limit:
            notice = f"{limit} entries limit reached. Use limit={limit * 2} for more"
            return listing(names[:limit], {"entryLimitReached": limit}, [notice])
        return listing(names or ["(empty directory)"], {})

    return await in_thread(context.cancel, ls)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is listed as a folder, as a link to one is. A link to nowhere, or to itself, is not."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def listing(lines: Sequence[str], details: dict[str, Any], notices: Sequence[str] = ()) -> ToolResult:
    """Return the lines as a result, cut to what a result may hold. File names that are not Unicode become readable text."""
    shown = head(scrub_text("\n".join(lines)))
    details = dict(details)
    notices = list(notices)
    if shown.truncated:
        details["truncation"] = shown.as_details()
        notices.append(f"{format_size(MAX_BYTES)} limit reached")
    text = shown.content
    if notices:
        text += f"\n\n[{'. '.join(notices)}]"
    return ToolResult.text(text, details or None)


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
