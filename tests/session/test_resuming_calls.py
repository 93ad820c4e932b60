"""Tool calls of a run that was interrupted: which results are kept, and which calls are made again."""

from __future__ import annotations

import json
from pathlib import Path

from tests.session.hooked import TestHooks
from tests.session.killed import DONE, Counted, as_killed, call, results, resumed
from tests.session.scene import Listener, a_kept_session, file_of, held, said, settled, talk, texts
from tests.support.session_file import notes_path

from fairlead.core import events as e
from fairlead.core.calls.turn import INTERRUPTED, RESULT_LOST
from fairlead.core.messages import Message, ToolResultMessage
from fairlead.session.behaviour import Behaviour
from fairlead.testing import Scripted, Turn


async def same(message: Message) -> Message:
    """A handler of an extension that could change messages, and does not."""
    return message


async def test_a_result_is_on_disk_when_its_call_has_ended_although_others_run(tmp_path: Path) -> None:
    slow, quick = Counted("slow", waits=True), Counted("quick")
    script = Scripted([Turn(tool_calls=[call("slow", "c1"), call("quick", "c2")]), DONE])
    first = a_kept_session(script, tmp_path, tools=[slow.tool, quick.tool])
    heard = Listener(first)
    await first.prompt("Go.")
    await heard.until(e.ToolEnd)
    assert "quick ran" in notes_path(file_of(first)).read_text() and "quick ran" not in file_of(first).read_text()
    assert heard.of(e.MessageEnd)[-1].message.role == "assistant", "hosts get results in call order, after the last tool"
    file = as_killed(first)
    slow.go.set()
    await settled(first)
    assert results(first) == {"c1": "slow ran", "c2": "quick ran"}, "the order is that of the calls"
    assert list(results(first)) == ["c1", "c2"]

    script = Scripted([DONE])
    session = await resumed(a_kept_session(script, tmp_path, tools=[slow.tool, quick.tool], file=file))
    assert results(session) == {"c1": INTERRUPTED, "c2": "quick ran"}
    assert list(results(session)) == ["c1", "c2"]
    assert (slow.calls, quick.calls) == (["c1"], ["c2"]), "nothing ran again"
    told = [each for each in script.requests[0].messages if isinstance(each, ToolResultMessage)]
    assert [(each.tool_call_id, each.is_error) for each in told] == [("c1", True), ("c2", False)]


async def test_a_result_at_the_head_of_its_turn_needs_no_note(tmp_path: Path) -> None:
    quick, slow = Counted("quick", idempotent=True), Counted("slow", waits=True, idempotent=True)
    script = Scripted([Turn(tool_calls=[call("quick", "c1"), call("slow", "c2")]), DONE])
    first = a_kept_session(script, tmp_path, tools=[quick.tool, slow.tool])
    heard = Listener(first)
    await first.prompt("Go.")
    await heard.until(e.ToolEnd)
    lines = [json.loads(line) for line in file_of(first).read_text().splitlines()]
    assert lines[-1]["message"]["toolCallId"] == "c1", "it is an entry of its own at once"
    file = as_killed(first)
    slow.go.set()
    await settled(first)
    assert not any(line.get("customType") for line in map(json.loads, file_of(first).read_text().splitlines()))
    again = Counted("slow", idempotent=True)
    session = await resumed(a_kept_session(Scripted([DONE]), tmp_path, tools=[quick.tool, again.tool], file=file))
    assert results(session) == {"c1": "quick ran", "c2": "slow ran"}
    assert (quick.calls, again.calls) == (["c1"], ["c2"])


async def test_idempotent_calls_are_made_again_and_others_are_not(tmp_path: Path) -> None:
    reads, writes = Counted("reads", idempotent=True, waits=True), Counted("writes", waits=True)
    script = Scripted([Turn(tool_calls=[call("reads", "c1"), call("writes", "c2")]), DONE])
    first = a_kept_session(script, tmp_path, tools=[reads.tool, writes.tool])
    await first.prompt("Go.")
    await reads.called()
    await writes.called()
    file = as_killed(first)
    await first.abort()
    reads.go.set()
    session = a_kept_session(Scripted([DONE]), tmp_path, tools=[reads.tool, writes.tool], file=file)
    heard = Listener(session)
    await resumed(session)
    assert results(session) == {"c1": "reads ran", "c2": INTERRUPTED}
    assert (reads.calls, writes.calls) == (["c1", "c1"], ["c2"])
    assert [(end.call_id, end.is_error) for end in heard.of(e.ToolEnd)] == [("c2", True), ("c1", False)]
    kinds = [each.message.role for each in heard.of(e.MessageEnd)]
    assert kinds == ["toolResult", "toolResult", "assistant"], "the interrupted answer is not announced again"


async def test_calls_that_had_not_started_are_made(tmp_path: Path) -> None:
    writes = Counted("writes", waits=True)
    turn = Turn(tool_calls=[call("writes", "c1"), call("writes", "c2")])
    first = a_kept_session(Scripted([turn]), tmp_path, tools=[writes.tool], behaviour=Behaviour(schedule="sequential"))
    await first.prompt("Go.")
    await writes.called()
    file = as_killed(first)
    await first.abort()
    writes.go.set()
    session = await resumed(
        a_kept_session(Scripted([DONE]), tmp_path, tools=[writes.tool], file=file, behaviour=Behaviour(schedule="sequential"))
    )
    assert results(session) == {"c1": INTERRUPTED, "c2": "writes ran"}
    assert writes.calls == ["c1", "c2"]


async def test_nothing_is_known_about_calls_that_another_program_made(tmp_path: Path) -> None:
    writes = Counted("writes", waits=True)
    first = a_kept_session(Scripted([Turn(tool_calls=[call("writes", "c1")])]), tmp_path, tools=[writes.tool])
    await first.prompt("Go.")
    await writes.called()
    file = as_killed(first)
    notes_path(file).unlink()
    await first.abort()
    session = await resumed(a_kept_session(Scripted([DONE]), tmp_path, tools=[writes.tool], file=file))
    assert results(session) == {"c1": INTERRUPTED}


async def test_a_result_that_an_extension_may_still_change_is_not_written(tmp_path: Path) -> None:
    slow, quick = Counted("slow", waits=True), Counted("quick")
    turn = Turn(tool_calls=[call("slow", "c1"), call("quick", "c2")])
    hooks = TestHooks(message_end=same)
    first = a_kept_session(Scripted([turn]), tmp_path, tools=[slow.tool, quick.tool], hooks=hooks)
    heard = Listener(first)
    await first.prompt("Go.")
    await heard.until(e.ToolEnd)
    file = as_killed(first)
    assert "quick ran" not in file.read_text() + notes_path(file).read_text()
    await first.abort()
    session = await resumed(a_kept_session(Scripted([DONE]), tmp_path, tools=[slow.tool, quick.tool], file=file))
    assert results(session) == {"c1": INTERRUPTED, "c2": RESULT_LOST}


async def test_a_run_that_is_killed_twice_continues(tmp_path: Path) -> None:
    one, two = Counted("one", waits=True), Counted("two", waits=True, idempotent=True)
    turn = Turn(tool_calls=[call("one", "c1"), call("two", "c2")])
    first = a_kept_session(Scripted([turn]), tmp_path, tools=[one.tool, two.tool])
    await first.prompt("Go.")
    await one.called()
    await two.called()
    file = as_killed(first)
    await first.abort()
    second = a_kept_session(Scripted([DONE]), tmp_path, tools=[one.tool, two.tool], file=file)
    await second.activity.resume()
    await two.called(2)
    file = as_killed(second)
    await second.abort()
    two.go.set()
    session = await resumed(a_kept_session(Scripted([DONE]), tmp_path, tools=[one.tool, two.tool], file=file))
    assert results(session) == {"c1": INTERRUPTED, "c2": "two ran"}
    assert (one.calls, two.calls) == (["c1"], ["c2", "c2", "c2"])
    assert texts(session.messages)[0] == "Go." and texts(session.messages)[-1] == "done"


async def test_a_run_continues_after_the_last_result(tmp_path: Path) -> None:
    quick, (turn, _) = Counted("quick"), held()
    first = a_kept_session(Scripted([Turn(tool_calls=[call("quick", "c1")]), turn]), tmp_path, tools=[quick.tool])
    heard = Listener(first)
    await first.prompt("Go.")
    await heard.until(e.TurnEnd)
    file = as_killed(first)
    await first.abort()
    session = await resumed(a_kept_session(Scripted([DONE]), tmp_path, tools=[quick.tool], file=file))
    assert results(session) == {"c1": "quick ran"}
    assert quick.calls == ["c1"]


async def test_a_prompt_after_a_kill_reports_interrupted_calls_to_the_model(tmp_path: Path) -> None:
    slow, quick = Counted("slow", waits=True), Counted("quick")
    turn = Turn(tool_calls=[call("slow", "c1"), call("quick", "c2")])
    first = a_kept_session(Scripted([turn]), tmp_path, tools=[slow.tool, quick.tool])
    heard = Listener(first)
    await first.prompt("Go.")
    await heard.until(e.ToolEnd)
    file = as_killed(first)
    await first.abort()
    session = a_kept_session(Scripted([DONE]), tmp_path, tools=[slow.tool, quick.tool], file=file)
    await talk(session, "Something else.")
    assert results(session) == {"c1": INTERRUPTED, "c2": "quick ran"}
    assert said(session) == ["Go.", "Something else."]
