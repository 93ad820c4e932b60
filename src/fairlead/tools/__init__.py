"""What the agent can do to the machine.

`files`, `search` and `shell` have the code that acts on it, and the built-in tools, which `builtin` lists: read, bash, edit,
write, grep, find, ls. `opal` has Opal's tools. A family of tools is names, schemas and texts around the same code.

Each tool is one module, which declares it and runs it. The modules of a family are loaded when its tools are made, and what they
need only for a call when it is first called (see `POSTPONED` in `fairlead.cli.start`).

This module has what declarations share: what people see of a call (a title on one line, and the files that it is about), and what
calls act on. A tool declares what its calls act on and which arguments hold text for files. Tools from
hosts and extensions declare nothing, so `with_usual_subject` goes by their name: a rule about `bash` also applies to a `bash`
that a host brings.

Private: see `fairlead` for the public modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from fairlead.core.lenient import scrub_text
from fairlead.core.tool import KeyPath, Tool, ToolLocation, ToolSubject

if TYPE_CHECKING:
    from fairlead.tools.workspace import Workspace

#: The tools that are active unless someone chooses others.
DEFAULT_TOOLS = ("read", "bash", "edit", "write")
#: The names of all built-in tools.
BUILTIN_NAMES = (*DEFAULT_TOOLS, "grep", "find", "ls")


def _runs_command(arguments: Mapping[str, Any]) -> bool:
    """Return whether a call only runs a command. Input for a running process is not a command."""
    return arguments.get("action", "run") == "run" and "input" not in arguments


COMMAND = ToolSubject("command", "command", _runs_command)
PATH = ToolSubject("path", "path")

#: The whole content of a file, and the replacements in one; older calls have a single `newText`.
CONTENT: frozenset[KeyPath] = frozenset({("content",)})
EDITS: frozenset[KeyPath] = frozenset({("edits", "newText"), ("newText",)})
#: The lines that replace others.
NEW_LINES: frozenset[KeyPath] = frozenset({("new_string",)})

#: By the names that coding agents usually give to such tools.
_SUBJECTS: Mapping[str, ToolSubject] = {
    **dict.fromkeys(("bash", "shell"), COMMAND),
    **dict.fromkeys(("edit", "edit_file", "find", "grep", "ls", "read", "read_file", "write", "write_file"), PATH),
}
_FILE_TEXTS: Mapping[str, frozenset[KeyPath]] = {
    "edit": EDITS,
    "edit_file": NEW_LINES,
    "write": CONTENT,
    "write_file": CONTENT,
}


def usual_file_texts(name: str | None) -> frozenset[KeyPath]:
    """Return which arguments of a tool called `name` usually hold text for files."""
    return _FILE_TEXTS.get(name or "", frozenset())


def with_usual_subject(tool: Tool) -> Tool:
    """Return `tool`, with the subject and the file texts that tools of its name usually have if it declares none."""
    if tool.subject is not None or tool.name not in _SUBJECTS:
        return tool
    return replace(tool, subject=_SUBJECTS[tool.name], file_texts=tool.file_texts or usual_file_texts(tool.name))


def object_schema(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


def string(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def integer(description: str) -> dict[str, Any]:
    return {"type": "integer", "description": description}


def repair_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Repair arguments: many models write null for what they leave out, and some write 5.0 for 5."""
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in arguments.items()
        if value is not None
    }


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
