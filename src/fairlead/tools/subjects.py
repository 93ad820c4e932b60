"""What calls of the usual coding tools are about, and where their arguments hold text for files.

The built-in tools declare these. Tools from hosts and extensions declare nothing, so `with_usual_subject` fills it in by name: a
rule about `bash` also holds for a replacement that a host brings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from fairlead.core.tool import KeyPath, Tool, ToolSubject


def _runs_command(arguments: Mapping[str, Any]) -> bool:
    """Whether a call only runs a command. Input for a process that runs already is not a command."""
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
    """Where the arguments of a tool called `name` usually hold text for files."""
    return _FILE_TEXTS.get(name or "", frozenset())


def with_usual_subject(tool: Tool) -> Tool:
    """Return `tool`, with the subject and the file texts that tools of its name usually have if it declares none."""
    if tool.subject is not None or tool.name not in _SUBJECTS:
        return tool
    return replace(tool, subject=_SUBJECTS[tool.name], file_texts=tool.file_texts or usual_file_texts(tool.name))
