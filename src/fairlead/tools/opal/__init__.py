"""The tools that work on the machine, with Opal's names and forms: read_file, write_file, edit_file, grep, shell.

They use the same code as the tools in `fairlead.tools`. In addition, lines have anchors (`files`), files outside the working
directory are out of reach (`FileAccess`), and commands can outlive their call (`shell`). `fairlead.tools.opal.results`
says what results hold besides text.

This module only declares the tools; their code is imported when a tool is first called.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.core.approval import FileChange
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import ApprovedFile, Tool, ToolContext, ToolLocation, ToolResult
from fairlead.errors import ToolError
from fairlead.tools import COMMAND, CONTENT, NEW_LINES, PATH, usual_locations, usual_title
from fairlead.tools.files.targets import Target
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from fairlead.tools.opal.shell import Processes

__all__ = ["FileAccess", "integer", "machine_tools", "object_schema", "repaired", "string"]


@dataclass(frozen=True, slots=True)
class FileAccess:
    """The files that tools may use: those in the workspace and in `data_dir`, the session's own folder, if it has one."""

    workspace: Workspace
    data_dir: Path | None = None

    def find(self, path: str, approved: ApprovedFile | None = None, *, data: bool = True) -> Target:
        """Find the file of a call (see `Workspace.locate`), in the working directory or, with `data`, in `data_dir`.

        Messages name it with links resolved. Raises ToolError if it is outside.
        """
        real = self.workspace.locate(path, approved).real
        bases = [self.workspace.cwd, self.data_dir] if data else [self.workspace.cwd]
        if any(base is not None and real.is_relative_to(os.path.realpath(base)) for base in bases):
            return Target(real, real, approved)
        raise ToolError(f"Path escapes working directory: {path}")

    def name_of(self, path: Path) -> str:
        """The name of a file from `find` for the model and the host: relative to the working directory if it is in there."""
        cwd = os.path.realpath(self.workspace.cwd)
        return path.relative_to(cwd).as_posix() if path.is_relative_to(cwd) else path.as_posix()


def machine_tools(workspace: Workspace, data_dir: Path | None = None) -> list[Tool]:
    """Make the five tools for one session. All except edit_file may also use `data_dir`."""
    files = FileAccess(workspace, data_dir)
    limit = workspace.default_timeout
    return [
        _read_file(files, limit),
        _write_file(files, limit),
        _edit_file(files, limit),
        _grep(files, limit),
        _shell(files),
    ]


def _read_file(files: FileAccess, timeout: float) -> Tool:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        from fairlead.tools.opal.files import run_read_file

        return await run_read_file(files, arguments, context)

    return Tool(
        name="read_file",
        description=(
            "Read a text file or an image. Every line of text comes as N:hh|text: edit_file takes N:hh to name the line. At most"
            " 2000 lines or 50KB are returned; continue with offset, which the result names."
        ),
        parameters=object_schema(
            {
                "path": string("The file, in the working directory"),
                "offset": integer("First line to read, from 1"),
                "limit": integer("How many lines to read at most"),
            },
            "path",
        ),
        run=run,
        kind="read",
        title=usual_title("read"),
        locations=partial(usual_locations, files.workspace),
        idempotent=True,
        subject=PATH,
        harmless=True,
        snippet="Read files, with a tag before every line",
        guidelines=("Look at files with read_file, not with cat or sed.",),
        timeout=timeout,
        prepare=repaired,
    )


def _write_file(files: FileAccess, timeout: float) -> Tool:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        from fairlead.tools.opal.files import run_write_file

        return await run_write_file(files, arguments, context)

    async def preview(arguments: dict[str, Any], target: ApprovedFile | None, cancel: CancelToken) -> list[FileChange]:
        from fairlead.tools.opal.files import preview_write_file

        return await preview_write_file(files, arguments, target, cancel)

    return Tool(
        name="write_file",
        description="Write a file: makes it, with its folders, or replaces all of its content.",
        parameters=object_schema(
            {"path": string("The file, in the working directory"), "content": string("The whole new content")}, "path", "content"
        ),
        run=run,
        kind="edit",
        title=usual_title("write"),
        locations=partial(usual_locations, files.workspace),
        preview=preview,
        subject=PATH,
        file_texts=CONTENT,
        snippet="Make or overwrite files",
        guidelines=("Use write_file for new files and complete rewrites; change existing files with edit_file.",),
        exclusive=True,
        timeout=timeout,
        prepare=repaired,
    )


def _edit_file(files: FileAccess, timeout: float) -> Tool:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        from fairlead.tools.opal.files import run_edit_file

        return await run_edit_file(files, arguments, context)

    async def preview(arguments: dict[str, Any], target: ApprovedFile | None, cancel: CancelToken) -> list[FileChange]:
        from fairlead.tools.opal.files import preview_edit_file

        return await preview_edit_file(files, arguments, target, cancel)

    return Tool(
        name="edit_file",
        description=(
            "Change whole lines of a file, named by the tags that read_file, grep and edit_file itself show. A line that has"
            " changed since is not touched: the call fails and shows what is there now. After an edit the lines below it have"
            " other numbers."
        ),
        parameters=object_schema(
            {
                "path": string("The file, in the working directory"),
                "start": string("The tag of the first line, such as 12:a3"),
                "through": string("The tag of the last line, which is replaced too; the same as start if left out"),
                "new_string": string("The new lines; if left out or empty, the lines are deleted"),
                "operation": {
                    "type": "string",
                    "enum": ["replace", "insert_after", "insert_before"],
                    "description": "replace the lines (if left out), or insert new ones after or before start",
                },
            },
            "path",
            "start",
        ),
        run=run,
        kind="edit",
        title=usual_title("edit"),
        locations=partial(_edit_locations, files.workspace),
        preview=preview,
        subject=PATH,
        file_texts=NEW_LINES,
        snippet="Change lines of files by their tags",
        exclusive=True,
        timeout=timeout,
        prepare=repaired,
    )


def _grep(files: FileAccess, timeout: float) -> Tool:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        from fairlead.tools.opal.grep import run_grep

        return await run_grep(files, arguments, context)

    return Tool(
        name="grep",
        description=(
            "Search the contents of files for a regular expression. Lines come file by file as N:hh|text, with the tags that"
            " edit_file takes. Files named in .gitignore and binary files are skipped."
        ),
        parameters=object_schema(
            {
                "pattern": string("A regular expression"),
                "path": string("File or folder to search; the working directory if left out"),
                "include": string("Only files whose names match this, such as *.py or *.{ts,tsx}"),
                "context_lines": integer("Lines to show before and after each match, 0 to 10; 2 if left out"),
                "max_results": integer("How many matches at most, 1 to 500; 50 if left out"),
                "no_ignore": {"type": "boolean", "description": "Search also what .gitignore names"},
            },
            "pattern",
        ),
        run=run,
        kind="search",
        title=usual_title("grep"),
        idempotent=True,
        subject=PATH,
        harmless=True,
        snippet="Search file contents, respecting .gitignore",
        timeout=timeout,
        prepare=repaired,
    )


def _shell(files: FileAccess) -> Tool:
    # Made with the first command: a session that runs none has nothing to close.
    running: list[Processes] = []

    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        from fairlead.tools.opal.shell import Processes, run_shell

        if not running:
            running.append(Processes(files.workspace))
        return await run_shell(running[0], arguments, context)

    async def close() -> None:
        for processes in running:
            await processes.close()

    return Tool(
        name="shell",
        description=(
            "Run a shell command in the working directory. Returns stdout and stderr as they came, cut to the last 2000 lines or"
            " 50KB; a longer output is saved in full to a file that the result names. A command that has not ended within timeout"
            " keeps running: the result has its id, with which to wait for it, give it input or kill it. After 10 minutes it is"
            " stopped. Standard input stays open: a command that reads it waits for input (give rg a path to search)."
        ),
        parameters=object_schema(
            {
                "command": string("The command to run"),
                "action": {
                    "type": "string",
                    "enum": ["run", "wait", "input", "kill"],
                    "description": "run command (if left out); or wait for the process id, write input to it, kill it",
                },
                "id": string("wait, input, kill: which process"),
                "input": string(
                    "input: what to write, with the newline that ends a line; \\u0004 as the last character ends the input"
                ),
                "timeout": integer("Milliseconds to wait until the result comes in any case; 30000 if left out"),
            }
        ),
        run=run,
        kind="execute",
        title=_shell_title,
        subject=COMMAND,
        snippet="Run shell commands",
        exclusive=True,
        bound=True,
        timeout=None,
        prepare=repaired,
        close=close,
    )


def _edit_locations(workspace: Workspace, arguments: Mapping[str, Any]) -> list[ToolLocation]:
    """The file, and the line that the tag in `start` names."""
    line = arguments["start"].partition(":")[0] if "start" in arguments else ""
    return usual_locations(workspace, {"path": arguments["path"], "offset": int(line) if line.isdecimal() else None})


def _shell_title(arguments: Mapping[str, Any]) -> str:
    match arguments.get("action", "run"):
        case "wait":
            return f"Wait for process {arguments['id']}"
        case "input":
            return f"Write to process {arguments['id']}"
        case "kill":
            return f"Kill process {arguments['id']}"
        case _:
            return usual_title("bash")(arguments)


def object_schema(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


def string(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def integer(description: str) -> dict[str, Any]:
    return {"type": "integer", "description": description}


def repaired(arguments: dict[str, Any]) -> dict[str, Any]:
    """Repair arguments: many models write null for what they leave out, and some write 5.0 for 5."""
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in arguments.items()
        if value is not None
    }
