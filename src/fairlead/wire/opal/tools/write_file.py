"""The write_file tool: `write`, but it keeps the byte order mark and the line ends of the file it replaces."""

from __future__ import annotations

from typing import Any

from fairlead.core.lenient import scrub_text
from fairlead.core.tool import ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools.background import Stop, change_in_order
from fairlead.tools.files.edit import Replacement
from fairlead.tools.files.write import BOM, Target, TextFile, found_at, make_parents, replace_file, with_line_ends_of
from fairlead.tools.guard import Guard
from fairlead.wire.opal.tools.diffs import diff_details
from fairlead.wire.opal.tools.file_access import FileAccess


async def run_write_file(files: FileAccess, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    target = files.find(arguments["path"], context.target)
    content = scrub_text(arguments["content"])

    def write(stop: Stop) -> dict[str, Any] | None:
        make_parents(target, files.workspace.cwd, files.workspace.guard)
        return _write(target, files.name_of(target.real), content, files.workspace.guard, stop)

    details = await change_in_order(target, context.cancel, write)
    return ToolResult.text(f"File written: {target.named}", details)


def _write(target: Target, name: str, content: str, guard: Guard | None, stop: Stop) -> dict[str, Any] | None:
    """Write the file. Returns the details of the result; None if the old content was not text and cannot be compared."""
    if found_at(target) is None:
        details = diff_details("", Replacement(0, 0, content), name, stop)
        replace_file(target, content.encode(), guard, stop)
        return details
    old = _text_at(target, name, guard, stop)
    if old is None:
        replace_file(target, content.encode(), guard, stop)
        return None
    text = old.text
    content = content.removeprefix(BOM)
    if "\n" in text:
        content = with_line_ends_of(text, 0, len(text), content)
    # Described first: once the file has changed, nothing slow may delay the report.
    details = diff_details(text, Replacement(0, len(text), content), name, stop)
    old.save(content, stop)
    return details


def _text_at(target: Target, name: str, guard: Guard | None, stop: Stop) -> TextFile | None:
    """The present text of the file; None if it is not text, and has no line ends to keep."""
    try:
        return TextFile(target, name, guard, stop)
    except ToolError:
        stop.check()
        return None
