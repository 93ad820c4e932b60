"""Runs that were interrupted continue, with the messages that waited.

Each test opens a copy of what a killed process would have left on disk.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.session.killed import DONE, Counted, as_killed, call, results, resumed
from tests.session.scene import Listener, WithSummaries, a_kept_session, a_session, a_tool, file_of, held, talk, texts

from fairlead.config.settings import CompactionSettings, RetrySettings
from fairlead.core import events as e
from fairlead.core.messages import AssistantMessage, TextContent, Usage
from fairlead.core.tool import ToolContext, ToolResult
from fairlead.errors import BusyError, ConfigError, NothingToResume
from fairlead.testing import Scripted, Turn

# Before and during an answer


async def test_a_run_continues_that_was_killed_before_the_first_answer(tmp_path: Path) -> None:
    turn, _ = held()
    first = a_kept_session(Scripted([turn]), tmp_path)
    await first.prompt("Go.")
    file = as_killed(first)
    await first.abort()
    script = Scripted([DONE])
    session = await resumed(a_kept_session(script, tmp_path, file=file))
    assert texts(session.messages) == ["Go.", "done"]
    assert len(script.requests) == 1


async def test_a_partial_answer_is_not_kept(tmp_path: Path) -> None:
    pieces = asyncio.Event()
    turn = Turn(text="half of an answer", pause=pieces.wait, chunk=4)
    first = a_kept_session(Scripted([turn]), tmp_path)
    heard = Listener(first)
    await first.prompt("Go.")
    pieces.set()
    await heard.until(e.MessageUpdate)
    file = as_killed(first)
    await first.abort()
    session = await resumed(a_kept_session(Scripted([DONE]), tmp_path, file=file))
    assert texts(session.messages) == ["Go.", "done"]


async def test_an_answer_that_failed_is_asked_for_again(tmp_path: Path) -> None:
    script = Scripted([Turn(error="out of order", status=400), DONE])
    session = a_kept_session(script, tmp_path, retry=RetrySettings(enabled=False))
    await talk(session, "Go.")
    await resumed(session)
    assert texts(session.messages) == ["Go.", "done"], "the model does not see the failure again"
    assert [len(request.messages) for request in script.requests] == [1, 1]


async def test_a_run_continues_that_was_killed_while_it_waited_for_another_attempt(tmp_path: Path) -> None:
    script = Scripted([Turn(error="overloaded", status=529, transient=True)])
    first = a_kept_session(script, tmp_path, retry=RetrySettings(base_delay_ms=60_000))
    heard = Listener(first)
    await first.prompt("Go.")
    await heard.until(e.RetryStart)
    file = as_killed(first)
    await first.abort()
    session = await resumed(a_kept_session(Scripted([DONE]), tmp_path, file=file))
    assert texts(session.messages) == ["Go.", "done"]


# Messages that wait


async def test_queued_messages_are_delivered_by_the_run_that_continues(tmp_path: Path) -> None:
    slow = Counted("slow", waits=True)
    first = a_kept_session(Scripted([Turn(tool_calls=[call("slow", "c1")])]), tmp_path, tools=[slow.tool])
    await first.prompt("Go.")
    await slow.called()
    await first.steer("Left.")
    await first.follow_up("And then?")
    file = as_killed(first)
    await first.abort()
    session = await resumed(a_kept_session(Scripted([DONE]), tmp_path, tools=[slow.tool], file=file))
    assert [each for each in texts(session.messages) if each] == [
        "Go.",
        "ToolResultMessage",
        "Left.",
        "done",
        "And then?",
        "done",
    ]


async def test_messages_that_no_run_has_taken_start_one(tmp_path: Path) -> None:
    turn, go = held("first")
    first = a_kept_session(Scripted([turn, DONE]), tmp_path)
    heard = Listener(first)
    await first.prompt("Go.")
    await first.follow_up("And then?")
    files: list[Path] = []
    first.subscribe(lambda event: files.append(as_killed(first)) if isinstance(event, e.TurnEnd) and not files else None)
    go.set()
    await heard.until(e.AgentSettled)
    session = await resumed(a_kept_session(Scripted([DONE]), tmp_path, file=files[0]))
    assert texts(session.messages) == ["Go.", "first", "And then?", "done"]


# Compaction


async def test_a_run_continues_that_was_killed_in_a_compaction(tmp_path: Path) -> None:
    quick, (summary, _) = Counted("quick"), held("What happened.")
    settings = CompactionSettings(reserve_tokens=1000, keep_recent_tokens=1)
    full = Turn(tool_calls=[call("quick", "c1")], usage=Usage(input=10_000_000, output=1))
    script = WithSummaries([full, DONE], [summary])
    first = a_kept_session(script, tmp_path, tools=[quick.tool], compaction=settings)
    heard = Listener(first)
    await first.prompt("Go.")
    await heard.until(e.CompactionStart)
    file = as_killed(first)
    await first.abort()
    script = WithSummaries([DONE], [Turn(text="What happened.")])
    session = a_kept_session(script, tmp_path, tools=[quick.tool], compaction=settings, file=file)
    heard = Listener(session)
    await resumed(session)
    assert heard.of(e.CompactionEnd), "it is compacted now"
    assert texts(session.messages)[-1] == "done"
    assert quick.calls == ["c1"]


# What is not interrupted


async def test_a_run_that_the_user_aborted_has_ended(tmp_path: Path) -> None:
    turn, _ = held()
    session = a_kept_session(Scripted([turn]), tmp_path)
    heard = Listener(session)
    await session.prompt("Go.")
    assert not session.activity.is_interrupted, "it is running"
    with pytest.raises(BusyError):
        await session.activity.resume()
    await heard.until(e.MessageStart)
    await session.follow_up("And then?")
    await session.abort()
    assert not session.activity.is_interrupted
    file = as_killed(session)
    session = a_kept_session(Scripted([DONE]), tmp_path, file=file)
    with pytest.raises(NothingToResume):
        await session.activity.resume()
    assert session.queue.follow_up.texts() == ["And then?"]


async def test_a_run_that_the_end_of_its_session_stopped_continues(tmp_path: Path) -> None:
    writes = Counted("writes", waits=True)
    first = a_kept_session(Scripted([Turn(tool_calls=[call("writes", "c1")])]), tmp_path, tools=[writes.tool])
    await first.prompt("Go.")
    await writes.called()
    await first.close()
    session = await resumed(a_kept_session(Scripted([DONE]), tmp_path, tools=[writes.tool], file=file_of(first)))
    assert results(session) == {"c1": "Command aborted"}
    assert texts(session.messages)[-1] == "done"
    assert not [each for each in session.messages if isinstance(each, AssistantMessage) and each.stop_reason == "aborted"]


@pytest.mark.parametrize("prompts", [[], ["Go."]])
async def test_there_is_nothing_to_resume_after_a_good_end(tmp_path: Path, prompts: list[str]) -> None:
    session = a_kept_session(Scripted([DONE]), tmp_path)
    await talk(session, *prompts)
    assert not session.activity.is_interrupted
    with pytest.raises(NothingToResume):
        await session.activity.resume()
    await session.queue.send_message("note", "for later")
    assert not session.activity.is_interrupted, "a message that starts no run is not one"


async def test_results_that_end_a_run_are_not_an_interruption(tmp_path: Path) -> None:
    async def last(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult([TextContent("enough")], ends_run=True)

    script = Scripted([Turn(tool_calls=[call("last", "c1")])])
    session = a_kept_session(script, tmp_path, tools=[a_tool("last", last)])
    await talk(session, "Go.")
    assert len(script.requests) == 1
    assert not session.activity.is_interrupted


async def test_a_run_that_an_extension_started_with_a_message_continues(tmp_path: Path) -> None:
    turn, _ = held()
    first = a_kept_session(Scripted([DONE, turn]), tmp_path)
    await talk(first, "Go.")
    await first.queue.send_message("alarm", "Look!", trigger_turn=True)
    await asyncio.sleep(0)
    file = as_killed(first)
    await first.abort()
    script = Scripted([DONE])
    await resumed(a_kept_session(script, tmp_path, file=file))
    assert len(script.requests) == 1


async def test_a_run_without_a_model_cannot_be_resumed(tmp_path: Path) -> None:
    turn, _ = held()
    first = a_kept_session(Scripted([turn]), tmp_path)
    await first.prompt("Go.")
    file = as_killed(first)
    await first.abort()
    session = a_kept_session(Scripted([DONE]), tmp_path, file=file, model=None, model_is_explicit=True)
    with pytest.raises(ConfigError):
        await session.activity.resume()
    assert session.activity.is_interrupted


async def test_a_conversation_in_memory_has_no_notes(tmp_path: Path) -> None:
    session = a_session(Scripted([Turn(tool_calls=[call("quick", "c1")]), DONE]), tmp_path, [Counted("quick").tool])
    await talk(session, "Go.")
    assert not [entry for entry in session.history.log.entries() if getattr(entry, "custom_type", None)]
