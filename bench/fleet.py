"""Measure a fleet: what a job costs beyond the agent itself, how fast jobs continue elsewhere, and what an event costs.

    python -m bench.fleet [--jobs 200] [--rounds 7] [--minutes 8] [--sqlite-only] [--write]

Each job is one prompt with two commands, against a scripted provider without delays. "Plain" runs the same prompts in one process
with asyncio and the library alone. CPU is that of the processes that run agents, without the commands that they start.

On a machine that others use too, the same work costs more CPU at one time than at another. So the jobs run in several rounds. In
each, plain asyncio and the databases take turns, and the cost of a job is the difference within the round. The figures are
medians, with the lowest and the highest round. `--write` puts them into docs/fleet.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
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

PLACES = ("SQLite", "Postgres")
#: How many jobs run at the same time, everywhere.
SESSIONS = 16
#: What is measured. A figure is in milliseconds of CPU, unless its text says otherwise.
TEXTS = {
    "over": "CPU of a job over plain asyncio, in ms",
    "plain": "CPU of the same work in plain asyncio, in ms",
    "submit": "CPU of submitting a job, in ms",
    "rate": "jobs per second",
    "idle": "CPU of a worker process that waits for jobs, in ms per second",
    "event": "CPU of an event, in ms",
    "read": "until a reader gets an event through the database, 95th percentile, in ms",
    "killed": "until a job of a killed worker process runs again, in s",
    "hung": "until a job of a machine that hangs runs again, in s",
}
_BOTH = {"event": 0.1, "read": 50.0, "killed": 3.0, "hung": 17.0}
BUDGETS = {
    ("over", "SQLite"): 10.0,
    ("over", "Postgres"): 8.0,
    **{(what, place): most for what, most in _BOTH.items() for place in PLACES},
}
#: How long events and recovery take for one database, in seconds: a machine that hangs is waited for.
_REST_SECONDS = 75
PAGE = Path(__file__).resolve().parent.parent / "docs" / "fleet.md"
#: The part of the page that is written here. The rest is written by hand.
_WRITTEN = re.compile(r"(<!-- figures: .*?-->\n).*?(<!-- end of figures -->)", re.DOTALL)
HELD = "echo begun >> begun; while [ ! -e go ]; do sleep 0.05; done"


class Figures(Struct):
    """What was measured, by figure and database: one value for each round."""

    values: dict[tuple[str, str], list[float]] = {}

    def add(self, what: str, place: str, value: float) -> None:
        """Keep a value, and print it."""
        self.values.setdefault((what, place), []).append(value)
        print(f"{place:9} {TEXTS[what]:76} {value:9.3f}", flush=True)

    def median(self, what: str, place: str) -> float:
        return statistics.median(self.values[what, place])

    def format_figure(self, what: str, place: str) -> str:
        """A figure as text, with its lowest and highest value if there are several. Empty if it was not measured."""
        if (what, place) not in self.values:
            return ""
        digits = 3 if what == "event" else 0 if what in ("read", "rate") else 1
        values = self.values[what, place]
        spread = f" ({min(values):.{digits}f} to {max(values):.{digits}f})" if len(values) > 1 else ""
        return f"{self.median(what, place):.{digits}f}{spread}"

    def list_exceeded(self) -> list[str]:
        """One sentence for each budget that the medians exceed."""
        return [
            f"{place}: {TEXTS[what]} is {self.format_figure(what, place)}, and the budget is {most:g}."
            for (what, place), most in BUDGETS.items()
            if (what, place) in self.values and self.median(what, place) > most
        ]

    def table(self, jobs: int) -> str:
        """The table of docs/fleet.md."""
        rows = [f"| {jobs} jobs of two commands, {SESSIONS} at a time | {' | '.join(PLACES)} | budget |", "|---|---|---|---|"]
        for what, text in TEXTS.items():
            budgets = dict.fromkeys(f"{BUDGETS[what, place]:g}" for place in PLACES if (what, place) in BUDGETS)
            rows.append(f"| {text} | {' | '.join(self.format_figure(what, place) for place in PLACES)} | {', '.join(budgets)} |")
        return "\n".join(rows) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description=__doc__)
    parser.add_argument("--jobs", type=int, default=200, help="how many jobs (default 200)")
    parser.add_argument("--rounds", type=int, default=7, help="how many rounds, if there is time (default 7)")
    parser.add_argument("--minutes", type=float, default=8, help="how long all of it may take, about (default 8)")
    parser.add_argument("--sqlite-only", action="store_true", help="leave out Postgres")
    parser.add_argument("--write", action="store_true", help="write the table in docs/fleet.md")
    parser.add_argument("--plain", nargs=2, metavar=("HOME", "JOBS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.plain:
        asyncio.run(run_plain(Path(options.plain[0]), int(options.plain[1])))
        return
    if options.write and options.sqlite_only:
        parser.error("--write needs both databases")
    began, figures = os.getloadavg()[0], Figures()
    with ExitStack() as stack:
        places: dict[str, str | None] = {"SQLite": None}
        if not options.sqlite_only:
            server = PostgresServer()
            stack.callback(server.remove)
            places["Postgres"] = server.url
        end = time.monotonic() + options.minutes * 60 - _REST_SECONDS * len(places)
        rounds = measure_rounds(figures, places, options.jobs, options.rounds, end)
        for place, url in places.items():
            measure_rest(figures, place, url)
    cores, after = os.cpu_count(), os.getloadavg()[0]
    circumstances = f"{cores} cores, load average {began:.1f} before and {after:.1f} after, medians of {rounds} rounds"
    print(f"\n{figures.table(options.jobs)}\n{circumstances}")
    for problem in figures.list_exceeded():
        print("MISSED:", problem)
    if options.write:
        text = f"{circumstances} (lowest to highest):\n\n{figures.table(options.jobs)}\n"
        page = _WRITTEN.sub(lambda found: found[1] + text + found[2], PAGE.read_text(encoding="utf-8"))
        PAGE.write_text(page, encoding="utf-8")


def measure_rounds(figures: Figures, places: dict[str, str | None], count: int, most: int, end: float) -> int:
    """Run the jobs in rounds, at least three, until there were enough or the time is over. Returns how many there were."""
    longest = 0.0
    for number in range(most):
        began = time.monotonic()
        if number >= 3 and began + longest > end:
            return number
        plain = measure_plain(count)
        # The other way round in every other round: what comes first differs from what comes last.
        for place, url in sorted(places.items(), reverse=number % 2 == 0):
            figures.add("plain", place, plain)
            with tempfile.TemporaryDirectory() as folder, fleet_in(Path(folder), url) as fleet:
                asyncio.run(measure_jobs(figures, place, fleet, f"{place}-{number}", count, plain))
        longest = max(longest, time.monotonic() - began)
    return most


def measure_rest(figures: Figures, place: str, url: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder, fleet_in(Path(folder), url) as fleet:
        asyncio.run(measure_events(figures, place, fleet))
    with tempfile.TemporaryDirectory() as folder, fleet_in(Path(folder), url) as fleet:
        asyncio.run(measure_recovery(figures, place, fleet))


# The cost of a job


def measure_plain(count: int) -> float:
    with tempfile.TemporaryDirectory() as folder, fleet_in(Path(folder)) as fleet:
        argv = [sys.executable, "-m", "bench.fleet", "--plain", str(fleet.home), str(count)]
        done = subprocess.run(argv, env={**os.environ, **fleet.env}, capture_output=True, text=True, check=True)
    return float(done.stdout)


async def run_plain(home: Path, count: int) -> None:
    """Run the prompts with the library alone, and print the CPU per prompt in milliseconds."""
    from fairlead import Agent, Storage

    places = asyncio.Semaphore(SESSIONS)
    began = time.process_time()

    async def run(number: int) -> None:
        async with places:
            folder = home / "work"
            folder.mkdir(exist_ok=True)
            agent = Agent(model=MODEL, cwd=folder, store=Storage(home / "sessions"))
            async with agent:
                await agent.ask(json.dumps(["true", "true"]), expand=False)

    await run(-1)  # imports
    began = time.process_time()
    await asyncio.gather(*(run(number) for number in range(count)))
    print((time.process_time() - began) * 1000 / count)


async def measure_jobs(figures: Figures, place: str, fleet: Fleet, name: str, count: int, plain: float) -> None:
    worker = fleet.start_worker(sessions=SESSIONS, processes=2)
    async with Jobs(fleet.url) as jobs:
        # Some jobs for each process first, for what is imported and remembered then.
        await collect(jobs, [fleet.job(f"warm-{name}-{number}", "sleep 1", "true") for number in range(SESSIONS)])
        before, began = cpu_of(worker), time.monotonic()
        mine = time.process_time()
        work = [fleet.job(f"job-{name}-{number}", "true", "true") for number in range(count)]
        await jobs.submit(*work)
        submitted = (time.process_time() - mine) * 1000 / count
        async for _ in jobs.results([job.id for job in work], timeout=600):
            pass
        seconds, used = time.monotonic() - began, (cpu_of(worker) - before) * 1000 / count
        before, began = cpu_of(worker), time.monotonic()
        await asyncio.sleep(3)
        idle = (cpu_of(worker) - before) * 1000 / (time.monotonic() - began) / len(worker.children())
    figures.add("over", place, used - plain)
    figures.add("submit", place, submitted)
    figures.add("rate", place, count / seconds)
    figures.add("idle", place, idle)


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


async def measure_events(figures: Figures, place: str, fleet: Fleet) -> None:
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
                await writer.wait_flushed()
        await writer.wait_flushed()
        cost = (time.process_time() - began) * 1000 / count
        delays = await delays_of(jobs, writer, id, record.epoch, first + count)
        await database.close()
    figures.add("event", place, cost)
    figures.add("read", place, delays)


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


async def measure_recovery(figures: Figures, place: str, fleet: Fleet) -> None:
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
            figures.add(what, place, await measure_one(what, id, fleet, jobs, worker, other))


async def measure_one(what: str, id: str, fleet: Fleet, jobs: Jobs, worker: WorkerProcess, other: WorkerProcess) -> float:
    """Return the seconds until a job runs again whose worker process is killed, or whose worker hangs."""
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
    return seconds


def has_children(pid: int) -> bool:
    return bool(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


if __name__ == "__main__":
    main()
