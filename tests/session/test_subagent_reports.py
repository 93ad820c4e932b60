"""What a session reports of its sub-agents: progress, costs, and what could not be written."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec import structs
from tests.session.family import DONE, Cast, a_parent, bash, statuses, subagents_of, task_call, told
from tests.session.scene import PATIENCE, Listener, a_tool, file_size_limit, held, settled, talk
from tests.support.session_file import read_strictly

from fairlead.core import events as e
from fairlead.core.messages import ToolCall, Usage
from fairlead.core.runtime import CancelToken
from fairlead.session.context.budget import totals
from fairlead.session.history.entries import UsageEntry
from fairlead.testing import Turn

# What it costs


async def test_spending_of_sub_agents_is_counted_once_per_level(tmp_path: Path) -> None:
    spent = Usage(input=1000, output=100)

    def turn(text: str) -> Turn:
        return Turn(text=text, usage=spent)

    def call(*assignments: str) -> Turn:
        return structs.replace(task_call(*assignments), usage=spent)

    cast = Cast(start=[call("outer", "other"), turn("a")], outer=[call("inner"), turn("b")], inner=[turn("c")], other=[turn("d")])
    session = a_parent(cast, tmp_path, keep=True)
    heard = Listener(session)
    await talk(session, "start")
    sums = totals(session.history.log)
    assert sums.tokens.total == 6 * 1100
    assert sums.cost == pytest.approx(6 * (0.003 + 0.0015))
    assert (sums.assistant_messages, sums.total_messages) == (2, 4)
    entries = [entry for entry in session.history.log.entries() if isinstance(entry, UsageEntry)]
    assert {entry.note: entry.usage.total_tokens for entry in entries} == {"other": 1100, "outer": 3 * 1100}
    assert {(entry.kind, entry.provider, entry.model) for entry in entries} == {("subagent", "scripted", "scripted-1")}
    assert len(heard.of(e.EntryAppended)) == 2
    by_id = {snapshot.id: snapshot.progress for snapshot in subagents_of(session).snapshots()}
    assert {id: progress.tokens for id, progress in by_id.items()} == {"outer": 3300, "other": 1100, "outer.inner": 1100}
    assert by_id["outer"].cost == pytest.approx(3 * (0.003 + 0.0015))
    await session.close()
    child = read_strictly(Path(str(subagents_of(session).transcript_of("outer"))))
    assert [(entry["kind"], entry["usage"]["totalTokens"]) for entry in child.of("usage")] == [("subagent", 1100)]


# Telling


async def test_a_report_has_the_last_tools_and_lines_and_what_was_spent(tmp_path: Path) -> None:
    commands = [bash(f"echo {number}", id=f"b{number}") for number in range(7)]
    answer = Turn(text="\n\n".join(f"line {number} " + "x" * 300 for number in range(9)))
    cast = Cast(start=[task_call("look " + "y" * 2000), DONE], look=[*commands, answer])
    session = a_parent(cast, tmp_path)
    heard = Listener(session)
    await talk(session, "start")
    last = heard.of(e.SubagentProgress)[-1].payload
    assert last.parent_tool_call_id == "call"
    progress = last.progress
    assert progress.status == "completed"
    assert [(tool.tool, tool.args) for tool in progress.recent_tools] == [("bash", f"echo {n}") for n in range(2, 7)]
    assert [line[:6] for line in progress.recent_output] == [f"line {n}" for n in range(4, 9)]
    assert max(map(len, progress.recent_output)) == 200
    assert (progress.tool_count, progress.requests, progress.tokens) == (7, 8, 8 * 150)
    assert len(progress.assignment) == len(progress.task) == 1000
    assert len(cast.requests("look")[0].messages) == 1
    await session.close()


async def test_reports_are_few_however_much_happens(tmp_path: Path) -> None:
    commands = [Turn(tool_calls=[ToolCall(f"c{n}", "nothing", {})], chunk=1 << 20) for n in range(100)]
    cast = Cast(start=[task_call("look"), DONE], look=[*commands, DONE])
    session = a_parent(cast, tmp_path, tools=[a_tool("nothing")])
    heard = Listener(session)
    await talk(session, "start")
    assert sum(isinstance(each.event, e.ToolEnd) for each in heard.of(e.SubagentEvent)) == 100
    duration = heard.of(e.SubagentProgress)[-1].payload.progress.duration_ms / 1000
    assert len(heard.of(e.SubagentProgress)) <= duration / 0.2 + 2
    await session.close()


async def test_sub_agents_wait_for_slow_listeners(tmp_path: Path) -> None:
    class Closed:
        """A gate that lets nobody through until the test says so."""

        def __init__(self) -> None:
            self.paused = False
            self.waiting = asyncio.Event()
            self.go = asyncio.Event()

        async def wait(self, cancel: CancelToken) -> None:
            self.waiting.set()
            await self.go.wait()
            self.paused = False

    cast = Cast(start=[task_call("look"), DONE], look=[DONE])
    session = a_parent(cast, tmp_path)
    gate = Closed()
    heard = Listener(session)

    def pause(event: e.Event) -> None:
        if isinstance(event, e.SubagentEvent) and isinstance(event.event, e.TurnStart):
            gate.paused = True

    session.subscribe(pause, gate)
    await session.prompt("start")
    async with asyncio.timeout(PATIENCE):
        await gate.waiting.wait()
    assert heard.kinds()[-1] == "SubagentEvent"
    gate.go.set()
    await settled(session)
    assert statuses(session) == {"look": "completed"}
    await session.close()


async def test_unwritten_sub_agent_entries_are_reported_and_written_later(tmp_path: Path) -> None:
    turn, go = held("said")
    cast = Cast(start=[task_call("look"), DONE], look=[turn])
    session = a_parent(cast, tmp_path, keep=True)
    heard = Listener(session)
    await session.prompt("start")
    await heard.until(e.SubagentEvent)
    path = subagents_of(session).transcript_of("look")
    assert path is not None
    with file_size_limit(path.stat().st_size):
        go.set()
        await settled(session)
    assert any(str(path) in event.error for event in heard.of(e.ExtensionError))
    assert "said" in told(session)
    assert read_strictly(path).with_role("assistant") == []
    await talk(session, "again")
    assert read_strictly(path).with_role("assistant")[0]["content"] == [{"type": "text", "text": "said"}]
    await session.close()
