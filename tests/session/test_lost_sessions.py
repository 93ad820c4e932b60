"""A session that loses its file to another owner stops at once: no tool runs after that."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from tests.session.scene import Listener, a_kept_session, a_tool, file_of, full_disk, held, settled, talk

from fairlead import Agent, Storage
from fairlead.core import events as e
from fairlead.core.messages import ToolCall
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import SessionLost
from fairlead.platform.open_files import try_lock
from fairlead.session.behaviour import Behaviour
from fairlead.session.session import Session
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

DONE = Turn(text="done")
TWO_CALLS = Turn(tool_calls=[ToolCall("c1", "work", {}), ToolCall("c2", "work", {})])


class Work:
    """A tool whose first call loses the session's file."""

    def __init__(self, lose: Any) -> None:
        self.calls: list[str] = []
        self.tool: Tool = a_tool("work", self._run)
        self._lose = lose

    async def _run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        self.calls.append(context.call_id)
        if len(self.calls) == 1:
            self._lose()
        return ToolResult.text("worked")


def lose(path: Path, how: str) -> list[int]:
    """Take a session's file away. Returns handles that have to stay open."""
    if how == "deleted":
        path.unlink()
        return []
    path.rename(path.with_suffix(".moved"))
    if how == "replaced by a folder":
        path.mkdir()
        return []
    path.write_text('{"type":"session","version":3,"id":"other","timestamp":"","cwd":"/"}\n')
    handle = os.open(path, os.O_RDWR)
    assert try_lock(handle)
    return [handle]


@pytest.mark.parametrize("schedule", ["sequential", "together"])
@pytest.mark.parametrize("how", ["deleted", "replaced by a folder", "taken by another process"])
async def test_no_tool_runs_after_the_file_is_lost(tmp_path: Path, how: str, schedule: Any) -> None:
    handles: list[int] = []
    work = Work(lambda: handles.extend(lose(file_of(session), how)))
    script = Scripted([TWO_CALLS, DONE])
    session = a_kept_session(script, tmp_path, tools=[work.tool], behaviour=Behaviour(schedule=schedule), concurrent_tools=1)
    heard = Listener(session)
    await talk(session, "Go.")
    assert work.calls == ["c1"]
    assert len(script.requests) == 1, "the model is not asked again"
    assert isinstance(session.activity.lost, SessionLost)
    assert heard.of(e.AgentSettled)[0].aborted
    told = [error.error for error in heard.of(e.ExtensionError)]
    assert len(told) == 1 and told[0].endswith("The run was aborted.")
    with pytest.raises(SessionLost):
        await session.prompt("Again.")
    for handle in handles:
        os.close(handle)


async def test_a_lost_file_is_noticed_before_a_tool_runs(tmp_path: Path) -> None:
    work, (turn, go) = Work(lambda: None), held("")
    script = Scripted([Turn(pause=turn.pause, tool_calls=[ToolCall("c1", "work", {})]), DONE])
    session = a_kept_session(script, tmp_path, tools=[work.tool])
    await session.prompt("Go.")
    file_of(session).unlink()
    go.set()
    await settled(session)
    assert (work.calls, len(script.requests)) == ([], 1)


async def test_a_message_that_cannot_be_queued_any_more_ends_the_run(tmp_path: Path) -> None:
    turn, _ = held()
    session = a_kept_session(Scripted([turn]), tmp_path)
    await session.prompt("Go.")
    file_of(session).unlink()
    with pytest.raises(SessionLost):
        await session.steer("Left.")
    await settled(session)
    assert session.activity.lost is not None


async def test_a_clone_of_a_lost_session_continues_with_everything(tmp_path: Path) -> None:
    work = Work(lambda: lose(file_of(session), "deleted"))
    session = a_kept_session(Scripted([TWO_CALLS, DONE]), tmp_path, tools=[work.tool], behaviour=Behaviour(schedule="sequential"))
    await talk(session, "Go.")
    await session.history.clone()
    await talk(session, "Again.")
    assert session.activity.lost is None
    assert session.messages[-1].role == "assistant"
    assert "Go." in file_of(session).read_text()


async def test_a_full_disk_does_not_stop_a_run(tmp_path: Path) -> None:
    work = Work(lambda: None)
    session = a_kept_session(Scripted([TWO_CALLS, DONE]), tmp_path, tools=[work.tool], behaviour=Behaviour(schedule="sequential"))
    await session.prompt("Go.")
    with full_disk(session):
        await settled(session)
    assert work.calls == ["c1", "c2"]
    assert session.activity.lost is None


async def test_asking_an_agent_says_that_its_session_was_lost(tmp_path: Path) -> None:
    def agent_session() -> Session:
        return agent.session

    work = Work(lambda: lose(file_of(agent_session()), "deleted"))
    script = Scripted([TWO_CALLS, DONE])
    agent = Agent(
        model=SCRIPTED_MODEL,
        stream=script,
        cwd=tmp_path,
        isolated=True,
        store=Storage(tmp_path / "sessions"),
        tools=[work.tool],
    )
    with pytest.raises(SessionLost) as caught:
        async with asyncio.timeout(20):
            await agent.ask("Go.")
    assert caught.value.result.session_id == agent.session.history.id
    assert work.calls == ["c1"] or work.calls == ["c1", "c2"], "calls that run together have started together"
    await agent.close()
