"""The edit_file tool: changes lines that are named by anchors, if they have not changed since the model saw them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from fairlead.core.lenient import scrub_text
from fairlead.core.tool import ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools.background import Stop, change_in_order, split_lines
from fairlead.tools.files.edit import Replacement, apply
from fairlead.tools.files.write import Target, TextFile
from fairlead.tools.truncate import head
from fairlead.wire.opal.tools.diffs import diff_details
from fairlead.wire.opal.tools.file_access import FileAccess
from fairlead.wire.opal.tools.hashlines import Anchor, line_hash, read_anchor, tagged_lines

Operation: TypeAlias = Literal["replace", "insert_after", "insert_before"]

#: How many lines an error shows before and after a line that has changed.
_AROUND = 5
#: How many lines around it to search for a line that has moved, and how many candidates to name.
_NEAR, _MOVED = 200, 3


async def run_edit_file(files: FileAccess, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    target = files.find(arguments["path"], context.target, data=False)
    start = read_anchor(arguments["start"], "start")
    through = read_anchor(arguments["through"], "through") if "through" in arguments else start
    operation: Operation = arguments.get("operation", "replace")
    new = scrub_text(arguments.get("new_string", ""))
    if through.number < start.number:
        raise ToolError(
            f"through ({through}) is a line before start ({start}). Name the first line in start, the last in through."
        )

    def change(stop: Stop) -> ToolResult:
        return _edit(files, target, start, through, new, operation, stop)

    return await change_in_order(target, context.cancel, change)


def _edit(
    files: FileAccess, target: Target, start: Anchor, through: Anchor, new: str, operation: Operation, stop: Stop
) -> ToolResult:
    name = files.name_of(target.real)
    file = TextFile(target, name, files.workspace.guard, stop)
    lines = split_lines(file.text, stop)
    for anchor in (start, through):
        _check(lines, anchor, name)
    added = [] if operation == "replace" and not new else new.replace("\r\n", "\n").removesuffix("\n").split("\n")
    if operation != "replace":
        through = start
    replacement = _replacement(lines, start.number - 1, through.number, added, operation)
    result = apply(file.text, [replacement])
    if result == file.text:
        raise ToolError(f"No changes made to {name}: the lines are what new_string says already.")
    # Described first: once the file has changed, nothing slow may delay the report.
    details = diff_details(file.text, replacement, name, stop)
    file.save(result, stop)
    old = lines[start.number - 1 : through.number] if operation == "replace" else []
    first = start.number + 1 if operation == "insert_after" else start.number
    account = head(_account(target.named, start.number, old, first, added))
    return ToolResult.text(account.content + ("\n[The rest is left out.]" if account.truncated else ""), details)


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
    around = "\n".join(tagged_lines((line.removesuffix("\r") for line in lines[first : at + _AROUND + 1]), first + 1))
    raise ToolError(
        f"{problem} Nothing was changed. Use the tags of the lines as they are now:\n\n{around}\n\n{_moved(lines, anchor, at)}"
        "If the line you mean is not among them, read the file again."
    )


def _moved(lines: Sequence[str], anchor: Anchor, at: int) -> str:
    """Where lines with the hash of an anchor are now, nearest first."""
    near = range(max(0, at - _NEAR), min(len(lines), at + _NEAR + 1))
    candidates = (place for place in sorted(near, key=lambda place: abs(place - at)) if abs(place - at) > _AROUND)
    moved = [place for place in candidates if lines[place].strip() and line_hash(lines[place]) == anchor.hash][:_MOVED]
    if not moved:
        return ""
    shown = "\n".join(line for place in moved for line in tagged_lines([lines[place].removesuffix("\r")], place + 1))
    return f"The line {anchor} may have moved. These have the same digits:\n\n{shown}\n\n"


def _replacement(lines: Sequence[str], first: int, after: int, added: Sequence[str], operation: Operation) -> Replacement:
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
        return Replacement(start, start, text + newline)
    if operation == "insert_after":
        return Replacement(end, end, newline + text if is_last else text + newline)
    if added:
        return Replacement(start, end, text if is_last else text + newline)
    if is_last and first:  # nothing follows, so the preceding line end goes too
        start -= 2 if lines[first - 1].endswith("\r") else 1
    return Replacement(start, end, "")


def _account(path: Path, number: int, old: Sequence[str], first: int, added: Sequence[str]) -> str:
    """The text for the model: the removed lines, and the new lines with the tags for further edits."""
    parts = [f"Edit applied to: {path}"]
    if old:
        went = tagged_lines((line.removesuffix("\r") for line in old), number)
        parts.append("\n".join(["Replaced content:" if added else "Removed content:", *went]))
    if added:
        parts.append("\n".join(["New content:", *tagged_lines(added, first)]))
    return "\n\n".join(parts)
