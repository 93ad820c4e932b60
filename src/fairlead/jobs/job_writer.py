"""Writes what a worker process has to say about its jobs: that they start, their events, their progress, and how they end.

All jobs of the process share a writer. What comes within a few milliseconds is one transaction, and on Postgres mostly one
statement, however many jobs it is about. Postgres gets its rows as JSON: psycopg needs five times the CPU for arrays. What
carries an old epoch is dropped: another worker owns the job.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from copy import copy
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from fairlead.jobs.database import CHANNEL, JOB_COLUMNS, Database, Transaction
from fairlead.jobs.records import JobRecord, Progress, add_events, as_json, record_of, storable
from fairlead.protocol.http.fleet import JobStatus

log = logging.getLogger("fairlead.jobs")

#: How long is collected before it is written together, in seconds.
_COLLECT_SECONDS = 0.015

#: A job that starts, with the number of its last event.
Started: TypeAlias = tuple[JobRecord, int]


class JobEnd(Struct, frozen=True, kw_only=True):
    """How a job ended."""

    status: JobStatus
    answer: str | None = None
    error: str | None = None


class _Claim(Struct):
    """A job that a worker has claimed."""

    id: str
    generation: int


class _EventRow(Struct):
    """An event of a job, with the epoch of the worker that it comes from."""

    job: str
    number: int
    data: str
    epoch: int


class _ChangeRow(Struct):
    """What the row of a job gets from the worker that runs it."""

    id: str
    epoch: int
    turns: int
    tokens: int
    cost: float
    seconds: float
    snapshot: str | None
    lease: int | None
    status: JobStatus
    answer: str | None
    error: str | None


class _Change(Struct):
    """What changes in the row of a job."""

    id: str
    epoch: int
    progress: Progress
    end: JobEnd | None
    waiting: list[asyncio.Future[bool]]


class JobWriter:
    """Writes about the jobs of this process, in order, several at a time.

    Args:
        database: Where the jobs are.
        worker: The id of this worker process.
    """

    def __init__(self, database: Database, worker: str) -> None:
        self._database = database
        self._worker = worker
        self._starts: list[tuple[_Claim, asyncio.Future[Started | None]]] = []
        self._events: list[_EventRow] = []
        self._changes: dict[tuple[str, int], _Change] = {}
        self._flushing: asyncio.Task[None] | None = None

    async def start(self, id: str, generation: int) -> Started | None:
        """Make this worker the owner of a job. Returns its record, and the number of its last event.

        Returns None if the job has ended or was retried since.
        """
        started: asyncio.Future[Started | None] = asyncio.get_running_loop().create_future()
        self._starts.append((_Claim(id, generation), started))
        self._flush_soon()
        return await started

    def add(self, job: str, epoch: int, number: int, data: bytes) -> None:
        """Write an event soon."""
        self._events.append(_EventRow(job, number, data.decode(), epoch))
        self._flush_soon()

    def note(self, record: JobRecord, progress: Progress) -> None:
        """Write how far a job came soon."""
        self._find_change(record, progress, None)

    async def save(self, record: JobRecord, progress: Progress) -> bool:
        """Write how far a job came, with the events so far. Returns False if another worker owns it."""
        return await self._change(record, progress, None)

    async def finish(self, record: JobRecord, progress: Progress, end: JobEnd, number: int) -> bool:
        """End a job, with an event that has this number. Returns False, and changes nothing, if another worker owns it."""
        end = JobEnd(status=end.status, answer=storable(end.answer), error=storable(end.error))
        fields = {"type": end.status, "error": end.error, "answer": end.answer, "cost": progress.cost}
        self.add(record.id, record.epoch, number, msgspec.json.encode(fields))
        return await self._change(record, progress, end)

    async def wait_flushed(self) -> None:
        """Wait until everything so far is written."""
        while self._flushing is not None:
            await self._flushing

    def _change(self, record: JobRecord, progress: Progress, end: JobEnd | None) -> asyncio.Future[bool]:
        written: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._find_change(record, progress, end).waiting.append(written)
        return written

    def _find_change(self, record: JobRecord, progress: Progress, end: JobEnd | None) -> _Change:
        change = self._changes.setdefault((record.id, record.epoch), _Change(record.id, record.epoch, progress, None, []))
        change.progress, change.end = copy(progress), end or change.end
        self._flush_soon()
        return change

    def _flush_soon(self) -> None:
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        await asyncio.sleep(_COLLECT_SECONDS)
        starts, self._starts = self._starts, []
        events, self._events = self._events, []
        changes, self._changes = self._changes, {}
        rows = [_row_of(change) for change in changes.values()]

        def write(transaction: Transaction) -> tuple[dict[str, Started], set[tuple[str, int]]]:
            started = _start(transaction, [claim for claim, _ in starts], self._worker) if starts else {}
            owned = _write(transaction, events, rows) if events or changes else set[tuple[str, int]]()
            return started, owned

        waiting = [*(future for _, future in starts), *(future for change in changes.values() for future in change.waiting)]
        try:
            started, owned = await self._database.do(write, is_one_statement=not starts)
            for claim, future in starts:
                _settle(future, started.get(claim.id))
            for key, change in changes.items():
                for written in change.waiting:
                    _settle(written, key in owned)
        except Exception as error:
            log.error("%d events of jobs cannot be saved: %s", len(events), error)
            for future in waiting:
                if not future.done():
                    future.set_exception(error)
        finally:
            self._flushing = None
            if self._starts or self._events or self._changes:
                self._flush_soon()


def _settle(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():  # its caller may have been cancelled
        future.set_result(result)


# Starts


def _start(transaction: Transaction, claims: Sequence[_Claim], worker: str) -> dict[str, Started]:
    change = (
        "UPDATE fairlead_jobs SET status = 'running', worker = ?, epoch = epoch + 1, attempts = attempts + 1,"
        f" counted_at = {transaction.now}"
    )
    if transaction.is_postgres:  # one statement for all
        rows = transaction.rows(
            f"{change} FROM json_to_recordset(?::json) AS claimed (claimed_id text, version bigint)"
            f" WHERE id = claimed_id AND generation = version AND status IN ('queued', 'running') RETURNING {JOB_COLUMNS}",
            (worker, as_json([{"claimed_id": claim.id, "version": claim.generation} for claim in claims])),
        )
    else:
        where = f"WHERE id = ? AND generation = ? AND status IN ('queued', 'running') RETURNING {JOB_COLUMNS}"
        rows = [row for claim in claims for row in transaction.rows(f"{change} {where}", (worker, claim.id, claim.generation))]
    records = [record_of(row) for row in rows]
    told = {record.id: {"type": "started", "attempt": record.attempts, "worker": worker} for record in records}
    numbers = add_events(transaction, told)
    return {record.id: (record, numbers[record.id]) for record in records}


# Events, progress and ends

#: The row of each job is locked first, so that no event of an owner that has just lost the job gets between the events of others.
_WRITE_ON_POSTGRES = f"""
WITH live AS (
    SELECT id, epoch FROM fairlead_jobs WHERE id = ANY(string_to_array(?, ' ')) AND status = 'running'
    ORDER BY id FOR NO KEY UPDATE
), added AS (
    INSERT INTO fairlead_job_events (job, number, data) SELECT event.job, event.number, event.data
    FROM json_to_recordset(?::json) AS event (job text, number bigint, data text, epoch bigint)
    JOIN live ON live.id = event.job AND live.epoch = event.epoch ON CONFLICT DO NOTHING
), changed AS (
    UPDATE fairlead_jobs SET turns = change.turns, tokens = change.tokens, cost = change.cost, seconds = change.seconds,
        counted_at = EXTRACT(EPOCH FROM clock_timestamp()), snapshot = change.snapshot, lease = change.lease,
        status = change.status, answer = change.answer, error = change.error,
        worker = CASE WHEN change.status = 'running' THEN fairlead_jobs.worker END,
        ended_at = CASE WHEN change.status = 'running' THEN NULL ELSE EXTRACT(EPOCH FROM clock_timestamp()) END
    FROM json_to_recordset(?::json) AS change (id text, epoch bigint, turns bigint, tokens bigint, cost float8, seconds float8,
        snapshot text, lease bigint, status text, answer text, error text)
    JOIN live ON live.id = change.id AND live.epoch = change.epoch
    WHERE fairlead_jobs.id = change.id AND fairlead_jobs.epoch = change.epoch
    RETURNING fairlead_jobs.id, fairlead_jobs.epoch
)
SELECT id, epoch FROM changed UNION ALL SELECT NULL, NULL FROM pg_notify('{CHANNEL}', ?)
"""


def _write(transaction: Transaction, events: Sequence[_EventRow], changes: Sequence[_ChangeRow]) -> set[tuple[str, int]]:
    """Write events and changes of jobs that this worker owns. Returns the jobs that were changed, with their epochs."""
    if transaction.is_postgres:
        jobs = list({event.job for event in events} | {change.id for change in changes})
        values = (" ".join(jobs), as_json(events), as_json(changes), transaction.announcement(jobs))
        rows = transaction.rows(_WRITE_ON_POSTGRES, values)
        return {(id, epoch) for id, epoch in rows if id is not None}
    transaction.run_many(
        "INSERT INTO fairlead_job_events (job, number, data) SELECT ?, ?, ?"
        " WHERE EXISTS (SELECT 1 FROM fairlead_jobs WHERE id = ? AND epoch = ? AND status = 'running') ON CONFLICT DO NOTHING",
        [(event.job, event.number, event.data, event.job, event.epoch) for event in events],
    )
    return {(change.id, change.epoch) for change in changes if _change_one(transaction, change)}


def _change_one(transaction: Transaction, change: _ChangeRow) -> bool:
    id, epoch, *values = astuple(change)
    ended = "" if change.status == "running" else f", worker = NULL, ended_at = {transaction.now}"
    changed = transaction.run(
        "UPDATE fairlead_jobs SET turns = ?, tokens = ?, cost = ?, seconds = ?, snapshot = ?, lease = ?, status = ?, answer = ?,"
        f" error = ?, counted_at = {transaction.now}{ended} WHERE id = ? AND epoch = ? AND status = 'running'",
        (*values, id, epoch),
    )
    return changed == 1


def _row_of(change: _Change) -> _ChangeRow:
    used, end = change.progress, change.end or JobEnd(status="running")
    amounts = (used.turns, used.tokens, used.cost, used.seconds)
    return _ChangeRow(change.id, change.epoch, *amounts, used.snapshot, used.lease, end.status, end.answer, end.error)
