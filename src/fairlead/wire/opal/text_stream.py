"""Merges the pieces of streamed text while the client is behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from fairlead.protocol.opal.opal_events import Event, MessageDelta, ThinkingDelta, ToolOutputEvent
from fairlead.wire.host_connection import Outlet

#: How many characters of one stream are held while the client is behind.
MOST_MERGED = 1 << 16

Piece: TypeAlias = MessageDelta | ThinkingDelta | ToolOutputEvent


class Channel:
    """Sends events in order. While the client is behind, pieces of one text become one event. Of a tool's output only the end is
    kept then, because its result has all of it."""

    def __init__(self, outlet: Outlet, put: Callable[[Event], None]) -> None:
        self._outlet = outlet
        self._put = put
        self._pending: Piece | None = None
        self._parts: list[str] = []
        self._size = 0
        self._will_flush = False

    def send(self, event: Event) -> None:
        self.flush()
        self._put(event)

    def stream(self, piece: Piece) -> None:
        text = _text(piece)
        if self._pending is None or _stream(self._pending) != _stream(piece):
            self.flush()
            if not self._outlet.behind:
                self._put(piece)
                return
            self._pending = piece
            if not self._will_flush:
                self._will_flush = True
                self._outlet.call_when_caught_up(self._on_caught_up)
        self._parts.append(text)
        self._size += len(text)
        if self._size > MOST_MERGED:
            if isinstance(piece, ToolOutputEvent):
                kept = "".join(self._parts)[-MOST_MERGED // 2 :]
                self._parts, self._size = [kept], len(kept)
            else:
                self.flush()

    def flush(self) -> None:
        """Send what is held."""
        if self._pending is not None:
            text = "".join(self._parts)
            whole = replace(self._pending, **{"chunk" if isinstance(self._pending, ToolOutputEvent) else "delta": text})
            self._pending, self._parts, self._size = None, [], 0
            self._put(whole)

    def _on_caught_up(self) -> None:
        self._will_flush = False
        self.flush()


def _text(piece: Piece) -> str:
    return piece.chunk if isinstance(piece, ToolOutputEvent) else piece.delta


def _stream(piece: Piece) -> object:
    return piece.call_id if isinstance(piece, ToolOutputEvent) else type(piece)
