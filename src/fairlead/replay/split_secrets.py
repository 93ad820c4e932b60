"""Finds secrets that a stream delivers in pieces, such as the deltas of an answer in which the model repeats a key.

No piece contains the secret, but together they do. So each piece is looked at together with what came before it in the same
place. The first few characters of a secret remain, because they could be the beginning of anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import msgspec

from fairlead.core.secrets import longest_form, redacted

#: The fields of frames that hold a piece of a stream. Other strings hold all of it so far.
_PIECES = frozenset({"delta", "chunk"})
#: What a frame contains that may end in the middle of a stream.
_MARKS = (b'"delta"', b'"chunk"', b'_update"')
#: Fields that tell the streams in one place from each other.
_MARKING = ("index", "contentIndex", "output_index", "item_id", "toolCallId", "call_id", "session_id")
#: Fields that are short and hold no part of a stream.
_SKIPPED = frozenset(
    """api attribution event finish_reason id item_id method mimeType model name object provider responseId role status stopReason
    stop_reason system_fingerprint toolCallId toolName type""".split()
)
#: The most streams that are remembered.
_MOST_STREAMS = 500

_Path: TypeAlias = tuple[object, ...]
_Change: TypeAlias = Callable[[_Path, str, str], str]


class SplitSecrets:
    """Remembers the end of each stream of a recording."""

    def __init__(self) -> None:
        self._ends: dict[_Path, str] = {}

    def frame(self, frame: bytes) -> bytes:
        """Return a frame without the parts of secrets that it has."""
        if not any(mark in frame for mark in _MARKS):
            return frame
        return _changed(frame, (), self._frame_string)

    def body(self, exchange: int, text: str) -> str:
        """Return whole lines of the body of a response without the parts of secrets that they have."""
        lines = text.split("\n")
        for index, line in enumerate(lines):
            if line.startswith("data:") and "{" in line:
                start = line.index("{")
                data = _changed(line[start:].encode(), (exchange,), self._piece)
                lines[index] = line[:start] + data.decode()
        return "\n".join(lines)

    def _frame_string(self, path: _Path, name: str, text: str) -> str:
        if name in _PIECES:
            return self._piece(path, name, text)
        end = text[-longest_form() :]
        clean = redacted(end)
        return text if clean == end else text[: len(text) - len(end)] + clean

    def _piece(self, path: _Path, name: str, text: str) -> str:
        before = self._ends.pop(path, "")
        whole = before + text
        clean = redacted(whole)
        self._ends[path] = whole[-longest_form() :]
        if len(self._ends) > _MOST_STREAMS:
            del self._ends[next(iter(self._ends))]
        if clean == whole:
            return text
        written = redacted(before)
        same = next((at for at, (old, new) in enumerate(zip(written, clean, strict=False)) if old != new), len(written))
        return clean[same:]


def _changed(data: bytes, path: _Path, change: _Change) -> bytes:
    """Change the strings of a JSON object. Returns the same bytes if none changes, or if it is not JSON."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return data
    # Pieces of different blocks and calls come in the same place of an event, which numbers or names them.
    marks = _marks(value)
    return msgspec.json.encode(value) if _walk(value, (*path, *marks), change) else data


def _marks(value: Any) -> _Path:
    """Return what tells the streams in an event from those in others: its index, and those of the objects in it."""
    if not isinstance(value, dict):
        return ()
    fields = cast("dict[str, Any]", value)
    return tuple(each for name in _MARKING if isinstance(each := fields.get(name), str | int))


def _walk(value: Any, path: _Path, change: _Change) -> bool:
    """Change the strings in a value in place. Returns whether one did change."""
    changed = False
    items: Any = ()
    if isinstance(value, dict):
        items = list(cast("dict[str, Any]", value).items())
    elif isinstance(value, list):
        items = list(enumerate(cast("list[Any]", value)))
    for name, each in items:
        where = (*path, name)
        if isinstance(each, str):
            if name in _SKIPPED:
                continue
            clean = change(where, str(name), each)
            if clean != each:
                value[name] = clean
                changed = True
        elif isinstance(each, dict | list):
            changed = _walk(each, (*where, *_marks(each)), change) or changed
    return changed
