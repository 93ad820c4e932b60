"""The events of jobs: encoded, numbered, saved in the database, and read from any process while the job runs."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from fairlead.errors import DatabaseUnavailable
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
from fairlead.jobs.database import CHANNEL, Database, DatabaseUrl, connect_postgres, connect_sqlite
from fairlead.messages import AssistantMessage
from fairlead.protocol.http.fleet import ENDED, JobEvent

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


#: How often a reader of a SQLite file looks whether it has changed, and how often any reader looks anyway.
_SQLITE_SECONDS, _ANYWAY_SECONDS = 0.02, 1.0
#: How many events are read at once.
_PAGE = 500


class EventReader:
    """Reads the events of jobs, and waits for new ones."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._changes: Changes | None = None

    async def last_number(self, job: str) -> int:
        """Return the number of the last event of a job, or 0."""
        rows = await self._database.rows("SELECT COALESCE(MAX(number), 0) FROM fairlead_job_events WHERE job = ?", (job,))
        return rows[0][0]

    async def read(self, job: str, after: int) -> list[JobEvent]:
        """Return the next events of a job after a number, at most a page of them."""
        rows = await self._database.rows(
            f"SELECT number, data FROM fairlead_job_events WHERE job = ? AND number > ? ORDER BY number LIMIT {_PAGE}",
            (job, after),
        )
        return [_event(job, number, data) for number, data in rows]

    async def follow(self, job: str, after: int) -> AsyncGenerator[JobEvent]:
        """Yield the events of a job after a number, and new ones as they come, until the job has ended."""
        changes = self.changes()
        signal = changes.subscribe(job)
        # A reader that gives the number of the last event, or a higher one, gets no event that reports the end.
        may_have_ended = after > 0
        try:
            while True:
                signal.clear()
                events: list[JobEvent] = []
                with suppress(DatabaseUnavailable):
                    if may_have_ended and await self._has_ended(job, after):
                        return
                    events = await self.read(job, after)
                for event in events:
                    after = event.number
                    yield event
                    may_have_ended = False
                if events and events[-1].type in ENDED:
                    with suppress(DatabaseUnavailable):
                        if not await self.read(job, after):
                            return
                    continue
                if not events:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(signal.wait(), _ANYWAY_SECONDS)
        finally:
            changes.unsubscribe(job, signal)

    async def _has_ended(self, job: str, after: int) -> bool:
        """Whether a job has ended, with an event of this number or before."""
        events = await self.read(job, max(0, await self.last_number(job) - 1))
        return bool(events) and events[-1].number <= after and events[-1].type in ENDED

    def changes(self) -> Changes:
        """Return what announces new events in this process."""
        if self._changes is None:
            self._changes = Changes(self._database.url, asyncio.get_running_loop())
        return self._changes

    def close(self) -> None:
        if self._changes is not None:
            self._changes.close()


def _event(job: str, number: int, data: str) -> JobEvent:
    fields: Mapping[str, Any] = msgspec.json.decode(data)
    return JobEvent(job, number, fields["type"], {name: value for name, value in fields.items() if name != "type"})


class Changes:
    """Tells subscribers that a job has new events, from a thread that waits for the database.

    It may fail to tell, while Postgres is away; hence subscribers also look from time to time.
    """

    def __init__(self, url: DatabaseUrl, loop: asyncio.AbstractEventLoop) -> None:
        self._url = url
        self._loop = loop
        self._subscribers: dict[str, set[asyncio.Event]] = {}
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="fairlead-job-changes", daemon=True).start()

    def subscribe(self, job: str) -> asyncio.Event:
        """Return an event that is set when a job has changed; with an empty id, when any job has."""
        signal = asyncio.Event()
        self._subscribers.setdefault(job, set()).add(signal)
        return signal

    def unsubscribe(self, job: str, signal: asyncio.Event) -> None:
        signals = self._subscribers.get(job, set())
        signals.discard(signal)
        if not signals:
            self._subscribers.pop(job, None)

    def close(self) -> None:
        self._closed.set()

    def _notify(self, payload: str) -> None:
        for job in [*payload.split(), ""] if payload else list(self._subscribers):
            for signal in self._subscribers.get(job, ()):
                signal.set()

    def _watch(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            while not self._closed.is_set():
                try:
                    self._watch_sqlite() if self._url.file is not None else self._watch_postgres()
                except Exception:
                    time.sleep(_ANYWAY_SECONDS)

    def _watch_sqlite(self) -> None:
        assert self._url.file is not None
        connection: sqlite3.Connection = connect_sqlite(self._url.file)
        last = None
        try:
            while not self._closed.wait(_SQLITE_SECONDS):
                (version,) = connection.execute("PRAGMA data_version").fetchone()
                if version != last and self._subscribers:
                    self._loop.call_soon_threadsafe(self._notify, "")
                last = version
        finally:
            connection.close()

    def _watch_postgres(self) -> None:
        with connect_postgres(self._url) as connection:
            connection.execute(f"LISTEN {CHANNEL}")
            self._loop.call_soon_threadsafe(self._notify, "")
            while not self._closed.is_set():
                for notice in connection.notifies(timeout=0.5):
                    self._loop.call_soon_threadsafe(self._notify, notice.payload)
