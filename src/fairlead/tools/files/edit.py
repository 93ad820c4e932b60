"""The edit tool: exact replacements in a text file, and the diff that describes them."""

from __future__ import annotations

import difflib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, cast

from msgspec import Struct

from fairlead.core.approval import FileChange
from fairlead.core.lenient import decode, scrub_text
from fairlead.core.messages import TextContent
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import ApprovedFile, Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools import EDITS, PATH, edit_title, file_locations, object_schema, string
from fairlead.tools.background import Stop, change_in_order, in_thread, split_lines
from fairlead.tools.files import matching
from fairlead.tools.files.targets import Target
from fairlead.tools.files.write import BOM, TextFile, with_line_ends_of
from fairlead.tools.workspace import Workspace

#: A shorter text may be in a file by chance.
_LONG_ENOUGH = 12
#: In a longer one, edits that do not fit are not tried one after another.
_SHORT_ENOUGH = 1024 * 1024

_EDIT = object_schema(
    {
        "oldText": string("The text to replace: exactly as in the file, and found there only once"),
        "newText": string("What takes its place"),
    },
    "oldText",
    "newText",
)
_PARAMETERS = object_schema(
    {
        "path": string("The file, absolute or relative to the working directory"),
        "edits": {"type": "array", "items": _EDIT, "minItems": 1, "description": "The replacements"},
    },
    "path",
    "edits",
)


def edit_tool(workspace: Workspace) -> Tool:
    return Tool(
        name="edit",
        label="edit",
        description=(
            "Replace exact pieces of text in one file. Every oldText is looked up in the file as it was before the call, must"
            " be found once, and must not overlap another. Put all changes of a file into one call."
        ),
        parameters=_PARAMETERS,
        run=partial(_run_edit, workspace),
        kind="edit",
        title=edit_title,
        locations=partial(file_locations, workspace),
        preview=partial(_preview_edit, workspace),
        subject=PATH,
        file_texts=EDITS,
        snippet="Replace exact text in files",
        guidelines=("Keep oldText as short as it can be while still unique; do not include unchanged lines only as padding.",),
        exclusive=True,
        timeout=workspace.default_timeout,
        prepare=_prepare_edit,
    )


def _prepare_edit(arguments: dict[str, Any]) -> dict[str, Any]:
    """Accept what models also send: one edit at the top level, or `edits` as a JSON text."""
    arguments = dict(arguments)
    edits: Any = arguments.get("edits")
    if isinstance(edits, str):
        try:
            arguments["edits"] = edits = decode(edits)
        except ValueError:
            return arguments  # the check against the schema says what is wrong
    if "oldText" in arguments and "newText" in arguments and (edits is None or isinstance(edits, list)):
        single = {"oldText": arguments.pop("oldText"), "newText": arguments.pop("newText")}
        arguments["edits"] = [*cast("list[Any]", edits or []), single]
    return arguments


async def _run_edit(workspace: Workspace, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    if workspace.uris is not None and workspace.uris.has(arguments["path"]):
        raise ToolError(f"edit works on files only. Read {arguments['path']}, then replace all of it with write.")
    target = workspace.locate(arguments["path"], context.target)
    edits = [(scrub_text(edit["oldText"]), scrub_text(edit["newText"])) for edit in arguments["edits"]]

    def change(stop: Stop) -> ToolResult:
        file, replacements, result = _compute_edit(workspace, target, arguments["path"], edits, stop)
        # Described first: once the file has changed, nothing slow may stand between that and the report of it.
        diff = describe(file.text, replacements, arguments["path"], stop)
        details = {"diff": diff.numbered, "patch": diff.patch, "firstChangedLine": diff.first_changed_line}
        text = f"Successfully replaced {len(edits)} block(s) in {arguments['path']}."
        file.save(result, stop)
        return ToolResult([TextContent(text)], details, file.changes(result))

    return await change_in_order(target, context.cancel, change)


async def _preview_edit(
    workspace: Workspace, arguments: dict[str, Any], approved: ApprovedFile | None, cancel: CancelToken
) -> list[FileChange]:
    """Return what an edit would change. Raises ToolError if it would fail."""
    if workspace.uris is not None and workspace.uris.has(arguments["path"]):
        return []
    target = workspace.locate(arguments["path"], approved)
    edits = [(scrub_text(edit["oldText"]), scrub_text(edit["newText"])) for edit in arguments["edits"]]

    def look(stop: Stop) -> list[FileChange]:
        file, _, result = _compute_edit(workspace, target, arguments["path"], edits, stop)
        return file.changes(result)

    return await in_thread(cancel, look)


def _compute_edit(
    workspace: Workspace, target: Target, name: str, edits: list[tuple[str, str]], stop: Stop
) -> tuple[TextFile, list[TextReplacement], str]:
    """Return the file of an edit, where it applies, and the new text. Raises ToolError if it cannot be made."""
    file = TextFile(target, name, workspace.guard, stop)
    replacements = _locate(file.text, name, edits, stop)
    result = apply(file.text, replacements)
    stop.check()
    if result == file.text:
        raise ToolError(
            f"No changes made to {name}. The replacement produced identical content. Check that newText differs from oldText."
        )
    return file, replacements, result


def _locate(text: str, name: str, edits: list[tuple[str, str]], stop: Stop) -> list[TextReplacement]:
    """Return where each edit applies in the original, in the file's order."""
    haystack = matching.Haystack(text, stop)
    placed: list[tuple[int, TextReplacement]] = []
    for index, (old, new) in enumerate(stop.each(edits)):
        which = "the text" if len(edits) == 1 else f"edits[{index}].oldText"
        old = old.removeprefix(BOM)
        if not old:
            raise ToolError(f"oldText must not be empty in {name}. Give the text to replace, or use write to make a file.")
        match = haystack.find(old)
        if match.count == 0:
            exact = "the exact text" if len(edits) == 1 else which
            raise ToolError(
                f"Could not find {exact} in {name}. The old text must match exactly including all whitespace and newlines."
                + _describe_similar(haystack, text, index, edits, stop)
            )
        if match.count > 1:
            raise ToolError(
                f"Found {match.count} occurrences of {which} in {name}. The text must be unique."
                " Please provide more context to make it unique." + _format_places(text, match)
            )
        new = with_line_ends_of(text, match.start, match.end, new)
        placed.append((index, TextReplacement(match.start, match.end, new)))
    placed.sort(key=lambda item: item[1].start)
    for (index, before), (other, after) in pairwise(placed):
        if before.end > after.start:
            first, second = sorted((index, other))
            raise ToolError(f"edits[{first}] and edits[{second}] overlap in {name}. Merge them into one edit.")
    return [replacement for _, replacement in placed]


def _describe_similar(haystack: matching.Haystack, text: str, index: int, edits: list[tuple[str, str]], stop: Stop) -> str:
    """Return what helps a model to correct an edit whose old text is not in the file."""
    old, new = edits[index]
    said: list[str] = []
    if _is_made_by_others(text, index, edits, stop):
        said.append("Other edits of the call would make this text, but each edit is made to the file as it was before the call.")
    done = haystack.find(new) if len(new.strip()) >= _LONG_ENOUGH else None
    if done is not None and done.count:
        [line] = matching.line_numbers(text, [done.start])
        said.append(f"The new text is in the file already, from line {line} on: the edit may have been made before.")
    if similar := matching.similar_text(text, old, stop):
        said.append(similar)
    return "".join(f"\n\n{part}" for part in said)


def _is_made_by_others(text: str, index: int, edits: list[tuple[str, str]], stop: Stop) -> bool:
    """Return whether the old text of an edit would be in the file once the edits before it were made."""
    if len(text) > _SHORT_ENOUGH:
        return False
    for old, new in stop.each(edits[:index]):
        text = text.replace(old, new, 1)
    return index > 0 and edits[index][0] in text


def _format_places(text: str, match: matching.TextMatch) -> str:
    """Return the lines in which a text begins that is there more than once."""
    lines = matching.line_numbers(text, match.starts)
    more = match.count - len(match.starts)
    if len(lines) == 1 and not more:
        return f"\n\nAll of them are in line {lines[0]}."
    numbers = ", ".join(map(str, lines))
    return f"\n\nThey begin in the lines {numbers}{f' and {more} more places' if more else ''}."


CONTEXT = 4
#: Larger replacements are shown as a whole; finding the lines that both sides share would take too long.
_COMPARED = 1500


class TextReplacement(Struct, frozen=True):
    """`text` takes the place of the original's characters from `start` to `end`."""

    start: int
    end: int
    text: str


class Change(Struct, frozen=True):
    """`new` lines take the place of `old` ones, which begin at `line` (from 0) of the old text."""

    line: int
    old: Sequence[str]
    new: Sequence[str]


class FileDiff(Struct, frozen=True):
    """`numbered` is for reading, `patch` is a unified diff; both with four lines of context."""

    numbered: str
    patch: str
    first_changed_line: int


def apply(original: str, replacements: Sequence[TextReplacement]) -> str:
    """Return the text after replacements that are in order and do not overlap."""
    parts: list[str] = []
    at = 0
    for replacement in replacements:
        parts += (original[at : replacement.start], replacement.text)
        at = replacement.end
    return "".join((*parts, original[at:]))


def describe(original: str, replacements: Sequence[TextReplacement], name: str, stop: Stop) -> FileDiff:
    """Return the difference that `replacements`, in order and not overlapping, make."""
    lines = lines_of(original, stop)
    changes = list(changes_of(original, lines, replacements, stop))
    hunks = list(hunks_of(changes, CONTEXT))
    shift = 0
    numbered: list[str] = []
    patch = [f"--- {name}\n+++ {name}\n"]
    total = len(lines) + sum(max(0, len(change.new) - len(change.old)) for change in changes)
    width = len(str(total))
    shown_to = 0
    for hunk in stop.each(hunks):
        start = max(0, hunk[0].line - CONTEXT)
        last = hunk[-1]
        end = min(len(lines), last.line + len(last.old) + CONTEXT)
        if start > shown_to:
            numbered.append(f" {'':{width}} ...")
        body = list(_body(lines, hunk, start, end, shift))
        numbered += [f"{sign}{number:{width}} {text.rstrip(chr(13) + chr(10))}" for sign, number, text in body]
        grown = sum(len(change.new) - len(change.old) for change in hunk)
        patch.append(_header(start, end - start, start + shift, end - start + grown))
        patch += [_patch_line(sign, text) for sign, _, text in body]
        shift += grown
        shown_to = end
    if shown_to < len(lines):
        numbered.append(f" {'':{width}} ...")
    return FileDiff("\n".join(numbered), "".join(patch), changes[0].line + 1 if changes else 1)


def lines_of(text: str, stop: Stop) -> list[str]:
    """Lines with their ends. Only LF ends a line: editors do not end a line at a form feed or a separator."""
    lines = [line + "\n" for line in stop.each(split_lines(text, stop))]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def changes_of(original: str, lines: Sequence[str], replacements: Sequence[TextReplacement], stop: Stop) -> Iterator[Change]:
    """Yield the lines that change, replacements that share a line taken together."""
    starts = [0, *accumulate(len(line) for line in stop.each(lines))]
    at = 0
    while at < len(replacements):
        first = max(0, bisect_right(starts, replacements[at].start, 0, max(len(lines), 1)) - 1)
        group = [replacements[at]]
        last = _line_after(starts, lines, group[-1])
        at += 1
        while at < len(replacements) and replacements[at].start < starts[last]:
            group.append(replacements[at])
            last = max(last, _line_after(starts, lines, group[-1]))
            at += 1
        base = starts[first]
        moved = [TextReplacement(item.start - base, item.end - base, item.text) for item in group]
        new = apply(original[base : starts[last]], moved)
        yield from _compare(first, lines[first:last], lines_of(new, stop), stop)


def _line_after(starts: Sequence[int], lines: Sequence[str], replacement: TextReplacement) -> int:
    """Return the line after the last that a replacement touches; if it ends at a line's start, its text may join that line."""
    joins = not replacement.text.endswith("\n")
    position = replacement.end if joins else max(replacement.end - 1, replacement.start)
    return min(bisect_right(starts, position, 0, max(len(lines), 1)), len(lines))


def _compare(line: int, old: Sequence[str], new: Sequence[str], stop: Stop) -> Iterator[Change]:
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        stop.check()
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        stop.check()
        tail += 1
    old = old[head : len(old) - tail]
    new = new[head : len(new) - tail]
    line += head
    if not old or not new or max(len(old), len(new)) > _COMPARED:
        if old or new:
            yield Change(line, old, new)
        return

    class Stoppable(difflib.SequenceMatcher[str]):
        """Lines that repeat, such as blank ones, can keep it busy for half a minute."""

        def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> difflib.Match:
            stop.check()
            return super().find_longest_match(alo, ahi, blo, bhi)

    for kind, old_from, old_to, new_from, new_to in Stoppable(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            yield Change(line + old_from, old[old_from:old_to], new[new_from:new_to])


def hunks_of(changes: Sequence[Change], context: int) -> Iterator[list[Change]]:
    """Changes whose `context` lines would touch are shown together."""
    hunk: list[Change] = []
    for change in changes:
        if hunk and change.line - (hunk[-1].line + len(hunk[-1].old)) > 2 * context:
            yield hunk
            hunk = []
        hunk.append(change)
    if hunk:
        yield hunk


def _body(lines: Sequence[str], hunk: Sequence[Change], start: int, end: int, shift: int) -> Iterator[tuple[str, int, str]]:
    """Sign, line number and text: the old number for lines kept or removed, the new one for lines added."""
    at = start
    for change in hunk:
        for number in range(at, change.line):
            yield " ", number + 1, lines[number]
        for offset, text in enumerate(change.old):
            yield "-", change.line + offset + 1, text
        for offset, text in enumerate(change.new):
            yield "+", change.line + shift + offset + 1, text
        at = change.line + len(change.old)
        shift += len(change.new) - len(change.old)
    for number in range(at, end):
        yield " ", number + 1, lines[number]


def _header(old_start: int, old_count: int, new_start: int, new_count: int) -> str:
    """Return the header of a hunk. An empty side is named by the line before it: `start`, which counts from 0."""
    old = old_start + 1 if old_count else old_start
    new = new_start + 1 if new_count else new_start
    return f"@@ -{old},{old_count} +{new},{new_count} @@\n"


def _patch_line(sign: str, text: str) -> str:
    return f"{sign}{text}" if text.endswith("\n") else f"{sign}{text}\n\\ No newline at end of file\n"
