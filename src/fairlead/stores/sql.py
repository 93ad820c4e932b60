"""What SQLite and Postgres have in common as session stores: the tables, the statements that both understand, and the threads.

In a statement, `:name` is a value, and `:now` is the time in seconds since 1970 by the clock of the store.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Condition
from typing import Any, Generic, LiteralString, TypeAlias, TypeVar, cast

from fairlead.errors import SessionError
from fairlead.platform.process import start_thread
from fairlead.stores.store import (
    Lease,
    StoredLine,
    StoredLines,
    StoredSession,
    explain_loss,
    make_closed_error,
    make_in_use_error,
    make_lost_error,
    make_not_found_error,
)

#: Runs a statement, and returns all its rows.
Run: TypeAlias = Callable[[LiteralString, dict[str, Any]], Sequence[Sequence[Any]]]

#: The tables. `{key}`, `{text}`, `{bytes}`, `{number}`, `{time}` and `{parent}` are the types of the database.
TABLES: LiteralString = """
CREATE TABLE IF NOT EXISTS fairlead_sessions (
    key {key}, id {text} NOT NULL UNIQUE, header {bytes} NOT NULL, last {number} NOT NULL, epoch {number} NOT NULL,
    owner text NOT NULL, expires_at {time} NOT NULL, created_at {time} NOT NULL, changed_at {time} NOT NULL
);
CREATE TABLE IF NOT EXISTS fairlead_entries (
    session {parent}, number {number} NOT NULL, line {bytes} NOT NULL, PRIMARY KEY (session, number)
);
"""
RENEW: LiteralString = (
    "UPDATE fairlead_sessions SET expires_at = :now + :seconds WHERE id = :id AND epoch = :epoch AND expires_at > :now"
    " RETURNING expires_at, last"
)
RELEASE: LiteralString = "UPDATE fairlead_sessions SET expires_at = 0, owner = '' WHERE id = :id AND epoch = :epoch RETURNING 1"
_DELETE: LiteralString = "DELETE FROM fairlead_sessions WHERE id = :id AND expires_at <= :now RETURNING key"
_SESSION: LiteralString = (
    "SELECT key, header, last, epoch, owner, expires_at, expires_at > :now FROM fairlead_sessions WHERE id = :id"
)
_LINES: LiteralString = (
    "SELECT number, line FROM fairlead_entries WHERE session = :key AND number > :after AND number <= :last"
    " ORDER BY number LIMIT :limit"
)
_LIST: LiteralString = (
    "SELECT id, header, last, created_at, changed_at, CASE WHEN expires_at > :now THEN owner ELSE '' END"
    " FROM fairlead_sessions WHERE id > :after ORDER BY id LIMIT :limit"
)


class SqlSessions:
    """The sessions in a database. `no_limit` is what its LIMIT takes for all rows."""

    def __init__(self, run: Run, no_limit: int | None) -> None:
        self._run = run
        self._no_limit = no_limit

    def read(self, id: str, after: int, limit: int | None) -> StoredLines:
        """Do what `SessionStore.read` does."""
        found = self._session(id)
        if found is None:
            raise make_not_found_error(id)
        key, header, last, _, owner, expires_at, is_owned = found
        values = {"key": key, "after": after, "last": last, "limit": self._limit(limit)}
        lines = [StoredLine(*line) for line in self._run(_LINES, values)]
        return StoredLines(header, lines, last, *((owner, expires_at) if is_owned else ("", 0.0)))

    def list_after(self, after: str, limit: int | None) -> list[StoredSession]:
        """Do what `SessionStore.list` does."""
        return [StoredSession(*row) for row in self._run(_LIST, {"after": after, "limit": self._limit(limit)})]

    def delete(self, id: str) -> int:
        """Delete the row of a session, and return its key. Raises SessionInUse and SessionNotFound."""
        rows = self._run(_DELETE, {"id": id})
        if not rows:
            raise self.explain_not_free(id)
        return rows[0][0]

    def renew_lease(self, lease: Lease, row: Sequence[Any] | None) -> Lease:
        """Return a lease with the new time in the row of `RENEW`. Raises SessionLost if there is no row."""
        if row is None:
            raise self.explain_loss(lease)
        return Lease(lease.id, lease.epoch, lease.owner, row[0], lease.seconds, row[1])

    def find_earlier_append(self, lease: Lease, lines: list[bytes], after: int | None) -> int:
        """Return the last number if an append has taken effect before. Raises SessionLost if not."""
        found = self._session(lease.id)
        if found is None or found[3] != lease.epoch or not found[6] or after is None:
            raise _make_loss(lease, found)
        values = {"key": found[0], "after": after, "last": found[2], "limit": self._no_limit}
        if [line for _, line in self._run(_LINES, values)] == lines:
            return found[2]
        raise make_lost_error(lease.id, f"it has {found[2]} entries, and not {after}")

    def explain_not_free(self, id: str) -> SessionError:
        """Return the reason why the lease of a session could not be taken."""
        found = self._session(id)
        return make_not_found_error(id) if found is None else make_in_use_error(id, found[4], found[5])

    def explain_loss(self, lease: Lease) -> SessionError:
        """Return the reason why a lease is not valid."""
        return _make_loss(lease, self._session(lease.id))

    def _session(self, id: str) -> Sequence[Any] | None:
        rows = self._run(_SESSION, {"id": id})
        return rows[0] if rows else None

    def _limit(self, limit: int | None) -> int | None:
        return self._no_limit if limit is None else limit


def _make_loss(lease: Lease, found: Sequence[Any] | None) -> SessionError:
    return explain_loss(lease, None if found is None else found[3], "" if found is None else found[4])


C = TypeVar("C")
T = TypeVar("T")


class Job(Generic[C]):
    """A piece of work. `resource` is what the thread works with, such as a connection."""

    __slots__ = ("_future", "_loop", "error", "result", "work")

    def __init__(self, work: Callable[[C], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.work = work
        self._loop = loop
        self._future: asyncio.Future[Any] = loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None

    @property
    def future(self) -> asyncio.Future[Any]:
        return self._future

    def do(self, resource: C) -> None:
        """Do the work, and keep its result or its error."""
        self.result = self.error = None
        try:
            self.result = self.work(resource)
        except BaseException as error:
            self.error = error

    def answer(self) -> None:
        """Give the caller the result, or the error."""
        with suppress(RuntimeError):  # its loop was closed
            self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        if self._future.done():  # the caller was cancelled
            return
        if self.error is not None:
            self._future.set_exception(self.error)
        else:
            self._future.set_result(self.result)


class Worker(Generic[C]):
    """Runs jobs on one thread, which starts with the first job.

    `run` gets all jobs that wait, at least one, and must answer each. `end` is called on the thread after the last job.
    """

    def __init__(self, name: str, run: Callable[[list[Job[C]]], None], end: Callable[[], None] = lambda: None) -> None:
        self._name = name
        self._run = run
        self._end = end
        self._waiting: deque[Job[C]] = deque()
        self._changed = Condition()
        self._started = False
        self._closing: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] | None = None
        self._ended = False

    async def do(self, work: Callable[[C], T]) -> T:
        """Do some work on the thread, and return its result. It is done even if the caller is cancelled meanwhile."""
        job: Job[C] = Job(work, asyncio.get_running_loop())
        with self._changed:
            if self._closing is not None:
                raise make_closed_error()
            self._waiting.append(job)
            if not self._started:
                self._started = True
                start_thread(self._work, self._name)
            self._changed.notify()
        return cast("T", await job.future)

    async def close(self) -> None:
        """Take no more work, and wait until what was asked for is done."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        with self._changed:
            if self._closing is None:
                self._closing = []
            if self._ended or not self._started:
                return
            self._closing.append((loop, done))
            self._changed.notify()
        await done

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and self._closing is None:
                    self._changed.wait()
                jobs = list(self._waiting)
                self._waiting.clear()
            if not jobs:
                break
            self._run(jobs)
        self._end()
        with self._changed:
            self._ended = True
            waiters = self._closing or []
        for loop, done in waiters:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(lambda done=done: None if done.done() else done.set_result(None))
