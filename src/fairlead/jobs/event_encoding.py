"""Events of a run as JSON for listeners of a job."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.events import (
    CompactionEnd,
    CompactionStart,
    Event,
    MessageEnd,
    RetryEnd,
    RetryStart,
    SummaryRetryScheduled,
    TextDelta,
    ThinkingDelta,
    ToolEnd,
    ToolRunning,
    ToolStart,
    TurnEnd,
    TurnStart,
)
from fairlead.messages import AssistantMessage

_encode = msgspec.json.Encoder(enc_hook=repr).encode


class EventEncoder:
    """Turns the events of a run into the events of a job. Pieces of a text that come one after another become one event."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        #: The kind, the entry before the message and the block of the pieces, and where the message stands after them.
        self._kind, self._entry, self._block, self._offset = "", 0, 0, 0

    def encode(self, event: Event) -> bytes | None:
        """Return an event as JSON. None if listeners do not get it, or if it is kept until `pending` is called."""
        if isinstance(event, TextDelta):
            return self._keep("text", event)
        if isinstance(event, ThinkingDelta):
            return self._keep("thinking", event)
        fields = _fields(event)
        return None if fields is None else _encode(fields)

    def pending(self) -> bytes | None:
        """Return the pieces that were kept, as one event, and forget them."""
        if not self._pieces:
            return None
        pieces, self._pieces = self._pieces, []
        place = {"entry": self._entry, "block": self._block, "offset": self._offset}
        return _encode({"type": self._kind, "text": "".join(pieces), **place})

    def _keep(self, kind: str, event: TextDelta | ThinkingDelta) -> bytes | None:
        piece, is_next = event.event, event.offset - len(event.event.delta) == self._offset
        is_same = is_next and (kind, event.entry, piece.index) == (self._kind, self._entry, self._block)
        ready = None if is_same else self.pending()
        self._kind, self._entry, self._block, self._offset = kind, event.entry, piece.index, event.offset
        self._pieces.append(piece.delta)
        return ready


def _fields(event: Event) -> dict[str, Any] | None:
    match event:
        case MessageEnd(message):
            return {"type": "message", "message": message}
        case ToolStart(id, name, arguments):
            return {"type": "tool", "call": id, "name": name, "arguments": arguments}
        case ToolRunning(id, name):
            return {"type": "tool_running", "call": id, "name": name}
        case ToolEnd():
            return {"type": "tool_end", "call": event.call_id, "name": event.tool_name, "is_error": event.is_error}
        case TurnStart():
            return {"type": "turn"}
        case TurnEnd(AssistantMessage() as message):
            return {"type": "turn_end", "stop_reason": message.stop_reason}
        case RetryStart(attempt, most, delay, error) | SummaryRetryScheduled(attempt, most, delay, error):
            return {"type": "retry", "attempt": attempt, "of": most, "delay_ms": delay, "error": error}
        case RetryEnd(success):
            return {"type": "retry_end", "success": success}
        case CompactionStart(reason):
            return {"type": "compaction", "reason": reason}
        case CompactionEnd():
            return {"type": "compaction_end", "error": event.error}
        case _:
            return None
