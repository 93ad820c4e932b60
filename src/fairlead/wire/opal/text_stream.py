"""Prepares streamed text for the client: takes statuses out of it, and merges its pieces while the client is behind.

A status is the words between `<status>` and `</status>` in what a model writes. They are for a status line, not for the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from fairlead.protocol.opal.events import Event, MessageDelta, ThinkingDelta, ToolOutputEvent
from fairlead.wire.connection import Outlet

OPEN, CLOSE = "<status>", "</status>"
#: The longest status. Longer text only happens to start like one.
LONGEST = 500

#: What the system prompt says about statuses.
ADVICE = (
    f"During a longer task, you may say in a few words what you are doing, between {OPEN} and {CLOSE}. "
    "People see it as a status line; it is not part of your answer."
)


class Status(Struct, frozen=True):
    text: str


class StatusFilter:
    """Separates statuses from text that arrives in pieces. Text that may become a status is held back until that is certain."""

    def __init__(self) -> None:
        self._held = ""
        self._inside = False

    def feed(self, piece: str) -> list[str | Status]:
        """Add a piece. Returns the texts and statuses that are certain now, in order."""
        if not self._held and not self._inside and "<" not in piece:
            return [piece] if piece else []
        found: list[str | Status] = []
        self._held += piece
        while self._step(found):
            pass
        return found

    def rest(self) -> str:
        """Return what was held back at the end of the text. An unfinished status is plain text."""
        rest = (OPEN if self._inside else "") + self._held
        self._held, self._inside = "", False
        return rest

    def _step(self, found: list[str | Status]) -> bool:
        """Take one text or status from what is held. Returns False if nothing is certain yet."""
        if self._inside:
            status, closed, after = self._held.partition(CLOSE)
            if closed and len(status) <= LONGEST:
                if status.strip():
                    found.append(Status(status.strip()))
                self._held, self._inside = after, False
                return True
            if not closed and len(status) < LONGEST + len(CLOSE):  # a part of the end may be there
                return False
            found.append(OPEN)
            self._inside = False
            return True
        text, opened, after = self._held.partition(OPEN)
        if not opened:
            kept = _beginning(text)
            text, after = (text[:-kept], text[-kept:]) if kept else (text, "")
        if text:
            found.append(text)
        self._held, self._inside = after, bool(opened)
        return self._inside


def without_statuses(text: str) -> str:
    """Return a whole text without its statuses."""
    if OPEN not in text:
        return text
    filter = StatusFilter()
    parts = [part for part in filter.feed(text) if isinstance(part, str)]
    return "".join([*parts, filter.rest()])


def _beginning(text: str) -> int:
    """How many characters at the end of a text may be the beginning of a status."""
    return next((size for size in range(min(len(OPEN) - 1, len(text)), 0, -1) if OPEN.startswith(text[-size:])), 0)


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
                self._outlet.when_caught_up(self._caught_up)
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

    def _caught_up(self) -> None:
        self._will_flush = False
        self.flush()


def _text(piece: Piece) -> str:
    return piece.chunk if isinstance(piece, ToolOutputEvent) else piece.delta


def _stream(piece: Piece) -> object:
    return piece.call_id if isinstance(piece, ToolOutputEvent) else type(piece)
