"""`Jobs`: submit jobs, follow them, and collect what came of them, from any process."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from fairlead.errors import DatabaseUnavailable, JobConflict, JobError, JobNotFound
from fairlead.jobs.database import JOB_COLUMNS, Database, DatabaseUrl, make_closed_error
from fairlead.jobs.dbos_queue import KeyLimits, Queues, enqueue, migrate, must_wait, release_waiting, transaction_of
from fairlead.jobs.event_log import EventReader
from fairlead.jobs.job_sessions import read_header, read_transcript
from fairlead.jobs.records import JobRecord, Records, add_event, record_of
from fairlead.jobs.task import LONGEST_ID, Job, check_key, check_root, is_id, is_inside
from fairlead.protocol.http.fleet import JobEvent, JobResult
from fairlead.stores import SessionStore, open_store

if TYPE_CHECKING:
    from dbos import DBOSClient
    from sqlalchemy import Engine

#: How many seconds a client tries to reach a database that does not answer.
PATIENCE = 10.0
#: The longest id of a session that gets prompts: the id of a prompt is longer by a hash.
LONGEST_SESSION = LONGEST_ID - 17


class Jobs:
    """The jobs in a database. Use it with `async with`.

    Args:
        url: `sqlite:///FILE` for workers on one machine, or `postgresql://USER@HOST/NAME` for a fleet.
        root: The directory that holds every place that jobs name. Jobs and sessions elsewhere do not exist for this object, and
            workers check the jobs that it submits again before they run them.

    Raises:
        ConfigError: The address is neither.
    """

    def __init__(self, url: str, *, root: Path | None = None) -> None:
        self._root = None if root is None else str(root.absolute())
        self._url = DatabaseUrl(url)
        self._database = Database(self._url, patience=PATIENCE)
        self._records = Records(self._database)
        self._events = EventReader(self._database)
        self._queues = Queues(self._url)
        #: The store that keeps the sessions of the fleet. It is closed with this object.
        self.session_store: SessionStore = open_store(str(self._url))
        self._is_ready = self._is_closed = False

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect, and create the tables if there are none.

        Raises DatabaseUnavailable, ConfigError, and JobError if it was closed.
        """
        if self._is_closed:
            raise make_closed_error(self._url)
        if not self._is_ready:
            await self._database.create_tables()
            self._is_ready = True

    async def close(self) -> None:
        """Close the connections. Jobs continue. Closing it again does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self._events.close()
        await self.session_store.close()
        await asyncio.to_thread(self._queues.close)
        await self._database.close()

    async def submit(self, *jobs: Job) -> list[JobResult]:
        """Queue jobs: all of them, or none. A job that was submitted before is left as it is.

        Returns:
            What is known of each job, in the given order.

        Raises:
            JobError: A field of a job has a value that cannot be used.
            JobConflict: A job with the same id has other contents.
            DatabaseUnavailable: The database cannot be reached.
        """
        checked = [self._bind_to_root(job.validate()) for job in jobs]
        if len({job.id for job in checked}) < len(checked):
            raise JobError("Two of these jobs have the same id. Nothing was submitted.")
        await self.open()
        for session in {job.session for job in checked if job.session is not None}:
            if not await self._admits_session(session):
                raise JobError(f"session: {session!r} works outside the root of this server.")
        existing = await self._records.find([job.id for job in checked])
        for job in checked:
            _refuse_changes(job, existing.get(job.id))
        new = [job for job in checked if job.id not in existing]
        if new:
            await self._prepare_queues({job.key: None for job in new if job.key is not None})
            await self._queues.run(lambda client, engine: _insert(client, engine, new))
        return await self._list_results([job.id for job in checked])

    async def prompt(self, session: str, prompt: str, *, id: str | None = None, **fields: Any) -> JobResult:
        """Send a prompt to a session: a job whose id is that of the session with a number.

        Prompts of a session run one at a time and in order, on any worker. `fields` are those of `Job`. The first prompt says
        where the session works, with which model, key and container; later ones do the same unless they say otherwise.

        A prompt with an `id` may be sent again if it is not known whether it arrived: it runs once. Its job has the label
        `prompt` with the id. Raises JobConflict if the id was used for another prompt.
        """
        if not is_id(session) or len(session) > LONGEST_SESSION:
            what = f"at most {LONGEST_SESSION} letters, digits, dots, hyphens and underscores, without two dots in a row"
            raise JobError(f"session: expected {what}, got {session!r}.")
        if not await self._admits_session(session):
            raise JobError(f"session: {session!r} works outside the root of this server.")
        earlier = await self.records(session=session)
        if earlier and not fields.keys() & {"workdir", "repo"}:
            first = earlier[0].job
            kept = ("workdir", "repo", "commit", "model", "key", "container")
            fields = {**{name: getattr(first, name) for name in kept}, **fields}
        if id is not None:
            name = f"{session}.{hashlib.sha256(id.encode()).hexdigest()[:16]}"
            fields["labels"] = {**fields.get("labels", {}), "prompt": id}
            return (await self.submit(Job(id=name, prompt=prompt, session=session, **fields)))[0]
        number = len(earlier) + 1
        while True:
            try:
                return await self._submit_new(Job(id=f"{session}.{number}", prompt=prompt, session=session, **fields))
            except JobConflict:  # another client was faster
                number += 1

    async def _submit_new(self, job: Job) -> JobResult:
        """Queue a job. Unlike `submit`, raise JobConflict if it exists, also with the same contents."""
        new = [self._bind_to_root(job.validate())]
        await self._prepare_queues({} if job.key is None else {job.key: None})
        has_tried = False

        def insert(client: DBOSClient, engine: Engine) -> None:
            # If the connection broke, the first attempt may have been saved: then the job is ours.
            nonlocal has_tried
            is_first, has_tried = not has_tried, True
            _insert(client, engine, new, may_exist=not is_first)

        await self._queues.run(insert)
        return (await self._list_results([job.id]))[0]

    async def events(self, id: str, *, after: int | None = 0) -> AsyncGenerator[JobEvent]:
        """Yield the events of a job after a number, and new ones as they come, until the job has ended. None: only new ones.

        It works from any process. A reader that lost its connection continues after the last number that it got. If the database
        goes away meanwhile, this waits until it is back.

        Raises:
            JobNotFound: No job has this id.
        """
        await self._find_known([id])
        if after is None:
            after = await self._events.last_number(id)
        async for event in self._events.follow(id, after):
            yield event

    async def results(self, ids: Sequence[str] | None = None, *, timeout: float | None = None) -> AsyncGenerator[JobResult]:
        """Yield the results of jobs, each as soon as it has ended. None: all jobs that exist now.

        If the database goes away meanwhile, this waits until it is back.

        Raises:
            JobNotFound: No job has one of the ids.
            TimeoutError: Some jobs have not ended in time.
        """
        left = dict.fromkeys([record.id for record in await self.records()] if ids is None else ids)
        await self._find_known(list(left))
        end = None if timeout is None else time.monotonic() + timeout
        changes = self._events.changes()
        signal = changes.subscribe("")
        moment: float | None = None
        try:
            while left:
                signal.clear()
                ended: list[JobRecord] = []
                with suppress(DatabaseUnavailable):  # workers wait for the database too
                    ended, moment = await self._records.ended_since(moment)
                for record in ended:
                    if record.id in left:
                        del left[record.id]
                        yield _result(record)
                if not left:
                    return
                if end is not None and time.monotonic() > end:
                    raise TimeoutError(f"{len(left)} jobs have not ended within {timeout:g} seconds, such as {next(iter(left))}.")
                with suppress(TimeoutError):
                    await asyncio.wait_for(signal.wait(), 0.5)
                # Many jobs change all the time: look a few times a second.
                await asyncio.sleep(0.05)
        finally:
            changes.unsubscribe("", signal)

    async def list(self, *, session: str | None = None) -> list[JobResult]:
        """Return all jobs, or those of a session, in the order in which they were submitted."""
        return [_result(record) for record in await self.records(session=session)]

    async def get(self, id: str) -> JobResult:
        """Return what is known of a job. Raises JobNotFound if no job has this id."""
        return _result((await self._find_known([id]))[id])

    async def records(self, *, session: str | None = None) -> list[JobRecord]:
        """Return the rows of all jobs, or those of one session."""
        await self.open()
        found = [] if session is not None and not is_id(session) else await self._records.all(session=session)
        return [record for record in found if self._admits(record)]

    async def patch(self, id: str) -> str | None:
        """Return what a job has changed in its repository. None if it works in a directory, or has not ended.

        Raises:
            JobNotFound: No job has this id.
        """
        await self._find_known([id])
        return await self._records.patch(id)

    async def transcript(self, session: str) -> bytes | None:
        """Return a session as the lines of a session file, also while it runs. None if it has not begun."""
        await self.open()
        if not is_id(session) or not await self._admits_session(session):
            return None
        return await read_transcript(self.session_store, session)

    async def cancel(self, *ids: str) -> list[JobResult]:
        """Cancel jobs. One that runs is stopped within a second. One that has ended is left as it is.

        Raises:
            JobNotFound: No job has one of the ids. Then nothing is cancelled.
        """
        records = await self._find_known(ids)
        cancelled = [record.workflow for record in records.values() if await self._records.cancel(record.id)]
        if cancelled:
            await self._queues.cancel(cancelled)
            for session in {record.session for record in records.values()}:
                await self._queues.run(lambda client, engine, session=session: release_waiting(client, engine, session))
        return await self._list_results(ids)

    async def retry(self, *ids: str) -> list[JobResult]:
        """Queue jobs again that failed, were cancelled or are parked. Their sessions continue where they ended.

        Their limits count from the beginning again.

        Raises:
            JobNotFound: No job has one of the ids. Then nothing is queued.
            JobError: A job is queued, runs, or is done.
        """
        records = await self._find_known(ids)
        for record in records.values():
            if record.status not in ("failed", "cancelled", "parked"):
                raise JobError(
                    f"The job {record.id} is {record.status}. Only a job that failed, was cancelled or is parked can be retried."
                )
            if self._root is not None and record.job.root != self._root:
                raise JobError(f"The job {record.id} was submitted without the root of this server. Retry it where it came from.")
            check_root(record.job)
        await self._prepare_queues({})
        await self._queues.run(lambda client, engine: _retry(client, engine, list(records.values())))
        return await self._list_results(ids)

    async def limit(self, key: str, *, concurrency: int | None = None, rate: int | None = None, period: float = 60.0) -> None:
        """Set what the jobs of a provider key may do together, in the whole fleet. None: no limit.

        Args:
            key: The name of the key, as jobs give it.
            concurrency: How many jobs may run at the same time.
            rate: How many jobs may start within `period` seconds.

        Raises:
            JobError: The key cannot have this name, or a limit is not a number over 0.
        """
        check_key(key)
        for name, value, kinds in (("concurrency", concurrency, int), ("rate", rate, int), ("period", period, int | float)):
            if value is not None and (not isinstance(value, kinds) or value <= 0):
                raise JobError(f"{name}: expected a number over 0, got {value!r}.")
        await self.open()
        await self._prepare_queues({key: KeyLimits(concurrency=concurrency, rate=rate, period=period)})

    async def _prepare_queues(self, keys: Mapping[str, KeyLimits | None]) -> None:
        await asyncio.to_thread(migrate_once, self._url)
        await self._queues.register(keys)

    async def _find_known(self, ids: Sequence[str]) -> dict[str, JobRecord]:
        await self.open()
        found = await self._records.find([id for id in ids if is_id(id)])  # Postgres does not take every text
        for id in ids:
            if id not in found or not self._admits(found[id]):
                raise JobNotFound(f"There is no job {id!r}. `fairlead jobs list` shows all jobs.")
        return found

    def _bind_to_root(self, job: Job) -> Job:
        """Return a job with the root of this object. Raises JobError if it names a place outside it."""
        if self._root is not None:
            job = replace(job, root=self._root)
        check_root(job)
        return job

    def _admits(self, record: JobRecord) -> bool:
        """Whether a job works inside the root. Workers keep one that has this root there, whatever links say by now."""
        if self._root is None:
            return True
        try:
            if record.job.root != self._root:
                check_root(replace(record.job, root=self._root))
        except JobError:
            return False
        return True

    async def _admits_session(self, session: str) -> bool:
        """Whether a session works inside the root. One without jobs says in its header where it works."""
        if self._root is None:
            return True
        records = await self._records.all(session=session) if is_id(session) else []
        if records:
            return all(map(self._admits, records))
        header = await read_header(self.session_store, session)
        return header is None or is_inside(header.get("cwd"), self._root)

    async def _list_results(self, ids: Sequence[str]) -> list[JobResult]:
        found = await self._records.find(ids)
        return [_result(found[id]) for id in ids]


_migrated: set[str] = set()


def migrate_once(url: DatabaseUrl) -> None:
    """Create the tables of DBOS, unless this process has done so."""
    if str(url) not in _migrated:
        migrate(url)
        _migrated.add(str(url))


def _result(record: JobRecord) -> JobResult:
    return JobResult(
        id=record.id,
        status=record.status,
        attempts=record.attempts,
        cost=record.cost,
        session=record.session,
        turns=record.turns,
        tokens=record.tokens,
        seconds=record.seconds + max(0.0, record.uncounted_seconds or 0.0),
        answer=record.answer,
        error=record.error,
        labels=record.labels,
        snapshot=record.snapshot,
    )


def _refuse_changes(job: Job, existing: JobRecord | None) -> None:
    if existing is not None and existing.task != job.contents():
        names = [name for name in job.__struct_fields__ if getattr(job, name) != getattr(existing.job, name)]
        raise JobConflict(
            f"The job {job.id} was submitted before with another {' and another '.join(names)}. Give the new one another id."
            " Nothing was submitted."
        )


def _insert(client: DBOSClient, engine: Engine, jobs: Sequence[Job], *, may_exist: bool = True) -> None:
    """Insert the rows and queue the workflows, in one transaction."""
    with engine.begin() as connection:
        transaction = transaction_of(connection)
        for job in jobs:
            contents = job.contents()
            status = "waiting" if job.session is not None and must_wait(transaction, job.session, job.id) else "queued"
            rows = transaction.rows(
                "INSERT INTO fairlead_jobs (id, session, task, key, status, generation, epoch, attempts, deaths, turns, tokens,"
                " cost, seconds, prompts_before, submitted_at)"
                f" VALUES (?, ?, ?, ?, ?, 1, 0, 0, 0, 0, 0, 0, 0, ?, {transaction.now})"
                f" ON CONFLICT (id) DO NOTHING RETURNING {JOB_COLUMNS}",
                (job.id, job.session_id, contents, job.key, status, 0 if job.session is None else None),
            )
            if rows:
                if status == "queued":
                    enqueue(client, connection, record_of(rows[0]))
                add_event(transaction, job.id, "queued")
                continue
            if not may_exist:
                raise JobConflict(f"There is a job {job.id} already.")
            # Another process has submitted it since we looked.
            (row,) = transaction.rows(f"SELECT {JOB_COLUMNS} FROM fairlead_jobs WHERE id = ?", (job.id,))
            _refuse_changes(job, record_of(row))


def _retry(client: DBOSClient, engine: Engine, records: Sequence[JobRecord]) -> None:
    with engine.begin() as connection:
        transaction = transaction_of(connection)
        for record in records:
            status = "waiting" if must_wait(transaction, record.session, record.id) else "queued"
            rows = transaction.rows(
                "UPDATE fairlead_jobs SET status = ?, generation = generation + 1, epoch = epoch + 1, attempts = 0,"
                " deaths = 0, turns = 0, tokens = 0, seconds = 0, cost_before = cost, worker = NULL,"
                " answer = NULL, error = NULL, ended_at = NULL"
                f" WHERE id = ? AND generation = ? AND status IN ('failed', 'cancelled', 'parked') RETURNING {JOB_COLUMNS}",
                (status, record.id, record.generation),
            )
            if rows:
                if status == "queued":
                    enqueue(client, connection, record_of(rows[0]))
                add_event(transaction, record.id, "queued")
