"""A worker process: claims jobs through DBOS and runs several of them on one event loop.

    python -m fairlead.jobs.worker

Its supervisor starts it, with a `WorkerSettings` as JSON on standard input, and gets a byte on standard output every second as a
sign of life.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from fairlead.errors import DatabaseUnavailable, JobError
from fairlead.jobs.database import Database, DatabaseUrl
from fairlead.jobs.dbos_queue import (
    APPLICATION,
    VERSION,
    WORKFLOW,
    Queues,
    import_dbos,
    make_engine,
    queue_of,
    refuse_pickles,
    release_waiting,
)
from fairlead.jobs.job_writer import JobEnd, JobWriter
from fairlead.jobs.leases import LEASE_SECONDS, RENEW_SECONDS, Leases
from fairlead.jobs.records import JobRecord, Progress, Records
from fairlead.jobs.running import JobRun, JobSurroundings
from fairlead.jobs.task import is_id
from fairlead.stores import open_store

log = logging.getLogger("fairlead.jobs")

#: How often the worker looks for jobs that were cancelled, in seconds.
_CANCEL_SECONDS = 0.25
#: How long a claimed job waits for a place before it is given back, in seconds.
_WAIT_SECONDS = 2.0
#: After how many attempts an error of the worker itself ends a job.
_MOST_FAILURES = 5
#: The exit code of a worker whose lease was ended by another one.
LOST_LEASE = 75
#: How many allocations cause a collection of young objects, and how many of those one of older objects, and so on.
_GARBAGE_THRESHOLDS = (10_000, 20, 20)


class WorkerSettings(Struct, kw_only=True):
    """What a supervisor tells a worker process."""

    url: str
    #: The id of the worker, which its lease and its claims carry.
    worker: str
    #: How many jobs it runs at the same time.
    sessions: int
    #: The directory of mirrors and worktrees.
    data: str
    #: The id of the database.
    fleet: str = ""
    #: Options of `Agent` that apply to all jobs.
    options: dict[str, Any] = {}
    log_level: str = "WARNING"


class Worker:
    """Runs the jobs that DBOS gives to this process."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._url = DatabaseUrl(settings.url)
        self._database = database = Database(self._url, patience=None)
        self._store = open_store(str(self._url))
        self._records = Records(database)
        self._writer = JobWriter(database, settings.worker)
        self._leases = Leases(database)
        self._queues = Queues(self._url)
        self._surroundings = JobSurroundings(
            self._records,
            self._writer,
            self._store,
            settings.worker,
            Path(settings.data),
            settings.options,
            self._is_current,
            settings.fleet,
        )
        self._places = asyncio.Semaphore(settings.sessions)
        self._running: dict[str, JobRun] = {}
        self._renewed = time.monotonic()
        self._is_stopping = asyncio.Event()

    async def serve(self) -> int:
        """Claim and run jobs until the process is told to stop. Returns the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._is_stopping.set)
        await self._leases.take(self._settings.worker, self._settings.sessions)
        self._renewed = time.monotonic()
        tasks = [
            loop.create_task(self._keep_lease()),
            loop.create_task(self._watch_cancellations()),
            loop.create_task(self._show_life()),
        ]
        self._launch()
        _freeze_gc()
        stopping = loop.create_task(self._is_stopping.wait())
        done, _ = await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stopping}:
            if task.exception() is not None:
                log.error("worker %s stops: %s", self._settings.worker, task.exception())
        return 0 if stopping in done else LOST_LEASE

    async def close(self) -> None:
        """Close the connections to the database."""
        await self._store.close()
        await asyncio.to_thread(self._queues.close)
        await self._database.close()

    def _launch(self) -> None:
        dbos = import_dbos()
        refuse_pickles()
        logger = logging.getLogger("dbos")
        logger.setLevel(logging.ERROR)
        logger.addFilter(_is_no_cancellation)
        dbos.DBOS(
            config={
                "name": APPLICATION,
                "system_database_url": self._url.sqlalchemy,
                "system_database_engine": make_engine(self._url),
                "application_version": VERSION,
                "executor_id": self._settings.worker,
                "run_migrations": False,
                "use_listen_notify": False,
                "serializer": dbos.DBOSPortableJSONSerializer(),
                "log_level": "ERROR",
                "scheduler_polling_interval_sec": 3600.0,
                "notification_listener_polling_interval_sec": 3600.0,
            }
        )

        # What kills workers is counted by fairlead: putting a job back resets the count of DBOS.
        @dbos.DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)
        async def run_job(*values: object) -> str:  # pyright: ignore[reportUnusedFunction]
            match values:
                case (str() as id, int() as generation) if is_id(id) and not isinstance(generation, bool):
                    return await self.run_claimed(id, generation)
                case _:
                    log.error("a queued workflow is refused: expected the id and the generation of a job, got %.200r", values)
                    return "refused"

        dbos.DBOS.launch()

    async def run_claimed(self, id: str, generation: int) -> str:
        """Run a claimed job. What it returns or raises does not matter if the job was given to another worker."""
        try:
            await asyncio.wait_for(self._places.acquire(), _WAIT_SECONDS)
        except TimeoutError:
            await self._give_back(id)
            return "given back"
        try:
            if self._is_stopping.is_set():
                await asyncio.Event().wait()  # the supervisor puts the claims of a worker that stops back
            started = await self._writer.start(id, generation)
            if started is None:
                return "ended"
            try:
                started[0].check()
                run = JobRun(*started, self._surroundings)
            except JobError as problem:
                await self._refuse(*started, problem)
                return "refused"
            self._running[id] = run
            try:
                has_ended = await run.run()
            except Exception as error:
                has_ended = await self._handle_failure(run, started[0], error)
            finally:
                if self._running.get(id) is run:  # else this worker has claimed the job again
                    del self._running[id]
                if not run.is_recorded:
                    await self._records.forget_worker(id, self._settings.worker)
                elif started[0].job.session is not None:
                    await self._release_next(started[0].session)
            if not has_ended:
                await self._give_back(id)
            return "ran"
        finally:
            self._places.release()

    async def _refuse(self, record: JobRecord, number: int, problem: JobError) -> None:
        """End a job whose row has values that no client writes."""
        log.error("job %s is refused: %s", record.id, problem)
        end = JobEnd(status="failed", error=f"The worker refuses the job: {problem}")
        await self._writer.finish(record, Progress(), end, number + 1)
        await self._release_next(record.session)

    async def _handle_failure(self, run: JobRun, record: JobRecord, error: Exception) -> bool:
        """Handle an error of the worker itself: give the job to another attempt, or end it if there were many.

        Returns whether the job has ended, or belongs to another worker.
        """
        log.exception("job %s: the worker failed", record.id)
        if record.attempts < _MOST_FAILURES:
            return not await self._records.give_up(record)
        text = f"{type(error).__name__}: {error}. The worker failed {record.attempts} times; its log has more."
        await run.finish(JobEnd(status="failed", error=text))
        return True

    async def _release_next(self, session: str) -> None:
        """Queue the next job of a session. If that fails, a supervisor does it."""
        with suppress(DatabaseUnavailable):
            await self._queues.run(lambda client, engine: release_waiting(client, engine, session))

    async def _give_back(self, id: str) -> None:
        """Queue a job again that this worker has no place for, or cannot continue."""
        record = (await self._records.find([id])).get(id)
        while record is not None:
            try:
                await self._queues.put_back({record.workflow: queue_of(record.key)})
                return
            except DatabaseUnavailable as error:
                log.warning("job %s cannot be given back yet: %s", id, error)

    def _is_current(self) -> bool:
        return time.monotonic() - self._renewed < LEASE_SECONDS

    async def _keep_lease(self) -> None:
        """Renew the lease until another worker has ended it."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            began = time.monotonic()
            if not await self._leases.renew(self._settings.worker):
                log.error("worker %s has lost its lease: it was stopped, or could not reach the database", self._settings.worker)
                return
            self._renewed = began

    async def _watch_cancellations(self) -> None:
        while True:
            await asyncio.sleep(_CANCEL_SECONDS)
            if self._running:
                for id in await self._records.list_lost(self._settings.worker):
                    if (run := self._running.get(id)) is not None:
                        await run.stop()

    async def _show_life(self) -> None:
        while True:
            os.write(1, b".")
            await asyncio.sleep(1)


def _freeze_gc() -> None:
    """Have the garbage collector skip what was imported so far: DBOS and SQLAlchemy bring 100,000 objects that stay.

    Looking at them again and again took a twentieth of the CPU of jobs.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GARBAGE_THRESHOLDS)


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    """Whether a record is about something else than a cancelled job, which DBOS logs as an error with a traceback."""
    error = record.exc_info[0] if record.exc_info else None
    return error is None or "Cancelled" not in error.__name__


def _die_with_parent() -> None:
    """Let the kernel end this process with its supervisor. Where that is not possible, the pipe breaks a second later."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


def main() -> None:
    _die_with_parent()
    settings = msgspec.json.decode(sys.stdin.buffer.readline(), type=WorkerSettings)
    logging.basicConfig(
        level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr, force=True
    )
    code = 1
    try:
        code = asyncio.run(_serve(settings))
    finally:
        sys.stderr.flush()
        # Runs that are in progress end here, as in a crash: the supervisor puts their jobs back.
        os._exit(code)


async def _serve(settings: WorkerSettings) -> int:
    code = await Worker(settings).serve()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
