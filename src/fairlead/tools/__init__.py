"""What the agent can do to the machine: read, bash, edit, write, grep, find, ls.

This module only declares the tools. The code of a tool is imported when the tool is first called.

A tool declares what its calls act on and which arguments hold text for files. Tools from hosts and extensions declare nothing,
so `with_usual_subject` goes by their name: a rule about `bash` also applies to a `bash` that a host brings.

Private: see `fairlead` for the public modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from msgspec.structs import replace

from fairlead.core.approval import FileChange
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import ApprovedFile, KeyPath, Tool, ToolContext, ToolLocation, ToolResult, ToolSubject
from fairlead.tools.workspace import Workspace

__all__ = ["BUILTIN_NAMES", "DEFAULT_TOOLS", "Workspace", "builtin_tools"]

#: The tools that are active unless someone chooses others.
DEFAULT_TOOLS = ("read", "bash", "edit", "write")
#: The names of all tools in this package.
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


def builtin_tools(workspace: Workspace) -> dict[str, Tool]:
    """Return all built-in tools by name, working in `workspace`."""
    limit = workspace.default_timeout
    tools = (
        _read_tool(workspace, limit),
        _bash_tool(workspace),
        _edit_tool(workspace, limit),
        _write_tool(workspace, limit),
        _grep_tool(workspace, limit),
        _find_tool(workspace, limit),
        _ls_tool(workspace, limit),
    )
    return {tool.name: tool for tool in tools}


def _read_tool(workspace: Workspace, timeout: float) -> Tool:
    return Tool(
        name="read",
        label="read",
        description=(
            "Read a text file or an image (PNG, JPEG, GIF, WebP). At most 2000 lines or 50KB of text are returned, whichever"
            " comes first; continue with offset, which the result names."
        ),
        parameters=_read_parameters(),
        run=partial(_run_read, workspace),
        kind="read",
        title=usual_title("read"),
        locations=partial(usual_locations, workspace),
        idempotent=True,
        subject=PATH,
        snippet="Read files",
        guidelines=("Look at files with read, not with cat or sed.",),
        harmless=True,
        timeout=timeout,
    )


@cache
def _read_parameters() -> dict[str, Any]:
    return _object(
        {
            "path": _string("The file, absolute or relative to the working directory"),
            "offset": {"type": "integer", "description": "First line to read, from 1"},
            "limit": {"type": "integer", "minimum": 1, "description": "How many lines to read at most"},
        },
        "path",
    )


def _bash_tool(workspace: Workspace) -> Tool:
    return Tool(
        name="bash",
        label="bash",
        description=(
            "Run a shell command in the working directory. Returns stdout and stderr as they came, cut to the last 2000 lines or"
            " 50KB; a longer output is saved in full to a file that the result names. Standard input is empty."
        ),
        parameters=_bash_parameters(),
        run=partial(_run_bash, workspace),
        kind="execute",
        title=usual_title("bash"),
        subject=COMMAND,
        snippet="Run shell commands",
        exclusive=True,
        timeout=None,
    )


@cache
def _bash_parameters() -> dict[str, Any]:
    return _object(
        {
            "command": _string("The command, as for bash -c"),
            "timeout": {"type": "number", "minimum": 0, "description": "Seconds until it is stopped; no limit if left out"},
        },
        "command",
    )


def _edit_tool(workspace: Workspace, timeout: float) -> Tool:
    return Tool(
        name="edit",
        label="edit",
        description=(
            "Replace exact pieces of text in one file. Every oldText is looked up in the file as it was before the call, must"
            " be found once, and must not overlap another. Put all changes of a file into one call."
        ),
        parameters=_edit_parameters(),
        run=partial(_run_edit, workspace),
        kind="edit",
        title=usual_title("edit"),
        locations=partial(usual_locations, workspace),
        preview=partial(_preview_edit, workspace),
        subject=PATH,
        file_texts=EDITS,
        snippet="Replace exact text in files",
        guidelines=("Keep oldText as short as it can be while still unique; do not include unchanged lines only as padding.",),
        exclusive=True,
        timeout=timeout,
        prepare=_prepare_edit,
    )


@cache
def _edit_parameters() -> dict[str, Any]:
    edit = _object(
        {
            "oldText": _string("The text to replace: exactly as in the file, and found there only once"),
            "newText": _string("What takes its place"),
        },
        "oldText",
        "newText",
    )
    return _object(
        {
            "path": _string("The file, absolute or relative to the working directory"),
            "edits": {"type": "array", "items": edit, "minItems": 1, "description": "The replacements"},
        },
        "path",
        "edits",
    )


def _write_tool(workspace: Workspace, timeout: float) -> Tool:
    return Tool(
        name="write",
        label="write",
        description="Write a file: makes it, with its folders, or replaces all of its content.",
        parameters=_write_parameters(),
        run=partial(_run_write, workspace),
        kind="edit",
        title=usual_title("write"),
        locations=partial(usual_locations, workspace),
        preview=partial(_preview_write, workspace),
        subject=PATH,
        file_texts=CONTENT,
        snippet="Make or overwrite files",
        guidelines=("Use write for new files and complete rewrites; change existing files with edit.",),
        exclusive=True,
        timeout=timeout,
    )


@cache
def _write_parameters() -> dict[str, Any]:
    return _object(
        {
            "path": _string("The file, absolute or relative to the working directory"),
            "content": _string("The whole new content"),
        },
        "path",
        "content",
    )


def _grep_tool(workspace: Workspace, timeout: float) -> Tool:
    return Tool(
        name="grep",
        label="grep",
        description=(
            "Search the contents of files for a regular expression. Gives file, line number and line, 100 matches at most unless"
            " limit says otherwise; lines are cut at 500 characters. Files named in .gitignore and binary files are skipped."
        ),
        parameters=_grep_parameters(),
        run=partial(_run_grep, workspace),
        kind="search",
        title=usual_title("grep"),
        idempotent=True,
        subject=PATH,
        snippet="Search file contents, respecting .gitignore",
        harmless=True,
        timeout=timeout,
    )


@cache
def _grep_parameters() -> dict[str, Any]:
    return _object(
        {
            "pattern": _string("A regular expression, or plain text with literal"),
            "path": _string("File or folder to search; the working directory if left out"),
            "glob": _string("Only files that match this, such as *.py or src/**/*.ts"),
            "ignoreCase": {"type": "boolean", "description": "Upper and lower case are the same"},
            "literal": {"type": "boolean", "description": "The pattern is plain text"},
            "context": {"type": "integer", "minimum": 0, "description": "Lines to show before and after each match"},
            "limit": {"type": "integer", "minimum": 1, "description": "How many matches at most; 100 if left out"},
        },
        "pattern",
    )


def _find_tool(workspace: Workspace, timeout: float) -> Tool:
    return Tool(
        name="find",
        label="find",
        description=(
            "Find files and folders by a glob pattern. Gives paths relative to the folder searched, 1000 at most unless limit"
            " says otherwise. What .gitignore names is skipped."
        ),
        parameters=_find_parameters(),
        run=partial(_run_find, workspace),
        kind="search",
        title=usual_title("find"),
        idempotent=True,
        subject=PATH,
        snippet="Find files by name, respecting .gitignore",
        harmless=True,
        timeout=timeout,
    )


@cache
def _find_parameters() -> dict[str, Any]:
    return _object(
        {
            "pattern": _string(
                "A glob such as *.py, which matches names, or src/**/*.ts, which matches paths; both at any depth"
            ),
            "path": _string("Folder to search; the working directory if left out"),
            "limit": {"type": "integer", "minimum": 1, "description": "How many results at most; 1000 if left out"},
        },
        "pattern",
    )


def _ls_tool(workspace: Workspace, timeout: float) -> Tool:
    return Tool(
        name="ls",
        label="ls",
        description="List a folder in alphabetical order, hidden files included; folders end with /.",
        parameters=_ls_parameters(),
        run=partial(_run_ls, workspace),
        kind="search",
        title=usual_title("ls"),
        idempotent=True,
        subject=PATH,
        snippet="List folders",
        harmless=True,
        timeout=timeout,
    )


@cache
def _ls_parameters() -> dict[str, Any]:
    return _object(
        {
            "path": _string("The folder; the working directory if left out"),
            "limit": {"type": "integer", "minimum": 1, "description": "How many entries at most; 500 if left out"},
        },
    )


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return schema


def _string(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


@cache
def usual_title(tool: str) -> Callable[[Mapping[str, Any]], str]:
    """Return what gives a call of a built-in tool its title, or a call of one that takes the same arguments."""

    def title(arguments: Mapping[str, Any]) -> str:
        from fairlead.tools.titles import TITLES

        return TITLES[tool](arguments)

    return title


def usual_locations(workspace: Workspace, arguments: Mapping[str, Any]) -> list[ToolLocation]:
    """Return the file that a call names in `path`; none if that is a URI."""
    from fairlead.tools.titles import file_locations

    return file_locations(workspace, arguments)


async def _preview_edit(
    workspace: Workspace, arguments: dict[str, Any], target: ApprovedFile | None, cancel: CancelToken
) -> list[FileChange]:
    from fairlead.tools.files.edit import preview_edit

    return await preview_edit(workspace, arguments, target, cancel)


async def _preview_write(
    workspace: Workspace, arguments: dict[str, Any], target: ApprovedFile | None, cancel: CancelToken
) -> list[FileChange]:
    from fairlead.tools.files.write import preview_write

    return await preview_write(workspace, arguments, target, cancel)


async def _run_read(workspace: Workspace, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    from fairlead.tools.files.read import run_read

    return await run_read(workspace, arguments, context)


async def _run_bash(workspace: Workspace, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    from fairlead.tools.shell.process import run_bash

    return await run_bash(workspace, arguments, context)


async def _run_edit(workspace: Workspace, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    from fairlead.tools.files.edit import run_edit

    return await run_edit(workspace, arguments, context)


def _prepare_edit(arguments: dict[str, Any]) -> dict[str, Any]:
    from fairlead.tools.files.edit import prepare_edit

    return prepare_edit(arguments)


async def _run_write(workspace: Workspace, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    from fairlead.tools.files.write import run_write

    return await run_write(workspace, arguments, context)


async def _run_grep(workspace: Workspace, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    from fairlead.tools.search.grep import run_grep

    return await run_grep(workspace, arguments, context)


async def _run_find(workspace: Workspace, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    from fairlead.tools.search.listing import run_find

    return await run_find(workspace, arguments, context)


async def _run_ls(workspace: Workspace, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    from fairlead.tools.search.listing import run_ls

    return await run_ls(workspace, arguments, context)


def usual_file_texts(name: str | None) -> frozenset[KeyPath]:
    """Return which arguments of a tool called `name` usually hold text for files."""
    return _FILE_TEXTS.get(name or "", frozenset())


def with_usual_subject(tool: Tool) -> Tool:
    """Return `tool`, with the subject and the file texts that tools of its name usually have if it declares none."""
    if tool.subject is not None or tool.name not in _SUBJECTS:
        return tool
    return replace(tool, subject=_SUBJECTS[tool.name], file_texts=tool.file_texts or usual_file_texts(tool.name))
