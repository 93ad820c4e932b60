"""Sessions in a Postgres database, for many machines. Needs psycopg, which the extra `postgres` brings.

One thread appends and renews leases, and another does everything else, each with its own connection. What several sessions append
at the same time goes to the server in one pipeline and is committed together. The clock of leases is that of the server.

Each append is one statement with the epoch and the number of the last entry as conditions. So an append with an old epoch fails,
and an append that is sent again after the connection was lost is not written twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, LiteralString, TypeVar

from msgspec import Struct

from fairlead.config.extras import install_command
from fairlead.errors import ConfigError, FairleadError, SessionError, SessionNotFound, StoreUnavailable
from fairlead.stores.sql import RELEASE, RENEW, TABLES, Job, SqlSessions, Worker
from fairlead.stores.store import (
    Lease,
    StoredLines,
    StoredSession,
    check_id,
    check_lines,
    exists,
    make_in_use_error,
    make_not_found_error,
)

if TYPE_CHECKING:
    from psycopg import Connection

    Db = Connection[tuple[Any, ...]]

T = TypeVar("T")

#: Keeps two processes from creating the tables at the same time; any number that is not used for another purpose.
_CREATING = 0x6661_6972_6C65
#: Notice a server that has gone without a word.
CONNECTION: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "application_name": "fairlead",
}
_TABLES = TABLES.format(
    key="bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    text='text COLLATE "C"',
    bytes="bytea",
    number="bigint",
    time="float8",
    parent="bigint NOT NULL REFERENCES fairlead_sessions ON DELETE CASCADE",
)
#: The time in seconds, also in a transaction that began earlier.
_NOW = "extract(epoch FROM clock_timestamp())::float8"
_APPEND = f"""
WITH owned AS (
    UPDATE fairlead_sessions SET last = last + %(count)s, changed_at = {_NOW}
    WHERE id = %(id)s AND epoch = %(epoch)s AND expires_at > {_NOW} AND last = coalesce(%(after)s::bigint, last)
    RETURNING key, last
), added AS (
    INSERT INTO fairlead_entries (session, number, line)
    SELECT owned.key, owned.last - %(count)s + place, line
    FROM owned, unnest(%(lines)b::bytea[]) WITH ORDINALITY AS new (line, place)
)
SELECT last FROM owned
"""
_CREATE = f"""
WITH made AS (
    INSERT INTO fairlead_sessions (id, header, last, epoch, owner, expires_at, created_at, changed_at)
    VALUES (%(id)s, %(header)b, %(count)s, ({_NOW} * 1e6)::bigint, %(owner)s,
            CASE WHEN %(seconds)s::float8 > 0 THEN {_NOW} + %(seconds)s::float8 ELSE 0 END, {_NOW}, {_NOW})
    ON CONFLICT (id) DO NOTHING RETURNING key, epoch, expires_at
), added AS (
    INSERT INTO fairlead_entries (session, number, line)
    SELECT made.key, place, line FROM made, unnest(%(lines)b::bytea[]) WITH ORDINALITY AS new (line, place)
)
SELECT epoch, expires_at FROM made
"""
_OPEN = f"""
WITH taken AS (
UPDATE fairlead_sessions SET epoch = epoch + 1, owner = %(owner)s, expires_at = {_NOW} + %(seconds)s::float8
WHERE id = %(id)s AND (expires_at <= {_NOW} OR (%(again)s AND owner = %(owner)s)) RETURNING epoch, expires_at, last
)
SELECT taken.epoch, taken.expires_at, taken.last, found.owner, found.expires_at
FROM fairlead_sessions AS found LEFT JOIN taken ON true WHERE found.id = %(id)s
"""
_FORK = """
WITH source AS (
    SELECT key, least(last, coalesce(%(up_to)s::bigint, last)) AS last FROM fairlead_sessions WHERE id = %(id)s
), made AS (
    INSERT INTO fairlead_sessions (id, header, last, epoch, owner, expires_at, created_at, changed_at)
    SELECT %(new_id)s, %(header)b, last, ({now} * 1e6)::bigint, '', 0, {now}, {now} FROM source
    ON CONFLICT (id) DO NOTHING RETURNING key, last
), added AS (
    INSERT INTO fairlead_entries (session, number, line)
    SELECT made.key, number, line FROM made, source, fairlead_entries
    WHERE session = source.key AND number <= made.last
)
SELECT (SELECT last FROM source), (SELECT last FROM made)
""".replace("{now}", _NOW)


@cache
def _translate(statement: LiteralString) -> LiteralString:
    """Return a statement of `fairlead.stores.sql` as psycopg takes it."""
    return re.sub(r":([a-z]+)", lambda found: _NOW if found[1] == "now" else f"%({found[1]})s", statement)  # pyright: ignore[reportReturnType]


class _Statement(Struct):
    """One statement of a pipeline. `finish` makes the result of its row; without a row it may ask the server why."""

    id: str
    text: LiteralString
    values: dict[str, Any]
    finish: Callable[[Db, tuple[Any, ...] | None], Any]
    #: Whether it may be sent again when it is not known whether it has taken effect.
    repeatable: bool = True


class PostgresStore:
    """A `SessionStore` in the Postgres database at `url`. It creates its tables, whose names begin with `fairlead_`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._writing: Db | None = None
        self._other: Db | None = None
        self._writer: Worker[Any] = Worker("fairlead-postgres-writer", self._write_all, self._end_writing)
        self._worker: Worker[Any] = Worker("fairlead-postgres", self._do_all, self._end_others)

    async def create(self, id: str, header: bytes, *, owner: str, lease_seconds: float, lines: Sequence[bytes] = ()) -> Lease:
        check_id(id)
        check_lines([header, *lines])
        values: dict[str, Any] = {"id": id, "header": header, "count": len(lines), "owner": owner, "seconds": lease_seconds}
        values["lines"] = list(lines)

        def create(db: Db, again: bool) -> Lease:
            row = db.execute(_CREATE, values).fetchone()
            if row is None and again:  # the first attempt may have succeeded
                row = db.execute(
                    "SELECT epoch, expires_at FROM fairlead_sessions WHERE id = %s AND owner = %s AND header = %b AND last = %s",
                    (id, owner, header, len(lines)),
                ).fetchone()
            if row is None:
                raise exists(id)
            return Lease(id, row[0], owner, row[1], lease_seconds, len(lines))

        return await self._do(create)

    async def open(self, id: str, *, owner: str, lease_seconds: float) -> Lease:
        def open(db: Db, again: bool) -> Lease:
            values = {"id": id, "owner": owner, "seconds": lease_seconds, "again": again}
            row = db.execute(_OPEN, values).fetchone()
            if row is None:
                raise make_not_found_error(id)
            if row[0] is None:
                raise make_in_use_error(id, row[3], row[4])
            return Lease(id, row[0], owner, row[1], lease_seconds, row[2])

        return await self._do(open)

    async def renew(self, lease: Lease) -> Lease:
        values = {"id": lease.id, "epoch": lease.epoch, "seconds": lease.seconds}

        def finish(db: Db, row: tuple[Any, ...] | None) -> Lease:
            return _sessions(db).renew_lease(lease, row)

        return await self._run_in_pipeline(_Statement(lease.id, _translate(RENEW), values, finish))

    async def release(self, lease: Lease) -> None:
        values = {"id": lease.id, "epoch": lease.epoch}
        await self._run_in_pipeline(_Statement(lease.id, _translate(RELEASE), values, lambda db, row: None))

    async def append(self, lease: Lease, lines: Sequence[bytes], *, after: int | None = None) -> int:
        check_lines(lines)
        lines = list(lines)

        def finish(db: Db, row: tuple[Any, ...] | None) -> int:
            return _sessions(db).find_earlier_append(lease, lines, after) if row is None else row[0]

        values = {"id": lease.id, "epoch": lease.epoch, "after": after, "count": len(lines), "lines": lines}
        return await self._run_in_pipeline(_Statement(lease.id, _APPEND, values, finish, repeatable=after is not None))

    async def read(self, id: str, after: int = 0, limit: int | None = None) -> StoredLines:
        return await self._do(lambda db, again: _sessions(db).read(id, after, limit))

    async def list(self, *, after: str = "", limit: int | None = None) -> Sequence[StoredSession]:
        return await self._do(lambda db, again: _sessions(db).list_after(after, limit))

    async def fork(self, id: str, new_id: str, header: bytes, up_to: int | None = None) -> int:
        check_id(new_id)
        check_lines([header])

        def fork(db: Db, again: bool) -> int:
            values = {"id": id, "new_id": new_id, "header": header, "up_to": up_to}
            row = db.execute(_FORK, values).fetchone()
            if row is None or row[0] is None:
                raise make_not_found_error(id)
            if row[1] is None:
                copied = (
                    again
                    and db.execute(
                        "SELECT 1 FROM fairlead_sessions WHERE id = %s AND header = %b AND last = %s", (new_id, header, row[0])
                    ).fetchone()
                )
                if not copied:
                    raise exists(new_id)
            return row[0]

        return await self._do(fork)

    async def delete(self, id: str) -> None:
        def delete(db: Db, again: bool) -> None:
            try:
                _sessions(db).delete(id)
            except SessionNotFound:
                if not again:  # otherwise, the first attempt has deleted it
                    raise

        await self._do(delete)

    async def close(self) -> None:
        await self._writer.close()
        await self._worker.close()

    # Calls

    async def _do(self, work: Callable[[Db, bool], T]) -> T:
        return await self._worker.do(work)  # pyright: ignore[reportArgumentType]

    async def _run_in_pipeline(self, statement: _Statement) -> Any:
        return await self._writer.do(lambda _: statement)

    # The threads

    def _connect(self) -> Db:
        """Connect, and create the tables if they are missing. Raises ConfigError and psycopg's errors."""
        try:
            import psycopg  # noqa: PLC0415  an extra
            from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415  an extra
        except ImportError as error:
            command = install_command("postgres")
            raise ConfigError(f"Sessions in Postgres need psycopg ({error}). This installs it: {command}") from error
        options: dict[str, Any] = {**CONNECTION, **conninfo_to_dict(self._url)}
        db: Db = psycopg.connect(autocommit=True, **options)
        try:
            row = db.execute("SELECT to_regclass('fairlead_sessions'), to_regclass('fairlead_entries')").fetchone()
            if row is None or None in row:
                with db.transaction():
                    db.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATING,))
                    db.execute(_TABLES)
        except BaseException:
            db.close()
            raise
        return db

    def _trouble(self, error: Exception) -> FairleadError:
        if isinstance(error, FairleadError):
            return error
        text = " ".join(str(error).split())
        if _is_lost_connection(error):
            return StoreUnavailable(f"The session store in Postgres cannot be reached: {text}.")
        return SessionError(f"The session store in Postgres failed: {type(error).__name__}: {text}.")

    def _do_all(self, jobs: list[Job[Any]]) -> None:
        for job in jobs:
            work: Callable[[Db, bool], Any] = job.work  # pyright: ignore[reportAssignmentType]
            try:
                fresh = self._other is None
                try:
                    self._other = self._other or self._connect()
                    job.result = work(self._other, False)
                except Exception as error:
                    if not _is_lost_connection(error):
                        raise
                    _close(self._other)
                    self._other = None
                    if fresh:
                        raise
                    self._other = self._connect()
                    job.result = work(self._other, True)
            except Exception as error:
                job.error = self._trouble(error)
            job.answer()

    def _write_all(self, jobs: list[Job[Any]]) -> None:
        # Always in the same order, so that two processes never wait for each other's rows.
        pairs = sorted(((job, job.work(None)) for job in jobs), key=lambda pair: pair[1].id)
        try:
            rows = self._send(pairs)
        except Exception as error:
            if not _is_lost_connection(error):
                self._one_by_one(pairs)
                return
            self._disconnect()
            self._send_again(pairs, error)
            return
        self._finish(pairs, rows)

    def _send(self, pairs: Sequence[tuple[Job[Any], _Statement]]) -> list[tuple[Any, ...] | None]:
        """Send statements in one pipeline, and so in one transaction. Returns the row of each."""
        if self._writing is None:
            self._writing = self._connect()
        db = self._writing
        if len(pairs) == 1:
            return [db.execute(pairs[0][1].text, pairs[0][1].values).fetchone()]
        with db.pipeline():
            cursors = [db.execute(statement.text, statement.values) for _, statement in pairs]
        return [cursor.fetchone() for cursor in cursors]

    def _send_again(self, pairs: Sequence[tuple[Job[Any], _Statement]], error: Exception) -> None:
        """Connect again after the connection was lost, and repeat what can be repeated. The others fail."""
        again = [pair for pair in pairs if pair[1].repeatable]
        for job, statement in pairs:
            if not statement.repeatable:
                job.error = self._trouble(error)
                job.answer()
        if again:
            self._one_by_one(again)

    def _one_by_one(self, pairs: Sequence[tuple[Job[Any], _Statement]]) -> None:
        for pair in pairs:
            try:
                rows = self._send([pair])
            except Exception as error:
                if _is_lost_connection(error):
                    self._disconnect()
                pair[0].error = self._trouble(error)
                pair[0].answer()
            else:
                self._finish([pair], rows)

    def _finish(self, pairs: Sequence[tuple[Job[Any], _Statement]], rows: Sequence[tuple[Any, ...] | None]) -> None:
        for (job, statement), row in zip(pairs, rows, strict=True):
            try:
                assert self._writing is not None
                job.result = statement.finish(self._writing, row)
            except Exception as error:
                job.error = self._trouble(error)
            job.answer()

    def _disconnect(self) -> None:
        _close(self._writing)
        self._writing = None

    def _end_writing(self) -> None:
        _close(self._writing)

    def _end_others(self) -> None:
        _close(self._other)


def _is_lost_connection(error: Exception) -> bool:
    """Whether the server is away, or a statement failed in a way that may pass."""
    if isinstance(error, FairleadError):
        return False
    import psycopg  # noqa: PLC0415  an extra

    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def _close(db: Db | None) -> None:
    if db is not None:
        with suppress(Exception):
            db.close()


def _sessions(db: Db) -> SqlSessions:
    def run(statement: LiteralString, values: dict[str, Any]) -> Sequence[Sequence[Any]]:
        return db.execute(_translate(statement), values, binary=True).fetchall()

    return SqlSessions(run, no_limit=None)
