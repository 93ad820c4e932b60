"""Closed agents give their memory back, also in a process in which nothing else happens."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.sessions import write_session

from fairlead import Agent
from fairlead.platform import process
from fairlead.session.history.log import Log
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def opened(path: Path) -> Agent:
    return Agent(
        model="anthropic/claude-sonnet-4-5",
        cwd=path.parent,
        isolated=True,
        env={"ANTHROPIC_API_KEY": "no-secret"},
        session=path,
    )


async def closed(path: Path) -> weakref.ref[Log]:
    """Open a session with 50 entries, close it, and return its log."""
    write_session(path, 50)
    agent = opened(path)
    log = weakref.ref(agent.session.history.log)
    assert len(agent.session.messages) == 48
    await agent.close()
    return log


async def asked(path: Path, answer: str) -> weakref.ref[Log]:
    """Ask once in a new session, close it, and return its log."""
    agent = Agent(
        model=SCRIPTED_MODEL, stream=Scripted([Turn(text=answer)]), cwd=path.parent, isolated=True, env={}, session=path
    )
    await agent.ask("go")
    log = weakref.ref(agent.session.history.log)
    await agent.close()
    return log


async def test_many_closed_entries_are_freed_a_moment_later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process, "ENOUGH", 600_000)
    monkeypatch.setattr(process, "PATIENCE", 0)
    monkeypatch.setattr(process, "_closed", 0)
    first = await closed(tmp_path / "first.jsonl")
    await asyncio.sleep(0)
    assert first() is not None, "one small session is not worth a collection"
    second = await closed(tmp_path / "second.jsonl")
    given_back = asyncio.Event()
    asyncio.get_running_loop().call_later(0, given_back.set)  # after the timer of the second session
    await given_back.wait()
    assert first() is None and second() is None


@pytest.mark.parametrize(("sessions", "words"), [(200, 1), (1, 3_000_000)], ids=["many", "long"])
async def test_sessions_with_few_entries_are_freed_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sessions: int, words: int
) -> None:
    monkeypatch.setattr(process, "PATIENCE", 0)
    monkeypatch.setattr(process, "_closed", 0)
    text = " ".join(map(str, range(words)))  # an answer that repeats itself would be stopped
    logs = [await asked(tmp_path / f"{number}.jsonl", text) for number in range(sessions)]
    given_back = asyncio.Event()
    asyncio.get_running_loop().call_later(0, given_back.set)
    await given_back.wait()
    assert logs[0]() is None


async def test_the_messages_of_a_closed_agent_can_still_be_read(tmp_path: Path) -> None:
    write_session(tmp_path / "long.jsonl", 50)
    agent = opened(tmp_path / "long.jsonl")
    before = list(agent.session.messages)
    await agent.close()
    assert agent.session.messages == before


#: Prints how many blocks of memory are still allocated after fifty sessions were opened and closed.
FIFTY = """
import asyncio, gc, sys
from pathlib import Path
from tests.agent.test_memory_of_closed_agents import closed

async def main(folder):
    for number in range(5):
        await closed(folder / f"{number}.jsonl")
    gc.collect()
    before = sys.getallocatedblocks()
    for number in range(50):
        await closed(folder / f"{number % 5}.jsonl")
    gc.collect()
    print(sys.getallocatedblocks() - before)

asyncio.run(main(Path(sys.argv[1])))
"""


def test_an_opened_session_leaves_nothing_allocated(tmp_path: Path) -> None:
    """A few objects per session would be enough to keep all memory of the time from being given back."""
    command = [sys.executable, "-c", FIFTY, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 40
