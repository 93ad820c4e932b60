"""The rows of jobs: how a job changes from queued to its end, and who may change it.

Every change of owner raises the epoch of a job. A change or event that carries an old epoch has no effect, so that a worker that
was thought dead cannot write over the work of the one that replaced it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from fairlead.errors import JobError
from fairlead.jobs.database import CHANNEL, JOB_COLUMNS, WORKFLOW_OF_JOB, Database, Transaction
from fairlead.jobs.leases import LEAVING
from fairlead.jobs.task import Job
from fairlead.protocol.http.fleet import ENDED, JobStatus

_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
#: After how many deaths of its workers a job is parked.
MOST_DEATHS = 3
#: How long a transaction that ends a job may take to become visible.
_OVERLAP_SECONDS = 10.0


class JobRecord(Struct, frozen=True):
    """The row of a job. `seq` numbers the jobs in the order of their submission."""

    seq: int
    id: str
    session: str
    task: str
    key: str | None
    status: JobStatus
    generation: int
    epoch: int
    attempts: int
    deaths: int
    worker: str | None
    answer: str | None
    error: str | None
    turns: int
    tokens: int
    cost: float
    #: What it had cost when it was retried: a retry starts with the whole limit.
    cost_before: float
    seconds: float
    snapshot: str | None
    #: How many prompts the session had before that of the job; None if no worker has looked yet.
    prompts_before: int | None
    #: The epoch of the lease that the last attempt had of the session.
    lease: int | None
    submitted_at: float
    #: When `seconds` was last counted: at the start of the attempt, and after each of its turns.
    counted_at: float | None
    ended_at: float | None
    #: How many seconds the attempt has run since then. None if the job does not run, or if the query did not ask.
    uncounted_seconds: float | None = None

    @property
    def job(self) -> Job:
        """The job as it was submitted. Raises JobError if its row does not contain one."""
        try:
            return msgspec.json.decode(self.task, type=Job)
        except (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError) as error:
            raise JobError(f"The row of the job {self.id!r} in the database is damaged: {error}.") from None

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the job; none if its row is damaged."""
        with suppress(JobError):
            return self.job.labels or {}
        return {}

    @property
    def priority(self) -> int:
        """The priority of the job; 0 if its row is damaged."""
        with suppress(JobError):
            return self.job.priority or 0
        return 0

    def check(self) -> None:
        """Raise JobError unless a client could have written this row: its names become those of directories and of refs."""
        job = self.job
        if job.id != self.id or job.session_id != self.session or job.key != self.key:
            raise JobError(f"The row of the job {self.id!r} and the job in it contradict each other.")
        if job.validate(Path("/")) != job:
            raise JobError(f"The job {self.id!r} names a place to work in that is not absolute.")
        check_snapshot(self.snapshot)

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED

    @property
    def workflow(self) -> str:
        """The id of the job's workflow in DBOS. A retry is another workflow."""
        return self.id if self.generation == 1 else f"{self.id}~{self.generation}"


def check_snapshot(snapshot: object) -> None:
    """Raise JobError if a value is neither the hash of a commit nor None."""
    if snapshot is not None and not (isinstance(snapshot, str) and _HASH.fullmatch(snapshot)):
        raise JobError(f"The snapshot {snapshot!r} is not the hash of a commit.")


class Progress(Struct, kw_only=True):
    """What a job has used so far, over all attempts."""

    turns: int = 0
    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    #: The commit with the files of a job that works in a repository.
    snapshot: str | None = None
    #: The epoch of the lease of its session.
    lease: int | None = None


def storable(text: str | None) -> str | None:
    """Return a text as a column can hold it: Postgres has no NUL character."""
    return None if text is None else text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def as_json(value: Any) -> str:
    """Return a value as JSON, for a column or for a statement that reads its rows from JSON."""
    return msgspec.json.encode(value).decode()


def record_of(row: Sequence[Any]) -> JobRecord:
    """Return the record of a row with `JOB_COLUMNS`, and perhaps with its uncounted seconds."""
    seq, id, session, task, key, status, *rest = row
    # A job that waits for another one of its session is queued, as callers see it.
    return JobRecord(seq, id, session, task, key, "queued" if status == "waiting" else status, *rest)


def add_event(transaction: Transaction, job: str, type: str, **fields: Any) -> int:
    """Append an event to a job, also if the caller does not own it. A statement before this one must have locked its row.

    Returns the number of the event.
    """
    return add_events(transaction, {job: {"type": type, **fields}})[job]


def add_events(transaction: Transaction, events: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Append an event to each of these jobs, as `add_event` does. Returns the numbers of the events."""
    numbers: dict[str, int] = {}
    texts = [(job, as_json(fields)) for job, fields in events.items()]
    next_number = "COALESCE((SELECT MAX(number) FROM fairlead_job_events WHERE job = {}), 0) + 1"
    if transaction.is_postgres and texts:  # one statement for all
        rows = transaction.rows(
            f"WITH added AS (INSERT INTO fairlead_job_events (job, number, data) SELECT id, {next_number.format('id')}, event"
            " FROM json_to_recordset(?::json) AS new (id text, event text) RETURNING job, number)"
            f" SELECT job, number FROM added UNION ALL SELECT NULL, NULL FROM pg_notify('{CHANNEL}', ?)",
            (as_json([{"id": job, "event": text} for job, text in texts]), transaction.announcement(list(events))),
        )
        return {job: number for job, number in rows if job is not None}
    for job, text in texts:
        rows = transaction.rows(
            f"INSERT INTO fairlead_job_events (job, number, data) SELECT ?, {next_number.format('?')}, ? RETURNING number",
            (job, job, text),
        )
        numbers[job] = rows[0][0]
    return numbers


class Records:
    """Reads and changes the rows of jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._columns = f"{JOB_COLUMNS}, CASE WHEN status = 'running' THEN {database.now} - counted_at END"

    async def find(self, ids: Sequence[str]) -> dict[str, JobRecord]:
        """Return the records of these jobs by id, without those that do not exist."""
        found: dict[str, JobRecord] = {}
        for start in range(0, len(ids), 500):
            some = ids[start : start + 500]
            marks = ", ".join("?" * len(some))
            for row in await self._database.rows(f"SELECT {self._columns} FROM fairlead_jobs WHERE id IN ({marks})", some):
                record = record_of(row)
                found[record.id] = record
        return found

    async def all(self, *, session: str | None = None) -> list[JobRecord]:
        """Return the records of all jobs, or of one session, in the order of submission."""
        where, values = ("", ()) if session is None else (" WHERE session = ?", (session,))
        rows = await self._database.rows(f"SELECT {self._columns} FROM fairlead_jobs{where} ORDER BY seq", values)
        return [record_of(row) for row in rows]

    async def of_sessions(self, sessions: Sequence[str]) -> dict[str, list[JobRecord]]:
        """Return the jobs of these sessions, in the order of submission."""
        found: dict[str, list[JobRecord]] = {}
        for start in range(0, len(sessions), 500):
            some = sessions[start : start + 500]
            marks = ", ".join("?" * len(some))
            statement = f"SELECT {JOB_COLUMNS} FROM fairlead_jobs WHERE session IN ({marks}) ORDER BY seq"
            for row in await self._database.rows(statement, some):
                record = record_of(row)
                found.setdefault(record.session, []).append(record)
        return found

    async def ended_since(self, moment: float | None) -> tuple[list[JobRecord], float]:
        """Return the jobs that have ended since a moment, or at any time, and the moment for the next call.

        Jobs that ended shortly before the moment are returned too: their transactions may have been slow.
        """
        where, values = ("ended_at IS NOT NULL", ()) if moment is None else ("ended_at > ?", (moment - _OVERLAP_SECONDS,))

        def read(transaction: Transaction) -> tuple[list[JobRecord], float]:
            ((now,),) = transaction.rows(f"SELECT {transaction.now}")
            rows = transaction.rows(f"SELECT {JOB_COLUMNS} FROM fairlead_jobs WHERE {where} ORDER BY ended_at", values)
            return [record_of(row) for row in rows], now

        return await self._database.do(read)

    async def save_prompts_before(self, record: JobRecord, count: int) -> None:
        """Save how many prompts the session of a job had before that of the job.

        The caller has the lease of the session. A job with the same number did not send its prompt: it looks again.
        """

        def save(transaction: Transaction) -> None:
            changed = transaction.run(
                "UPDATE fairlead_jobs SET prompts_before = ? WHERE id = ? AND epoch = ?", (count, record.id, record.epoch)
            )
            if changed:
                transaction.run(
                    "UPDATE fairlead_jobs SET prompts_before = NULL WHERE session = ? AND id <> ? AND prompts_before >= ?",
                    (record.session, record.id, count),
                )

        await self._database.do(save)

    async def has_later_prompt(self, record: JobRecord) -> bool:
        """Whether another job has sent its prompt to the session since this one did."""
        rows = await self._database.rows(
            "SELECT 1 FROM fairlead_jobs WHERE session = ? AND id <> ? AND prompts_before > ? LIMIT 1",
            (record.session, record.id, record.prompts_before),
        )
        return bool(rows)

    async def save_leftovers(self, record: JobRecord, snapshot: str | None, patch: str | None) -> None:
        """Save what a job that was cancelled or parked left in its repository, unless it was retried since."""
        await self._database.run(
            "UPDATE fairlead_jobs SET patch = COALESCE(?, patch), snapshot = COALESCE(?, snapshot)"
            " WHERE id = ? AND generation = ? AND status IN ('cancelled', 'parked')",
            (patch, snapshot, record.id, record.generation),
        )

    async def save_used(self, record: JobRecord, used: Progress) -> None:
        """Save what a job that was cancelled had used when its worker stopped it, unless it was retried since."""
        await self._database.run(
            "UPDATE fairlead_jobs SET turns = ?, tokens = ?, cost = ?, seconds = ?"
            " WHERE id = ? AND generation = ? AND status = 'cancelled'",
            (used.turns, used.tokens, used.cost, used.seconds, record.id, record.generation),
        )

    async def save_patch(self, record: JobRecord, patch: str) -> None:
        """Save what a job changed in its repository."""
        await self._database.run(
            "UPDATE fairlead_jobs SET patch = ? WHERE id = ? AND epoch = ?", (patch, record.id, record.epoch)
        )

    async def patch(self, id: str) -> str | None:
        """Return what a job changed in its repository."""
        rows = await self._database.rows("SELECT patch FROM fairlead_jobs WHERE id = ?", (id,))
        return rows[0][0] if rows else None

    async def last_snapshot(self, session: str) -> str | None:
        """Return the snapshot that the last prompt of a session left."""
        rows = await self._database.rows(
            "SELECT snapshot FROM fairlead_jobs WHERE session = ? AND snapshot IS NOT NULL ORDER BY seq DESC LIMIT 1", (session,)
        )
        snapshot = rows[0][0] if rows else None
        check_snapshot(snapshot)
        return snapshot

    async def cancel(self, id: str) -> bool:
        """Cancel a job that has not ended. Its worker notices by itself. Returns whether it was cancelled now."""

        def cancel(transaction: Transaction) -> bool:
            changed = transaction.run(
                f"UPDATE fairlead_jobs SET status = 'cancelled', epoch = epoch + 1, ended_at = {transaction.now}"
                " WHERE id = ? AND status IN ('waiting', 'queued', 'running')",
                (id,),
            )
            if changed:
                add_event(transaction, id, "cancelled")
            return changed == 1

        return await self._database.do(cancel)

    async def has_waiting(self) -> bool:
        """Whether a job waits for another one of its session that is neither queued nor runs any more."""
        rows = await self._database.rows(
            "SELECT 1 FROM fairlead_jobs w WHERE status = 'waiting' AND NOT EXISTS (SELECT 1 FROM fairlead_jobs o"
            " WHERE o.session = w.session AND o.status IN ('queued', 'running')) LIMIT 1"
        )
        return bool(rows)

    async def list_lost(self, worker: str) -> list[str]:
        """Return the jobs that a worker runs though it does not own them any more: cancelled ones, above all."""
        rows = await self._database.rows("SELECT id FROM fairlead_jobs WHERE worker = ? AND status <> 'running'", (worker,))
        return [row[0] for row in rows]

    async def forget_worker(self, id: str, worker: str) -> None:
        """Record that the worker of a job that was cancelled has stopped it."""
        await self._database.run(
            "UPDATE fairlead_jobs SET worker = NULL WHERE id = ? AND worker = ? AND status <> 'running'", (id, worker)
        )

    async def give_up(self, record: JobRecord) -> bool:
        """Queue a job again that this worker cannot continue. Returns False if it does not own the job any more."""

        def give_up(transaction: Transaction) -> bool:
            changed = transaction.run(
                "UPDATE fairlead_jobs SET status = 'queued', worker = NULL, epoch = epoch + 1"
                " WHERE id = ? AND epoch = ? AND status = 'running'",
                (record.id, record.epoch),
            )
            if changed:
                add_event(transaction, record.id, "recovered", worker=record.worker, deaths=record.deaths)
            return changed == 1

        return await self._database.do(give_up)

    async def fail_refused(self, workflows: str) -> list[str]:
        """End queued jobs whose workflows were refused: no worker will get them. Returns their ids.

        Args:
            workflows: The table of the workflows.
        """
        error = "The workflow of this job has values that no client writes, such as arguments that are not portable JSON."

        def fail(transaction: Transaction) -> list[str]:
            rows = transaction.rows(
                f"UPDATE fairlead_jobs SET status = 'failed', epoch = epoch + 1, error = ?, ended_at = {transaction.now}"
                f" WHERE status = 'queued' AND {WORKFLOW_OF_JOB} IN (SELECT workflow_uuid FROM {workflows}"
                " WHERE status = 'ERROR') RETURNING id",
                (f"{error} `fairlead jobs retry` queues it again.",),
            )
            for (id,) in rows:
                add_event(transaction, id, "failed", error=error)
            return [id for (id,) in rows]

        return await self._database.do(fail)

    async def take_from(self, worker: str, *, died: bool) -> list[JobRecord]:
        """Put the running jobs of a worker back. With `died`, count its death, unless it was told to stop; a job with too many is
        parked.

        Returns the jobs that were parked.
        """

        def take(transaction: Transaction) -> list[JobRecord]:
            is_leaving = transaction.rows(f"SELECT 1 FROM fairlead_workers WHERE id = ? AND host = '{LEAVING}'", (worker,))
            deaths = int(died and not is_leaving)
            rows = transaction.rows(
                "UPDATE fairlead_jobs SET epoch = epoch + 1, worker = NULL, deaths = deaths + ?,"
                " status = CASE WHEN deaths + ? >= ? THEN 'parked' ELSE 'queued' END"
                f" WHERE worker = ? AND status = 'running' RETURNING {JOB_COLUMNS}",
                (deaths, deaths, MOST_DEATHS, worker),
            )
            records = [record_of(row) for row in rows]
            parked = [record for record in records if record.status == "parked"]
            for record in parked:
                error = (
                    f"{record.deaths} workers died while they ran this job, so it is parked. Find out why, for example in the"
                    f" logs of the workers; `fairlead jobs retry {record.id}` queues it again."
                )
                transaction.run(
                    f"UPDATE fairlead_jobs SET error = ?, ended_at = {transaction.now} WHERE id = ?", (error, record.id)
                )
                add_event(transaction, record.id, "parked", error=error)
            for record in records:
                if record.status != "parked":
                    add_event(transaction, record.id, "recovered", worker=worker, deaths=record.deaths)
            transaction.run("UPDATE fairlead_jobs SET worker = NULL WHERE worker = ?", (worker,))
            return parked

        return await self._database.do(take)
