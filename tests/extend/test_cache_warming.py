"""Keeping the prompt cache of a provider warm, and extensions that decide about it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.extend.extended import notes, script
from tests.models.asking import a_model, a_request, serving

from fairlead import Agent
from fairlead.core.messages import PromptCache
from fairlead.session.run.warming import cache_lifetime, decision, delay
from fairlead.testing import ProviderServer

#: Seconds of a lifetime after which the cache is renewed at once: ten seconds before its end.
SOON = 10.05
USAGE = {"input": 2, "output": 3, "cacheRead": 100_000}
#: Dollars per million tokens: renewing costs one cent, losing it one dollar.
DEAR = {"input": 1, "output": 0, "cacheRead": 0.1, "cacheWrite": 10}


@asynccontextmanager
async def warmed(
    root: Path,
    body: str | Path | None,
    *turns: dict[str, Any],
    mode: str = "streaming",
    cost: dict[str, float] = DEAR,
) -> AsyncGenerator[tuple[Agent, ProviderServer]]:
    """An agent whose model has a cache that is soon renewed."""
    async with serving(*turns) as server:
        home = root / "home"
        home.mkdir()
        described = {"id": "m", "reasoning": False, "cost": cost, "promptCache": {"short": SOON}}
        provider = {"baseUrl": server.url, "api": "anthropic-messages", "apiKey": "sk", "models": [described]}
        (home / "models.json").write_text(json.dumps({"providers": {"fake": provider}}))
        (home / "settings.json").write_text(json.dumps({"cacheWarming": mode}))
        if isinstance(body, str):
            (root / "one.ts").write_text(script(root, body))
            body = root / "one.ts"
        env = {**os.environ, "FAIRLEAD_HOME": str(home), "HOME": str(root)}
        extensions = [] if body is None else [body]
        async with Agent(model="fake/m", cwd=root, env=env, extensions=extensions) as agent, asyncio.timeout(30):
            yield agent, server


def waiting(seconds: float = 0.4) -> dict[str, Any]:
    return {"toolCalls": [{"name": "bash", "arguments": {"command": f"sleep {seconds}"}}], "usage": USAGE}


def refreshes(agent: Agent) -> list[dict[str, Any]]:
    log = agent.session.history.log
    return [entry for entry in log.plain(log.entries()) if entry.get("kind") == "cache_warm"]


async def test_the_cache_is_renewed_while_a_tool_runs(tmp_path: Path) -> None:
    again = {"text": "x", "usage": USAGE}
    async with warmed(tmp_path, None, waiting(), *[again] * 20) as (agent, server):
        await agent.ask("hi")
        renewed = refreshes(agent)
        assert renewed and renewed[0]["provider"] == "fake" and renewed[0]["usage"]["cacheRead"] == 100_000
        first, second = server.requests[0].body, server.requests[1].body
        assert (second["max_tokens"], second["messages"], second["tools"]) == (1, first["messages"], first["tools"])
        count = len(server.requests)
        assert count == len(renewed) + 2
        await asyncio.sleep(0.3)  # nothing is renewed after the run
        assert len(server.requests) == count
        assert agent.session.messages[-1].role == "assistant" and len(agent.session.messages) == 4


async def test_the_cache_is_renewed_after_a_run_if_the_user_wants_that(tmp_path: Path) -> None:
    async with warmed(tmp_path, None, {"text": "ok", "usage": USAGE}, mode="idle") as (agent, server):
        await agent.ask("hi")
        while not refreshes(agent):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert server.requests[1].body["max_tokens"] == 1


@pytest.mark.parametrize(("mode", "cost"), [("off", DEAR), ("streaming", {**DEAR, "cacheWrite": 0.2})])
async def test_a_cache_is_left_alone_if_that_is_not_wanted_or_not_worth_it(
    tmp_path: Path, mode: str, cost: dict[str, float]
) -> None:
    async with warmed(tmp_path, None, waiting(), {"text": "ok"}, mode=mode, cost=cost) as (agent, server):
        await agent.ask("hi")
        assert len(server.requests) == 2 and refreshes(agent) == []


HANDLERS = """
  pi.on("cache_warming_decision", () => ({{ action: "{first}" }}));
  pi.on("cache_warming_decision", (event, ctx) => {{
    note([event.type, event.warmCost, event.missCost, event.continuationProbability, event.action, ctx.isIdle()]);
    {then}
  }});
"""


async def test_an_extension_keeps_a_cache_from_being_renewed(tmp_path: Path) -> None:
    body = HANDLERS.format(first="warm", then='return { action: "stop" };')
    async with warmed(tmp_path, body, waiting(), {"text": "ok"}) as (agent, server):
        await agent.ask("hi")
        assert len(server.requests) == 2 and refreshes(agent) == []
    ((name, warm, miss, probability, action, is_idle),) = notes(tmp_path)
    assert (name, probability, action, is_idle) == ("cache_warming_decision", 1, "warm", False)
    assert (round(warm, 4), round(miss, 4)) == (0.01, 0.99)


@pytest.mark.parametrize("then", ["", 'throw new Error("boom");', 'return { action: "nonsense" };'])
async def test_an_extension_has_a_cache_renewed_and_others_may_fail(tmp_path: Path, then: str) -> None:
    body = HANDLERS.format(first="warm", then=then)
    cheap = {**DEAR, "cacheWrite": 0.2}
    async with warmed(tmp_path, body, waiting(), *[{"text": "x", "usage": USAGE}] * 20, cost=cheap) as (agent, _):
        await agent.ask("hi")
        assert refreshes(agent)[0]["note"] == "extension override"
    assert notes(tmp_path)[0][4] == "stop"


def test_a_repetition_must_be_the_same_request() -> None:
    cache = PromptCache(short=300)
    request = a_request(thinking="high")
    assert cache_lifetime(a_model("anthropic-messages", prompt_cache=cache), a_request()) == 300
    assert cache_lifetime(a_model("anthropic-messages"), a_request()) is None
    assert cache_lifetime(a_model("anthropic-messages", prompt_cache=cache), request) is None
    adaptive = a_model("anthropic-messages", prompt_cache=cache, compat={"forceAdaptiveThinking": True})
    assert cache_lifetime(adaptive, request) == 300
    assert cache_lifetime(a_model("openai-responses", prompt_cache=cache), request) == 300


def test_a_cache_is_renewed_shortly_before_it_expires_and_only_if_that_saves_money() -> None:
    assert (delay(300), delay(50), delay(10)) == (270, 40, None)
    model = a_model("anthropic-messages")
    assert decision(model, 100_000, is_idle=False).action == "warm"
    assert decision(model, 100_000, is_idle=True).action == "stop"
    assert decision(model, 0, is_idle=False).action == "stop"


async def test_the_example_stops_when_its_budget_is_spent(tmp_path: Path) -> None:
    example = Path(__file__).parents[2].joinpath("examples", "extensions", "warm_cache_limit").with_suffix(".py")
    six_cents = {**DEAR, "cacheRead": 0.6}
    again = {"text": "x", "usage": USAGE}
    async with warmed(tmp_path, example, waiting(), *[again] * 20, cost=six_cents) as (agent, _):
        await agent.ask("hi")
        assert len(refreshes(agent)) == 1
