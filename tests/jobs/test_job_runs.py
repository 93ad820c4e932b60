"""Jobs that workers run: their events, limits, order and ends."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.fleet import MODEL, Fleet, fleet_in, is_running, lines_of, wait_until

from fairlead.cli.subcommands.fleet.jobs import summary_lines
from fairlead.errors import LimitReached
from fairlead.jobs import Job, JobEvent, JobLimits, JobResult, Jobs
from fairlead.jobs.job_sessions import run_or_resume
from fairlead.testing import scripted_agent


async def ended(jobs: Jobs, *ids: str) -> dict[str, JobResult]:
    return {result.id: result async for result in jobs.results(ids, timeout=60)}


async def test_a_job_runs_its_prompt_and_is_done(fleet: Fleet) -> None:
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", "echo one >> out", "echo two >> out", labels={"kind": "x"}))
        result = (await ended(jobs, "a"))["a"]
    assert (result.status, result.attempts, result.turns, result.session) == ("done", 1, 3, "a")
    assert result.answer == "done after 2 commands" and result.error is None and result.labels == {"kind": "x"}
    assert result.cost == pytest.approx(3 * 110 * 10 / 1e6) and result.tokens == 330
    assert lines_of(fleet.workdir / "out") == ["one", "two"]


async def test_events_are_read_from_another_process_from_any_number_on(fleet: Fleet) -> None:
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", "echo one"))
        live = [event async for event in jobs.events("a")]
        later = [event async for event in jobs.events("a", after=3)]
    assert [event.number for event in live] == list(range(1, len(live) + 1)) and later == live[3:]
    types = [event.type for event in live]
    assert types[:2] == ["queued", "started"] and types[-1] == "done" and "tool_end" in types and "text" in types
    assert live[-1].data["answer"] == "done after 1 commands"


async def test_an_event_reaches_a_reader_while_the_job_runs(fleet: Fleet) -> None:
    fleet.start_worker()
    seen: list[JobEvent] = []
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", "while [ ! -e go ]; do sleep 0.05; done"))
        async for event in jobs.events("a"):
            seen.append(event)
            if event.type == "tool_running":
                (fleet.workdir / "go").touch()
    assert seen[-1].type == "done"


async def test_the_seconds_of_a_job_count_while_its_first_turn_runs(fleet: Fleet) -> None:
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", "while [ ! -e go ]; do sleep 0.05; done"))
        async for event in jobs.events("a"):
            if event.type == "tool_running":
                break
        (first,) = await jobs.list()
        assert first.status == "running"
        async with asyncio.timeout(30):
            while (await jobs.get("a")).seconds <= first.seconds:
                pass
        (fleet.workdir / "go").touch()
        result = (await ended(jobs, "a"))["a"]
        assert [each.seconds for each in await jobs.list()] == [result.seconds]


async def test_cancelling_stops_a_running_tool_within_a_second(fleet: Fleet) -> None:
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", "echo $$ > pid; sleep 600; echo late > late"), fleet.job("b", "echo b > b"))
        wait_until(lambda: lines_of(fleet.workdir / "pid"))
        pid = int(lines_of(fleet.workdir / "pid")[0])
        assert (await jobs.cancel("a"))[0].status == "cancelled"
        assert wait_until(lambda: not is_running(pid)) < 1.0
        assert (await ended(jobs, "a", "b"))["b"].status == "done"
        assert (await jobs.list())[0].status == "cancelled"
    assert "Traceback" not in (fleet.root / "worker.log").read_text()


async def test_a_job_that_is_cancelled_in_a_turn_has_used_what_that_turn_used(fleet: Fleet) -> None:
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", "sleep 600"))
        async for event in jobs.events("a"):
            if event.type == "tool_running":
                break
        (result,) = await jobs.cancel("a")
    assert (result.turns, result.tokens, result.cost) == (1, 110, 0.0011)


async def test_a_job_that_is_cancelled_in_an_answer_has_used_what_was_asked(tmp_path: Path) -> None:
    answer = {"text": "A long answer. " * 20, "chunk": 12, "holdAfter": 6, "usage": {"input": 100, "output": 50}}
    with fleet_in(tmp_path, turns=lambda body: answer) as fleet:
        fleet.start_worker()
        async with Jobs(fleet.url) as jobs:
            await jobs.submit(fleet.job("a"))
            async for event in jobs.events("a"):
                if event.type == "text":
                    break
            await jobs.cancel("a")
            for _ in range(200):
                if (await jobs.get("a")).tokens:
                    break
                await asyncio.sleep(0.05)
            assert (await jobs.get("a")).tokens >= 100


async def test_a_cancelled_job_can_be_retried(fleet: Fleet) -> None:
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", "echo one >> out"))
        await jobs.cancel("a")
        await jobs.retry("a")
        fleet.start_worker()
        assert (await ended(jobs, "a"))["a"].status == "done"
    assert lines_of(fleet.workdir / "out") == ["one"]


async def test_a_job_that_the_provider_refuses_fails_with_its_words(tmp_path: Any) -> None:
    with fleet_in(tmp_path, turns=lambda _: {"status": 400, "error": "no such model"}) as fleet:
        fleet.start_worker()
        async with Jobs(fleet.url) as jobs:
            await jobs.submit(fleet.job("a"))
            result = (await ended(jobs, "a"))["a"]
    assert result.status == "failed" and "no such model" in (result.error or "")


async def test_an_answer_may_have_characters_that_a_database_has_not(tmp_path: Any) -> None:
    with fleet_in(tmp_path, turns=lambda _: {"text": "a\0b"}) as fleet:
        fleet.start_worker()
        async with Jobs(fleet.url) as jobs:
            await jobs.submit(fleet.job("a"))
            result = (await ended(jobs, "a"))["a"]
    assert (result.status, result.answer, result.attempts) == ("done", "a\ufffdb", 1)


async def test_a_working_directory_that_is_missing_fails_the_job(fleet: Fleet) -> None:
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", workdir=str(fleet.root / "nowhere")))
        result = (await ended(jobs, "a"))["a"]
    assert result.status == "failed" and "does not exist on this worker. Create it" in (result.error or "")


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        (JobLimits(turns=2), "The job has used 2 turns, and its limit is 2. `fairlead jobs retry a` lets it go on"),
        (JobLimits(seconds=0.7), "seconds, and its limit is 0.7."),
        (JobLimits(cost=0.0015), "The job has cost $0.0022, and its limit is $0.0015."),
        (JobLimits(tokens=200), "The job has used 220 tokens, and its limit is 200."),
    ],
    ids=["turns", "seconds", "cost", "tokens"],
)
async def test_a_job_ends_at_its_limits(fleet: Fleet, limits: JobLimits, problem: str) -> None:
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", *["sleep 0.3"] * 8, limits=limits))
        result = (await ended(jobs, "a"))["a"]
        assert result.status == "failed" and problem in (result.error or ""), result
        assert 0 < result.turns < 8
        # A retry has the whole limit again.
        await jobs.retry("a")
        again = (await ended(jobs, "a"))["a"]
    assert again.status == "failed" and problem in (again.error or ""), again
    assert again.turns == result.turns or "seconds" in problem
    assert again.cost > result.cost


async def test_an_answer_that_was_not_recorded_counts_although_a_limit_is_reached() -> None:
    def limits() -> dict[str, Any]:
        raise LimitReached("used 1 turns")

    job = Job(id="a", prompt="Well?", workdir="/")
    async with scripted_agent("Yes.") as agent:
        with pytest.raises(LimitReached):
            await run_or_resume(agent, job, has_begun=False, limits=limits)
        await agent.ask(job.prompt)
        assert await run_or_resume(agent, job, has_begun=True, limits=limits) == "Yes."


def delegating_turn(body: Any) -> dict[str, Any]:
    """Answer the job with a call of a sub-agent and then with a text, and the sub-agent with a text that costs more."""
    text = json.dumps(body["messages"])
    if "Is there a door?" in text and "tool_use" not in text:
        return {"text": "Yes.", "usage": {"input": 1000, "output": 100}}
    if "tool_result" in text:
        return {"text": "There is a door.", "usage": {"input": 100, "output": 10}}
    tasks = [{"id": "Door", "description": "the door", "assignment": "Is there a door?"}]
    call = {"name": "task", "arguments": {"agent": "explore", "tasks": tasks}}
    return {"toolCalls": [call], "usage": {"input": 100, "output": 10}}


async def test_usage_of_sub_agents_counts_for_the_job(tmp_path: Path) -> None:
    with fleet_in(tmp_path, turns=delegating_turn) as fleet:
        fleet.start_worker("--tools", "+task")
        async with Jobs(fleet.url) as jobs:
            await jobs.submit(fleet.job("a"), fleet.job("b", limits=JobLimits(tokens=500)))
            results = await ended(jobs, "a", "b")
    assert (results["a"].status, results["a"].turns, results["a"].tokens) == ("done", 2, 1320), results["a"]
    assert results["a"].cost == pytest.approx(1320 * 10 / 1e6)
    assert results["b"].status == "failed" and "used 1210 tokens, and its limit is 500" in (results["b"].error or "")


async def test_a_higher_priority_starts_first_and_equal_ones_in_order(fleet: Fleet) -> None:
    jobs_of_each = [(name, priority) for priority in (0, 5) for name in ("a", "b", "c")]
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(
            *(
                fleet.job(f"{name}{priority}", f"echo {name}{priority} >> order", priority=priority)
                for name, priority in jobs_of_each
            )
        )
        fleet.start_worker(sessions=1)
        await ended(jobs, *(f"{name}{priority}" for name, priority in jobs_of_each))
    assert lines_of(fleet.workdir / "order") == ["a5", "b5", "c5", "a0", "b0", "c0"]


async def test_a_key_limits_how_many_of_its_jobs_run(fleet: Fleet) -> None:
    command = "echo + >> log; sleep 0.3; echo - >> log"
    async with Jobs(fleet.url) as jobs:
        await jobs.limit("slow", concurrency=1)
        await jobs.submit(*(fleet.job(f"s{number}", command, key="slow") for number in range(4)))
        fleet.start_worker(sessions=4)
        await ended(jobs, *(f"s{number}" for number in range(4)))
    assert lines_of(fleet.workdir / "log") == ["+", "-"] * 4


async def test_a_key_limits_how_often_its_jobs_start(fleet: Fleet) -> None:
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(*(fleet.job(f"s{number}", "date +%s.%N >> log", key="slow") for number in range(4)))
        fleet.start_worker("--key", "slow=4,2/3", sessions=4)
        await ended(jobs, *(f"s{number}" for number in range(4)))
    times = [float(line) for line in lines_of(fleet.workdir / "log")]
    assert times[2] - times[0] > 1.5, times


async def test_the_limits_of_a_key_count_prompts_of_sessions_too(fleet: Fleet) -> None:
    command = "echo + >> log; sleep 0.2; echo - >> log"
    async with Jobs(fleet.url) as jobs:
        await jobs.limit("slow", concurrency=1)
        for session in ("one", "two"):
            for _ in range(2):  # the second prompt keeps the key of the first
                place = {} if await jobs.list(session=session) else {"workdir": str(fleet.workdir), "model": MODEL, "key": "slow"}
                await jobs.prompt(session, json.dumps([command]), **place)
        await jobs.submit(fleet.job("plain", command, key="slow"))
        fleet.start_worker(sessions=4)
        results = await ended(jobs, "one.1", "one.2", "two.1", "two.2", "plain")
    assert {result.status for result in results.values()} == {"done"}
    assert lines_of(fleet.workdir / "log") == ["+", "-"] * 5


async def test_a_session_continues_if_a_worker_died_before_it_queued_the_next_prompt(fleet: Fleet) -> None:
    from fairlead.jobs.database import Database, DatabaseUrl

    async with Jobs(fleet.url) as jobs:
        for _ in range(2):
            await jobs.prompt("chat", json.dumps(["true"]), workdir=str(fleet.workdir), model=MODEL)
        assert [result.status for result in await jobs.list()] == ["queued", "queued"]
        database = Database(DatabaseUrl(fleet.url), patience=5)
        await database.run("UPDATE fairlead_jobs SET status = 'done' WHERE id = ?", ("chat.1",))
        await database.close()
        fleet.start_worker()
        assert (await ended(jobs, "chat.2"))["chat.2"].status == "done"


async def test_the_secret_of_a_key_comes_from_the_environment_of_the_worker(fleet: Fleet) -> None:
    models = (fleet.home / "models.json").read_text().replace('"apiKey": "no-key", ', "")
    (fleet.home / "models.json").write_text(models)
    fleet.extra_env["FAIRLEAD_KEY_TEAM_A"] = "secret-of-a"
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", key="team-a"))
        assert (await ended(jobs, "a"))["a"].status == "done"
    assert fleet.provider.requests[0].headers["x-api-key"] == "secret-of-a"


async def test_the_provider_of_a_worker_is_that_of_jobs_that_name_none(fleet: Fleet) -> None:
    models = json.loads((fleet.home / "models.json").read_text())
    models["providers"]["other"] = models["providers"]["test"]
    (fleet.home / "models.json").write_text(json.dumps(models))
    fleet.start_worker("--provider", "test", "--model", "test-model")
    async with Jobs(fleet.url) as jobs:
        for id, model in (("none", None), ("bare", "test-model"), ("other", "other/test-model")):
            await jobs.submit(msgspec.structs.replace(fleet.job(id), model=model))
        await ended(jobs, "none", "bare", "other")
        used = {id: (await jobs.transcript(id) or b"").decode() for id in ("none", "bare", "other")}
    assert '"provider":"test","modelId":"test-model"' in used["none"] and '"provider":"test"' in used["bare"]
    assert '"provider":"other","modelId":"test-model"' in used["other"]


async def test_prompts_of_a_session_run_one_at_a_time_in_order(fleet: Fleet) -> None:
    prompts = [json.dumps([f"echo +{n} >> log; sleep 0.1; echo -{n} >> log"]) for n in range(4)]
    async with Jobs(fleet.url) as jobs:
        first = await jobs.prompt("chat", prompts[0], workdir=str(fleet.workdir), model=MODEL)
        ids = [first.id, *[(await jobs.prompt("chat", prompt)).id for prompt in prompts[1:]]]
        assert ids == ["chat.1", "chat.2", "chat.3", "chat.4"]
        fleet.start_worker(processes=2, sessions=4)
        results = await ended(jobs, *ids)
    assert {result.status for result in results.values()} == {"done"}
    assert lines_of(fleet.workdir / "log") == [f"{sign}{n}" for n in range(4) for sign in "+-"]
    # The model sees one conversation.
    assert json.dumps(fleet.provider.requests[-1].body).count("sleep 0.1; echo") == 8


async def test_a_job_with_the_name_of_an_older_session_runs_its_prompt(fleet: Fleet) -> None:
    async with Jobs(fleet.url) as jobs:
        async with scripted_agent("Hello.", store=jobs.session_store, session_id="a") as agent:
            await agent.ask("Say hello.")
        fleet.start_worker()
        await jobs.submit(fleet.job("a", "touch ran"))
        assert (await ended(jobs, "a"))["a"].answer == "done after 1 commands"
    assert (fleet.workdir / "ran").exists()


async def test_a_later_prompt_of_a_session_may_work_elsewhere(fleet: Fleet) -> None:
    (fleet.root / "other").mkdir()
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.prompt("chat", json.dumps(["touch first"]), workdir=str(fleet.workdir), model=MODEL)
        await jobs.prompt("chat", json.dumps(["touch second"]), workdir=str(fleet.root / "other"), model=MODEL)
        assert (await ended(jobs, "chat.1", "chat.2"))["chat.2"].status == "done"
    assert (fleet.workdir / "first").exists() and (fleet.root / "other" / "second").exists()


async def test_a_small_worker_does_not_slow_a_large_one_down(fleet: Fleet) -> None:
    fleet.start_worker(sessions=4)
    small = fleet.start_worker(sessions=1)
    held = "echo begun >> begun; while [ ! -e go ]; do sleep 0.05; done"
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(*(fleet.job(f"j{n}", held) for n in range(5)))
        await asyncio.to_thread(wait_until, lambda: len(lines_of(fleet.workdir / "begun")) == 5)
        (fleet.workdir / "go").touch()
        assert {each.status for each in (await ended(jobs, *(f"j{n}" for n in range(5)))).values()} == {"done"}
    assert small.stop() == 0


async def test_equal_prompts_of_two_clients_are_both_delivered(fleet: Fleet) -> None:
    async def send() -> str:
        async with Jobs(fleet.url) as jobs:
            return (await jobs.prompt("chat", json.dumps(["echo more >> log"]), workdir=str(fleet.workdir), model=MODEL)).id

    ids = await asyncio.gather(*(send() for _ in range(3)))
    assert sorted(ids) == ["chat.1", "chat.2", "chat.3"]


async def test_a_prompt_that_is_retried_after_a_later_one_is_sent_again(fleet: Fleet) -> None:
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        first = json.dumps(["echo one >> log; [ -e go ] || sleep 600"])
        await jobs.prompt("chat", first, workdir=str(fleet.workdir), model=MODEL)
        await asyncio.to_thread(wait_until, lambda: lines_of(fleet.workdir / "log"))
        await jobs.cancel("chat.1")
        (fleet.workdir / "go").touch()
        await jobs.prompt("chat", json.dumps(["echo two >> log", "echo three >> log"]))
        assert (await ended(jobs, "chat.2"))["chat.2"].answer == "done after 2 commands"
        await jobs.retry("chat.1")
        assert (await ended(jobs, "chat.1"))["chat.1"].answer == "done after 1 commands"
    assert lines_of(fleet.workdir / "log") == ["one", "two", "three", "one"]


async def test_jobs_wait_until_a_worker_has_a_place(fleet: Fleet) -> None:
    """A worker that claims more than it can run gives the rest back, and another worker takes it."""
    async with Jobs(fleet.url) as jobs:
        fleet.start_worker(sessions=2)
        await jobs.submit(*(fleet.job(f"x{n}", "while [ ! -e go ]; do sleep 0.05; done", key="x") for n in range(2)))
        await asyncio.to_thread(wait_until, lambda: len(fleet.provider.requests) == 2)
        await jobs.submit(fleet.job("y", "touch go", key="y"))
        fleet.start_worker(sessions=2)
        assert {result.status for result in (await ended(jobs, "x0", "x1", "y")).values()} == {"done"}


async def test_results_are_given_as_jobs_end(fleet: Fleet) -> None:
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("slow", "while [ ! -e go ]; do sleep 0.05; done"), fleet.job("fast"))
        order: list[str] = []
        async for result in jobs.results(["slow", "fast"], timeout=60):
            order.append(result.id)
            (fleet.workdir / "go").touch()
        assert order == ["fast", "slow"]
        await jobs.submit(fleet.job("never", "sleep 600"))
        with pytest.raises(TimeoutError, match="1 jobs have not ended"):
            await anext(jobs.results(["never"], timeout=0.1))


@pytest.mark.parametrize("width", [50, 80, 120, None])
def test_watch_shows_counts_cost_and_rate_at_every_width(width: int | None) -> None:
    def result(number: int, status: Any) -> JobResult:
        used: dict[str, Any] = {"attempts": 1, "cost": 0.01, "turns": 1, "tokens": 1, "seconds": 1.0, "labels": {}}
        return JobResult(id=f"j{number}", status=status, session="s", answer=None, error=None, snapshot=None, **used)

    states = ["queued"] * 1000 + ["running"] * 3 + ["done"] * 900 + ["failed"] * 20
    lines = summary_lines([result(number, status) for number, status in enumerate(states)], 120.0, width)
    shown = " ".join(lines if width is not None else lines[:1])
    for part in ("] 920/1923", "3 running, 1000 queued, 900 done, 20 failed", "cost $19.23", "120.0 jobs/min"):
        assert part in shown
    assert width is None or all(len(line) < width for line in lines)


def test_watch_shows_progress_until_all_jobs_have_ended(fleet: Fleet) -> None:
    (fleet.root / "tasks.jsonl").write_text(
        "".join(
            json.dumps({"id": f"j{n}", "prompt": '["true"]', "workdir": "work", "model": "test/test-model"}) + "\n"
            for n in range(3)
        )
    )
    assert fleet.run("jobs", "submit", "tasks.jsonl").returncode == 0
    fleet.start_worker()
    done = fleet.run("jobs", "watch")
    assert done.returncode == 0, done.stderr
    assert "3/3  0 running, 3 done, 0 failed  cost $0.0" in done.stdout and "jobs/min" in done.stdout
    table = fleet.run("jobs", "list").stdout
    assert "done after 1 commands" in table and table.startswith("ID")
