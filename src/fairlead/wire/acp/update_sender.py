"""Sends the updates of one session. Pieces of text that follow each other closely become one update."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from fairlead.protocol.acp.content import TextContent
from fairlead.protocol.acp.updates import (
    AgentMessageChunk,
    AgentThoughtChunk,
    SessionNotification,
    SessionUpdate,
)
from fairlead.wire.host_connection import Outlet
from fairlead.wire.jsonrpc import notification_line

#: Seconds between two updates with text.
PACE = 0.016

TextChunk: TypeAlias = type[AgentMessageChunk] | type[AgentThoughtChunk]


class Updates:
    """Sends `session/update` for one session, in order."""

    def __init__(self, session_id: str, outlet: Outlet) -> None:
        self._session_id = session_id
        self._outlet = outlet
        #: The text that waits: its kind, the id of its message, and its pieces.
        self._waiting: tuple[TextChunk, str, list[str]] | None = None
        self._sent_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._waits_for_host = False

    def send(self, update: SessionUpdate) -> None:
        """Send an update, after the text before it."""
        self.flush()
        self._send(update)

    def stream(self, kind: TextChunk, message_id: str, text: str) -> None:
        """Send a piece of text. It may wait for the next one for a moment, or until the host reads again."""
        if not text:
            return
        if self._waiting is not None and self._waiting[:2] != (kind, message_id):
            self.flush()
        if self._waiting is None:
            self._waiting = kind, message_id, []
        self._waiting[2].append(text)
        if self._timer is not None or self._waits_for_host:
            return
        if self._outlet.behind:
            self._waits_for_host = True
            self._outlet.call_when_caught_up(self._on_caught_up)
            return
        loop = asyncio.get_running_loop()
        wait = self._sent_at + PACE - loop.time()
        if wait <= 0:
            self.flush()
        else:
            self._timer = loop.call_later(wait, self.flush)

    def flush(self) -> None:
        """Send the text that waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting is not None:
            kind, message_id, pieces = self._waiting
            self._waiting = None
            self._sent_at = asyncio.get_running_loop().time()
            self._send(kind(content=TextContent("".join(pieces)), message_id=message_id))

    def _on_caught_up(self) -> None:
        self._waits_for_host = False
        self.flush()

    def _send(self, update: SessionUpdate) -> None:
        self._outlet.send(notification_line(SessionNotification.method, SessionNotification(self._session_id, update)))


Send: TypeAlias = Callable[[SessionUpdate], None]
