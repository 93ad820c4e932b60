"""`Jobs` used in ways that cannot work: each is an error that says what to do, or harmless."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeVar

import pytest
from tests.support.fleet import Fleet

from fairlead.errors import ConfigError, JobError
from fairlead.jobs import Job, Jobs

T = TypeVar("T")


async def collected(items: AsyncGenerator[T]) -> list[T]:
    return [item async for item in items]


CALLS: list[Callable[[Jobs], Awaitable[Any]]] = [
    lambda jobs: jobs.submit(Job(id="b", prompt="p", workdir="/w")),
    lambda jobs: jobs.prompt("chat", "p", workdir="/w"),
    lambda jobs: jobs.list(),
    lambda jobs: jobs.get("a"),
    lambda jobs: jobs.patch("a"),
    lambda jobs: jobs.transcript("a"),
    lambda jobs: jobs.cancel("a"),
    lambda jobs: jobs.retry("a"),
    lambda jobs: jobs.limit("team-a", rate=1),
    lambda jobs: collected(jobs.events("a")),
    lambda jobs: collected(jobs.results(["a"])),
    lambda jobs: jobs.open(),
    lambda jobs: jobs.__aenter__(),
]


async def test_jobs_that_were_closed_say_so(fleet: Fleet) -> None:
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a"))
    await jobs.close()
    for call in CALLS:
        with pytest.raises(JobError, match=r"jobs\.db was closed\. Make another Jobs to go on\.$"):
            await call(jobs)


async def test_closing_ends_readers_that_wait(fleet: Fleet) -> None:
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a"))
        events, results = collected(jobs.events("a")), collected(jobs.results(["a"]))
        readers: list[asyncio.Task[Any]] = [asyncio.create_task(events), asyncio.create_task(results)]
        await asyncio.sleep(0.3)
    for reader in readers:
        with pytest.raises(JobError, match="was closed"):
            await asyncio.wait_for(reader, 10)


async def test_events_after_the_end_of_a_job_are_none(fleet: Fleet) -> None:
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a"))
        following = asyncio.create_task(collected(jobs.events("a", after=99)))  # while it is queued
        await asyncio.sleep(0.2)
        assert not following.done()
        await jobs.cancel("a")
        assert await asyncio.wait_for(following, 10) == []
        assert [event.number for event in await collected(jobs.events("a"))] == [1, 2]
        assert [event.type for event in await collected(jobs.events("a", after=1))] == ["cancelled"]
        for after in (2, 3, 99):
            assert await asyncio.wait_for(collected(jobs.events("a", after=after)), 10) == []


@pytest.mark.parametrize(
    ("key", "limits", "problem"),
    [
        ("a b", {"rate": 1}, "key: expected"),
        ("a", {"concurrency": 0}, "concurrency: expected a number over 0, got 0"),
        ("a", {"rate": -1}, "rate: expected"),
        ("a", {"rate": 1, "period": 0}, "period: expected"),
        ("a", {"concurrency": "3"}, "concurrency: expected"),
    ],
)
async def test_a_limit_that_nothing_can_keep_is_refused(fleet: Fleet, key: str, limits: dict[str, Any], problem: str) -> None:
    async with Jobs(fleet.url) as jobs:
        with pytest.raises(JobError, match=problem):
            await jobs.limit(key, **limits)


@pytest.mark.parametrize("session", ["s s", "s" * 112, ""])
async def test_a_session_that_cannot_have_prompts_is_reported(fleet: Fleet, session: str) -> None:
    async with Jobs(fleet.url) as jobs:
        with pytest.raises(JobError, match=r"^session: expected at most 111 letters"):
            await jobs.prompt(session, "Hello.", workdir="/w")
        assert (await jobs.prompt("s" * 111, "Hello.", id="once", workdir="/w")).status == "queued"


@pytest.mark.parametrize("url", ["sqlite:///:memory:", "sqlite:///:memory:?cache=shared"])
def test_a_database_in_memory_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"workers are other processes.*Give sqlite:///FILE"):
        Jobs(url)
