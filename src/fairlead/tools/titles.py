"""What people see of a call: a title on one line, and the files that it is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from fairlead.core.lenient import scrub_text
from fairlead.core.tool import ToolLocation
from fairlead.tools.workspace import Workspace

Arguments: TypeAlias = Mapping[str, Any]


def file_locations(workspace: Workspace, arguments: Arguments) -> list[ToolLocation]:
    """Return the file that `path` names, and the line that `offset` names. A URI is not a file."""
    path, line = arguments["path"], arguments.get("offset")
    if workspace.uris is not None and workspace.uris.has(path):
        return []
    first = line if isinstance(line, int) and line > 0 else None
    return [ToolLocation(scrub_text(str(workspace.resolve(path))), first)]


def command_title(arguments: Arguments) -> str:
    """Return the first line of a command, as code."""
    first, *more = arguments["command"].strip().split("\n")
    return f"`{first.strip()}{' …' if more else ''}`"


def read_title(arguments: Arguments) -> str:
    first, count = arguments.get("offset"), arguments.get("limit")
    if not first and not count:
        return f"Read {arguments['path']}"
    first = first or 1
    lines = f"{first}-{first + count - 1}" if count else f"from line {first}"
    return f"Read {arguments['path']} ({lines})"


def edit_title(arguments: Arguments) -> str:
    return f"Edit {arguments['path']}"


def write_title(arguments: Arguments) -> str:
    return f"Write {arguments['path']}"


def grep_title(arguments: Arguments) -> str:
    return f"Search for {_pattern(arguments)}"


def find_title(arguments: Arguments) -> str:
    return f"Find {_pattern(arguments)}"


def ls_title(arguments: Arguments) -> str:
    return f"List {arguments.get('path', '.')}"


def _pattern(arguments: Arguments) -> str:
    where = f" in {arguments['path']}" if arguments.get("path", ".") != "." else ""
    return f"`{arguments['pattern']}`{where}"
