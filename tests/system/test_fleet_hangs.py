"""What happens to jobs when a process or a machine hangs, or when Postgres goes away."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.support.fleet import Fleet, WorkerProcess, fleet_in, lines_of, send_signal, wait_until
from tests.support.postgres import PostgresServer

from fairlead.errors import DatabaseUnavailable
from fairlead.jobs import JobResult, Jobs

pytestmark = pytest.mark.system

#: A command that tells that it has begun, and ends when the test says so.
HELD = "echo begun >> begun; while [ ! -e go ]; do sleep 0.05; done; echo ended >> ended"


@pytest.fixture(scope="module")
def server() -> Generator[PostgresServer]:
    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture
def postgres_fleet(server: PostgresServer, tmp_path: Path) -> Generator[Fleet]:
    name = f"jobs_{os.urandom(4).hex()}"
    server.create_database(name)
    with fleet_in(tmp_path, server.url.rpartition("/")[0] + f"/{name}") as fleet:
        yield fleet


@pytest.fixture
def sqlite_fleet(tmp_path: Path) -> Generator[Fleet]:
    with fleet_in(tmp_path) as fleet:
        yield fleet


async def ended(jobs: Jobs, *ids: str) -> dict[str, JobResult]:
    return {result.id: result async for result in jobs.results(ids, timeout=90)}


async def until_begun(fleet: Fleet, count: int = 1) -> None:
    await asyncio.to_thread(wait_until, lambda: len(lines_of(fleet.workdir / "begun")) >= count)


async def started(jobs: Jobs, id: str, attempt: int) -> None:
    async for event in jobs.events(id):
        if event.type == "started" and event.data["attempt"] == attempt:
            return


def stop_all(worker: WorkerProcess) -> list[int]:
    pids = [*worker.children(), worker.pid]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    return pids


async def test_a_worker_process_that_hangs_is_killed_within_17_seconds_and_its_jobs_continue(sqlite_fleet: Fleet) -> None:
    fleet = sqlite_fleet
    worker = fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", HELD, "echo second >> second"))
        await until_begun(fleet)
        (child,) = worker.children()
        began = asyncio.get_running_loop().time()
        os.kill(child, signal.SIGSTOP)
        # A process starts in place of the one that was killed, which takes seconds on a busy machine.
        await asyncio.to_thread(wait_until, lambda: child not in worker.children())
        assert asyncio.get_running_loop().time() - began < 17
        (fleet.workdir / "go").touch()
        result = (await ended(jobs, "a"))["a"]
    assert (result.status, result.attempts) == ("done", 2)
    assert lines_of(fleet.workdir / "begun") == ["begun"] and lines_of(fleet.workdir / "second") == ["second"]


@pytest.mark.parametrize("kind", ["sqlite_fleet", "postgres_fleet"])
async def test_jobs_of_a_machine_that_hangs_continue_elsewhere_and_it_changes_nothing_when_it_wakes_up(
    kind: str, request: pytest.FixtureRequest
) -> None:
    fleet: Fleet = request.getfixturevalue(kind)
    hung = fleet.start_worker(processes=1, sessions=2)
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", HELD, "echo second >> second", "echo third >> third"))
        await until_begun(fleet)
        fleet.start_worker(processes=1, sessions=2)
        # The other worker must have been able to judge leases for as long as one lasts.
        await asyncio.sleep(16)
        began = asyncio.get_running_loop().time()
        pids = stop_all(hung)
        await started(jobs, "a", 2)
        assert asyncio.get_running_loop().time() - began < 17
        for pid in pids:
            send_signal(pid, signal.SIGCONT)
        (fleet.workdir / "go").touch()
        result = (await ended(jobs, "a"))["a"]
        assert (result.status, result.attempts) == ("done", 2)
        await asyncio.to_thread(wait_until, lambda: pids[0] not in hung.children())
        events = [event.type async for event in jobs.events("a")]
    assert events.count("done") == 1
    for name in ("begun", "second", "third"):
        assert len(lines_of(fleet.workdir / name)) == 1, name


async def test_jobs_survive_a_crash_of_postgres(postgres_fleet: Fleet, server: PostgresServer) -> None:
    fleet = postgres_fleet
    fleet.start_worker(processes=2, sessions=4)
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(*(fleet.job(f"j{n}", *(["sleep 0.4"] * 6 + [f"echo {n} >> ran"])) for n in range(8)))
        await asyncio.to_thread(wait_until, lambda: len(fleet.provider.requests) > 6)
        await asyncio.to_thread(server.restart, "immediate")
        results = await ended(jobs, *(f"j{n}" for n in range(8)))
    assert [(result.status, result.attempts) for result in results.values()] == [("done", 1)] * 8
    assert sorted(lines_of(fleet.workdir / "ran")) == [str(n) for n in range(8)]


async def test_jobs_survive_postgres_being_away_for_longer_than_a_lease(postgres_fleet: Fleet, server: PostgresServer) -> None:
    fleet = postgres_fleet
    fleet.start_worker(processes=1, sessions=2)
    fleet.start_worker(processes=1, sessions=2)
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(*(fleet.job(f"j{n}", HELD, f"echo {n} >> ran") for n in range(4)))
        await until_begun(fleet, 4)
        await asyncio.to_thread(server.stop)
        (fleet.workdir / "go").touch()
        await asyncio.sleep(20)
        await asyncio.to_thread(server.start)
        results = await ended(jobs, *(f"j{n}" for n in range(4)))
    assert [(result.status, result.attempts) for result in results.values()] == [("done", 1)] * 4
    assert sorted(lines_of(fleet.workdir / "ran")) == [str(n) for n in range(4)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_worker_stops_while_postgres_is_away_and_its_job_continues(
    number: signal.Signals, postgres_fleet: Fleet, server: PostgresServer
) -> None:
    fleet = postgres_fleet
    worker = fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", HELD))
        await until_begun(fleet)
        await asyncio.to_thread(server.stop)
        try:
            worker.process.send_signal(number)
            assert await asyncio.to_thread(worker.process.wait, 20) == 0
        finally:
            await asyncio.to_thread(server.start)
        fleet.start_worker()
        assert (await ended(jobs, "a"))["a"].status == "done"


async def test_readers_wait_for_postgres_longer_than_a_command_does(
    postgres_fleet: Fleet, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.jobs.jobs_client.PATIENCE", 0.2)
    postgres_fleet.start_worker()
    async with Jobs(postgres_fleet.url) as jobs:
        await jobs.submit(postgres_fleet.job("a", HELD))
        await until_begun(postgres_fleet)
        results = asyncio.create_task(ended(jobs, "a"))
        events = asyncio.create_task(started(jobs, "a", 2))  # does not come: reads to the end
        await asyncio.sleep(0)
        await jobs.list()  # after the first query of both: the statements of a client are run one after another
        await asyncio.to_thread(server.stop, "immediate")
        with pytest.raises(DatabaseUnavailable):
            await jobs.list()
        await asyncio.wait([results, events], timeout=2)
        assert not results.done() and not events.done()
        await asyncio.to_thread(server.start)
        (postgres_fleet.workdir / "go").touch()
        assert (await results)["a"].status == "done"
        await events


async def test_cancelling_reaches_a_tool_through_postgres_within_a_second(postgres_fleet: Fleet) -> None:
    fleet = postgres_fleet
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", "echo $$ >> begun; sleep 600"))
        await until_begun(fleet)
        pid = int(lines_of(fleet.workdir / "begun")[0])
        await jobs.cancel("a")
        assert wait_until(lambda: not Path(f"/proc/{pid}").exists()) < 1
