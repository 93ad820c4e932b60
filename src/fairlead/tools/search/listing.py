"""The find and ls tools: names of files and folders, as a list of lines. grep's results have the same form."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any

from fairlead.config.open_files import LIST, opened_folder
from fairlead.core.lenient import scrub_text
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools import PATH, object_schema, string
from fairlead.tools.background import Stop, in_thread
from fairlead.tools.files.targets import became_link, failure, found_at
from fairlead.tools.search import globs, walk
from fairlead.tools.titles import find_title, ls_title
from fairlead.tools.truncate import MAX_BYTES, format_size, head
from fairlead.tools.workspace import Workspace

_MOST_FOUND = 1000
_MOST_LISTED = 500
#: Folders that users look into by name, if at all.
_SKIPPED = frozenset(("node_modules", "__pycache__", ".venv", ".hg", ".svn"))


def list_files(folder: Path, most: int, seconds: float) -> list[str]:
    """Return the files below a folder that `Workspace.list_files` describes."""
    root = Path(os.path.realpath(folder))
    shows_hidden = walk.is_in_repository(root)
    stop = _Deadline(seconds)

    def enters(entry: walk.Entry) -> bool:
        name = entry.parts[-1]
        return name not in _SKIPPED and (shows_hidden or not name.startswith("."))

    def files() -> Iterator[str]:
        for entry in walk.walk(root, root, stop, enters=enters):
            is_hidden = entry.parts[-1].startswith(".")
            if not entry.is_folder and (shows_hidden or not is_hidden) and (name := "/".join(entry.parts)).isprintable():
                yield name

    found: list[str] = []
    with suppress(ToolError):  # it ran out of time
        for name in islice(files(), most):
            found.append(name)  # what was found before the end counts
    return found


class _Deadline(Stop):
    """Stops work after some seconds."""

    __slots__ = ("_end",)

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._end = monotonic() + seconds

    def check(self) -> None:
        if monotonic() > self._end:
            self.ask()
        super().check()


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
        there = found_at(root)
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
