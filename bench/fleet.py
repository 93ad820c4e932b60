"""Measure a fleet: what a job costs beyond the agent itself, how fast jobs continue elsewhere, and what an event costs.

    python -m bench.fleet [--jobs 200] [--sqlite-only]

Each job is one prompt with two commands, against a scripted provider without delays. "Plain" runs the same prompts in one process
with asyncio and the library alone. CPU is that of the processes that run agents, without the commands that they start.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct
from tests.support.fleet import MODEL, Fleet, WorkerProcess, fleet_in, lines_of, wait_until
from tests.support.postgres import PostgresServer

from fairlead.jobs import Job, Jobs
from fairlead.jobs.database import Database, DatabaseUrl
from fairlead.jobs.job_writer import JobWriter

#: How many jobs run at the same time, everywhere.
SESSIONS = 16
#: The budgets: CPU per job over plain asyncio and per event, and the time until an event is read, in milliseconds; the time until
#: a job runs again, in seconds.
BUDGETS = {"job on SQLite": 10.0, "job on Postgres": 8.0, "event": 0.1, "event read": 50.0, "killed": 3.0, "hung": 17.0}
HELD = "echo begun >> begun; while [ ! -e go ]; do sleep 0.05; done"


class Row(Struct):
    """A figure and its budget, if it has one."""

    name: str
    value: float
    unit: str
    budget: float | None = None

    def __str__(self) -> str:
        verdict = "" if self.budget is None else f"   budget {self.budget:g}: {'met' if self.value <= self.budget else 'MISSED'}"
        return f"{self.name:58} {self.value:9.3f} {self.unit:10}{verdict}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description=__doc__)
    parser.add_argument("--jobs", type=int, default=200, help="how many jobs (default 200)")
    parser.add_argument("--sqlite-only", action="store_true", help="leave out Postgres")
    parser.add_argument("--plain", nargs=2, metavar=("HOME", "JOBS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.plain:
        asyncio.run(run_plain(Path(options.plain[0]), int(options.plain[1])))
        return
    began = os.getloadavg()[0]
    with ExitStack() as stack:
        places: dict[str, str | None] = {"SQLite": None}
        if not options.sqlite_only:
            server = PostgresServer()
            stack.callback(server.remove)
            places["Postgres"] = server.url
        plain = min(measure_plain(options.jobs) for _ in range(2))
        print(Row("plain asyncio, CPU per job", plain, "ms"), flush=True)
        for place, url in places.items():
            for row in measure(place, url, options.jobs, plain):
                print(row, flush=True)
    print(f"{options.jobs} jobs, {SESSIONS} at a time, {os.cpu_count()} cores, load {began:.1f} before")


def measure(place: str, url: str | None, count: int, plain: float) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder, fleet_in(Path(folder), url) as fleet:
        rows = asyncio.run(measure_jobs(place, fleet, count, plain))
    with tempfile.TemporaryDirectory() as folder, fleet_in(Path(folder), url) as fleet:
        rows += asyncio.run(measure_events(place, fleet))
    with tempfile.TemporaryDirectory() as folder, fleet_in(Path(folder), url) as fleet:
        rows += asyncio.run(measure_recovery(place, fleet))
    return rows


# The cost of a job


def measure_plain(count: int) -> float:
    with tempfile.TemporaryDirectory() as folder, fleet_in(Path(folder)) as fleet:
        argv = [sys.executable, "-m", "bench.fleet", "--plain", str(fleet.home), str(count)]
        done = subprocess.run(argv, env={**os.environ, **fleet.env}, capture_output=True, text=True, check=True)
    return float(done.stdout)


async def run_plain(home: Path, count: int) -> None:
    """Run the prompts with the library alone, and print the CPU per prompt in milliseconds."""
    from fairlead import Agent

    places = asyncio.Semaphore(SESSIONS)
    began = time.process_time()

    async def run(number: int) -> None:
        async with places:
            folder = home / "work"
            folder.mkdir(exist_ok=True)
            agent = Agent(model=MODEL, cwd=folder, keep=True, session_dir=home / "sessions")
            async with agent:
                await agent.ask(json.dumps(["true", "true"]), expand=False)

    await run(-1)  # imports
    began = time.process_time()
    await asyncio.gather(*(run(number) for number in range(count)))
    print((time.process_time() - began) * 1000 / count)


async def measure_jobs(place: str, fleet: Fleet, count: int, plain: float) -> list[Row]:
    worker = fleet.start_worker(sessions=SESSIONS, processes=2)
    async with Jobs(fleet.url) as jobs:
        # One job per process first, for what is imported then.
        await collect(jobs, [fleet.job(f"warm-{place}-{number}", "sleep 1") for number in range(8)])
        before, began = cpu_of(worker), time.monotonic()
        mine = time.process_time()
        work = [fleet.job(f"job-{place}-{number}", "true", "true") for number in range(count)]
        await jobs.submit(*work)
        submitted = (time.process_time() - mine) * 1000 / count
        async for _ in jobs.results([job.id for job in work], timeout=600):
            pass
        seconds, used = time.monotonic() - began, (cpu_of(worker) - before) * 1000 / count
    return [
        Row(f"{place}: submitting, CPU per job", submitted, "ms"),
        Row(f"{place}: workers, CPU per job", used, "ms"),
        Row(f"{place}: CPU per job over plain asyncio", used - plain, "ms", BUDGETS[f"job on {place}"]),
        Row(f"{place}: jobs per second", count / seconds, "1/s"),
    ]


async def collect(jobs: Jobs, work: list[Job]) -> None:
    await jobs.submit(*work)
    async for _ in jobs.results([job.id for job in work], timeout=120):
        pass


def cpu_of(worker: WorkerProcess) -> float:
    """The seconds of CPU that the processes of a worker have used themselves."""
    tick = os.sysconf("SC_CLK_TCK")
    total = 0
    for pid in (worker.pid, *worker.children()):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / tick


# The cost of an event


async def measure_events(place: str, fleet: Fleet) -> list[Row]:
    count = 5000
    async with Jobs(fleet.url) as jobs:
        id = f"events-{place}"
        await jobs.submit(fleet.job(id, "true"))
        database = Database(DatabaseUrl(fleet.url), patience=10)
        writer = JobWriter(database, "bench")
        started = await writer.start(id, 1)
        assert started is not None
        record, first = started
        data = json.dumps({"type": "text", "text": "a piece of text"}).encode()
        began = time.process_time()
        for number in range(first + 1, first + count + 1):
            writer.add(id, record.epoch, number, data)
            if number % 50 == 0:  # as 50 pieces of many sessions come together
                await writer.flushed()
        await writer.flushed()
        cost = (time.process_time() - began) * 1000 / count
        delays = await delays_of(jobs, writer, id, record.epoch, first + count)
        await database.close()
    return [
        Row(f"{place}: CPU per event", cost, "ms", BUDGETS["event"]),
        Row(f"{place}: p95 until an event is read elsewhere", delays, "ms", BUDGETS["event read"]),
    ]


async def delays_of(jobs: Jobs, writer: JobWriter, id: str, epoch: int, last: int) -> float:
    """Write events at 50 a second, and return the 95th percentile of the time until a reader gets them."""
    sent: dict[int, float] = {}
    delays: list[float] = []

    async def read() -> None:
        async for event in jobs.events(id, after=last):
            delays.append(time.monotonic() - sent[event.number])
            if len(delays) == 200:
                return

    reading = asyncio.create_task(read())
    await asyncio.sleep(0.5)
    for number in range(last + 1, last + 201):
        sent[number] = time.monotonic()
        writer.add(id, epoch, number, b'{"type":"text","text":"x"}')
        await asyncio.sleep(0.02)
    await reading
    return statistics.quantiles(delays, n=20)[-1] * 1000


# Recovery


async def measure_recovery(place: str, fleet: Fleet) -> list[Row]:
    rows: list[Row] = []
    async with Jobs(fleet.url) as jobs:
        worker = fleet.start_worker(sessions=4, processes=2)
        other = fleet.start_worker(sessions=4, processes=1)
        for what in ("killed", "hung"):
            for name in ("begun", "go"):
                (fleet.workdir / name).unlink(missing_ok=True)
            id = f"{what}-{place}"
            if what == "hung":
                other_pids = (other.pid, *other.children())
                for pid in other_pids:  # so that the first worker gets the job
                    os.kill(pid, signal.SIGSTOP)
            await jobs.submit(fleet.job(id, HELD))
            await asyncio.to_thread(wait_until, lambda: lines_of(fleet.workdir / "begun"))
            rows.append(await measure_one(place, what, id, fleet, jobs, worker, other))
    return rows


async def measure_one(
    place: str, what: str, id: str, fleet: Fleet, jobs: Jobs, worker: WorkerProcess, other: WorkerProcess
) -> Row:
    if what == "killed":
        owner = next(pid for each in (worker, other) for pid in each.children() if has_children(pid))
        os.kill(owner, signal.SIGKILL)
    else:
        for pid in (other.pid, *other.children()):
            os.kill(pid, signal.SIGCONT)
        await asyncio.sleep(20)  # it looks at leases only after it has reached the database for as long as one lasts
        for pid in (worker.pid, *worker.children()):
            os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    async for event in jobs.events(id):
        if event.type == "started" and event.data["attempt"] == 2:
            break
    seconds = time.monotonic() - began
    (fleet.workdir / "go").touch()
    async for _ in jobs.results([id], timeout=60):
        pass
    return Row(f"{place}: job of a {what} worker runs again after", seconds, "s", BUDGETS[what])


def has_children(pid: int) -> bool:
    return bool(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


if __name__ == "__main__":
    main()
