"""The limiter of a key: what waits, in which order, and what a refusal changes."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest
from tests.support.surroundings import surroundings

from fairlead import Agent, RateLimit
from fairlead.core.messages import AssistantMessage, Usage
from fairlead.core.model import StreamEnd
from fairlead.core.runtime import CancelToken
from fairlead.models.http.http_client import RequestAborted
from fairlead.models.limiter import MOST_KEPT, KeyLimiter, Ticket, limiter_for
from fairlead.testing import SCRIPTED_MODEL, ProviderServer

PATIENCE = 20


class Clock:
    """A time that tests set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def answer(*, tokens: int = 0, status: int | None = None, retry_after: float | None = None) -> StreamEnd:
    model, usage = SCRIPTED_MODEL, Usage(total_tokens=tokens)
    message = AssistantMessage([], model.api, model.provider, model.id, usage, "error" if status else "stop", 0)
    return StreamEnd(message, status=status, retry_after=retry_after)


class Requests:
    """Requests to a limiter, each in a task of its own."""

    def __init__(self, limiter: KeyLimiter) -> None:
        self.limiter = limiter
        self.let_through: list[str] = []
        self.tickets: dict[str, Ticket] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, *names: str, priority: int = 0, size: int = 0, cancel: CancelToken | None = None) -> None:
        for name in names:
            self.tasks[name] = asyncio.create_task(self._ask(name, priority, size, cancel or CancelToken()))
        await self.turns()

    async def _ask(self, name: str, priority: int, size: int, cancel: CancelToken) -> None:
        self.tickets[name] = await self.limiter.enter(size, priority, cancel)
        self.let_through.append(name)

    async def end(self, name: str, end: StreamEnd | None) -> None:
        self.limiter.leave(self.tickets[name], end)
        await self.turns()

    async def turns(self) -> None:
        """Let all tasks do what they can do without waiting."""
        for _ in range(10):
            await asyncio.sleep(0)


async def test_without_limits_nothing_waits() -> None:
    requests = Requests(KeyLimiter())
    await requests.ask(*"abcdef")
    assert (requests.limiter.running, requests.limiter.waiting, requests.limiter.allowed) == (6, 0, None)


async def test_only_so_many_requests_run_at_the_same_time_in_order_of_priority_and_arrival() -> None:
    requests = Requests(KeyLimiter(RateLimit(concurrency=2)))
    await requests.ask("a", "b", "c", "d")
    await requests.ask("urgent", priority=5)
    assert requests.let_through == ["a", "b"]
    for name in ("a", "b", "urgent", "c"):
        await requests.end(name, answer())
    assert requests.let_through == ["a", "b", "urgent", "c", "d"]
    await requests.end("d", None)
    assert (requests.limiter.running, requests.limiter.waiting) == (0, 0)


async def test_an_abort_ends_the_wait_and_the_next_request_has_its_turn() -> None:
    requests = Requests(KeyLimiter(RateLimit(concurrency=1)))
    cancel = CancelToken()
    await requests.ask("a")
    await requests.ask("b", cancel=cancel)
    await requests.ask("c")
    cancel.fire()
    with pytest.raises(RequestAborted):
        await requests.tasks["b"]
    await requests.end("a", answer())
    assert requests.let_through == ["a", "c"]
    requests.tasks["d"] = asyncio.create_task(asyncio.sleep(0))
    await requests.ask("e")
    requests.tasks["e"].cancel()
    await requests.turns()
    await requests.end("c", answer())
    assert requests.limiter.running == 0


async def test_requests_a_minute_are_limited() -> None:
    clock = Clock()
    requests = Requests(KeyLimiter(RateLimit(requests_per_minute=2), minute=60, clock=clock))
    await requests.ask("a")
    clock.now += 10
    await requests.ask("b", "c")
    await requests.end("a", answer())
    assert requests.let_through == ["a", "b"]
    clock.now += 50
    await requests.end("b", answer())
    assert requests.let_through == ["a", "b", "c"]


async def test_a_request_that_waits_for_the_next_minute_is_let_through_by_itself() -> None:
    requests = Requests(KeyLimiter(RateLimit(requests_per_minute=1), minute=0.05))
    await requests.ask("a", "b")
    assert requests.let_through == ["a"]
    async with asyncio.timeout(PATIENCE):
        await requests.tasks["b"]


async def test_tokens_a_minute_are_limited_by_what_was_used() -> None:
    clock = Clock()
    requests = Requests(KeyLimiter(RateLimit(tokens_per_minute=1000), clock=clock))
    await requests.ask("a", size=4 * 100)
    await requests.end("a", answer(tokens=950))
    await requests.ask("b", size=4 * 100)
    assert requests.let_through == ["a"]
    clock.now += 60
    await requests.ask("c", size=4 * 5000)
    assert requests.let_through == ["a", "b"], "a request that is larger than the limit waits for an empty minute"
    clock.now += 60
    await requests.end("b", answer(tokens=100))
    assert requests.let_through == ["a", "b", "c"]


async def test_a_refusal_pauses_the_key_and_halves_what_runs_until_answers_are_good_again() -> None:
    clock = Clock()
    requests = Requests(KeyLimiter(clock=clock))
    limiter = requests.limiter
    await requests.ask(*"abcdefgh")
    await requests.end("a", answer(status=429, retry_after=30))
    assert limiter.allowed == 4
    await requests.end("b", answer(status=429, retry_after=10))
    assert limiter.allowed == 4, "it was sent before the first refusal, so it says nothing new"
    for name in "cdefgh":
        await requests.end(name, answer())
    await requests.ask(*"ijklm")
    assert requests.let_through[8:] == [], "the provider asked to wait"
    clock.now += 30
    await requests.ask("n")
    assert requests.let_through[8:] == ["i", "j", "k", "l"]
    clock.now += 1
    await requests.end("i", answer(status=529))
    assert limiter.allowed == 2
    clock.now += 2
    names = iter("jklmn")
    for name in names:
        await requests.end(name, answer())
    assert 3 <= (limiter.allowed or 0) <= 5
    for number in range(60):
        await requests.ask(f"{number}")
        await requests.end(f"{number}", answer())
    assert limiter.allowed is None, "the refusal is forgotten"


async def test_a_refusal_is_worth_a_warning_only_if_it_slows_others_down(caplog: pytest.LogCaptureFixture) -> None:
    alone = Requests(KeyLimiter())
    await alone.ask("a")
    await alone.end("a", answer(status=429, retry_after=0))
    assert not caplog.records
    several = Requests(KeyLimiter())
    await several.ask("a", "b", "c", "d")
    await several.end("a", answer(status=429, retry_after=0))
    assert [record.getMessage() for record in caplog.records] == [
        "the provider refused a request, so at most 2 of its key run at the same time for now"
    ]


async def test_the_lower_of_two_limits_holds() -> None:
    limiter = KeyLimiter(RateLimit(concurrency=8, requests_per_minute=5))
    limiter.restrict(RateLimit(concurrency=3, tokens_per_minute=100))
    assert limiter.limit == RateLimit(concurrency=3, requests_per_minute=5, tokens_per_minute=100)


def test_agents_on_several_threads_share_a_limiter() -> None:
    limiter, most, failures = KeyLimiter(RateLimit(concurrency=2)), [0], list[BaseException]()

    async def work() -> None:
        for _ in range(50):
            ticket = await limiter.enter(0, 0, CancelToken())
            most[0] = max(most[0], limiter.running)
            await asyncio.sleep(0)
            limiter.leave(ticket, answer())

    async def several() -> None:
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(work() for _ in range(4)))

    def run() -> None:
        try:
            asyncio.run(several())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (failures, most, limiter.running) == ([], [2], 0)


async def test_agents_with_the_same_key_share_their_limit(tmp_path: Path) -> None:
    with ProviderServer([{"text": "hello", "delayMs": 20}]) as provider:
        around = surroundings(tmp_path, provider.url)
        options: dict[str, Any] = {
            "model": "fake/fake-1",
            "cwd": around.cwd,
            "env": around.env,
            "keep": False,
            "rate_limits": {"fake": RateLimit(concurrency=1)},
        }
        agents = [Agent(**options) for _ in range(3)]
        limiter = limiter_for("fake", "sk-fake")
        most: list[int] = []
        for agent in agents:
            agent.session.subscribe(lambda event: most.append(limiter.running))
        async with asyncio.timeout(PATIENCE):
            results = await asyncio.gather(*(agent.ask("hi") for agent in agents))
        assert [result.text for result in results] == ["hello"] * 3
        assert max(most) == 1
        for agent in agents:
            await agent.close()
        limiter.limit = RateLimit()


def test_the_limiters_of_keys_that_are_no_longer_used_are_forgotten() -> None:
    used, unused = limiter_for("fake", "used"), weakref.ref(limiter_for("fake", "unused"))
    for number in range(MOST_KEPT):
        limiter_for("fake", f"key {number}")
    gc.collect()
    assert unused() is None
    assert limiter_for("fake", "used") is used


def test_a_key_keeps_its_limiter_from_one_agent_to_the_next() -> None:
    first = weakref.ref(limiter_for("fake", "kept"))
    limiter_for("fake", "another")
    gc.collect()
    assert limiter_for("fake", "kept") is first()
