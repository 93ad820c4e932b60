"""The `task` tool, as the model that calls it sees it, and the host."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.session.family import Cast, a_parent, most_at_once, result_of, statuses, subagents_of, task_call, told
from tests.session.scene import Listener, held, settled, talk

from fairlead.config.settings import TaskSettings
from fairlead.core import events as e
from fairlead.core.messages import ToolCall
from fairlead.core.tool import ToolResult
from fairlead.testing import Turn

DONE = Turn(text="all done")


def called_with(arguments: dict[str, Any], tmp_path: Path) -> tuple[str, bool]:
    """What a call of the tool comes to."""
    cast = Cast(start=[Turn(tool_calls=[ToolCall("call", "task", arguments)]), DONE], look=[Turn(text="seen")])

    async def main() -> tuple[str, bool]:
        session = a_parent(cast, tmp_path)
        await talk(session, "start")
        await session.close()
        return told(session), result_of(session).is_error

    return asyncio.run(main())


LOOK = {"description": "look around", "assignment": "look"}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"tasks": [LOOK]}, "agent: missing"),
        ({"agent": "task"}, "tasks: missing"),
        ({"agent": "task", "tasks": []}, "tasks: [] has less than 1 item"),
        ({"agent": "task", "tasks": [{"description": "d"}]}, "tasks.0.assignment: missing"),
        ({"agent": "nobody", "tasks": [LOOK]}, 'There is no agent "nobody". The agents are: task, explore.'),
    ],
)
def test_a_call_that_makes_no_sense_is_refused_with_a_reason(arguments: dict[str, Any], problem: str, tmp_path: Path) -> None:
    text, is_error = called_with(arguments, tmp_path)
    assert problem in text
    assert is_error


def test_answers_are_headed_by_their_assignment(tmp_path: Path) -> None:
    task = {"id": "Door", "description": "look\n  around ", "assignment": "look"}
    text, is_error = called_with({"agent": "explore", "tasks": [task]}, tmp_path)
    assert text == "## look around (Door: completed)\n\nseen"
    assert not is_error


async def test_the_task_tool_lists_the_agents(tmp_path: Path) -> None:
    session = a_parent(Cast(start=[DONE]), tmp_path)
    description = session.tools["task"].description
    assert "\n- task: " in description
    assert "\n- explore: " in description
    await session.close()


async def test_an_empty_sub_agent_answer_is_reported_as_empty(tmp_path: Path) -> None:
    cast = Cast(start=[task_call("look"), DONE], look=[Turn()])
    session = a_parent(cast, tmp_path)
    await talk(session, "start")
    assert told(session) == "## about look (look: completed)\n\n(no answer)"
    await session.close()


async def test_the_call_fails_only_if_all_fail(tmp_path: Path) -> None:
    cast = Cast(start=[task_call("bad one", "bad two"), DONE], bad=[Turn(text="I began", error="out of order")])
    session = a_parent(cast, tmp_path)
    await talk(session, "start")
    result = result_of(session)
    assert result.is_error
    assert told(session).count("Error: out of order\n\nI began") == 2
    results = result.details["results"]
    assert [(each["exitCode"], each["stderr"], each["status"]) for each in results] == [(1, "out of order", "failed")] * 2
    await session.close()


@pytest.mark.parametrize("keep", [True, False])
async def test_long_answers_share_the_space_that_short_ones_leave(tmp_path: Path, keep: bool) -> None:
    cast = Cast(
        start=[task_call("short", "long one", "long two"), DONE],
        short=[Turn(text="brief")],
        long=[Turn(text="é" * 100_000, chunk=1 << 20)],
    )
    session = a_parent(cast, tmp_path, keep=keep)
    await talk(session, "start")
    text = told(session)
    assert "brief" in text
    assert 49 * 1024 < len(text.encode()) < 52 * 1024
    if keep:
        assert "[The first 12798 of 100000 characters; all of it is in 1-long.jsonl]" in text
        assert "[The first 12799 of 100000 characters; all of it is in 2-long-2.jsonl]" in text
        folder = Path(str(subagents_of(session).transcript_of("long"))).parent
        assert text.endswith(f"[Whole conversations are in {folder}]")
    else:
        assert text.endswith("[The first 12799 of 100000 characters]")
    details = result_of(session).details
    assert [each["truncated"] for each in details["results"]] == [False, True, True]
    assert [len(each["output"]) for each in details["results"]] == [5, 12798, 12799]
    await session.close()


async def test_details_say_who_did_what_at_which_price(tmp_path: Path) -> None:
    cast = Cast(start=[task_call("look", agent="explore"), DONE], look=[Turn(text="seen")])
    session = a_parent(cast, tmp_path, keep=True)
    await talk(session, "start")
    details = result_of(session).details
    (result,) = details["results"]
    expected = {"index": 0, "id": "look", "agent": "explore", "agentSource": "bundled", "description": "about look"}
    expected |= {"assignment": "look", "status": "completed", "exitCode": 0, "output": "seen", "stderr": ""}
    expected |= {"truncated": False, "aborted": False, "tokens": 150}
    expected |= {"sessionFile": str(subagents_of(session).transcript_of("look"))}
    assert expected.items() <= result.items()
    assert result["usage"]["totalTokens"] == 150
    assert result["durationMs"] <= details["totalDurationMs"]
    await session.close()


async def test_updates_tell_how_all_of_them_get_on(tmp_path: Path) -> None:
    turn, go = held("said")
    cast = Cast(start=[task_call("one work", "two work"), DONE], work=[turn])
    session = a_parent(cast, tmp_path, settings=TaskSettings(max_concurrency=1))
    heard = Listener(session)
    await session.prompt("start")
    first = await heard.until(e.ToolUpdate)
    assert first.partial.content == ToolResult.text("0 of 2 sub-agents have ended, 0 at work").content
    second = await heard.until(e.ToolUpdate, 2)
    assert second.partial.content == ToolResult.text("0 of 2 sub-agents have ended, 1 at work").content
    assert second.partial.details is not None
    progress = second.partial.details["progress"]
    assert [(each["id"], each["status"]) for each in progress] == [("one", "running"), ("two", "pending")]
    msgspec.json.encode(second.partial)
    go.set()
    await settled(session)
    await session.close()


async def test_a_thousand_tasks_are_done_a_few_at_a_time(tmp_path: Path) -> None:
    cast = Cast(start=[task_call(*(f"work number {n}" for n in range(1000))), DONE], work=[Turn(text="x" * 1000, chunk=1 << 20)])
    session = a_parent(cast, tmp_path, settings=TaskSettings(max_concurrency=16), keep=True)
    heard = Listener(session)
    await talk(session, "start")
    assert most_at_once(heard) == 16
    assert set(statuses(session).values()) == {"completed"}
    assert len(statuses(session)) == 1000
    assert len(told(session)) < 200_000
    assert len(heard.of(e.ToolUpdate)) <= 2 + _seconds(heard), "each tells of all thousand"
    await session.close()


def _seconds(heard: Listener) -> float:
    """How long a call of a thousand tasks took."""
    (end,) = heard.of(e.ToolEnd)
    assert end.result.details is not None
    return end.result.details["totalDurationMs"] / 1000
