"""How sub-agents end: by failure, by an abort of the run, and with their session."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.session.family import (
    DONE,
    ONE_AT_A_TIME,
    Cast,
    a_parent,
    bash,
    lives,
    result_of,
    statuses,
    subagents_of,
    task_call,
    told,
    two_calls,
)
from tests.session.scene import PATIENCE, Listener, held, talk
from tests.support.gates import wait_for_exit
from tests.support.session_file import read_strictly

from fairlead.config.settings import TaskSettings
from fairlead.core import events as e
from fairlead.core.runtime import CancelToken
from fairlead.session.subagents.subagents import Order
from fairlead.testing import Turn

# Failure


async def test_one_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    cast = Cast(start=[task_call("good", "bad"), DONE], good=[Turn(text="good answer")], bad=[Turn(error="no such deployment")])
    session = a_parent(cast, tmp_path)
    await talk(session, "start")
    assert statuses(session) == {"good": "completed", "bad": "failed"}
    assert not result_of(session).is_error
    assert "good answer" in told(session)
    assert "Error: no such deployment" in told(session)
    await session.close()


async def test_a_bug_in_building_a_sub_agent_is_reported_to_the_parent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cast = Cast(start=[task_call("look"), DONE], look=[DONE])
    session = a_parent(cast, tmp_path)
    subagents_of(session).family.spawner = lambda *_: 1 // 0  # type: ignore[assignment]
    await talk(session, "start")
    assert statuses(session) == {"look": "failed"}
    assert "Internal error: ZeroDivisionError" in told(session)
    await session.close()
    assert "ZeroDivisionError" in caplog.text


# The end


async def test_an_abort_ends_all_levels_before_the_parent_settles(tmp_path: Path) -> None:
    def lasting(name: str) -> Turn:
        return bash(f"echo $$ > {name}; echo begun; sleep 600")

    parts = {"inner": [lasting("inner")], "other": [lasting("other")]}
    cast = Cast(start=[task_call("outer", "other"), DONE], outer=[task_call("inner"), DONE], **parts)
    session = a_parent(cast, tmp_path, settings=TaskSettings(max_concurrency=3))
    heard = Listener(session)
    await session.prompt("start")
    await until_tools_run(heard, 2)
    async with asyncio.timeout(PATIENCE):
        await session.abort()
    assert statuses(session) == {"outer": "aborted", "other": "aborted", "outer.inner": "aborted"}
    assert lives(heard).index(("outer.inner", "aborted")) < lives(heard).index(("outer", "aborted"))
    settled_at = heard.kinds().index("AgentSettled")
    assert not any(kind.startswith("Subagent") for kind in heard.kinds()[settled_at:])
    assert result_of(session).is_error
    assert told(session).endswith("Operation aborted")
    await session.close()
    for name in ("inner", "other"):
        wait_for_exit(int((tmp_path / name).read_text()))


async def until_tools_run(heard: Listener, count: int) -> None:
    """Wait until commands of that many sub-agents have said something."""
    seen, speaking = 0, set[str]()
    while len(speaking) < count:
        seen += 1
        match await heard.until(e.SubagentEvent, seen):
            case e.SubagentEvent(id=id, event=e.ToolUpdate(tool_name="bash", partial=partial)) if partial.content:
                speaking.add(id)
            case _:
                pass


async def test_those_that_have_not_begun_when_the_run_is_aborted_never_do(tmp_path: Path) -> None:
    turn, _ = held()
    cast = Cast(start=[two_calls("work"), DONE], work=[turn])
    session = a_parent(cast, tmp_path, settings=ONE_AT_A_TIME)
    heard = Listener(session)
    await session.prompt("start")
    await heard.until(e.SubagentEvent)
    await session.abort()
    assert list(statuses(session).values()) == ["aborted"] * 4
    assert lives(heard) == [("work", "started"), ("work", "aborted")]
    await session.close()
    assert len(cast.requests("work")) <= 1


async def test_closing_a_session_stops_all_sub_agents(tmp_path: Path) -> None:
    turn, _ = held()
    cast = Cast(start=[task_call("work"), DONE], work=[turn])
    session = a_parent(cast, tmp_path, keep=True)
    heard = Listener(session)
    await session.prompt("start")
    await heard.until(e.SubagentLifecycle)
    path = subagents_of(session).transcript_of("work")
    async with asyncio.timeout(PATIENCE):
        await session.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert path is not None
    assert read_strictly(path).with_role("assistant")[-1]["stopReason"] == "aborted"


async def test_a_wait_that_is_cut_off_still_ends_those_who_work(tmp_path: Path) -> None:
    turn, _ = held()
    session = a_parent(Cast(work=[turn]), tmp_path)
    heard = Listener(session)
    subagents = subagents_of(session)
    agent = subagents.family.agents["task"]
    children = subagents.prepare(agent, [Order("work", "d", "work")], "", "call")
    waiting = asyncio.create_task(subagents.work(children, CancelToken()))
    await heard.until(e.SubagentLifecycle)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(PATIENCE):
        await subagents.wait_ended()
    assert statuses(session) == {"work": "aborted"}
    await session.close()
