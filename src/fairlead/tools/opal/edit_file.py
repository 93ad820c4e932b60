"""Opal's edit_file and write_file tools, and the diff that describes a change to hosts.

edit_file names lines by anchors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from fairlead.core.approval import FileChange, file_changes
from fairlead.core.lenient import scrub_text
from fairlead.core.messages import TextContent
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import ApprovedFile, Tool, ToolContext, ToolLocation, ToolResult
from fairlead.errors import ToolError
from fairlead.tools import (
    CONTENT,
    NEW_LINES,
    PATH,
    edit_title,
    file_locations,
    object_schema,
    repair_arguments,
    string,
    write_title,
)
from fairlead.tools.background import Stop, change_in_order, in_thread, split_lines
from fairlead.tools.files import edit, write
from fairlead.tools.files.targets import Guard, Target, stat_target
from fairlead.tools.opal.anchors import META, Anchor, FileAccess, line_hash, read_anchor, tag_lines
from fairlead.tools.truncate import MAX_LINES, head
from fairlead.tools.workspace import Workspace

Operation: TypeAlias = Literal["replace", "insert_after", "insert_before"]

#: How many lines an error shows before and after a line that has changed.
_AROUND = 5
#: How many lines around it to search for a line that has moved, and how many candidates to name.
_NEAR, _MOVED = 200, 3

_PARAMETERS = object_schema(
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
)


def edit_file_tool(files: FileAccess) -> Tool:
    return Tool(
        name="edit_file",
        description=(
            "Change whole lines of a file, named by the tags that read_file, grep and edit_file itself show. A line that has"
            " changed since is not touched: the call fails and shows what is there now. After an edit the lines below it have"
            " other numbers."
        ),
        parameters=_PARAMETERS,
        run=partial(_run_edit_file, files),
        kind="edit",
        title=edit_title,
        locations=partial(_edit_locations, files.workspace),
        preview=partial(_preview_edit_file, files),
        subject=PATH,
        file_texts=NEW_LINES,
        snippet="Change lines of files by their tags",
        exclusive=True,
        timeout=files.workspace.default_timeout,
        prepare=repair_arguments,
    )


def _edit_locations(workspace: Workspace, arguments: Mapping[str, Any]) -> list[ToolLocation]:
    """The file, and the line that the tag in `start` names."""
    line = arguments["start"].partition(":")[0] if "start" in arguments else ""
    return file_locations(workspace, {"path": arguments["path"], "offset": int(line) if line.isdecimal() else None})


class _LineEdit(Struct, frozen=True):
    """A checked call of edit_file."""

    target: Target
    start: Anchor
    through: Anchor
    new: str
    operation: Operation


async def _run_edit_file(files: FileAccess, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    call = _line_edit(files, arguments, context.target)
    return await change_in_order(call.target, context.cancel, lambda stop: _edit(files, call, stop))


async def _preview_edit_file(
    files: FileAccess, arguments: dict[str, Any], approved: ApprovedFile | None, cancel: CancelToken
) -> list[FileChange]:
    """Return what an edit would change. Raises ToolError if it would fail."""
    call = _line_edit(files, arguments, approved)

    def look(stop: Stop) -> list[FileChange]:
        file, _, _, replacement = _compute_edit(files, call, stop)
        return file.changes(edit.apply(file.text, [replacement]))

    return await in_thread(cancel, look)


def _line_edit(files: FileAccess, arguments: dict[str, Any], approved: ApprovedFile | None) -> _LineEdit:
    target = files.find(arguments["path"], approved, data=False)
    start = read_anchor(arguments["start"], "start")
    through = read_anchor(arguments["through"], "through") if "through" in arguments else start
    operation: Operation = arguments.get("operation", "replace")
    new = scrub_text(arguments.get("new_string", ""))
    if through.number < start.number:
        raise ToolError(
            f"through ({through}) is a line before start ({start}). Name the first line in start, the last in through."
        )
    return _LineEdit(target, start, through, new, operation)


def _compute_edit(
    files: FileAccess, call: _LineEdit, stop: Stop
) -> tuple[write.TextFile, list[str], list[str], edit.TextReplacement]:
    """Return the file of an edit, its lines, the new lines, and what they replace. Raises ToolError if it cannot be made."""
    name = files.name_of(call.target.real)
    file = write.TextFile(call.target, name, files.workspace.guard, stop)
    lines = split_lines(file.text, stop)
    for anchor in (call.start, call.through):
        _check(lines, anchor, name)
    is_deletion = call.operation == "replace" and not call.new
    added = [] if is_deletion else call.new.replace("\r\n", "\n").removesuffix("\n").split("\n")
    last = call.through if call.operation == "replace" else call.start
    replacement = _replacement(lines, call.start.number - 1, last.number, added, call.operation)
    return file, lines, added, replacement


def _edit(files: FileAccess, call: _LineEdit, stop: Stop) -> ToolResult:
    file, lines, added, replacement = _compute_edit(files, call, stop)
    name, start = files.name_of(call.target.real), call.start.number
    result = edit.apply(file.text, [replacement])
    if result == file.text:
        raise ToolError(f"No changes made to {name}: the lines are what new_string says already.")
    # Described first: once the file has changed, nothing slow may delay the report.
    details = diff_details(file.text, replacement, name, stop)
    file.save(result, stop)
    old = lines[start - 1 : call.through.number] if call.operation == "replace" else []
    first = start + 1 if call.operation == "insert_after" else start
    account = head(_account(call.target.named, start, old, first, added))
    text = account.content + ("\n[The rest is left out.]" if account.truncated else "")
    return ToolResult([TextContent(text)], details, file.changes(result))


def _check(lines: Sequence[str], anchor: Anchor, name: str) -> None:
    """Raise ToolError, with the present lines, if the line has changed since the model saw it."""
    at = anchor.number - 1
    if at < len(lines) and line_hash(lines[at]) == anchor.hash:
        return
    if at >= len(lines):
        problem = f"{name} has no line {anchor.number}: it ends with line {len(lines)}."
        at = len(lines) - 1
    else:
        problem = f"Line {anchor.number} of {name} is not {anchor} any more: its tag is {anchor.number}:{line_hash(lines[at])}."
    first = max(0, at - _AROUND)
    around = "\n".join(tag_lines((line.removesuffix("\r") for line in lines[first : at + _AROUND + 1]), first + 1))
    moved = _find_moved(lines, anchor, at)
    raise ToolError(
        f"{problem} Nothing was changed. Use the tags of the lines as they are now:\n\n{around}\n\n{moved}"
        "If the line you mean is not among them, read the file again."
    )


def _find_moved(lines: Sequence[str], anchor: Anchor, at: int) -> str:
    """Where lines with the hash of an anchor are now, nearest first."""
    near = range(max(0, at - _NEAR), min(len(lines), at + _NEAR + 1))
    candidates = (place for place in sorted(near, key=lambda place: abs(place - at)) if abs(place - at) > _AROUND)
    moved = [place for place in candidates if lines[place].strip() and line_hash(lines[place]) == anchor.hash][:_MOVED]
    if not moved:
        return ""
    shown = "\n".join(line for place in moved for line in tag_lines([lines[place].removesuffix("\r")], place + 1))
    return f"The line {anchor} may have moved. These have the same digits:\n\n{shown}\n\n"


def _replacement(
    lines: Sequence[str], first: int, after: int, added: Sequence[str], operation: Operation
) -> edit.TextReplacement:
    """The replacement of the lines from `first` up to, not including, `after`. The text is `lines` joined by newlines."""
    # The last line may have no line end to copy.
    model = lines[first] if first < len(lines) - 1 else lines[0] if len(lines) > 1 else ""
    newline = "\r\n" if model.endswith("\r") else "\n"
    text = newline.join(added)
    start = sum(len(line) + 1 for line in lines[:first])
    end = start + sum(len(line) + 1 for line in lines[first:after])
    is_last = after == len(lines)
    if is_last:
        end -= 1
    if operation == "insert_before":
        return edit.TextReplacement(start, start, text + newline)
    if operation == "insert_after":
        return edit.TextReplacement(end, end, newline + text if is_last else text + newline)
    if added:
        return edit.TextReplacement(start, end, text if is_last else text + newline)
    if is_last and first:  # nothing follows, so the preceding line end goes too
        start -= 2 if lines[first - 1].endswith("\r") else 1
    return edit.TextReplacement(start, end, "")


def _account(path: Path, number: int, old: Sequence[str], first: int, added: Sequence[str]) -> str:
    """The text for the model: the removed lines, and the new lines with the tags for further edits."""
    parts = [f"Edit applied to: {path}"]
    if old:
        went = tag_lines((line.removesuffix("\r") for line in old), number)
        parts.append("\n".join(["Replaced content:" if added else "Removed content:", *went]))
    if added:
        parts.append("\n".join(["New content:", *tag_lines(added, first)]))
    return "\n\n".join(parts)


#: Lines of context around a change.
_CONTEXT = 3


def diff_details(original: str, replacement: edit.TextReplacement, name: str, stop: Stop) -> dict[str, Any]:
    """The details of a result that made `replacement` in a text, with a few lines of context.

    The counts are exact. For a change that is too long to show, the hunks hold the beginning and `truncated` is true.
    """
    lines = edit.lines_of(original, stop)
    changes = list(edit.changes_of(original, lines, [replacement], stop))
    hunks: list[dict[str, Any]] = []
    shift = 0
    room = MAX_LINES
    for hunk in edit.hunks_of(changes, _CONTEXT):
        start = max(0, hunk[0].line - _CONTEXT)
        body = _body(lines, hunk, start, shift)
        hunks.append({"old_start": start + 1, "new_start": start + shift + 1, "lines": body[:room]})
        shift += sum(len(change.new) - len(change.old) for change in hunk)
        room -= len(body)
        if room < 0:
            break
    diff: dict[str, Any] = {
        "path": name,
        "lines_added": sum(len(change.new) for change in changes),
        "lines_removed": sum(len(change.old) for change in changes),
        "hunks": hunks,
    }
    return {META: {"diff": {**diff, "truncated": True} if room < 0 else diff}}


def _body(lines: Sequence[str], hunk: Sequence[edit.Change], start: int, shift: int) -> list[dict[str, Any]]:
    body: list[dict[str, Any]] = []
    at = start

    def keep(end: int) -> None:
        body.extend(
            {"op": "eq", "text": _bare(lines[number]), "old_no": number + 1, "new_no": number + shift + 1}
            for number in range(at, end)
        )

    for change in hunk:
        keep(change.line)
        new = change.line + shift + 1
        body += [{"op": "del", "text": _bare(text), "old_no": number} for number, text in enumerate(change.old, change.line + 1)]
        body += [{"op": "ins", "text": _bare(text), "new_no": number} for number, text in enumerate(change.new, new)]
        at = change.line + len(change.old)
        shift += len(change.new) - len(change.old)
    keep(min(len(lines), at + _CONTEXT))
    return body


def _bare(line: str) -> str:
    return line.rstrip("\r\n")


_WRITE_PARAMETERS = object_schema(
    {"path": string("The file, in the working directory"), "content": string("The whole new content")}, "path", "content"
)


def write_file_tool(files: FileAccess) -> Tool:
    return Tool(
        name="write_file",
        description="Write a file: makes it, with its folders, or replaces all of its content.",
        parameters=_WRITE_PARAMETERS,
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
    if stat_target(target) is None:
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
