"""Describes what a tool changed in a file, line by line, for Opal's hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairlead.tools.background import Stop
from fairlead.tools.files.edit import Change, Replacement, changes_of, hunks_of, lines_of
from fairlead.tools.truncate import MAX_LINES
from fairlead.wire.opal.tools.results import META

_CONTEXT = 3


def diff_details(original: str, replacement: Replacement, name: str, stop: Stop) -> dict[str, Any]:
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
