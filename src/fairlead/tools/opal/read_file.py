"""Opal's read_file tool. It puts an anchor in front of each line."""

from __future__ import annotations

from functools import partial
from typing import Any

from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools import PATH, integer, object_schema, repair_arguments, string
from fairlead.tools.background import in_thread
from fairlead.tools.files import read
from fairlead.tools.opal.access import FileAccess
from fairlead.tools.opal.anchors import tagged
from fairlead.tools.titles import file_locations, read_title
from fairlead.tools.truncate import MAX_BYTES, format_size

_PARAMETERS = object_schema(
    {
        "path": string("The file, in the working directory"),
        "offset": integer("First line to read, from 1"),
        "limit": integer("How many lines to read at most"),
    },
    "path",
)


def read_file_tool(files: FileAccess) -> Tool:
    return Tool(
        name="read_file",
        description=(
            "Read a text file or an image. Every line of text comes as N:hh|text: edit_file takes N:hh to name the line. At most"
            " 2000 lines or 50KB are returned; continue with offset, which the result names."
        ),
        parameters=_PARAMETERS,
        run=partial(_run_read_file, files),
        kind="read",
        title=read_title,
        locations=partial(file_locations, files.workspace),
        idempotent=True,
        subject=PATH,
        harmless=True,
        snippet="Read files, with a tag before every line",
        guidelines=("Look at files with read_file, not with cat or sed.",),
        timeout=files.workspace.default_timeout,
        prepare=repair_arguments,
    )


async def _run_read_file(files: FileAccess, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    target = files.find(arguments["path"], context.target)
    offset, limit = max(arguments.get("offset") or 1, 1), arguments.get("limit")

    def show(window: read.Window) -> ToolResult:
        return ToolResult.text(_shown(window, offset))

    return await in_thread(
        context.cancel, lambda stop: read.read_file(files.workspace, target, offset, max(limit, 1) if limit else None, show, stop)
    )


def _shown(window: read.Window, offset: int) -> str:
    total = window.total_lines
    if offset > max(total, 1):
        raise ToolError(f"Offset {offset} is beyond end of file ({total} lines total)")
    if total and not window.lines:
        size = format_size(window.first_line_bytes)
        return (
            f"[Line {offset} is {size}, exceeds {format_size(MAX_BYTES)} limit. Look at it with shell, for example with cut -c.]"
        )
    lines = window.content.decode("utf-8", "replace").removesuffix("\n").split("\n")
    if offset == 1:
        lines[0] = lines[0].removeprefix("\ufeff")
    shown: list[str] = []
    room = MAX_BYTES
    for number, line in enumerate(lines, offset):
        line = tagged(number, line.removesuffix("\r"))
        room -= len(line.encode()) + 1
        if room < 0 and shown:  # anchors take room too, but a single line that fits without its anchor is shown
            break
        shown.append(line)
    after = offset + len(shown)
    text = "\n".join(shown)
    if after <= total:
        text += f"\n\n[Showing lines {offset}-{after - 1} of {total}. Use offset={after} to continue.]"
    return text
