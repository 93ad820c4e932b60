"""Another attempt at a model call that failed in a way that may pass."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fairlead import Agent
from fairlead.core import events as e
from fairlead.errors import ProviderError, RunAborted
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

OVERLOADED = Turn(error="529 Overloaded", status=529, transient=True)


def an_agent(turns: list[Turn], home: Path, **retry: Any) -> Agent:
    import json

    (home / "settings.json").write_text(json.dumps({"retry": {"baseDelayMs": 0, **retry}}))
    return Agent(model=SCRIPTED_MODEL, stream=Scripted(turns), cwd=home, env={"FAIRLEAD_HOME": str(home)})


def heard(agent: Agent) -> list[str]:
    """The events of attempts and runs, as they come."""
    kinds: list[str] = []

    def note(event: e.Event) -> None:
        match event:
            case e.RetryStart():
                kinds.append(f"retry {event.attempt} of {event.max_attempts}: {event.error}")
            case e.RetryEnd():
                kinds.append(f"{'worked' if event.success else 'gave up'} at {event.attempt}: {event.error}")
            case e.AgentEnd():
                kinds.append(f"end of {len(event.messages)}{', to be tried again' if event.will_retry else ''}")
            case e.ExtensionError():
                kinds.append(f"error of {event.extension_path}, {event.event}: {event.error}")
            case e.AgentStart() | e.AgentSettled() | e.TurnEnd():
                kinds.append(type(event).__name__)
            case _:
                pass

    agent.session.subscribe(note)
    return kinds


async def test_a_failure_that_passes_is_not_the_end(tmp_path: Path) -> None:
    async with an_agent([OVERLOADED, Turn(text="fine")], tmp_path) as agent, asyncio.timeout(20):
        kinds = heard(agent)
        assert (await agent.ask("go")).text == "fine"
        assert kinds == [
            *("AgentStart", "TurnEnd", "end of 2, to be tried again", "retry 1 of 3: 529 Overloaded"),
            *("AgentStart", "worked at 1: None", "TurnEnd", "end of 1", "AgentSettled"),
        ]


async def test_attempts_are_counted_and_come_to_an_end(tmp_path: Path) -> None:
    async with an_agent([OVERLOADED], tmp_path, maxRetries=2) as agent, asyncio.timeout(20):
        kinds = heard(agent)
        with pytest.raises(ProviderError, match="Overloaded"):
            await agent.ask("go")
        assert [kind for kind in kinds if kind.startswith(("retry", "gave up"))] == [
            *("retry 1 of 2: 529 Overloaded", "retry 2 of 2: 529 Overloaded", "gave up at 2: 529 Overloaded")
        ]
        assert kinds[-3:] == ["end of 1", "gave up at 2: 529 Overloaded", "AgentSettled"]


async def test_a_good_answer_gives_the_next_turn_all_attempts_again(tmp_path: Path) -> None:
    turns = [OVERLOADED, Turn(text="one"), OVERLOADED, Turn(text="two")]
    async with an_agent(turns, tmp_path, maxRetries=1) as agent, asyncio.timeout(20):
        await agent.session.follow_up("more")
        assert (await agent.ask("go")).text == "two"


@pytest.mark.parametrize("turn", [Turn(error="401 no key", status=401), Turn(error="400 bad", status=400)])
async def test_a_failure_that_does_not_pass_is_the_end(tmp_path: Path, turn: Turn) -> None:
    async with an_agent([turn], tmp_path) as agent, asyncio.timeout(20):
        kinds = heard(agent)
        with pytest.raises(ProviderError):
            await agent.ask("go")
        assert kinds == ["AgentStart", "TurnEnd", "end of 2", "AgentSettled"]


async def test_nothing_is_tried_again_when_that_is_switched_off(tmp_path: Path) -> None:
    async with an_agent([OVERLOADED], tmp_path, enabled=False) as agent, asyncio.timeout(20):
        kinds = heard(agent)
        with pytest.raises(ProviderError):
            await agent.ask("go")
        assert kinds == ["AgentStart", "TurnEnd", "end of 2", "AgentSettled"]


async def test_a_wait_that_is_too_long_is_not_waited_for_and_the_host_learns_why(tmp_path: Path) -> None:
    turn = Turn(error="429 slow down", status=429, transient=True, retry_after=3600)
    async with an_agent([turn], tmp_path) as agent, asyncio.timeout(20):
        kinds = heard(agent)
        with pytest.raises(ProviderError):
            await agent.ask("go")
        assert "AgentSettled" in kinds and not [kind for kind in kinds if kind.startswith("retry")]
        (why,) = (kind for kind in kinds if kind.startswith("error of session, retry"))
        assert "3600 s" in why and "retry.maxAgentDelayMs" in why


@pytest.mark.parametrize("how", ["call_off", "abort"])
async def test_a_wait_can_be_called_off(tmp_path: Path, how: str) -> None:
    async with an_agent([OVERLOADED], tmp_path, baseDelayMs=60_000) as agent, asyncio.timeout(20):
        kinds = heard(agent)
        waiting = asyncio.Event()
        agent.session.subscribe(lambda event: waiting.set() if isinstance(event, e.RetryStart) else None)
        asking = asyncio.create_task(agent.ask("go"))
        await waiting.wait()
        assert agent.session.activity.is_streaming
        if how == "abort":
            await agent.session.abort()
        else:
            agent.session.activity.cancel_retry()
        with pytest.raises(ProviderError):
            await asking
        assert kinds[-2:] == ["gave up at 1: Retry cancelled", "AgentSettled"]


async def test_an_abort_during_an_attempt_ends_the_attempts(tmp_path: Path) -> None:
    held = Turn(text="x", pause=lambda: asyncio.Event().wait())
    async with an_agent([OVERLOADED, held], tmp_path) as agent, asyncio.timeout(20):
        kinds = heard(agent)
        again = asyncio.Event()
        starts = iter([lambda: None, again.set])
        agent.session.subscribe(lambda event: next(starts)() if isinstance(event, e.AgentStart) else None)
        asking = asyncio.create_task(agent.ask("go"))
        await again.wait()
        await agent.session.abort()
        with pytest.raises(RunAborted):
            await asking
        assert kinds[-2:] == ["gave up at 1: Retry cancelled", "AgentSettled"]
