"""Read, Write and Edit. A file that exists is changed only if the model has read it, and if it has not changed since."""

from __future__ import annotations

import base64
import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from fairlead.core import images
from fairlead.core.approval import FileChange, file_changes
from fairlead.core.lenient import decode, scrub_text
from fairlead.core.messages import ImageContent, TextContent
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import ApprovedFile, KeyPath, Tool, ToolContext, ToolLocation, ToolResult, ToolSubject
from fairlead.errors import ToolError
from fairlead.tools import integer, object_schema, repair_arguments, string
from fairlead.tools.background import Stop, change_in_order, in_thread
from fairlead.tools.files import read
from fairlead.tools.files.targets import Target, open_regular, stat_target
from fairlead.tools.files.write import TextFile, changes_of_write, make_parents, replace_file, with_line_ends_of
from fairlead.tools.truncate import MAX_BYTES, MAX_LINES, format_size
from fairlead.tools.workspace import Workspace

#: Approval rules match the path of the file.
FILE = ToolSubject("path", "file_path")
_WRITTEN: frozenset[KeyPath] = frozenset({("content",)})
_EDITED: frozenset[KeyPath] = frozenset({("new_string",)})
#: How many unchanged lines a hunk of a patch has around a change.
_CONTEXT = 3


def closed_schema(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """Return a schema that refuses other properties."""
    return {**object_schema(properties, *required), "additionalProperties": False}


def refuse(text: str) -> ToolError:
    """Return the error for a call that was refused before anything happened. Hosts know its marks."""
    return ToolError(f"<tool_use_error>{text}</tool_use_error>")


class ReadFiles:
    """The files that the model has read or written in a session, as they were then."""

    def __init__(self) -> None:
        self._states: dict[str, tuple[int, int]] = {}

    def note(self, target: Target) -> None:
        """Note that the model knows a file as it is now."""
        found = stat_target(target)
        if found is not None:
            self._states[str(target.real)] = found.st_mtime_ns, found.st_size

    def check(self, target: Target) -> None:
        """Raise ToolError if a file exists that the model does not know as it is now."""
        found = stat_target(target)
        if found is None:
            return
        known = self._states.get(str(target.real))
        if known is None:
            raise refuse(f"{target.named} was not read in this session. Read it before you change it.")
        if known != (found.st_mtime_ns, found.st_size):
            raise refuse(f"{target.named} has changed since it was read. Read it again before you change it.")


class Machine(Struct, frozen=True):
    """What the tools of one session share."""

    workspace: Workspace
    files: ReadFiles
    #: Where long outputs of commands are kept; None: with the other temporary files.
    log_dir: Callable[[], Path] | None = None


def _make_title(word: str, arguments: Mapping[str, Any]) -> str:
    return f"{word} {arguments['file_path']}"


def _locations(workspace: Workspace, arguments: Mapping[str, Any]) -> list[ToolLocation]:
    return [ToolLocation(str(workspace.resolve(arguments["file_path"])), arguments.get("offset"))]


# Read


def read_tool(machine: Machine) -> Tool:
    return Tool(
        name="Read",
        description=(
            "Read a text file, an image or a notebook. Lines come as NUMBER, a tab, and the text, at most 2000 lines from offset"
            " on."
        ),
        parameters=closed_schema(
            {
                "file_path": string("The absolute path of the file"),
                "offset": integer("The first line to read, from 1"),
                "limit": integer("How many lines to read at most"),
                "pages": string("Not used: fairlead reads no PDF files"),
            },
            "file_path",
        ),
        run=partial(_run_read, machine),
        kind="read",
        title=partial(_make_title, "Read"),
        locations=partial(_locations, machine.workspace),
        idempotent=True,
        subject=FILE,
        harmless=True,
        snippet="Read files",
        timeout=machine.workspace.default_timeout,
        prepare=repair_arguments,
    )


async def _run_read(machine: Machine, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    workspace = machine.workspace
    target = workspace.locate(arguments["file_path"], context.target)
    offset, limit = max(arguments.get("offset") or 1, 1), arguments.get("limit")

    def look(stop: Stop) -> ToolResult:
        if target.real.suffix == ".ipynb":
            result = _read_notebook(workspace, target, stop)
        else:
            show = partial(_show_window, target, offset)
            result = read.read_file(workspace, target, offset, max(limit, 1) if limit else None, show, stop)
        machine.files.note(target)
        return _with_image_details(target, result)

    return await in_thread(context.cancel, look)


def _show_window(target: Target, offset: int, window: read.Window) -> ToolResult:
    content = window.content.decode("utf-8", "replace").removeprefix("\ufeff" if offset == 1 else "")
    total = window.total_lines
    reaches_end = offset + window.lines - 1 >= total
    # The text after the last line feed counts as a line, even if it is empty.
    all_lines = total + 1 if not reaches_end or content.endswith("\n") or not total else total
    lines = [line.removesuffix("\r") for line in content.split("\n")]
    if not reaches_end:
        lines.pop()
    if offset > all_lines:
        lines = []
    file = {
        "filePath": str(target.named),
        "content": "\n".join(lines),
        "numLines": len(lines),
        "startLine": offset,
        "totalLines": all_lines,
    }
    text = "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, offset))
    if not window.total_bytes:
        text = "<system-reminder>The file is empty.</system-reminder>"
    elif not lines:
        text = f"<system-reminder>The file has {all_lines} lines, so none begins at {offset}.</system-reminder>"
    elif window.stopped_by is not None:
        what = f"{MAX_LINES} lines" if window.stopped_by == "lines" else format_size(MAX_BYTES)
        text += f"\n\n[Cut off at {what}: line {offset + len(lines)} of {all_lines} is next.]"
    return ToolResult.text(text, {"type": "text", "file": file})


def _with_image_details(target: Target, result: ToolResult) -> ToolResult:
    image = next((block for block in result.content if isinstance(block, ImageContent)), None)
    if image is None:
        return result
    sides = images.dimensions(base64.b64decode(image.data))
    size = (found := stat_target(target)) and found.st_size
    file: dict[str, Any] = {"base64": image.data, "type": image.mime_type, "originalSize": size or 0}
    if sides is not None:
        file["dimensions"] = {"originalWidth": sides[0], "originalHeight": sides[1]}
    return ToolResult([image], {"type": "image", "file": file})


def _read_notebook(workspace: Workspace, target: Target, stop: Stop) -> ToolResult:
    with os.fdopen(open_regular(target, workspace.guard), "rb", buffering=0) as opened:
        data = read.read_all(opened.fileno(), stop)
    try:
        document = decode(data)
    except ValueError:
        raise ToolError(f"{target.named} is not a notebook: it is not JSON.") from None
    cells: list[dict[str, Any]] = []
    texts: list[str] = []
    for number, cell in enumerate(_list_cells(document)):
        source: Any = cell.get("source", "")
        text = "".join(map(str, cast("list[Any]", source))) if isinstance(source, list) else str(source)
        ident = str(cell.get("id", f"cell-{number}"))
        cells.append({"cellType": str(cell.get("cell_type", "code")), "source": text, "cell_id": ident})
        texts.append(f'<cell id="{ident}">{text}</cell id="{ident}">')
    details = {"type": "notebook", "file": {"filePath": str(target.named), "cells": cells}}
    return ToolResult([TextContent("\n".join(texts))], details)


def _list_cells(document: Any) -> list[dict[str, Any]]:
    cells = cast("dict[str, Any]", document).get("cells") if isinstance(document, dict) else None
    return [cell for cell in cast("list[Any]", cells or []) if isinstance(cell, dict)]


# Write


def write_tool(machine: Machine) -> Tool:
    return Tool(
        name="Write",
        description="Write a file: make it, or replace all of its content. A file that exists has to be read first.",
        parameters=closed_schema(
            {"file_path": string("The absolute path of the file"), "content": string("The whole content")}, "file_path", "content"
        ),
        run=partial(_run_write, machine),
        kind="edit",
        title=partial(_make_title, "Write"),
        locations=partial(_locations, machine.workspace),
        preview=partial(_preview_write, machine),
        subject=FILE,
        file_texts=_WRITTEN,
        snippet="Make files, or replace their content",
        exclusive=True,
        timeout=machine.workspace.default_timeout,
    )


async def _preview_write(
    machine: Machine, arguments: dict[str, Any], approved: ApprovedFile | None, cancel: CancelToken
) -> list[FileChange]:
    workspace = machine.workspace
    target, content = workspace.locate(arguments["file_path"], approved), scrub_text(arguments["content"])
    return await in_thread(cancel, lambda stop: changes_of_write(target, content, workspace.guard, stop))


async def _run_write(machine: Machine, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    workspace = machine.workspace
    target = workspace.locate(arguments["file_path"], context.target)
    return await change_in_order(
        target, context.cancel, lambda stop: write_text(machine, target, scrub_text(arguments["content"]), stop)
    )


def write_text(machine: Machine, target: Target, content: str, stop: Stop) -> ToolResult:
    """Give a file a new content. Raises ToolError if the model does not know its present one."""
    workspace = machine.workspace
    machine.files.check(target)
    make_parents(target, workspace.cwd, workspace.guard)
    changes = changes_of_write(target, content, workspace.guard, stop)
    old = changes[0].old_text if changes else (content if stat_target(target) is not None else None)
    patch = [] if old is None else make_patch(old, content)
    replace_file(target, content.encode(), workspace.guard, stop)
    machine.files.note(target)
    details = {
        "type": "create" if old is None else "update",
        "filePath": str(target.named),
        "content": content,
        "structuredPatch": patch,
        "originalFile": old,
        "userModified": False,
    }
    verb = "Created" if old is None else "Replaced the content of"
    return ToolResult([TextContent(f"{verb} {target.named}")], details, changes)


# Edit


def edit_tool(machine: Machine) -> Tool:
    return Tool(
        name="Edit",
        description=(
            "Replace a piece of text in a file that was read before. old_string has to be in the file exactly once, unless"
            " replace_all is set. An empty old_string makes a new file."
        ),
        parameters=closed_schema(
            {
                "file_path": string("The absolute path of the file"),
                "old_string": string("The text to replace, exactly as in the file"),
                "new_string": string("The text that takes its place"),
                "replace_all": {"type": "boolean", "description": "Whether to replace every occurrence"},
            },
            "file_path",
            "old_string",
            "new_string",
        ),
        run=partial(_run_edit, machine),
        kind="edit",
        title=partial(_make_title, "Edit"),
        locations=partial(_locations, machine.workspace),
        preview=partial(_preview_edit, machine),
        subject=FILE,
        file_texts=_EDITED,
        snippet="Replace text in files",
        exclusive=True,
        timeout=machine.workspace.default_timeout,
        prepare=repair_arguments,
    )


class _Replacement(Struct, frozen=True):
    """A call of Edit."""

    old: str
    new: str
    every: bool


async def _run_edit(machine: Machine, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    target = machine.workspace.locate(arguments["file_path"], context.target)
    wanted = _replacement(arguments)
    return await change_in_order(target, context.cancel, lambda stop: _edit(machine, target, wanted, stop))


async def _preview_edit(
    machine: Machine, arguments: dict[str, Any], approved: ApprovedFile | None, cancel: CancelToken
) -> list[FileChange]:
    target, wanted = machine.workspace.locate(arguments["file_path"], approved), _replacement(arguments)

    def look(stop: Stop) -> list[FileChange]:
        if not wanted.old:
            return file_changes(str(target.real), None, wanted.new)
        file = TextFile(target, str(target.named), machine.workspace.guard, stop)
        return file.changes(_apply(file.text, wanted, str(target.named)))

    return await in_thread(cancel, look)


def _replacement(arguments: Mapping[str, Any]) -> _Replacement:
    old, new = scrub_text(arguments["old_string"]), scrub_text(arguments["new_string"])
    if old == new:
        raise refuse("old_string and new_string are the same, so there is nothing to change.")
    return _Replacement(old, new, bool(arguments.get("replace_all")))


def _edit(machine: Machine, target: Target, wanted: _Replacement, stop: Stop) -> ToolResult:
    if not wanted.old:
        found = stat_target(target)
        if found is not None and found.st_size:
            raise refuse(f"{target.named} exists and is not empty. Put the text to replace into old_string.")
        machine.files.note(target)
        return write_text(machine, target, wanted.new, stop)
    if stat_target(target) is None:
        raise refuse(f"{target.named} does not exist.")
    machine.files.check(target)
    file = TextFile(target, str(target.named), machine.workspace.guard, stop)
    result = _apply(file.text, wanted, str(target.named))
    details = {
        "filePath": str(target.named),
        "oldString": wanted.old,
        "newString": wanted.new,
        "originalFile": file.text,
        "structuredPatch": make_patch(file.text, result),
        "userModified": False,
        "replaceAll": wanted.every,
    }
    changes = file.changes(result)
    file.save(result, stop)
    machine.files.note(target)
    return ToolResult([TextContent(f"Changed {target.named}")], details, changes)


def _apply(text: str, wanted: _Replacement, name: str) -> str:
    """Return the text with the replacement. Raises ToolError if it does not fit."""
    old = wanted.old
    if old not in text:
        old = old.replace("\r\n", "\n").replace("\n", "\r\n")
    count = text.count(old)
    if not count:
        raise refuse(f"old_string is not in {name}. Read the file to see its text.\nold_string: {wanted.old}")
    if count > 1 and not wanted.every:
        raise refuse(f"old_string is in {name} {count} times. Add lines around it to make it unique, or set replace_all.")
    start = text.find(old)
    return text.replace(old, with_line_ends_of(text, start, start + len(old), wanted.new))


def make_patch(old: str, new: str) -> list[dict[str, Any]]:
    """Return a change as the hunks that hosts draw. Their lines begin with a space, `-` or `+`."""
    before, after = _split(old), _split(new)
    hunks: list[dict[str, Any]] = []
    for group in difflib.SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(_CONTEXT):
        lines: list[str] = []
        for kind, first, last, start, end in group:
            if kind == "equal":
                lines += [f" {line}" for line in before[first:last]]
            else:
                lines += [f"-{line}" for line in before[first:last]]
                lines += [f"+{line}" for line in after[start:end]]
        old_lines, new_lines = group[-1][2] - group[0][1], group[-1][4] - group[0][3]
        hunk = {"oldStart": group[0][1] + 1, "oldLines": old_lines, "newStart": group[0][3] + 1, "newLines": new_lines}
        hunks.append({**hunk, "lines": lines})
    return hunks


def _split(text: str) -> Sequence[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def relative_name(workspace: Workspace, path: str) -> str:
    """Return a path relative to the working directory, if it is inside."""
    try:
        return str(Path(path).relative_to(workspace.cwd))
    except ValueError:
        return path
