"""Opal's file tools: read_file, write_file and edit_file, which names lines by anchors and changes only what the model saw.

An anchor such as `12:a3|text` has the number of the line, and two digits that change with its text. The digits are Erlang's
`phash2(Line, 256)` of the line without blanks at its ends. Opal computes the same, so its anchors are valid here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from fairlead.core.approval import FileChange, file_changes
from fairlead.core.lenient import scrub_text
from fairlead.core.messages import TextContent
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import ApprovedFile, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools.background import Stop, change_in_order, in_thread, split_lines
from fairlead.tools.files.edit import Change, TextReplacement, apply, changes_of, hunks_of, lines_of
from fairlead.tools.files.read import Window, read_file
from fairlead.tools.files.targets import Target, found_at
from fairlead.tools.files.write import BOM, TextFile, changes_of_write, make_parents, replace_file, with_line_ends_of
from fairlead.tools.opal import FileAccess
from fairlead.tools.opal.results import META
from fairlead.tools.truncate import MAX_BYTES, MAX_LINES, format_size, head
from fairlead.tools.workspace import Guard


async def run_write_file(files: FileAccess, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    target = files.find(arguments["path"], context.target)
    content = scrub_text(arguments["content"])

    def write(stop: Stop) -> ToolResult:
        make_parents(target, files.workspace.cwd, files.workspace.guard)
        result = ToolResult.text(f"File written: {target.named}")
        result.details, result.changes = _write(target, files.name_of(target.real), content, files.workspace.guard, stop)
        return result

    return await change_in_order(target, context.cancel, write)


async def preview_write_file(
    files: FileAccess, arguments: dict[str, Any], approved: ApprovedFile | None, cancel: CancelToken
) -> list[FileChange]:
    """Return what a write would change. Raises ToolError if the file is out of reach."""
    target = files.find(arguments["path"], approved)
    content = scrub_text(arguments["content"])
    return await in_thread(cancel, lambda stop: changes_of_write(target, content, files.workspace.guard, stop))


def _write(
    target: Target, name: str, content: str, guard: Guard | None, stop: Stop
) -> tuple[dict[str, Any] | None, list[FileChange]]:
    """Write the file. Returns the details and the changes; no details if the old content was not text and cannot be compared."""
    if found_at(target) is None:
        details = diff_details("", TextReplacement(0, 0, content), name, stop)
        replace_file(target, content.encode(), guard, stop)
        return details, file_changes(scrub_text(str(target.real)), None, content)
    old = _text_at(target, name, guard, stop)
    if old is None:
        replace_file(target, content.encode(), guard, stop)
        return None, []
    text = old.text
    content = content.removeprefix(BOM)
    if "\n" in text:
        content = with_line_ends_of(text, 0, len(text), content)
    # Described first: once the file has changed, nothing slow may delay the report.
    details = diff_details(text, TextReplacement(0, len(text), content), name, stop)
    old.save(content, stop)
    return details, old.changes(content)


def _text_at(target: Target, name: str, guard: Guard | None, stop: Stop) -> TextFile | None:
    """The present text of the file; None if it is not text, and has no line ends to keep."""
    try:
        return TextFile(target, name, guard, stop)
    except ToolError:
        stop.check()
        return None


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


_CONTEXT = 3


def diff_details(original: str, replacement: TextReplacement, name: str, stop: Stop) -> dict[str, Any]:
    """The details of a result that made `replacement` in a text, with a few lines of context.

    The counts are exact. For a change that is too long to show, the hunks hold the beginning and `truncated` is true.
    """
    lines = lines_of(original, stop)
    changes = list(changes_of(original, lines, [replacement], stop))
    hunks: list[dict[str, Any]] = []
    shift = 0
    room = MAX_LINES
    for hunk in hunks_of(changes, _CONTEXT):
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


def _body(lines: Sequence[str], hunk: Sequence[Change], start: int, shift: int) -> list[dict[str, Any]]:
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


Operation: TypeAlias = Literal["replace", "insert_after", "insert_before"]

#: How many lines an error shows before and after a line that has changed.
_AROUND = 5
#: How many lines around it to search for a line that has moved, and how many candidates to name.
_NEAR, _MOVED = 200, 3


class _LineEdit(NamedTuple):
    """A checked call of edit_file."""

    target: Target
    start: Anchor
    through: Anchor
    new: str
    operation: Operation


async def run_edit_file(files: FileAccess, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    edit = _line_edit(files, arguments, context.target)
    return await change_in_order(edit.target, context.cancel, lambda stop: _edit(files, edit, stop))


async def preview_edit_file(
    files: FileAccess, arguments: dict[str, Any], approved: ApprovedFile | None, cancel: CancelToken
) -> list[FileChange]:
    """Return what an edit would change. Raises ToolError if it would fail."""
    edit = _line_edit(files, arguments, approved)

    def look(stop: Stop) -> list[FileChange]:
        file, _, _, replacement = _edited(files, edit, stop)
        return file.changes(apply(file.text, [replacement]))

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


def _edited(files: FileAccess, edit: _LineEdit, stop: Stop) -> tuple[TextFile, list[str], list[str], TextReplacement]:
    """Return the file of an edit, its lines, the new lines, and what they replace. Raises ToolError if it cannot be made."""
    name = files.name_of(edit.target.real)
    file = TextFile(edit.target, name, files.workspace.guard, stop)
    lines = split_lines(file.text, stop)
    for anchor in (edit.start, edit.through):
        _check(lines, anchor, name)
    is_deletion = edit.operation == "replace" and not edit.new
    added = [] if is_deletion else edit.new.replace("\r\n", "\n").removesuffix("\n").split("\n")
    last = edit.through if edit.operation == "replace" else edit.start
    replacement = _replacement(lines, edit.start.number - 1, last.number, added, edit.operation)
    return file, lines, added, replacement


def _edit(files: FileAccess, edit: _LineEdit, stop: Stop) -> ToolResult:
    file, lines, added, replacement = _edited(files, edit, stop)
    name, start = files.name_of(edit.target.real), edit.start.number
    result = apply(file.text, [replacement])
    if result == file.text:
        raise ToolError(f"No changes made to {name}: the lines are what new_string says already.")
    # Described first: once the file has changed, nothing slow may delay the report.
    details = diff_details(file.text, replacement, name, stop)
    file.save(result, stop)
    old = lines[start - 1 : edit.through.number] if edit.operation == "replace" else []
    first = start + 1 if edit.operation == "insert_after" else start
    account = head(_account(edit.target.named, start, old, first, added))
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


def _replacement(lines: Sequence[str], first: int, after: int, added: Sequence[str], operation: Operation) -> TextReplacement:
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
        return TextReplacement(start, start, text + newline)
    if operation == "insert_after":
        return TextReplacement(end, end, newline + text if is_last else text + newline)
    if added:
        return TextReplacement(start, end, text if is_last else text + newline)
    if is_last and first:  # nothing follows, so the preceding line end goes too
        start -= 2 if lines[first - 1].endswith("\r") else 1
    return TextReplacement(start, end, "")


def _account(path: Path, number: int, old: Sequence[str], first: int, added: Sequence[str]) -> str:
    """The text for the model: the removed lines, and the new lines with the tags for further edits."""
    parts = [f"Edit applied to: {path}"]
    if old:
        went = tagged_lines((line.removesuffix("\r") for line in old), number)
        parts.append("\n".join(["Replaced content:" if added else "Removed content:", *went]))
    if added:
        parts.append("\n".join(["New content:", *tagged_lines(added, first)]))
    return "\n\n".join(parts)


# Anchors

#: White space in Unicode. Unlike Elixir's trim, `str.strip()` would also remove U+001C to U+001F.
_BLANKS = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_WORD = 0xFFFFFFFF
_GOLDEN = 0x9E3779B9
#: The initial value of phash2 for a binary.
_SEED = 13 * _GOLDEN & _WORD


class Anchor(NamedTuple):
    """A line: its number, from 1, and its hash when it was shown."""

    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"


def line_hash(text: str) -> str:
    """The two digits of a line."""
    return f"{phash2(text.strip(_BLANKS).encode('utf-8', 'replace')) & 0xFF:02x}"


def tagged(number: int, text: str, shown: str | None = None) -> str:
    """A line with its anchor. `shown` is the text to show, if it is not the whole line."""
    return f"{number}:{line_hash(text)}|{text if shown is None else shown}"


def tagged_lines(lines: Iterable[str], first: int) -> Iterator[str]:
    return (tagged(number, line) for number, line in enumerate(lines, first))


#: The most digits of a line number: more than any file needs.
_DIGITS = 18


def read_anchor(text: str, name: str) -> Anchor:
    """Parse the anchor that a model wrote in the argument `name`, perhaps with the line after it. Raises ToolError."""
    number, colon, rest = text.strip().partition(":")
    digits = rest.partition("|")[0].strip().lower()
    is_number = number.isascii() and number.isdigit() and len(number) <= _DIGITS and int(number) > 0
    if not (colon and is_number and len(digits) == 2):
        raise ToolError(f'{name}: expected the tag of a line as read_file shows it, such as "12:a3", found {text[:40]!r}.')
    return Anchor(int(number), digits)


def phash2(data: bytes) -> int:
    """Erlang's `phash2` of a binary, all 32 bits: Bob Jenkins' hash of 1996."""
    size = len(data)
    if not size:
        return _SEED
    a = b = _GOLDEN
    c = _SEED
    whole = size - size % 12
    word = int.from_bytes
    for at in range(0, whole, 12):
        a, b, c = _mix(
            a + word(data[at : at + 4], "little"),
            b + word(data[at + 4 : at + 8], "little"),
            c + word(data[at + 8 : at + 12], "little"),
        )
    rest = data[whole:]
    # The lowest byte of the last word holds the length.
    return _mix(a + word(rest[:4], "little"), b + word(rest[4:8], "little"), c + size + (word(rest[8:], "little") << 8))[2]


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    """Mix three words. Python's integers do not overflow, so bits that C would lose are masked before each right shift."""
    c &= _WORD
    a = (a - b - c & _WORD) ^ c >> 13
    b = (b - c - a ^ a << 8) & _WORD
    c = (c - a - b & _WORD) ^ b >> 13
    a = (a - b - c & _WORD) ^ c >> 12
    b = (b - c - a ^ a << 16) & _WORD
    c = (c - a - b & _WORD) ^ b >> 5
    a = (a - b - c & _WORD) ^ c >> 3
    b = (b - c - a ^ a << 10) & _WORD
    c = (c - a - b & _WORD) ^ b >> 15
    return a, b, c
