"""Runs many jobs while workers are killed and stopped, and checks that each was answered once."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec import Struct
from tests.support.fleet import Fleet, WorkerProcess, lines_of, send_signal

from fairlead.jobs import Job, Jobs
from fairlead.jobs.database import Database, DatabaseUrl
from fairlead.jobs.records import MOST_DEATHS

#: The keys of the jobs, with the limits that the first worker sets.
KEYS = {"wide": None, "narrow": "narrow=3", "rated": "rated=6,40/5"}
COMMANDS = 3


class ChaosReport(Struct, kw_only=True):
    """What happened."""

    jobs: int
    seconds: float
    kills: int = 0
    stops: int = 0
    #: How many times a supervisor was killed or stopped with all of its processes.
    hosts: int = 0
    restarts: int = 0
    attempts: int = 0
    #: How many jobs lost their worker twice.
    twice: int = 0
    #: The most jobs of the key `narrow` that were seen to run at once.
    narrow: int = 0

    def __str__(self) -> str:
        return (
            f"{self.jobs} jobs in {self.seconds:.0f} s, {self.attempts} attempts; {self.kills} worker processes killed,"
            f" {self.stops} stopped, {self.hosts} hosts lost, Postgres restarted {self.restarts} times;"
            f" {self.twice} jobs lost their worker twice;"
            f" at most {self.narrow} jobs of a key with the limit 3 ran at once"
        )


class Chaos:
    """A run with a number of jobs, in a fleet without workers."""

    def __init__(self, fleet: Fleet, count: int, *, seed: int, restart: Callable[[], None] | None = None) -> None:
        self._fleet = fleet
        self._random = random.Random(seed)
        self._count = count
        self._restart = restart
        self._workers: list[WorkerProcess] = []
        self._over = threading.Event()
        self._wakes: list[tuple[float, list[int]]] = []
        self.report = ChaosReport(jobs=count, seconds=0.0)

    def jobs(self) -> list[Job]:
        """The jobs: each notes every command that it runs, in a file of its own."""
        made: list[Job] = []
        for number in range(self._count):
            id = f"job-{number:04}"
            commands = [f"echo {step} >> {id}.ran; sleep {self._random.uniform(0, 0.4):.2f}" for step in range(COMMANDS)]
            key = self._random.choice(list(KEYS))
            made.append(self._fleet.job(id, *commands, key=key, priority=self._random.randrange(-3, 4)))
        return made

    async def run(self, timeout: float) -> ChaosReport:
        """Run all jobs to their end, and check them."""
        began = time.monotonic()
        async with Jobs(self._fleet.url) as jobs:
            await jobs.submit(*self.jobs())
            limits = [word for limit in KEYS.values() if limit is not None for word in ("--key", limit)]
            self._workers = [self._start(*limits), self._start()]
            monkey = threading.Thread(target=self._torment, daemon=True)
            monkey.start()
            try:
                statuses = Counter([result.status async for result in jobs.results(timeout=timeout)])
            finally:
                self._over.set()
                monkey.join(60)
            self.report.seconds = time.monotonic() - began
            assert statuses == {"done": self._count}, statuses
            await self._check(jobs)
        return self.report

    async def _check(self, jobs: Jobs) -> None:
        for result in await jobs.list():
            assert result.answer == f"done after {COMMANDS} commands", result
            self.report.attempts += result.attempts
            ran = Counter(lines_of(self._fleet.workdir / f"{result.id}.ran"))
            assert set(ran) <= {str(step) for step in range(COMMANDS)}, (result.id, ran)
            assert not ran or max(ran.values()) == 1, f"{result.id} ran a command twice: {ran}"
            if result.attempts == 1:
                assert len(ran) == COMMANDS, (result.id, ran)
            types = [event.type async for event in jobs.events(result.id)]
            assert types.count("done") == 1, result.id
        ((self.report.twice,),) = await asyncio.to_thread(self._query, "SELECT COUNT(*) FROM fairlead_jobs WHERE deaths = 2")

    def _start(self, *words: str) -> WorkerProcess:
        return self._fleet.start_worker(*words, sessions=8, processes=2)

    # The monkey

    def _torment(self) -> None:
        restart_at = self._random.uniform(1, 4)
        began = time.monotonic()
        with suppress(FileNotFoundError, ProcessLookupError):
            self._strike_running(deaths=0, kill=True)
            self._strike_running(deaths=1, kill=True)
        while not self._over.wait(self._random.uniform(0.7, 2.0)):
            now = time.monotonic()
            for end, pids in [each for each in self._wakes if each[0] < now]:
                for pid in pids:
                    send_signal(pid, signal.SIGCONT)
                self._wakes.remove((end, pids))
            self._watch_limits()
            if self._restart is not None and now - began > restart_at:
                self._restart()
                self.report.restarts += 1
                restart_at += self._random.uniform(20, 40)
                continue
            with suppress(FileNotFoundError, ProcessLookupError):
                self._strike()
                if self._random.random() < 0.4:
                    self._strike_running(deaths=1, kill=True)
        for _, pids in self._wakes:
            for pid in pids:
                send_signal(pid, signal.SIGCONT)

    def _strike(self) -> None:
        index = self._random.randrange(len(self._workers))
        worker = self._workers[index]
        children = worker.children()
        if not children or any(pid in stopped for _, stopped in self._wakes for pid in children):
            return
        what = self._random.random()
        if what < 0.7:
            self._strike_child(self._random.choice(children), kill=what < 0.55)
        elif len(self._wakes) == 0 and all(map(self._may_strike, children)):
            self.report.hosts += 1
            if what < 0.85:
                worker.kill()
                self._workers[index] = self._start()
            else:
                for pid in (worker.pid, *children):
                    os.kill(pid, signal.SIGSTOP)
                self._wakes.append((time.monotonic() + 18, [worker.pid, *children]))

    def _strike_running(self, *, deaths: int, kill: bool) -> None:
        """Kill or stop the next process that runs a job whose workers have died so often."""
        sql = (
            "SELECT w.pid FROM fairlead_jobs j JOIN fairlead_workers w ON j.worker = w.id"
            " WHERE j.status = 'running' AND j.deaths = ? ORDER BY j.seq"
        )
        end = time.monotonic() + 4
        while time.monotonic() < end and not self._over.wait(0.1):
            stopped = {pid for _, pids in self._wakes for pid in pids}
            pids = [pid for (pid,) in self._query(sql, (deaths,)) if pid not in stopped]
            if pids:
                self._strike_child(pids[0], kill=kill)
                return

    def _strike_child(self, pid: int, *, kill: bool) -> None:
        os.kill(pid, signal.SIGSTOP)  # so that it starts no other job before the blow
        if not self._may_strike(pid):
            os.kill(pid, signal.SIGCONT)
        elif kill:
            os.kill(pid, signal.SIGKILL)
            self.report.kills += 1
        else:
            self.report.stops += 1
            self._wakes.append((time.monotonic() + self._random.choice((4, 20)), [pid]))

    def _may_strike(self, pid: int) -> bool:
        """Whether no job of a process has seen so many deaths that the next one would park it."""
        sql = (
            "SELECT COUNT(*) FROM fairlead_jobs j JOIN fairlead_workers w ON j.worker = w.id"
            " WHERE w.pid = ? AND j.status = 'running' AND j.deaths >= ?"
        )
        rows = self._query(sql, (pid, MOST_DEATHS - 1))
        return rows[0][0] == 0

    def _watch_limits(self) -> None:
        rows = self._query("SELECT COUNT(*) FROM fairlead_jobs WHERE key = 'narrow' AND status = 'running'")
        self.report.narrow = max(self.report.narrow, rows[0][0])

    def _query(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        async def query() -> list[Any]:
            database = Database(DatabaseUrl(self._fleet.url), patience=60)
            try:
                return await database.rows(sql, values)
            finally:
                await database.close()

        return asyncio.run(query())
