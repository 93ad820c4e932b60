"""What the agent can do to the machine.

`files`, `search` and `shell` have the code that acts on it, and the built-in tools, which `builtin` lists: read, bash, edit,
write, grep, find, ls. `opal` has Opal's tools. A family of tools is names, schemas and texts around the same code.

Each tool is one module, which declares it and runs it. The modules of a family are loaded when its tools are made, and what they
need only for a call when it is first called (see `POSTPONED` in `fairlead.cli.start`).

This module has what declarations share. A tool declares what its calls act on and which arguments hold text for files. Tools from
hosts and extensions declare nothing, so `with_usual_subject` goes by their name: a rule about `bash` also applies to a `bash`
that a host brings.

Private: see `fairlead` for the public modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from fairlead.core.tool import KeyPath, Tool, ToolSubject

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
