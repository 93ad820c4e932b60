"""A request that has to wait for its key: the host gets to know that, and an abort ends the wait."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from weakref import WeakValueDictionary

import pytest
from tests.models.test_limiter import PATIENCE, Clock, answer
from tests.support.surroundings import surroundings

from fairlead import Agent, RateLimit, RateLimits
from fairlead.core import events as e
from fairlead.core.runtime import CancelToken
from fairlead.errors import ProviderError, RunAborted
from fairlead.models import limiter as limiters
from fairlead.models.http.http_client import RequestAborted
from fairlead.models.limiter import KeyLimiter
from fairlead.testing import ProviderServer
from fairlead.testing.formats import last_user_text


class Notes:
    """A listener that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[float | str] = []

    def waits(self, seconds: float, reason: str) -> None:
        self.told += [seconds, reason.split(maxsplit=2)[1]]

    def proceeds(self) -> None:
        self.told.append("proceeds")


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_pauses_are_announced_with_their_length_and_their_end() -> None:
    limiter = KeyLimiter(clock=(clock := Clock()))
    refused = [await limiter.enter(0, 0, CancelToken()) for _ in range(2)]
    limiter.leave(refused[0], answer(status=429, retry_after=30))
    waiting, aborted, cancel = Notes(), Notes(), CancelToken()
    task = asyncio.create_task(limiter.enter(0, 0, CancelToken(), waiting))
    hopeless = asyncio.create_task(limiter.enter(0, 0, cancel, aborted))
    await turns()
    assert waiting.told == aborted.told == [30.0, "provider"], "although another request runs, which may take any time"
    limiter.leave(refused[1], answer(status=429, retry_after=100))
    cancel.fire()
    with pytest.raises(RequestAborted):
        await hopeless
    assert waiting.told[2:] == [100.0, "provider"] and aborted.told[-1] == "proceeds"
    clock.now += 100
    last = asyncio.create_task(limiter.enter(0, 0, CancelToken(), quick := Notes()))
    limiter.leave(await task, answer())
    await last
    assert waiting.told[-1] == "proceeds" and quick.told == []


async def test_long_waits_are_announced_and_short_ones_are_not() -> None:
    limiter = KeyLimiter(RateLimit(requests_per_minute=1), clock=(clock := Clock()))
    await limiter.enter(0, 0, CancelToken())
    clock.now += 20
    long = asyncio.create_task(limiter.enter(0, 0, CancelToken(), listener := Notes()))
    await turns()
    assert listener.told == [40.0, "limits"]
    long.cancel()
    clock.now += 39.5
    short = asyncio.create_task(limiter.enter(0, 0, CancelToken(), brief := Notes()))
    await turns()
    short.cancel()
    await turns()
    assert brief.told == []


@pytest.mark.parametrize("command", ["abort", "abort the retry"])
async def test_after_a_refusal_the_next_prompt_says_that_it_waits_and_can_be_aborted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(limiters, "_limiters", WeakValueDictionary[object, KeyLimiter]())
    refusal = {"status": 429, "error": "slow down", "headers": {"retry-after": "200"}}
    with ProviderServer([refusal, {"text": "hello"}]) as provider:
        around = surroundings(tmp_path, provider.url)
        async with Agent(model="fake/fake-1", cwd=around.cwd, env=around.env, keep=False) as agent:
            with pytest.raises(ProviderError, match="slow down"):
                await agent.ask("hi")
            heard: list[e.Event] = []
            waiting = asyncio.Event()

            def note(event: e.Event) -> None:
                heard.append(event)
                if isinstance(event, e.RetryStart):
                    waiting.set()

            agent.session.subscribe(note)
            prompt = asyncio.create_task(agent.ask("hi again"))
            async with asyncio.timeout(PATIENCE):
                await waiting.wait()
                agent.session.activity.cancel() if command == "abort" else agent.session.activity.cancel_retry()
                with pytest.raises(RunAborted):
                    await prompt
    (start,) = [event for event in heard if isinstance(event, e.RetryStart)]
    (end,) = [event for event in heard if isinstance(event, e.RetryEnd)]
    assert 190_000 < start.delay_ms <= 200_000 and "asked to wait" in start.error
    assert end == e.RetryEnd(False, 1, "Retry cancelled")
    assert len(provider.requests) == 1


async def test_a_prompt_that_has_waited_for_its_key_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limiters, "_limiters", WeakValueDictionary[object, KeyLimiter]())
    monkeypatch.setattr(limiters, "_LONG_WAIT", 0.01)
    refusal = {"status": 429, "error": "slow down", "headers": {"retry-after": "0.2"}}
    with ProviderServer([refusal, {"text": "hello"}]) as provider:
        around = surroundings(tmp_path, provider.url, settings={"retry": {"enabled": False}})
        async with Agent(model="fake/fake-1", cwd=around.cwd, env=around.env, keep=False) as agent, asyncio.timeout(PATIENCE):
            with pytest.raises(ProviderError, match="slow down"):
                await agent.ask("hi")
            heard: list[e.Event] = []
            agent.session.subscribe(heard.append)
            assert (await agent.ask("hi again")).text == "hello"
    retries = [type(event).__name__ for event in heard if isinstance(event, e.RetryStart | e.RetryEnd)]
    assert retries == ["RetryStart", "RetryEnd"] and e.RetryEnd(True, 1) in heard


async def test_requests_of_an_agent_with_a_higher_priority_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = WeakValueDictionary[tuple[str, str | None], KeyLimiter]()
    monkeypatch.setattr(limiters, "_limiters", made)
    one = {"*": RateLimit(concurrency=1)}

    async def until_waiting(number: int) -> None:
        while sum(limiter.waiting for limiter in made.values()) < number:  # noqa: ASYNC110 (nothing tells of short waits)
            await asyncio.sleep(0.01)

    async with (
        ProviderServer([{"text": "first", "chunk": 1, "holdAfter": 1}, {"text": "later"}]) as provider,
        asyncio.timeout(PATIENCE),
        AsyncExitStack() as stack,
    ):
        around = surroundings(tmp_path, provider.url)

        async def ask(prompt: str, priority: int) -> None:
            limits = RateLimits(limits=one, priority=priority)
            agent = Agent(model="fake/fake-1", cwd=around.cwd, env=around.env, keep=False, rate_limits=limits)
            await (await stack.enter_async_context(agent)).ask(prompt)

        tasks = [asyncio.create_task(ask("holds the key", 0))]
        await provider.until(lambda server: len(server.requests) == 1)
        for number, (prompt, priority) in enumerate((("low", 0), ("high", 5)), 1):
            tasks.append(asyncio.create_task(ask(prompt, priority)))
            await until_waiting(number)
        provider.release()
        await asyncio.gather(*tasks)
        assert [last_user_text(request.body) for request in provider.requests] == ["holds the key", "high", "low"]
