"""Opal's write_file tool."""

from __future__ import annotations

from functools import partial
from typing import Any

from fairlead.core.approval import FileChange, file_changes
from fairlead.core.lenient import scrub_text
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import ApprovedFile, Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools import CONTENT, PATH, object_schema, repair_arguments, string
from fairlead.tools.background import Stop, change_in_order, in_thread
from fairlead.tools.files import edit, write
from fairlead.tools.files.targets import Target, found_at
from fairlead.tools.opal.access import FileAccess
from fairlead.tools.opal.edit_file import diff_details
from fairlead.tools.titles import file_locations, write_title
from fairlead.tools.workspace import Guard

_PARAMETERS = object_schema(
    {"path": string("The file, in the working directory"), "content": string("The whole new content")}, "path", "content"
)


def write_file_tool(files: FileAccess) -> Tool:
    return Tool(
        name="write_file",
        description="Write a file: makes it, with its folders, or replaces all of its content.",
        parameters=_PARAMETERS,
        run=partial(_run_write_file, files),
        kind="edit",
        title=write_title,
        locations=partial(file_locations, files.workspace),
        preview=partial(_preview_write_file, files),
        subject=PATH,
        file_texts=CONTENT,
        snippet="Make or overwrite files",
        guidelines=("Use write_file for new files and complete rewrites; change existing files with edit_file.",),
        exclusive=True,
        timeout=files.workspace.default_timeout,
        prepare=repair_arguments,
    )


async def _run_write_file(files: FileAccess, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    target = files.find(arguments["path"], context.target)
    content = scrub_text(arguments["content"])

    def change(stop: Stop) -> ToolResult:
        write.make_parents(target, files.workspace.cwd, files.workspace.guard)
        result = ToolResult.text(f"File written: {target.named}")
        result.details, result.changes = _write(target, files.name_of(target.real), content, files.workspace.guard, stop)
        return result

    return await change_in_order(target, context.cancel, change)


async def _preview_write_file(
    files: FileAccess, arguments: dict[str, Any], approved: ApprovedFile | None, cancel: CancelToken
) -> list[FileChange]:
    """Return what a write would change. Raises ToolError if the file is out of reach."""
    target = files.find(arguments["path"], approved)
    content = scrub_text(arguments["content"])
    return await in_thread(cancel, lambda stop: write.changes_of_write(target, content, files.workspace.guard, stop))


def _write(
    target: Target, name: str, content: str, guard: Guard | None, stop: Stop
) -> tuple[dict[str, Any] | None, list[FileChange]]:
    """Write the file. Returns the details and the changes; no details if the old content was not text and cannot be compared."""
    if found_at(target) is None:
        details = diff_details("", edit.TextReplacement(0, 0, content), name, stop)
        write.replace_file(target, content.encode(), guard, stop)
        return details, file_changes(scrub_text(str(target.real)), None, content)
    old = _text_at(target, name, guard, stop)
    if old is None:
        write.replace_file(target, content.encode(), guard, stop)
        return None, []
    text = old.text
    content = content.removeprefix(write.BOM)
    if "\n" in text:
        content = write.with_line_ends_of(text, 0, len(text), content)
    # Described first: once the file has changed, nothing slow may delay the report.
    details = diff_details(text, edit.TextReplacement(0, len(text), content), name, stop)
    old.save(content, stop)
    return details, old.changes(content)


def _text_at(target: Target, name: str, guard: Guard | None, stop: Stop) -> write.TextFile | None:
    """The present text of the file; None if it is not text, and has no line ends to keep."""
    try:
        return write.TextFile(target, name, guard, stop)
    except ToolError:
        stop.check()
        return None
