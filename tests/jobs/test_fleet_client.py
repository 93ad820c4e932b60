"""The network client and a fleet: jobs over HTTP, with events that continue after a lost connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from contextlib import aclosing

import pytest
from tests.support.fleet import MODEL, Fleet
from tests.support.front_end import FrontEnd

from fairlead.client import Job, JobEvent, JobLimits, ServerClient
from fairlead.errors import CommandRefused


@pytest.fixture
def server(fleet: Fleet) -> Generator[FrontEnd]:
    with FrontEnd(fleet) as server:
        yield server


def client_of(server: FrontEnd) -> ServerClient:
    return ServerClient(server.url, token=server.token)


def job(fleet: Fleet, id: str, *commands: str) -> Job:
    return Job(id=id, prompt=json.dumps(commands), workdir=str(fleet.workdir), model=MODEL, limits=JobLimits(turns=9))


async def test_jobs_are_submitted_followed_and_fetched(fleet: Fleet, server: FrontEnd) -> None:
    fleet.start_worker()
    client = client_of(server)
    submitted = await client.submit_jobs([job(fleet, "a", "echo one >> out"), job(fleet, "b")])
    assert [each.id for each in submitted] == ["a", "b"]
    assert (await client.submit_jobs(job(fleet, "a", "echo one >> out")))[0].id == "a"  # changes nothing
    events = [event async for event in client.follow_job("a")]
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert events[0].type == "queued" and events[-1].type == "done"
    assert events[-1].data["answer"] == "done after 1 commands"
    assert [event async for event in client.follow_job("a", after=len(events) - 2)] == events[-2:]
    assert [event async for event in client.follow_job("a", after=len(events))] == []
    assert (await client.wait_for_job("b")).answer == "done after 0 commands"
    assert {each.id: each.status for each in await client.list_jobs()} == {"a": "done", "b": "done"}
    assert await client.job_patch("a") == ""


async def test_prompts_of_a_session_run_in_order(fleet: Fleet, server: FrontEnd) -> None:
    fleet.start_worker()
    client = client_of(server)
    first = await client.prompt_session("chat", '["echo one >> out"]', workdir=str(fleet.workdir), model=MODEL, id="p-1")
    again = await client.prompt_session("chat", '["echo one >> out"]', workdir=str(fleet.workdir), model=MODEL, id="p-1")
    second = await client.prompt_session("chat", '["echo two >> out"]')
    assert first.id == again.id and first.labels == {"prompt": "p-1"}
    assert (await client.wait_for_job(second.id)).status == "done"
    assert [each.id for each in await client.session_jobs("chat")] == [first.id, second.id]
    assert (fleet.workdir / "out").read_text() == "one\ntwo\n"
    assert json.loads((await client.session_transcript("chat")).splitlines()[0])["type"] == "session"


async def test_jobs_are_cancelled_and_retried(fleet: Fleet, server: FrontEnd) -> None:
    client = client_of(server)
    await client.submit_jobs(job(fleet, "a"))
    assert (await client.cancel_job("a")).status == "cancelled"
    assert (await client.retry_job("a")).status == "queued"
    with pytest.raises(CommandRefused, match="There is no job 'x'"):
        await client.get_job("x")
    with pytest.raises(CommandRefused, match="There is no job 'x'"):
        await anext(client.follow_job("x"))


async def test_events_of_a_job_continue_at_another_server_after_the_last_number(fleet: Fleet, server: FrontEnd) -> None:
    fleet.start_worker()
    held = "touch begun; while [ ! -e go ]; do sleep 0.05; done"
    await client_of(server).submit_jobs(job(fleet, "a", held, "echo two >> out"))
    seen: list[JobEvent] = []
    async with aclosing(client_of(server).follow_job("a")) as events:
        async for event in events:
            seen.append(event)
            if event.type == "tool_running":
                break
    server.process.terminate()
    assert await asyncio.to_thread(server.process.wait, 20) == 143
    (fleet.workdir / "go").touch()
    with FrontEnd(fleet) as other:
        async for event in client_of(other).follow_job("a", after=seen[-1].number):
            seen.append(event)
    assert [event.number for event in seen] == list(range(1, len(seen) + 1)) and seen[-1].type == "done"
