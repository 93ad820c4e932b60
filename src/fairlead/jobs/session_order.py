"""The order of the jobs of a session: one at a time, as they were submitted.

A job whose session has another job that has not ended waits: DBOS gets it when its turn comes. Until then its status in the
database is `waiting`, which callers see as `queued`. So all jobs are in the queues of their keys, and the limits of a key count
prompts of sessions too.

The worker that ends a job gives the next one to DBOS. Supervisors look for jobs that wait for nothing, because a worker may die
in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.jobs.database import Transaction
from fairlead.jobs.dbos_queue import enqueue
from fairlead.jobs.records import record_of
from fairlead.jobs.schema import JOB_COLUMNS

if TYPE_CHECKING:
    from dbos import DBOSClient
    from sqlalchemy import Connection, Engine


def must_wait(transaction: Transaction, session: str, id: str) -> bool:
    """Whether a job of a session has to wait for another one. Until the transaction ends, no other process decides that."""
    _lock(transaction, session)
    rows = transaction.rows(
        "SELECT 1 FROM fairlead_jobs WHERE session = ? AND id <> ? AND status IN ('waiting', 'queued', 'running') LIMIT 1",
        (session, id),
    )
    return bool(rows)


def release_waiting(client: DBOSClient, engine: Engine, session: str | None = None) -> int:
    """Queue the next job of a session, or of all sessions, if none of it is queued or runs. Returns how many were queued."""
    which, values = ("", ()) if session is None else (" AND session = ?", (session,))
    statement = f"SELECT DISTINCT session FROM fairlead_jobs WHERE status = 'waiting'{which}"
    with engine.connect() as connection:
        sessions = transaction_of(connection).rows(statement, values)
    return sum(_release(client, engine, found) for (found,) in sessions)


def _release(client: DBOSClient, engine: Engine, session: str) -> int:
    with engine.begin() as connection:
        transaction = transaction_of(connection)
        _lock(transaction, session)
        rows = transaction.rows(
            "UPDATE fairlead_jobs SET status = 'queued' WHERE seq = (SELECT MIN(seq) FROM fairlead_jobs WHERE session = ?"
            " AND status = 'waiting') AND NOT EXISTS (SELECT 1 FROM fairlead_jobs WHERE session = ?"
            f" AND status IN ('queued', 'running')) RETURNING {JOB_COLUMNS}",
            (session, session),
        )
        for row in rows:
            enqueue(client, connection, record_of(row))
        return len(rows)


def transaction_of(connection: Connection) -> Transaction:
    """Return the transaction of a connection of SQLAlchemy, for our own statements."""
    return Transaction(connection.connection, is_postgres=connection.engine.dialect.name == "postgresql")


def _lock(transaction: Transaction, session: str) -> None:
    """Keep other processes from deciding about a session. On SQLite, a transaction has the whole database anyway."""
    if transaction.is_postgres:
        transaction.rows("SELECT pg_advisory_xact_lock(hashtextextended(?, 4711))", (session,))
