"""DBOS, as far as fairlead uses it: queues with limits and priorities, and claims of jobs by workers.

Everything here uses the public interface of DBOS 3.3. docs/decisions/034 says what was found about it by running it.

The jobs of a session run one at a time, as they were submitted. A job whose session has another job that has not ended waits:
DBOS gets it when its turn comes. Until then its status in the database is `waiting`, which callers see as `queued`. So all jobs
are in the queues of their keys, and the limits of a key count prompts of sessions too. The worker that ends a job gives the
next one to DBOS. Supervisors look for jobs that wait for nothing, because a worker may die in between.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import pickle
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from fairlead.errors import ConfigError
from fairlead.jobs.database import (
    JOB_COLUMNS,
    WORKFLOW_OF_JOB,
    DatabaseUrl,
    Transaction,
    missing_extra,
    prepare_sqlite,
    unavailable,
)
from fairlead.jobs.records import record_of
from fairlead.protocol.http.fleet import MOST_PRIORITY
from fairlead.stores.postgres import CONNECTION

if TYPE_CHECKING:
    from dbos import DBOSClient
    from sqlalchemy import Connection, Engine

    from fairlead.jobs.records import JobRecord


T = TypeVar("T")

APPLICATION = "fairlead-jobs"
#: Workers run only workflows of this version. It changes when the arguments of the workflow do.
VERSION = "2"
#: The version of workflows whose arguments are pickles. No worker reads them: see `convert_pickled`.
_PICKLED_VERSION = "1"
WORKFLOW = "fairlead-job"
_REFUSAL = "it is a pickle, and fairlead reads only portable JSON"
#: The queue of jobs without a key, and the beginning of the names of the queues of keys.
DEFAULT_QUEUE, KEY_PREFIX = "fairlead", "fairlead-key-"
#: How often each worker looks for jobs, in seconds.
POLL_SECONDS = 0.5
#: How many jobs of a queue a worker process may claim, before the first worker has said how many it runs.
DEFAULT_SHARE = 8
#: How many priorities a queue tells apart within one priority of the user: by the order of submission.
_ORDER_BITS = 21


class KeyLimits(Struct, frozen=True, kw_only=True):
    """What the jobs of a provider key may do together, in the whole fleet. None: no limit."""

    #: How many may run at the same time.
    concurrency: int | None = None
    #: How many may start within `period` seconds.
    rate: int | None = None
    period: float = 60.0


class Queues:
    """The queues of a fleet, as a client uses them. The connection is made when it is first needed."""

    def __init__(self, url: DatabaseUrl) -> None:
        self._url = url
        self._client: DBOSClient | None = None
        self._engine: Engine | None = None
        self._known: set[str] = set()
        self._closed = threading.Event()

    async def run(self, work: Callable[[DBOSClient, Engine], T]) -> T:
        """Run a function with the client of DBOS, in a thread."""

        def run() -> T:
            if self._client is None or self._engine is None:
                dbos = import_dbos()
                self._engine = make_engine(self._url)
                self._client = dbos.DBOSClient(
                    system_database_engine=self._engine,
                    application_name=APPLICATION,
                    serializer=dbos.DBOSPortableJSONSerializer(),
                )
            assert self._client is not None
            return work(self._client, self._engine)

        return await asyncio.to_thread(_patiently, run, self._url, self._closed)

    async def register(self, keys: Mapping[str, KeyLimits | None], *, sessions: int | None = None) -> None:
        """Create the queue of jobs without a key and those of keys, or change their limits.

        Args:
            keys: The limits of keys. None creates the queue of a key without limits, and leaves an existing one as it is.
            sessions: How many jobs of a queue a worker process may claim; None: leave that as it is.
        """
        if sessions is None and all(limits is None and key in self._known for key, limits in keys.items()) and self._known:
            return

        def register(client: DBOSClient, _: Engine) -> None:
            existing = {queue.name: queue for queue in client.list_queues()}
            default = existing.get(DEFAULT_QUEUE)
            share = sessions or (default and default.worker_concurrency) or DEFAULT_SHARE
            wanted: dict[str, KeyLimits | None] = {f"{KEY_PREFIX}{key}": limits for key, limits in keys.items()}
            for name in (DEFAULT_QUEUE, *wanted):
                if name not in existing or wanted.get(name) is not None:
                    _register(client, name, wanted.get(name) or KeyLimits(), share)
            if sessions is not None:
                for queue in existing.values():
                    if wanted.get(queue.name) is None:
                        most = queue.global_concurrency
                        queue.set_worker_concurrency(share if most is None else min(share, most))

        await self.run(register)
        self._known.update(("", *keys))

    async def cancel(self, workflows: Sequence[str]) -> None:
        """Take workflows out of their queues for good."""
        await self.run(lambda client, _: client.cancel_workflows(list(workflows)))

    async def put_back(self, workflows: dict[str, str]) -> None:
        """Queue workflows again that a worker had claimed. The values are the names of their queues."""

        def resume(client: DBOSClient, _: Engine) -> None:
            for queue in dict.fromkeys(workflows.values()):
                client.resume_workflows([id for id, name in workflows.items() if name == queue], queue_name=queue)

        if workflows:
            await self.run(resume)

    async def list_claimed(self, worker: str | None = None) -> list[tuple[str, str, str]]:
        """Return the claimed workflows of a worker, or of all: their ids, their queues, and their workers."""

        def list_pending(client: DBOSClient, _: Engine) -> list[tuple[str, str, str]]:
            found = client.list_workflows(
                status="PENDING", executor_id=worker, name=WORKFLOW, load_input=False, load_output=False
            )
            return [(each.workflow_id, each.queue_name or DEFAULT_QUEUE, each.executor_id or "") for each in found]

        return await self.run(list_pending)

    def close(self) -> None:
        """Close the connections. What is being tried again fails."""
        self._closed.set()
        if self._client is not None:
            self._client.destroy()
        if self._engine is not None:
            self._engine.dispose()
        self._client = self._engine = None


def _patiently(work: Callable[[], T], url: DatabaseUrl, stop: threading.Event) -> T:
    """Do something again while connections break or others are faster, for a few seconds or until `stop` is set.

    Raises DatabaseUnavailable.
    """
    from sqlalchemy.exc import IntegrityError, InterfaceError, OperationalError, ProgrammingError  # noqa: PLC0415  an extra

    for pause in (0.0, 0.2, 0.5, 1.0, 2.0, 3.0, None):
        try:
            return work()
        except (OperationalError, InterfaceError, ProgrammingError, IntegrityError) as error:
            if pause is None or stop.wait(pause):
                raise unavailable(url, error.orig or error) from error
    raise AssertionError("the last round returns or raises")


def _register(client: DBOSClient, name: str, limits: KeyLimits, share: int) -> None:
    client.register_queue(
        name,
        worker_concurrency=share if limits.concurrency is None else min(share, limits.concurrency),
        global_concurrency=limits.concurrency,
        limiter=None if limits.rate is None else {"limit": limits.rate, "period": float(limits.period)},
        polling_interval_sec=POLL_SECONDS,
    )


def enqueue(client: DBOSClient, connection: Any, record: JobRecord) -> None:
    """Queue a job within a transaction of SQLAlchemy."""
    options: dict[str, Any] = {
        "workflow_name": WORKFLOW,
        "workflow_id": record.workflow,
        "queue_name": queue_of(record.key),
        "priority": _priority(record.seq, record.priority),
        "app_version": VERSION,
    }
    client.enqueue_in_transaction(connection, options, record.id, record.generation)  # pyright: ignore[reportArgumentType]


def queue_of(key: str | None) -> str:
    """Return the name of the queue of the jobs with a key, or of those without one."""
    return DEFAULT_QUEUE if key is None else f"{KEY_PREFIX}{key}"


def _priority(seq: int, priority: int) -> int:
    """Return the priority for DBOS, which starts the lowest number first.

    The order of submission is part of it: on SQLite, DBOS would not tell apart what was queued in the same second.
    """
    return ((MOST_PRIORITY - priority) << _ORDER_BITS) + seq % (1 << _ORDER_BITS) + 1


def import_dbos() -> Any:
    """Import DBOS. Raises ConfigError with the command that installs it."""
    try:
        import dbos  # noqa: PLC0415  an extra
    except ImportError as error:
        raise missing_extra(error.name or "dbos") from None
    return dbos


@cache
def refuse_pickles() -> None:
    """Have Python stop DBOS from unpickling what could run code: unpickling a row runs what its writer wants.

    DBOS picks the format of a value by a name in its row, so the serializer of the configuration alone does not exclude pickles.
    A pickle can only call what it has looked up before, and Python announces that to audit hooks. A pickle that looks nothing up
    is data, which is checked as every other.

    Raises ConfigError if this release of DBOS would still unpickle.
    """
    from dbos import _serialization as formats  # noqa: PLC0415  an extra  # pyright: ignore[reportPrivateUsage]

    sys.addaudithook(_refuse_lookup)
    pickled = base64.b64encode(pickle.dumps(os.getcwd)).decode()
    for read in (formats.deserialize_value, formats.deserialize_args, formats.deserialize_exception):
        for name in ("py_pickle", None):
            try:
                read(pickled, name, formats.DBOSPortableJSON)
            except (TypeError, ValueError):
                continue
            raise ConfigError(
                "This release of DBOS would unpickle what the database contains. Install the one that fairlead pins."
            )


def _refuse_lookup(event: str, arguments: tuple[object, ...]) -> None:
    if event == "pickle.find_class" and sys._getframe(1).f_globals.get("__name__", "").startswith("dbos."):  # pyright: ignore[reportPrivateUsage]
        raise TypeError(_REFUSAL)


def workflow_table(*, is_postgres: bool) -> str:
    """Return the name of the table in which DBOS keeps workflows."""
    return "dbos.workflow_status" if is_postgres else "workflow_status"


def _arguments_table(*, is_postgres: bool) -> str:
    """Return the name of the table in which DBOS keeps arguments. Those in the table of workflows count only if it has none."""
    return "dbos.workflow_input" if is_postgres else "workflow_input"


def convert_pickled(transaction: Transaction) -> int:
    """Replace the arguments of queued workflows of an older fairlead, which are pickles, by what the rows of their jobs say.

    Nothing reads the pickles. Returns how many there were.
    """
    table = workflow_table(is_postgres=transaction.is_postgres)
    rows = transaction.rows(
        f"SELECT workflow_uuid, id, generation FROM {table} JOIN fairlead_jobs ON workflow_uuid = {WORKFLOW_OF_JOB}"
        f" WHERE name = '{WORKFLOW}' AND application_version = '{_PICKLED_VERSION}'"
        f" AND {table}.status IN ('ENQUEUED', 'DELAYED')"
    )
    for workflow, id, generation in rows:
        arguments = msgspec.json.encode({"positionalArgs": [id, generation], "namedArgs": {}}).decode()
        inputs = _arguments_table(is_postgres=transaction.is_postgres)
        transaction.run(f"UPDATE {inputs} SET inputs = ? WHERE workflow_uuid = ?", (arguments, workflow))
        transaction.run(
            f"UPDATE {table} SET inputs = ?, serialization = 'portable_json', application_version = '{VERSION}'"
            f" WHERE workflow_uuid = ? AND application_version = '{_PICKLED_VERSION}' AND status IN ('ENQUEUED', 'DELAYED')",
            (arguments, workflow),
        )
    return len(rows)


def end_unreadable(transaction: Transaction) -> None:
    """End claimed workflows of queued jobs whose rows differ from what a client queues: DBOS would leave them claimed.

    Those of other versions stay: an older worker may be about to run them.
    """
    table = workflow_table(is_postgres=transaction.is_postgres)
    arguments = _arguments_table(is_postgres=transaction.is_postgres)
    rows = transaction.rows(
        f"SELECT {table}.workflow_uuid, id, generation, name, class_name, config_name, serialization,"
        f" coalesce({arguments}.inputs, {table}.inputs) FROM {table}"
        f" JOIN fairlead_jobs ON {table}.workflow_uuid = {WORKFLOW_OF_JOB}"
        f" LEFT JOIN {arguments} ON {arguments}.workflow_uuid = {table}.workflow_uuid"
        f" WHERE {table}.status IN ('PENDING', 'SUCCESS') AND fairlead_jobs.status = 'queued'"
        f" AND application_version = '{VERSION}'"
    )
    for workflow, id, generation, *found, inputs in rows:
        if found != [WORKFLOW, None, None, "portable_json"] or not _are_arguments(inputs, id, generation):
            transaction.run(
                f"UPDATE {table} SET status = 'ERROR' WHERE workflow_uuid = ? AND status IN ('PENDING', 'SUCCESS')", (workflow,)
            )


def _are_arguments(inputs: str | None, id: str, generation: int) -> bool:
    try:
        return msgspec.json.decode(inputs or "") == {"positionalArgs": [id, generation], "namedArgs": {}}
    except (ValueError, RecursionError):
        return False


def make_engine(url: DatabaseUrl) -> Engine:
    """Return a pool of connections for DBOS."""
    import sqlalchemy  # noqa: PLC0415  an extra
    import sqlalchemy.event  # noqa: PLC0415  an extra

    if url.file is None:
        options = "-c idle_in_transaction_session_timeout=5000"
        return sqlalchemy.create_engine(
            url.sqlalchemy,
            pool_size=6,
            max_overflow=4,
            connect_args={**CONNECTION, "application_name": APPLICATION, "options": options},
        )
    engine = sqlalchemy.create_engine(url.sqlalchemy, pool_size=6, max_overflow=4)

    def prepare(connection: Any, _: object) -> None:
        connection.isolation_level = None
        prepare_sqlite(connection)

    def begin(connection: Any) -> None:
        # Otherwise two processes could both count the running jobs of a key before either claims another one.
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    sqlalchemy.event.listen(engine, "connect", prepare)
    sqlalchemy.event.listen(engine, "begin", begin)
    return engine


def migrate(url: DatabaseUrl) -> None:
    """Create the tables of DBOS, or bring them up to date. Raises DatabaseUnavailable.

    If another process does the same at this moment, one of the two fails. Then it looks again.
    """
    dbos = import_dbos()
    logger = logging.getLogger("dbos")
    logger.setLevel(logging.CRITICAL)
    _patiently(lambda: dbos.DBOS.migrate(url.sqlalchemy), url, threading.Event())
    logger.setLevel(logging.ERROR)


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
