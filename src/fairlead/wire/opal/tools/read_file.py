"""The read_file tool: `read`, with an anchor in front of every line."""

from __future__ import annotations

from typing import Any

from fairlead.core.tool import ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools.background import in_thread
from fairlead.tools.files.read import Window, read_file
from fairlead.tools.truncate import MAX_BYTES, format_size
from fairlead.wire.opal.tools.file_access import FileAccess
from fairlead.wire.opal.tools.hashlines import tagged


async def run_read_file(files: FileAccess, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    target = files.find(arguments["path"], context.target)
    offset, limit = max(arguments.get("offset") or 1, 1), arguments.get("limit")

    def show(window: Window) -> ToolResult:
        return ToolResult.text(_shown(window, offset))

    return await in_thread(
        context.cancel, lambda stop: read_file(files.workspace, target, offset, max(limit, 1) if limit else None, show, stop)
    )


def _shown(window: Window, offset: int) -> str:
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
