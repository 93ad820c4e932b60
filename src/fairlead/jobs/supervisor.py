"""The supervisor of `fairlead worker`: a worker process per core, and the recovery of jobs whose worker is gone."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from fairlead.agent import Agent
from fairlead.errors import ConfigError
from fairlead.jobs.database import Database, DatabaseUrl
from fairlead.jobs.dbos_queue import KeyLimits, Queues
from fairlead.jobs.job_sessions import make_options
from fairlead.jobs.jobs_client import migrate_once
from fairlead.jobs.leases import LEASE_SECONDS, Leases, new_worker_id
from fairlead.jobs.recovery import MARKER, WORKER_MODULE, Recovery, end_orphans, end_processes_of
from fairlead.jobs.worker import WorkerSettings
from fairlead.platform.open_files import make_private_folders

log = logging.getLogger("fairlead.jobs")

#: How often leases are looked at, and claims without one, in seconds.
_SWEEP_SECONDS, _CLAIMS_SECONDS = 0.5, 10.0
#: How long a worker process may be silent before it counts as hung. It is killed then.
_SILENT_SECONDS = LEASE_SECONDS
#: How long to wait before a worker process that ended is started again, if it had hardly run.
_RESTART_SECONDS = 1.0
#: How long a worker that stops tries to put its jobs back. After that, another one does it when the lease has expired.
_PUT_BACK_SECONDS = 5.0
#: How long it tries to record that it stops, before it does.
_LEAVE_SECONDS = 1.0


class SupervisorOptions(Struct, kw_only=True):
    """What `fairlead worker` was told."""

    url: str
    #: How many jobs run at the same time, in all worker processes together.
    sessions: int
    #: How many worker processes; None: one per core.
    processes: int | None = None
    #: The directory of mirrors and worktrees.
    data: Path
    #: Limits of keys to set when starting.
    keys: Mapping[str, KeyLimits] = {}
    #: Options of `Agent` that apply to all jobs.
    agent: Mapping[str, Any] = {}
    log_level: str = "WARNING"


def _check_writable(folder: Path) -> None:
    """Raise ConfigError if files cannot be created in the directory of the worker: all jobs in repositories would fail."""
    try:
        for part in ("mirrors", "worktrees"):
            make_private_folders(folder / part)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error.strerror}. Give another directory with --data.") from error


async def _check_agents(options: SupervisorOptions) -> None:
    """Make an agent with the options of all jobs, and log what it cannot use. Raises FairleadError if all jobs would fail."""
    agent = Agent(make_options(options.agent, cwd=options.data, keep=False))
    try:
        await agent.extensions.find_model()
        for warning in agent.warnings:
            log.warning(warning)
    finally:
        await agent.close()


class Child:
    """A worker process."""

    def __init__(self, process: asyncio.subprocess.Process, worker: str) -> None:
        self.process = process
        self.worker = worker
        self.last_sign = self.started = time.monotonic()


class Supervisor:
    """Starts worker processes, starts them again when they end, and recovers the jobs of all workers that are gone."""

    def __init__(self, options: SupervisorOptions, on_ready: Callable[[], None] | None = None) -> None:
        self._options = options
        self._url = DatabaseUrl(options.url)
        self._database = Database(self._url, patience=None)
        self._queues = Queues(self._url)
        self._recovery = Recovery(self._database, self._queues)
        self._leases = Leases(self._database)
        self._on_ready = on_ready
        #: The id of the database.
        self._fleet = ""
        self._children: set[Child] = set()
        self._is_stopping = asyncio.Event()
        #: What last went wrong in the recovery, and when that was logged.
        self._problem = ("", 0.0)

    async def run(self) -> int:
        """Work until SIGTERM or SIGINT. Returns the exit code. Raises FairleadError at the start."""
        options = self._options
        _check_writable(options.data)
        if options.agent:
            await _check_agents(options)
        first = Database(self._url, patience=10.0)  # a wrong address is an error at once
        await first.create_tables()
        self._fleet = await first.fleet()
        await first.close()
        await asyncio.to_thread(migrate_once, self._url)
        await self._recovery.sweep_refused()
        count = min(options.processes or os.cpu_count() or 1, options.sessions)
        shares = [options.sessions // count + (index < options.sessions % count) for index in range(count)]
        # A limit per process is a property of a queue, for all workers. A small one must not slow the others down.
        await self._queues.register(options.keys, sessions=max(*shares, await self._leases.most_sessions()))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._is_stopping.set)
        tasks = [loop.create_task(self._keep_child(share)) for share in shares]
        tasks += [loop.create_task(self._sweep()), loop.create_task(self._kill_silent())]
        if self._on_ready is not None:
            self._on_ready()
        await self._is_stopping.wait()
        await self._stop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(self._queues.close)
        await self._database.close()
        return 0

    async def _keep_child(self, sessions: int) -> None:
        """Run a worker process, and another one whenever it ends."""
        while not self._is_stopping.is_set():
            child = await self._start(sessions)
            await self._read_signs(child)
            code = await child.process.wait()
            self._children.discard(child)
            await asyncio.to_thread(end_processes_of, child.worker)
            if self._is_stopping.is_set():
                return
            log.warning("worker %s ended with exit code %s", child.worker, code)
            await self._patiently(lambda worker=child.worker: self._recovery.recover(worker, died=True))
            if time.monotonic() - child.started < _RESTART_SECONDS:
                await asyncio.sleep(_RESTART_SECONDS)

    async def _start(self, sessions: int) -> Child:
        options = self._options
        worker = f"{new_worker_id()}-{os.urandom(3).hex()}"
        settings = WorkerSettings(
            url=str(self._url),
            worker=worker,
            sessions=sessions,
            data=str(options.data),
            fleet=self._fleet,
            options=dict(options.agent),
            log_level=options.log_level,
        )
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", WORKER_MODULE),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, MARKER: worker},
            start_new_session=True,  # Ctrl-C reaches the supervisor alone
        )
        assert process.stdin is not None
        with suppress(ConnectionError):
            process.stdin.write(msgspec.json.encode(settings) + b"\n")
            await process.stdin.drain()
        child = Child(process, worker)
        self._children.add(child)
        return child

    async def _read_signs(self, child: Child) -> None:
        assert child.process.stdout is not None
        while await child.process.stdout.read(4096):
            child.last_sign = time.monotonic()

    async def _kill_silent(self) -> None:
        """Kill worker processes that hang: they may hold locks of a SQLite file."""
        last = time.monotonic()
        while True:
            await asyncio.sleep(1)
            now = time.monotonic()
            if now - last < 3:  # else this process was stopped itself, and has not read their signs yet
                for child in list(self._children):
                    if now - child.last_sign > _SILENT_SECONDS:
                        log.warning("worker %s hangs and is killed", child.worker)
                        with suppress(ProcessLookupError):
                            child.process.kill()
            last = now

    async def _sweep(self) -> None:
        claims = time.monotonic()
        await asyncio.to_thread(end_orphans)
        while True:
            await self._try(self._recovery.sweep)
            await self._try(self._recovery.sweep_waiting)
            if time.monotonic() - claims > _CLAIMS_SECONDS:
                claims = time.monotonic()
                await asyncio.to_thread(end_orphans)
                await self._try(self._recovery.sweep_refused)
                await self._try(self._recovery.sweep_claims)
                await self._try(lambda: self._recovery.sweep_worktrees(self._options.data, self._fleet))
                await self._try(lambda: self._recovery.sweep_containers(self._options.data, self._fleet))
            await asyncio.sleep(_SWEEP_SECONDS)

    async def _patiently(self, work: Callable[[], Any]) -> None:
        """Do something until it works."""
        while True:
            if await self._try(work):
                return
            await asyncio.sleep(_SWEEP_SECONDS)

    async def _try(self, work: Callable[[], Any]) -> bool:
        """Do something, and log why it does not work, the same reason once a minute. Returns whether it worked.

        What does not work is tried again later, and must not keep the rest from being done.
        """
        try:
            await work()
        except Exception as error:
            now = time.monotonic()
            if str(error) != self._problem[0] or now > self._problem[1] + 60:
                self._problem = (str(error), now)
                log.warning("jobs of workers that are gone cannot be recovered now: %s", error)
            return False
        return True

    async def _stop(self) -> None:
        """End the worker processes, and put their jobs back. Running jobs are continued by other workers."""
        children = list(self._children)
        with suppress(Exception):  # then others take it for dead, and that counts against its jobs
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._leases.leave([child.worker for child in children])
        for child in children:
            with suppress(ProcessLookupError):
                child.process.terminate()
        for child in children:
            try:
                await asyncio.wait_for(child.process.wait(), 5)
            except TimeoutError:
                with suppress(ProcessLookupError):
                    child.process.kill()
                await child.process.wait()
        try:
            async with asyncio.timeout(_PUT_BACK_SECONDS):
                for child in children:
                    await self._recovery.recover(child.worker, died=False)
                if most := await self._leases.most_sessions():
                    await self._queues.register({}, sessions=most)
        except Exception as error:
            reason = "the database does not answer" if isinstance(error, TimeoutError) else error
            log.warning("running jobs of this worker continue elsewhere when its lease has expired: %s", reason)
