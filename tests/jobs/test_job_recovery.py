"""What happens to jobs when workers die."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from tests.support.fleet import Fleet, lines_of, wait_until

from fairlead.jobs import JobResult, Jobs

#: A command that tells that it has begun, and ends when the test says so.
HELD = "echo begun >> begun; while [ ! -e go ]; do sleep 0.05; done; echo ended >> ended"


async def ended(jobs: Jobs, *ids: str) -> dict[str, JobResult]:
    return {result.id: result async for result in jobs.results(ids, timeout=60)}


async def until_begun(fleet: Fleet, count: int = 1) -> None:
    await asyncio.to_thread(wait_until, lambda: len(lines_of(fleet.workdir / "begun")) >= count)


async def started(jobs: Jobs, id: str, attempt: int) -> None:
    async for event in jobs.events(id):
        if event.type == "started" and event.data["attempt"] == attempt:
            return


async def test_a_killed_worker_process_is_replaced_and_its_job_continues(fleet: Fleet) -> None:
    worker = fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", HELD, "echo second >> ended"))
        await until_begun(fleet)
        async for event in jobs.events("a"):
            if event.type == "tool_running":
                break
        os.kill(worker.children()[0], signal.SIGKILL)
        await started(jobs, "a", 2)
        (fleet.workdir / "go").touch()
        result = (await ended(jobs, "a"))["a"]
    # The turn that was interrupted is counted, and what it cost.
    assert (result.status, result.attempts, result.turns, result.tokens) == ("done", 2, 3, 330)
    # The command that was interrupted is not run again, and the model is told of it.
    assert lines_of(fleet.workdir / "begun") == ["begun"] and "second" in lines_of(fleet.workdir / "ended")
    assert "it may have run" in str(fleet.provider.requests[-1])


async def test_a_turn_that_a_worker_did_not_live_to_record_is_counted(fleet: Fleet) -> None:
    fleet.start_worker(processes=1)
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", "kill -9 $PPID; sleep 5", "echo second >> second"))
        result = (await ended(jobs, "a"))["a"]
    assert (result.status, result.attempts, result.turns, result.tokens) == ("done", 2, 3, 330)
    assert result.cost == pytest.approx(330 * 10 / 1e6)


async def test_another_worker_process_takes_over_at_once(fleet: Fleet) -> None:
    worker = fleet.start_worker(processes=2, sessions=2)
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", HELD))
        await until_begun(fleet)
        (owner,) = [pid for pid in worker.children() if children_of(pid)]
        before = asyncio.get_running_loop().time()
        os.kill(owner, signal.SIGKILL)
        await started(jobs, "a", 2)
        assert asyncio.get_running_loop().time() - before < 3
        (fleet.workdir / "go").touch()
        assert (await ended(jobs, "a"))["a"].status == "done"


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def test_a_worker_that_starts_continues_what_a_killed_one_left(fleet: Fleet) -> None:
    worker = fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", HELD))
        await until_begun(fleet)
        worker.kill()
        (fleet.workdir / "go").touch()
        fleet.start_worker()
        result = (await ended(jobs, "a"))["a"]
    assert (result.status, result.attempts) == ("done", 2)


async def test_a_worker_that_is_asked_to_stop_leaves_its_jobs_to_others(fleet: Fleet) -> None:
    worker = fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", HELD), fleet.job("b", HELD))
        await until_begun(fleet, 2)
        assert await asyncio.to_thread(worker.stop) == 0
        assert [result.status for result in await jobs.list()] == ["queued", "queued"]
        (fleet.workdir / "go").touch()
        fleet.start_worker()
        results = await ended(jobs, "a", "b")
    assert [(result.status, result.attempts) for result in results.values()] == [("done", 2)] * 2


async def test_a_requested_stop_of_a_worker_does_not_count_as_a_crash(fleet: Fleet) -> None:
    from fairlead.jobs.database import Database, DatabaseUrl
    from fairlead.jobs.dbos_queue import Queues
    from fairlead.jobs.job_writer import JobWriter
    from fairlead.jobs.leases import Leases
    from fairlead.jobs.records import Records
    from fairlead.jobs.recovery import Recovery

    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a"))
        database, queues = Database(DatabaseUrl(fleet.url), patience=5), Queues(DatabaseUrl(fleet.url))
        leases, records = Leases(database), Records(database)
        await leases.take("w", 1)
        assert await JobWriter(database, "w").start("a", 1) is not None
        await leases.leave(["w"])
        # It has ended. Another supervisor of this machine looks before its own has put the job back.
        await database.run("UPDATE fairlead_workers SET process = 'ended'")
        await Recovery(database, queues).sweep()
        assert (await jobs.get("a")).status == "running"
        # Another one had seen the end, and counts it only now.
        await records.take_from("w", died=True)
        record = (await records.find(["a"]))["a"]
        assert (record.status, record.deaths) == ("queued", 0)
        await asyncio.to_thread(queues.close)
        await database.close()


async def test_a_job_that_kills_its_workers_is_parked_after_3(fleet: Fleet) -> None:
    fleet.start_worker(processes=1, sessions=2)
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("bad", *["kill -9 $PPID; sleep 5"] * 9))
        result = (await ended(jobs, "bad"))["bad"]
        assert (result.status, result.attempts) == ("parked", 3)
        assert "3 workers died while they ran this job" in (result.error or "")
        await jobs.submit(fleet.job("good", "echo good >> good"))
        assert (await ended(jobs, "good"))["good"].status == "done"


async def test_an_end_of_the_supervisor_is_the_end_of_its_processes(fleet: Fleet) -> None:
    worker = fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", "echo $$ >> begun; sleep 600"))
        await until_begun(fleet)
    (child,) = worker.children()
    os.kill(worker.pid, signal.SIGKILL)
    worker.process.wait()
    wait_until(lambda: not is_running(child), 5)


async def test_processes_that_left_the_groups_of_a_killed_worker_end_too(fleet: Fleet) -> None:
    worker = fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", "setsid sh -c 'echo $$ > escaped; exec sleep 600' & echo >> begun; sleep 600"))
        await asyncio.to_thread(wait_until, lambda: lines_of(fleet.workdir / "escaped") and lines_of(fleet.workdir / "begun"))
        escaped = int(lines_of(fleet.workdir / "escaped")[0])
        os.kill(worker.children()[0], signal.SIGKILL)
        await asyncio.to_thread(wait_until, lambda: not is_running(escaped), 10)
        await jobs.cancel("a")


@pytest.mark.parametrize("is_recovered_elsewhere", [False, True])
async def test_processes_of_a_worker_that_was_killed_with_its_supervisor_end_with_the_next_one(
    fleet: Fleet, is_recovered_elsewhere: bool
) -> None:
    worker = fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", "setsid sh -c 'echo $$ > escaped; exec sleep 600' & echo >> begun; sleep 600"))
        await asyncio.to_thread(wait_until, lambda: lines_of(fleet.workdir / "escaped") and lines_of(fleet.workdir / "begun"))
        escaped = int(lines_of(fleet.workdir / "escaped")[0])
        pids = [worker.pid, *worker.children()]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        worker.process.wait()
        await jobs.cancel("a")
        if is_recovered_elsewhere:  # its lease has been ended by another machine
            from fairlead.jobs.database import Database, DatabaseUrl

            database = Database(DatabaseUrl(fleet.url), patience=5)
            await database.run("DELETE FROM fairlead_workers")
            await database.close()
        fleet.start_worker()
        await asyncio.to_thread(wait_until, lambda: not is_running(escaped), 10)


def is_running(pid: int) -> bool:
    from fairlead.jobs.leases import process_identity

    return process_identity(pid) != ""


async def test_a_zombie_cannot_write_events_or_results(fleet: Fleet) -> None:
    from fairlead.jobs.database import Database, DatabaseUrl
    from fairlead.jobs.event_log import EventReader
    from fairlead.jobs.job_writer import JobEnd, JobWriter
    from fairlead.jobs.records import Progress, Records

    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a"))
        database = Database(DatabaseUrl(fleet.url), patience=5)
        records, reader = Records(database), EventReader(database)
        writer, other = JobWriter(database, "worker-1"), JobWriter(database, "worker-2")
        started = await writer.start("a", 1)
        assert started is not None
        zombie, _ = started
        assert await records.take_from("worker-1", died=True) == []
        restarted = await other.start("a", 1)
        assert restarted is not None
        owner, number = restarted
        assert owner.attempts == 2 and owner.deaths == 1
        writer.add("a", zombie.epoch, number + 1, b'{"type":"late"}')
        await writer.wait_flushed()
        assert await reader.last_number("a") == number
        assert not await writer.save(zombie, Progress(turns=99))
        late = JobEnd(status="failed", error="late")
        assert not await writer.finish(zombie, Progress(), late, number + 1)
        writer.add("a", owner.epoch, number + 1, b'{"type":"good"}')
        await writer.wait_flushed()
        assert await reader.last_number("a") == number + 1
        done = JobEnd(status="done", answer="answer")
        assert await writer.finish(owner, Progress(), done, number + 2)
        assert not await writer.finish(owner, Progress(), late, number + 3)
        assert await reader.last_number("a") == number + 2
        assert (await jobs.list())[0].answer == "answer"
        await database.close()


async def test_no_tool_starts_while_the_lease_of_the_worker_is_not_current(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    from fairlead.jobs.worker import Worker, WorkerSettings

    for name, value in fleet.env.items():
        monkeypatch.setenv(name, value)
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", "echo ran > ran"))
        worker = Worker(WorkerSettings(url=fleet.url, worker="w", sessions=1, data=str(fleet.root)))
        worker._renewed -= 60  # pyright: ignore[reportPrivateUsage]
        running = asyncio.create_task(worker.run_claimed("a", 1))
        done, _ = await asyncio.wait([running], timeout=1)
        assert not done and not (fleet.workdir / "ran").exists()
        worker._renewed += 60  # pyright: ignore[reportPrivateUsage]
        await running
        assert (await jobs.get("a")).answer == "done after 1 commands" and (fleet.workdir / "ran").exists()
        await worker.close()


async def test_a_worker_that_notices_that_it_lost_a_job_leaves_its_session_to_be_resumed(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairlead.jobs.database import Database, DatabaseUrl
    from fairlead.jobs.records import Records
    from fairlead.jobs.worker import Worker, WorkerSettings

    for name, value in fleet.env.items():
        monkeypatch.setenv(name, value)
    commands = [
        "echo 0 >> ran",
        "echo 1 >> ran; while [ ! -e go ]; do sleep 0.05; done",
        "echo 2 >> ran; [ -e lost ] || sleep 600",
    ]
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", *commands))
        worker = Worker(WorkerSettings(url=fleet.url, worker="w", sessions=2, data=str(fleet.root)))
        first = asyncio.create_task(worker.run_claimed("a", 1))
        await asyncio.to_thread(wait_until, lambda: len(lines_of(fleet.workdir / "ran")) == 2)
        database = Database(DatabaseUrl(fleet.url), patience=5)
        await Records(database).take_from("w", died=True)
        await database.close()
        (fleet.workdir / "go").touch()
        await first
        (fleet.workdir / "lost").touch()  # the third command may have started by now, or not
        await worker.run_claimed("a", 1)
        assert (await jobs.get("a")).answer == "done after 3 commands"
        ran = lines_of(fleet.workdir / "ran")
        assert len(ran) == len(set(ran)), "the prompt was not sent again"
        await worker.close()


async def test_a_lease_that_was_renewed_in_time_is_not_revoked(fleet: Fleet) -> None:
    from fairlead.jobs.database import Database, DatabaseUrl
    from fairlead.jobs.leases import Leases

    async with Jobs(fleet.url) as jobs:
        await jobs.list()
        database = Database(DatabaseUrl(fleet.url), patience=5)
        leases = Leases(database)
        await leases.take("w", 1)
        await database.run("UPDATE fairlead_workers SET expires_at = 1")
        assert (await leases.all())[0].is_expired
        assert await leases.renew("w") and not await leases.revoke("w"), "it woke up before it was given up"
        await database.run("UPDATE fairlead_workers SET expires_at = 1")
        assert await leases.revoke("w") and not await leases.renew("w"), "its jobs are being given to others"
        assert await leases.revoke("w"), "the process that revoked it has died, and another one continues"
        await database.close()


async def test_an_error_of_the_worker_itself_leaves_the_job_to_another_attempt(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairlead.jobs.running import JobRun
    from fairlead.jobs.worker import Worker, WorkerSettings

    async def fail(run: JobRun) -> bool:
        raise OSError("no space left")

    monkeypatch.setattr(JobRun, "run", fail)
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a"))
        worker = Worker(WorkerSettings(url=fleet.url, worker="w", sessions=1, data=str(fleet.root)))
        for attempt in range(1, 6):
            assert (await jobs.get("a")).status == "queued"
            await worker.run_claimed("a", 1)
            assert (await jobs.get("a")).attempts == attempt
        result = await jobs.get("a")
        assert result.status == "failed" and "no space left. The worker failed 5 times" in (result.error or "")
        await worker.close()
