"""The edit tool: exact replacements in a text file."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, cast

from fairlead.core.lenient import decode, scrub_text
from fairlead.core.tool import ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools.background import Stop, change_in_order
from fairlead.tools.files import diff
from fairlead.tools.files.matching import Haystack, Match
from fairlead.tools.files.opening import Target
from fairlead.tools.files.text_file import BOM, TextFile, with_line_ends_of
from fairlead.tools.workspace import Workspace

#: A shorter text may be in a file by chance.
_LONG_ENOUGH = 12
#: In a longer one, edits that do not fit are not tried one after another.
_SHORT_ENOUGH = 1024 * 1024


def prepare_edit(arguments: dict[str, Any]) -> dict[str, Any]:
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


async def run_edit(workspace: Workspace, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    if workspace.uris is not None and workspace.uris.has(arguments["path"]):
        raise ToolError(f"edit works on files only. Read {arguments['path']}, then replace all of it with write.")
    target = workspace.locate(arguments["path"], context.target)
    edits = [(scrub_text(edit["oldText"]), scrub_text(edit["newText"])) for edit in arguments["edits"]]

    def change(stop: Stop) -> diff.Diff:
        return _edit_file(workspace, target, arguments["path"], edits, stop)

    changed = await change_in_order(target, context.cancel, change)
    details = {"diff": changed.numbered, "patch": changed.patch, "firstChangedLine": changed.first_changed_line}
    return ToolResult.text(f"Successfully replaced {len(edits)} block(s) in {arguments['path']}.", details)


def _edit_file(workspace: Workspace, target: Target, name: str, edits: list[tuple[str, str]], stop: Stop) -> diff.Diff:
    file = TextFile(target, name, workspace.guard, stop)
    text = file.text
    replacements = _locate(text, name, edits, stop)
    result = diff.apply(text, replacements)
    stop.check()
    if result == text:
        raise ToolError(
            f"No changes made to {name}. The replacement produced identical content. Check that newText differs from oldText."
        )
    # Described first: once the file has changed, nothing slow may stand between that and the report of it.
    described = diff.describe(text, replacements, name, stop)
    file.save(result, stop)
    return described


def _locate(text: str, name: str, edits: list[tuple[str, str]], stop: Stop) -> list[diff.Replacement]:
    """Return where each edit applies in the original, in the file's order."""
    haystack = Haystack(text, stop)
    placed: list[tuple[int, diff.Replacement]] = []
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
                + _what_is_there(haystack, text, index, edits, stop)
            )
        if match.count > 1:
            raise ToolError(
                f"Found {match.count} occurrences of {which} in {name}. The text must be unique."
                " Please provide more context to make it unique." + _where(text, match)
            )
        new = with_line_ends_of(text, match.start, match.end, new)
        placed.append((index, diff.Replacement(match.start, match.end, new)))
    placed.sort(key=lambda item: item[1].start)
    for (index, before), (other, after) in pairwise(placed):
        if before.end > after.start:
            first, second = sorted((index, other))
            raise ToolError(f"edits[{first}] and edits[{second}] overlap in {name}. Merge them into one edit.")
    return [replacement for _, replacement in placed]


def _what_is_there(haystack: Haystack, text: str, index: int, edits: list[tuple[str, str]], stop: Stop) -> str:
    """Return what helps a model to correct an edit whose old text is not in the file."""
    from fairlead.tools.files.similar import lines_of, similar_text

    old, new = edits[index]
    said: list[str] = []
    if _is_made_by_others(text, index, edits, stop):
        said.append("Other edits of the call would make this text, but each edit is made to the file as it was before the call.")
    done = haystack.find(new) if len(new.strip()) >= _LONG_ENOUGH else None
    if done is not None and done.count:
        [line] = lines_of(text, [done.start])
        said.append(f"The new text is in the file already, from line {line} on: the edit may have been made before.")
    if similar := similar_text(text, old, stop):
        said.append(similar)
    return "".join(f"\n\n{part}" for part in said)


def _is_made_by_others(text: str, index: int, edits: list[tuple[str, str]], stop: Stop) -> bool:
    """Return whether the old text of an edit would be in the file once the edits before it were made."""
    if len(text) > _SHORT_ENOUGH:
        return False
    for old, new in stop.each(edits[:index]):
        text = text.replace(old, new, 1)
    return index > 0 and edits[index][0] in text


def _where(text: str, match: Match) -> str:
    """Return the lines in which a text begins that is there more than once."""
    from fairlead.tools.files.similar import lines_of

    lines = lines_of(text, match.starts)
    more = match.count - len(match.starts)
    if len(lines) == 1 and not more:
        return f"\n\nAll of them are in line {lines[0]}."
    numbers = ", ".join(map(str, lines))
    return f"\n\nThey begin in the lines {numbers}{f' and {more} more places' if more else ''}."
