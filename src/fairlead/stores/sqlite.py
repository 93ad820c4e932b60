"""Sessions in a SQLite file, for several processes of one machine.

One thread writes and one reads, each with its own connection. What several sessions append at the same time is committed
together. The clock of leases is that of the machine.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

from fairlead.errors import FairleadError, SessionError, StoreUnavailable
from fairlead.platform.open_files import keep_database_private
from fairlead.stores.sql import RELEASE, RENEW, TABLES, Job, SqlSessions, Worker
from fairlead.stores.store import Lease, StoredLines, StoredSession, check_id, check_lines, exists, make_not_found_error

#: Seconds to wait while another process writes.
_PATIENCE = 30.0

_TABLES = TABLES.format(
    key="INTEGER PRIMARY KEY", text="TEXT", bytes="BLOB", number="INTEGER", time="REAL", parent="INTEGER NOT NULL"
)


class SqliteStore:
    """A `SessionStore` in the SQLite file at `path`, which is created if it does not exist.

    With the durability `fsync`, entries also survive a power cut.
    """

    def __init__(self, path: str | Path, *, durability: Literal["flush", "fsync"] = "flush") -> None:
        self._path = Path(path)
        self._durability = durability
        self._writing: sqlite3.Connection | None = None
        self._reading: sqlite3.Connection | None = None
        self._writer: Worker[sqlite3.Connection] = Worker("fairlead-sqlite-writer", self._write_all, self._end_writing)
        self._reader: Worker[sqlite3.Connection] = Worker("fairlead-sqlite-reader", self._read_all, self._end_reading)

    async def create(self, id: str, header: bytes, *, owner: str, lease_seconds: float, lines: Sequence[bytes] = ()) -> Lease:
        check_id(id)
        check_lines([header, *lines])

        def create(db: sqlite3.Connection) -> Lease:
            now = time.time()
            epoch = _add(db, id, header, lines, owner, now + lease_seconds)
            return Lease(id, epoch, owner, now + lease_seconds, lease_seconds, len(lines))

        return await self._writer.do(create)

    async def open(self, id: str, *, owner: str, lease_seconds: float) -> Lease:
        def open(db: sqlite3.Connection) -> Lease:
            now = time.time()
            row = _row(
                db,
                "UPDATE fairlead_sessions SET epoch = epoch + 1, owner = ?, expires_at = ? WHERE id = ? AND expires_at <= ?"
                " RETURNING epoch, last",
                (owner, now + lease_seconds, id, now),
            )
            if row is None:
                raise _sessions(db).explain_not_free(id)
            return Lease(id, row[0], owner, now + lease_seconds, lease_seconds, row[1])

        return await self._writer.do(open)

    async def renew(self, lease: Lease) -> Lease:
        def renew(db: sqlite3.Connection) -> Lease:
            rows = _run(db, RENEW, {"id": lease.id, "epoch": lease.epoch, "seconds": lease.seconds})
            return _sessions(db).renew_lease(lease, rows[0] if rows else None)

        return await self._writer.do(renew)

    async def release(self, lease: Lease) -> None:
        def release(db: sqlite3.Connection) -> None:
            _run(db, RELEASE, {"id": lease.id, "epoch": lease.epoch})

        await self._writer.do(release)

    async def append(self, lease: Lease, lines: Sequence[bytes], *, after: int | None = None) -> int:
        check_lines(lines)
        lines = list(lines)

        def append(db: sqlite3.Connection) -> int:
            now = time.time()
            row = _row(
                db,
                "UPDATE fairlead_sessions SET last = last + ?, changed_at = CASE WHEN ? THEN ? ELSE changed_at END"
                " WHERE id = ? AND epoch = ? AND expires_at > ? AND last = coalesce(?, last) RETURNING key, last",
                (len(lines), len(lines), now, lease.id, lease.epoch, now, after),
            )
            if row is None:
                return _sessions(db).find_earlier_append(lease, lines, after)
            _insert(db, row[0], row[1] - len(lines), lines)
            return row[1]

        return await self._writer.do(append)

    async def read(self, id: str, after: int = 0, limit: int | None = None) -> StoredLines:
        return await self._reader.do(lambda db: _sessions(db).read(id, after, limit))

    async def list(self, *, after: str = "", limit: int | None = None) -> Sequence[StoredSession]:
        return await self._reader.do(lambda db: _sessions(db).list_after(after, limit))

    async def fork(self, id: str, new_id: str, header: bytes, up_to: int | None = None) -> int:
        check_id(new_id)
        check_lines([header])

        def fork(db: sqlite3.Connection) -> int:
            row = _row(db, "SELECT key, last FROM fairlead_sessions WHERE id = ?", (id,))
            if row is None:
                raise make_not_found_error(id)
            last = row[1] if up_to is None else min(up_to, row[1])
            _add(db, new_id, header, (), "", 0.0)
            db.execute(
                "INSERT INTO fairlead_entries SELECT (SELECT key FROM fairlead_sessions WHERE id = ?), number, line"
                " FROM fairlead_entries WHERE session = ? AND number <= ?",
                (new_id, row[0], last),
            )
            db.execute("UPDATE fairlead_sessions SET last = ? WHERE id = ?", (last, new_id))
            return last

        return await self._writer.do(fork)

    async def delete(self, id: str) -> None:
        def delete(db: sqlite3.Connection) -> None:
            key = _sessions(db).delete(id)
            db.execute("DELETE FROM fairlead_entries WHERE session = ?", (key,))

        await self._writer.do(delete)

    async def close(self) -> None:
        await self._writer.close()
        await self._reader.close()

    # The threads

    def _connect(self) -> sqlite3.Connection:
        """Connect, and create the tables. Raises StoreUnavailable and SessionError."""
        try:
            keep_database_private(self._path)
            db = sqlite3.connect(self._path, timeout=_PATIENCE, isolation_level=None)
            try:
                use_wal(db)
                db.execute(f"PRAGMA synchronous = {'FULL' if self._durability == 'fsync' else 'NORMAL'}")
                db.executescript(f"BEGIN IMMEDIATE; {_TABLES} COMMIT;")
            except BaseException:
                db.close()
                raise
            return db
        except (sqlite3.Error, OSError) as error:
            raise self._trouble(error) from error

    def _trouble(self, error: Exception) -> SessionError:
        text = f"Cannot use the session store {self._path}: {error}."
        return StoreUnavailable(text) if isinstance(error, sqlite3.OperationalError | OSError) else SessionError(text)

    def _write_all(self, jobs: list[Job[sqlite3.Connection]]) -> None:
        """Do all jobs in one transaction, each in its own savepoint."""
        try:
            if self._writing is None:
                self._writing = self._connect()
            db = self._writing
            db.execute("BEGIN IMMEDIATE")
            try:
                for job in jobs:
                    self._in_savepoint(db, job)
                db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise
        except Exception as error:
            problem = error if isinstance(error, FairleadError) else self._trouble(error)
            for job in jobs:
                job.error = problem
        for job in jobs:
            job.answer()

    def _in_savepoint(self, db: sqlite3.Connection, job: Job[sqlite3.Connection]) -> None:
        db.execute("SAVEPOINT job")
        job.do(db)
        if job.error is not None:
            if isinstance(job.error, sqlite3.Error):
                raise job.error  # a full disk, for example: nothing of the transaction is committed
            db.execute("ROLLBACK TO job")
        db.execute("RELEASE job")

    def _read_all(self, jobs: list[Job[sqlite3.Connection]]) -> None:
        for job in jobs:
            try:
                if self._reading is None:
                    self._reading = self._connect()
                db = self._reading
                db.execute("BEGIN")
                try:
                    job.do(db)
                finally:
                    db.execute("ROLLBACK")
                if isinstance(job.error, sqlite3.Error):
                    job.error = self._trouble(job.error)
            except Exception as error:
                job.error = error if isinstance(error, FairleadError) else self._trouble(error)
            job.answer()

    def _end_writing(self) -> None:
        _close(self._writing)

    def _end_reading(self) -> None:
        _close(self._reading)


def use_wal(db: sqlite3.Connection, *, patience: float = _PATIENCE) -> None:
    """Switch to the write-ahead log. Raises sqlite3.Error.

    SQLite refuses the switch at once, whatever the timeout of the connection is, while another connection switches. So this
    function tries again for `patience` seconds.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def _close(db: sqlite3.Connection | None) -> None:
    if db is not None:
        with suppress(sqlite3.Error):
            db.close()


def _run(db: sqlite3.Connection, statement: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
    return db.execute(statement, {**values, "now": time.time()}).fetchall()


def _sessions(db: sqlite3.Connection) -> SqlSessions:
    return SqlSessions(partial(_run, db), no_limit=-1)


def _row(db: sqlite3.Connection, statement: str, values: Sequence[Any]) -> Any:
    found = db.execute(statement, values).fetchall()  # all of them: a statement with RETURNING must run to its end
    return found[0] if found else None


def _add(db: sqlite3.Connection, id: str, header: bytes, lines: Sequence[bytes], owner: str, expires_at: float) -> int:
    """Add a session, and return its epoch. Raises SessionExists."""
    now = time.time()
    # A session that is deleted and created again continues with higher epochs, so that an old owner is refused.
    epoch = int(now * 1e6)
    row = _row(
        db,
        "INSERT INTO fairlead_sessions (id, header, last, epoch, owner, expires_at, created_at, changed_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING RETURNING key",
        (id, header, len(lines), epoch, owner, expires_at, now, now),
    )
    if row is None:
        raise exists(id)
    _insert(db, row[0], 0, lines)
    return epoch


def _insert(db: sqlite3.Connection, key: int, last: int, lines: Sequence[bytes]) -> None:
    if lines:
        rows = ((key, last + 1 + index, line) for index, line in enumerate(lines))
        db.executemany("INSERT INTO fairlead_entries (session, number, line) VALUES (?, ?, ?)", rows)
