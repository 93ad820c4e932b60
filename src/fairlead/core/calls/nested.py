"""Calls that a tool makes while it runs. Only that tool gets their results; the session keeps a short record of them."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Struct, UnsetType

from fairlead.core.lenient import scrub
from fairlead.core.messages import NestedCallNote, NestedCallNotes, TextContent, ToolCall, Usage, add_usage
from fairlead.core.tool import ToolResult

#: What a record holds at most, as in pi 1.5: calls, bytes of the arguments of one call and of all, characters of an error.
_MOST_CALLS = 256
_MOST_BYTES, _MOST_BYTES_IN_ALL = 8 * 1024, 32 * 1024
_LONGEST_ERROR = 500


class NestedCall(ToolCall, tag="toolCall"):
    """A call that a tool makes. `parent_id` is the id of the call that the tool runs for."""

    parent_id: str = ""


class NestedResult(Struct):
    """The outcome of a call that a tool made."""

    call: NestedCall
    result: ToolResult
    is_error: bool
    #: How long the tool ran; None if it did not run.
    duration_ms: int | None = None


class CallRecord:
    """Records the nested calls of one call of the model, at every depth."""

    def __init__(self) -> None:
        self._notes: list[NestedCallNote] = []
        self._bytes = 0
        self._is_complete = True
        self._usage: Usage | None = None

    def start(self, call: NestedCall) -> NestedCallNote | None:
        """Record a call as it starts. Returns None if there are too many."""
        if len(self._notes) >= _MOST_CALLS:
            self._is_complete = False
            return None
        note = NestedCallNote(call.id, call.name)
        arguments = msgspec.json.encode(scrub(call.arguments))
        if len(arguments) > _MOST_BYTES or self._bytes + len(arguments) > _MOST_BYTES_IN_ALL:
            note.arguments_bytes = len(arguments)
            self._is_complete = False
        else:
            note.arguments = msgspec.json.decode(arguments)
            self._bytes += len(arguments)
        self._notes.append(note)
        return note

    def finish(self, note: NestedCallNote | None, result: ToolResult, is_error: bool, duration_ms: int) -> None:
        """Record the outcome of a call."""
        self._usage = self.usage_with(result)
        if note is None:
            return
        note.status = "error" if is_error else "ok"
        note.duration_ms = duration_ms
        text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
        if is_error and text:
            note.error = text[:_LONGEST_ERROR]

    def usage_with(self, result: ToolResult) -> Usage | None:
        """Return what the calls so far have used, together with `result`; None if nothing says so."""
        if self._usage is None or result.usage is None:
            return self._usage or result.usage
        return add_usage(self._usage, result.usage)

    def notes(self) -> NestedCallNotes | UnsetType:
        """Return the record so far; UNSET if there were no calls."""
        if not self._notes:
            return UNSET
        are_over = all(note.status != "unfinished" for note in self._notes)
        return NestedCallNotes([msgspec.structs.replace(note) for note in self._notes], self._is_complete and are_over)
