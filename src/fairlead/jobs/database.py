"""The database of the jobs, a SQLite file or Postgres: its connection, and the tables of fairlead beside those of DBOS.

DBOS holds the queue: which worker has claimed a job, in which order jobs start, and how many of a key may run. The tables of
fairlead hold what it does not: what a job is, how far it came, its events, and the leases of workers.

All statements of a process go through one connection in one thread, so that they never block the event loop. If Postgres goes
away, the thread connects again, and runs what was interrupted again.
"""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from fairlead.config.extras import install_command
from fairlead.config.home import expand_user
from fairlead.core.secrets import learn, redacted
from fairlead.errors import ConfigError, DatabaseUnavailable, FairleadError, JobError
from fairlead.platform.open_files import keep_database_private
from fairlead.stores.postgres import CONNECTION
from fairlead.stores.sqlite import use_wal

#: The version of the tables below and of those of sessions in the same database. It grows when an older fairlead could no longer
#: use them.
TABLES_VERSION = 1
#: The version of the tables of DBOS, as the release that fairlead needs creates them.
DBOS_VERSION = 123

#: `{serial}` and `{real}` differ between the databases.
TABLES = (
    """CREATE TABLE IF NOT EXISTS fairlead_jobs (
        seq {serial},
        id TEXT NOT NULL UNIQUE,
        session TEXT NOT NULL,
        task TEXT NOT NULL,
        key TEXT,
        status TEXT NOT NULL,
        generation BIGINT NOT NULL,
        epoch BIGINT NOT NULL,
        attempts BIGINT NOT NULL,
        deaths BIGINT NOT NULL,
        worker TEXT,
        answer TEXT,
        error TEXT,
        turns BIGINT NOT NULL,
        tokens BIGINT NOT NULL,
        cost {real} NOT NULL,
        cost_before {real} NOT NULL DEFAULT 0,
        seconds {real} NOT NULL,
        snapshot TEXT,
        patch TEXT,
        prompts_before BIGINT,
        lease BIGINT,
        submitted_at {real} NOT NULL,
        counted_at {real},
        ended_at {real}
    )""",
    "CREATE INDEX IF NOT EXISTS fairlead_jobs_worker ON fairlead_jobs (worker, status)",
    "CREATE INDEX IF NOT EXISTS fairlead_jobs_session ON fairlead_jobs (session, seq)",
    "CREATE INDEX IF NOT EXISTS fairlead_jobs_waiting ON fairlead_jobs (session) WHERE status = 'waiting'",
    "CREATE INDEX IF NOT EXISTS fairlead_jobs_ended ON fairlead_jobs (ended_at)",
    """CREATE TABLE IF NOT EXISTS fairlead_job_events (
        job TEXT NOT NULL,
        number BIGINT NOT NULL,
        data TEXT NOT NULL,
        PRIMARY KEY (job, number)
    )""",
    """CREATE TABLE IF NOT EXISTS fairlead_workers (
        id TEXT PRIMARY KEY,
        host TEXT NOT NULL,
        pid BIGINT NOT NULL,
        process TEXT NOT NULL,
        sessions BIGINT NOT NULL,
        expires_at {real} NOT NULL
    )""",
    "CREATE TABLE IF NOT EXISTS fairlead_fleet (id TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS fairlead_schema (version BIGINT NOT NULL)",
)

#: The columns of `fairlead_jobs` that a `JobRecord` has, in its order.
JOB_COLUMNS = (
    "seq, id, session, task, key, status, generation, epoch, attempts, deaths, worker, answer, error, turns, tokens, cost,"
    " cost_before, seconds, snapshot, prompts_before, lease, submitted_at, counted_at, ended_at"
)

#: The id of the workflow of a job in DBOS, as `JobRecord.workflow` has it, in SQL.
WORKFLOW_OF_JOB = "CASE WHEN generation = 1 THEN id ELSE id || '~' || CAST(generation AS TEXT) END"


T = TypeVar("T")
Row = tuple[Any, ...]

_POSTGRES = re.compile(r"postgres(?:ql)?(?:\+psycopg)?://")
_PASSWORD = re.compile(r"(?<=://)([^:/@?\s]*):\S*@|(?<=password=)[^&\s]*")
#: Seconds until a statement gives up waiting for a lock that another process holds.
_BUSY_SECONDS = 30
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
#: The channel on which Postgres announces new events.
CHANNEL = "fairlead_jobs"


class DatabaseUrl:
    """The address of a database: `sqlite:///FILE` or `postgresql://USER@HOST/NAME`."""

    def __init__(self, url: str) -> None:
        """Raises ConfigError if it is neither, or in memory."""
        self.file: Path | None = None
        self.postgres = ""
        if url.startswith("sqlite:///:memory:"):
            raise ConfigError(
                "A database in memory cannot hold jobs: the workers are other processes. Give sqlite:///FILE or"
                " postgresql://USER@HOST/NAME."
            )
        if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
            self.file = expand_user(url.removeprefix("sqlite:///")).absolute()
        elif _POSTGRES.match(url):
            self.postgres = _POSTGRES.sub("postgresql://", url)
            for password in _PASSWORD.finditer(self.postgres):
                learn(*re.split("[:@/?]", password[0]))  # a driver may take one with these characters for a host, and name it
        else:
            raise ConfigError(
                f"The database {hide_password(url)!r} is not known. Give sqlite:///FILE or postgresql://USER@HOST/NAME."
            )

    @property
    def sqlalchemy(self) -> str:
        """The address as SQLAlchemy and DBOS write it."""
        if self.file is None:
            return self.postgres.replace("postgresql://", "postgresql+psycopg://")
        from sqlalchemy import URL  # noqa: PLC0415  an extra

        # In their addresses, `?` and `%` have a meaning.
        return URL.create("sqlite", database=str(self.file)).render_as_string()

    def __str__(self) -> str:
        return f"sqlite:///{self.file}" if self.file is not None else self.postgres


def hide_password(url: str) -> str:
    """Return an address without its password."""
    return _PASSWORD.sub(lambda found: "***" if found[1] is None else f"{found[1]}:***@", url)


class Transaction:
    """A transaction in progress. All of its statements take effect together, when the function that got it returns."""

    def __init__(self, connection: Any, *, is_postgres: bool) -> None:
        self._cursor = connection.cursor()
        self.is_postgres = is_postgres
        #: The current time in seconds as an expression of SQL, by the clock of the database.
        self.now = NOW_POSTGRES if is_postgres else NOW_SQLITE

    def run(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run a statement and return how many rows it changed."""
        self._cursor.execute(self._translate(sql), values)
        return self._cursor.rowcount

    def run_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        """Run a statement once per row of values, and return how many rows they changed together."""
        self._cursor.executemany(self._translate(sql), rows)
        return self._cursor.rowcount

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a query and return its rows."""
        self._cursor.execute(self._translate(sql), values)
        return self._cursor.fetchall()

    def announcement(self, jobs: Sequence[str]) -> str:
        """Return what listeners on Postgres are told when these jobs have changed. Readers of SQLite notice by themselves."""
        return " ".join(jobs) if len(jobs) < 50 else ""

    def _translate(self, sql: str) -> str:
        return sql.replace("?", "%s") if self.is_postgres else sql


NOW_POSTGRES = "EXTRACT(EPOCH FROM clock_timestamp())::DOUBLE PRECISION"
NOW_SQLITE = "((julianday('now') - 2440587.5) * 86400.0)"


class Database:
    """One connection, used from its own thread.

    Args:
        url: The address.
        patience: How many seconds to try to reach a database that does not answer; None: until it answers.
    """

    def __init__(self, url: DatabaseUrl, *, patience: float | None) -> None:
        self.url = url
        self._patience = patience
        self._thread = ThreadPoolExecutor(1, "fairlead-jobs")
        self._connection: Any = None
        self._closed = threading.Event()
        #: The current time in seconds as an expression of SQL, by the clock of the database.
        self.now = NOW_SQLITE if url.file is not None else NOW_POSTGRES
        #: When the database last answered after it had not, on the monotonic clock; None if it does not answer.
        self.reachable_since: float | None = None

    @property
    def is_postgres(self) -> bool:
        return self.url.file is None

    async def do(self, work: Callable[[Transaction], T], *, is_one_statement: bool = False) -> T:
        """Run a function in a transaction, in the thread of the connection.

        If the connection breaks, the function runs again on a new one. It must bear that: its changes may have been saved.

        Args:
            work: The function.
            is_one_statement: It runs one statement on Postgres, which is a transaction by itself. That saves two messages.

        Raises:
            DatabaseUnavailable: The database cannot be reached.
            JobError: The connection was closed.
        """
        if self._closed.is_set():
            raise make_closed_error(self.url)
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._do, work, is_one_statement)

    async def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run one query and return its rows."""
        return await self.do(lambda transaction: transaction.rows(sql, values), is_one_statement=True)

    async def run(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run one statement and return how many rows it changed."""
        return await self.do(lambda transaction: transaction.run(sql, values), is_one_statement=True)

    async def create_tables(self) -> None:
        """Create what does not exist yet. Raises ConfigError if the database does not permit that, or is of a newer fairlead."""
        real, serial = (
            ("DOUBLE PRECISION", "BIGSERIAL PRIMARY KEY") if self.is_postgres else ("REAL", "INTEGER PRIMARY KEY AUTOINCREMENT")
        )

        def create(transaction: Transaction) -> None:
            if self.is_postgres:  # CREATE TABLE IF NOT EXISTS fails if two processes do it at once
                transaction.run("SELECT pg_advisory_xact_lock(4711)")
            self._refuse_newer(transaction)
            for table in TABLES:
                transaction.run(table.format(real=real, serial=serial))
            for name, column, value in (("fleet", "id", os.urandom(6).hex()), ("schema", "version", TABLES_VERSION)):
                table = f"fairlead_{name}"
                if not transaction.rows(f"SELECT 1 FROM {table}"):  # on SQLite, another process may do the same now
                    insert = f"INSERT INTO {table} ({column}) SELECT ? WHERE NOT EXISTS (SELECT 1 FROM {table})"
                    transaction.run(insert, (value,))

        try:
            await self.do(create)
        except FairleadError:
            raise
        except Exception as error:
            problem = f"The database {hide_password(str(self.url))} cannot be used: {_first_line(error)}."
            raise ConfigError(f"{problem} Check its address, and that its user may create tables.") from error

    def _refuse_newer(self, transaction: Transaction) -> None:
        """Raise ConfigError if the tables have a version that this program does not know. One without a version is older."""
        exists = "SELECT 1 FROM sqlite_master WHERE name = ?"
        tables = {"fairlead_schema": TABLES_VERSION, "dbos_migrations": DBOS_VERSION}
        if self.is_postgres:
            exists = "SELECT 1 WHERE to_regclass(?) IS NOT NULL"
            tables = {"fairlead_schema": TABLES_VERSION, "dbos.dbos_migrations": DBOS_VERSION}
        for table, known in tables.items():
            for (version,) in transaction.rows(f"SELECT version FROM {table}") if transaction.rows(exists, (table,)) else ():
                if not isinstance(version, int) or version > known:
                    raise ConfigError(
                        f"A newer fairlead created the database {hide_password(str(self.url))}: {table} has the version"
                        f" {version!r}, and this one knows versions up to {known}. Update fairlead."
                    )

    async def fleet(self) -> str:
        """Return the id of the database. It keeps the files of jobs apart from those of jobs in other databases."""
        ((id,), *_) = await self.rows("SELECT id FROM fairlead_fleet")
        if not re.fullmatch(r"[0-9a-f]{12}", str(id)):  # it names directories
            raise ConfigError(
                f"The database {hide_password(str(self.url))} has {id!r} as its id. Expected twelve hexadecimal digits."
            )
        return id

    async def close(self) -> None:
        """Close the connection. What still waits for it is dropped, and fails."""
        self._closed.set()
        with suppress(RuntimeError):
            await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _do(self, work: Callable[[Transaction], T], is_one_statement: bool) -> T:
        began, pause = time.monotonic(), _FIRST_PAUSE
        while True:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                result = self._attempt_on_postgres(work, is_one_statement) if self.is_postgres else self._attempt(work)
                if self.reachable_since is None:
                    self.reachable_since = time.monotonic()
                return result
            except Exception as error:
                if not self._is_passing(error):
                    self._raise_refusal(error)
                    raise
                self.reachable_since = None
                self._disconnect()
                if self._patience is not None and time.monotonic() - began + pause > self._patience:
                    raise unavailable(self.url, error) from error
                if self._closed.wait(pause):
                    raise unavailable(self.url, error) from error
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _attempt_on_postgres(self, work: Callable[[Transaction], T], is_one_statement: bool) -> T:
        if is_one_statement:
            return work(Transaction(self._connection, is_postgres=True))
        with self._connection.transaction():
            return work(Transaction(self._connection, is_postgres=True))

    def _attempt(self, work: Callable[[Transaction], T]) -> T:
        connection = self._connection
        try:
            result = work(Transaction(connection, is_postgres=False))
            connection.commit()
        except BaseException:
            with suppress(Exception):
                connection.rollback()
            raise
        return result

    def _is_passing(self, error: Exception) -> bool:
        """Whether an error is about the connection, a lock, or a disk that is full, so that another attempt may work."""
        if isinstance(error, sqlite3.OperationalError):
            return _is_passing_on_sqlite(error)
        if not self.is_postgres:
            return False
        import psycopg  # noqa: PLC0415  an extra

        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) and not _is_refused(error)

    def _raise_refusal(self, error: Exception) -> None:
        """Raise ConfigError if the server refused the connection."""
        if self._connection is None and self.is_postgres and _is_refused(error):
            problem = f"The database {hide_password(str(self.url))} refuses the connection: {_first_line(error)}."
            raise ConfigError(f"{problem} Check the user, the password and the name of the database.") from error

    def _connect(self) -> Any:
        file = self.url.file
        if file is not None:
            return connect_sqlite(file)
        # A process that is stopped in a transaction must not keep its locks.
        connection = connect_postgres(self.url, options="-c idle_in_transaction_session_timeout=5000 -c lock_timeout=5000")
        connection.prepare_threshold = 2
        return connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()
            self._connection = None


def connect_sqlite(file: Path) -> sqlite3.Connection:
    """Open a SQLite file. Raises ConfigError if that is not possible."""
    try:
        keep_database_private(file)
        connection = sqlite3.connect(file, timeout=_BUSY_SECONDS, isolation_level="IMMEDIATE", check_same_thread=False)
        prepare_sqlite(connection)
    except (sqlite3.DatabaseError, OSError) as error:
        if isinstance(error, sqlite3.OperationalError) and _is_passing_on_sqlite(error):
            raise
        what_to_do = "Check that the file and its directory can be written, or give another file."
        if isinstance(error, sqlite3.DatabaseError) and error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
            what_to_do = "Give another file."
        raise ConfigError(f"{file} cannot be used as a database: {error}. {what_to_do}") from error
    return connection


def _is_passing_on_sqlite(error: sqlite3.OperationalError) -> bool:
    return any(word in str(error) for word in ("locked", "busy", "disk is full", "disk I/O"))


def prepare_sqlite(connection: sqlite3.Connection) -> None:
    """Set what every connection to a SQLite file needs. Raises sqlite3.Error.

    With these settings a commit survives the end of the process, and needs no disk flush.
    """
    connection.execute(f"PRAGMA busy_timeout={_BUSY_SECONDS * 1000}")
    use_wal(connection, patience=_BUSY_SECONDS)
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA synchronous=NORMAL")


def connect_postgres(url: DatabaseUrl, **options: str) -> Any:
    """Connect to Postgres. A server that has gone without a word is noticed within seconds. Raises ConfigError and psycopg's."""
    psycopg = import_psycopg()

    return psycopg.connect(url.postgres, autocommit=True, **CONNECTION, **options)


def import_psycopg() -> Any:
    """Import psycopg. Raises ConfigError with the command that installs it."""
    try:
        import psycopg  # noqa: PLC0415  an extra
    except ImportError:
        raise missing_extra("psycopg") from None
    return psycopg


def missing_extra(package: str) -> ConfigError:
    """Return the error for a package of the extra `jobs` that is not installed."""
    return ConfigError(f"fairlead.jobs needs {package}. This installs it: {install_command('jobs')}")


def unavailable(url: DatabaseUrl, error: BaseException) -> DatabaseUnavailable:
    """Return the error for a database that does not answer."""
    if url.file is not None:
        return DatabaseUnavailable(
            f"The database {url.file} cannot be used now: {_first_line(error)}. Check that its disk has space, and that no other"
            " program keeps it locked."
        )
    return DatabaseUnavailable(
        f"The database {hide_password(str(url))} cannot be reached: {_first_line(error)}. Check that it runs, and its address."
    )


def make_closed_error(url: DatabaseUrl) -> JobError:
    """Return the error for a connection that was closed."""
    return JobError(f"The connection to the jobs in {hide_password(str(url))} was closed. Make another Jobs to go on.")


def _is_refused(error: Exception) -> bool:
    """Whether the server answered, and refuses the user, the password or the database."""
    state = getattr(error, "sqlstate", None) or ""
    text = str(error)
    return state.startswith(("28", "3D")) or "authentication failed" in text or "does not exist" in text


def _first_line(error: BaseException) -> str:
    """Return the first line of what a driver says, which may quote the address."""
    return redacted(hide_password((str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")))
