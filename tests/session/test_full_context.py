"""Compaction by the session itself when the context is nearly full: before, between and after the turns of a run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec import structs
from tests.session.scene import (
    PATIENCE,
    Listener,
    WithSummaries,
    a_kept_session,
    a_session,
    a_tool,
    file_of,
    held,
    said,
    settled,
    talk,
    texts,
)
from tests.session.small_session import (
    BROKEN,
    FOUR,
    MARKS,
    ONE,
    OVERFLOW,
    SETTINGS,
    SMALL,
    SUMMARISED,
    SUMMARY,
    THREE,
    TWO,
    Signal,
    a_small_session,
    answer,
    compacted,
    saved,
    shown,
)
from tests.support.session_file import copy_session

from fairlead.config.settings import CompactionSettings
from fairlead.core import events as e
from fairlead.core.messages import CompactionSummaryMessage, ToolCall, ToolResultMessage, Usage
from fairlead.session.history.entries import CompactionEntry, Entry
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn


def full(text: str) -> Turn:
    """An answer after which it is time for a compaction."""
    return answer(text, 601)


async def nothing() -> None:
    """A pause that is none."""


# When the context is nearly full


async def test_at_the_end_of_a_run_that_filled_the_context_it_is_compacted(tmp_path: Path) -> None:
    signal = Signal()
    session, _ = a_small_session(tmp_path, [answer("a"), full("b")], [structs.replace(SUMMARISED, pause=signal)])
    await talk(session, ONE)
    heard = Listener(session)
    await session.prompt(TWO)
    await signal.reached()
    assert session.activity.is_streaming and session.activity.is_compacting
    signal.go.set()
    await settled(session)
    assert heard.outline(*MARKS) == [
        "AgentStart",
        "TurnStart",
        "TurnEnd",
        "AgentEnd",
        "CompactionStart",
        "CompactionEnd",
        "AgentSettled",
    ]
    (start,), (end,) = heard.of(e.CompactionStart), heard.of(e.CompactionEnd)
    assert (start.reason, end.reason, end.will_retry, end.error) == ("threshold", "threshold", False, None)
    assert end.result is not None and end.result.tokens_before == 601
    assert shown(session) == saved(session) == [SUMMARY, TWO, "b"]
    assert session.activity.last_end is not None and session.activity.last_end.message.text() == "b"
    await session.close()


@pytest.mark.parametrize(("tokens", "compactions"), [(600, 0), (601, 1)])
async def test_it_is_time_when_less_than_the_reserve_is_left(tmp_path: Path, tokens: int, compactions: int) -> None:
    session, _ = a_small_session(tmp_path, [answer("a"), answer("b", tokens)])
    heard = Listener(session)
    await talk(session, ONE, TWO)
    assert len(heard.of(e.CompactionStart)) == compactions
    await session.close()


@pytest.mark.parametrize("how", ["steer", "follow_up"])
@pytest.mark.parametrize("summary", [SUMMARISED, BROKEN], ids=["", "that fails"])
async def test_messages_queued_during_the_final_compaction_are_delivered(tmp_path: Path, how: str, summary: Turn) -> None:
    signal = Signal()
    summaries = [structs.replace(summary, text="In short.", pause=signal)]
    # After a summary there is room again; without one there is not.
    last = answer("c") if summary is SUMMARISED else full("c")
    session, model = a_small_session(tmp_path, [answer("a"), full("b"), last], summaries)
    await talk(session, ONE)
    heard = Listener(session)
    await session.prompt(TWO)
    await signal.reached()
    queue = session.steer if how == "steer" else session.follow_up
    await queue(THREE)
    await queue(FOUR)
    signal.go.set()
    await settled(session)
    assert said(session)[-3:] == [TWO, THREE, FOUR]
    assert texts(model.answers.requests[2].messages)[-1] == (FOUR if how == "steer" else THREE)
    assert heard.outline(e.AgentStart, e.AgentEnd, e.AgentSettled) == ["AgentStart", "AgentEnd"] * 2 + ["AgentSettled"]
    waiting = [update.steering + update.follow_up for update in heard.of(e.QueueUpdate)]
    assert waiting == [[THREE], [THREE, FOUR], [FOUR], []]
    assert texts(heard.of(e.AgentEnd)[1].messages)[0] == THREE, "the run that heard it tells of it"
    assert len(model.summaries.requests) == 1, "one that failed is not tried again in the same run"
    await session.close()
    assert saved(session)[-1] == "c"


async def test_an_abort_of_the_compaction_at_the_end_leaves_the_queues_as_they_are(tmp_path: Path) -> None:
    signal = Signal()
    session, _ = a_small_session(tmp_path, [answer("a"), full("b")], [structs.replace(SUMMARISED, pause=signal)])
    await talk(session, ONE)
    heard = Listener(session)
    await session.prompt(TWO)
    await signal.reached()
    await session.follow_up("later")
    async with asyncio.timeout(PATIENCE):
        await session.abort()
    (end,) = heard.of(e.CompactionEnd)
    assert end == e.CompactionEnd("threshold", aborted=True)
    assert heard.kinds()[-1] == "AgentSettled" and not session.activity.is_streaming
    assert shown(session) == saved(session) == [ONE, "a", TWO, "b"]
    assert session.queue.follow_up.texts() == ["later"]
    await session.close()


async def test_an_abort_never_begins_a_compaction(tmp_path: Path) -> None:
    session, _ = a_small_session(tmp_path, [answer("a"), full("b")])
    await talk(session, ONE)
    heard = Listener(session)
    # The answer is complete when the abort comes.
    session.subscribe(lambda event: session.activity.cancel() if isinstance(event, e.TurnEnd) else None)
    await talk(session, TWO)
    assert heard.of(e.CompactionStart) == [] and shown(session) == [ONE, "a", TWO, "b"]
    await session.close()


async def test_a_context_that_is_already_full_is_compacted_before_the_first_turn(tmp_path: Path) -> None:
    session, model = a_small_session(tmp_path, [full("a"), answer("b")])
    session.activity.auto_compaction = False
    await talk(session, ONE)
    session.activity.auto_compaction = True
    heard = Listener(session)
    await talk(session, TWO)
    assert heard.outline(*MARKS)[:4] == ["CompactionStart", "CompactionEnd", "AgentStart", "TurnStart"]
    assert heard.of(e.CompactionStart) == [e.CompactionStart("threshold")]
    told = texts(model.answers.requests[-1].messages)
    assert "In short." in told[0] and told[1:] == [TWO]
    assert shown(session) == [SUMMARY, TWO, "b"]
    await session.close()


async def test_context_filled_by_an_aborted_answer_is_checked_before_the_next_prompt(tmp_path: Path) -> None:
    signal = Signal()
    pauses = [nothing, signal]

    async def between_pieces() -> None:
        await pauses.pop(0)()

    half = answer("-" * 160, chunk=80, pause=between_pieces)  # 20 tokens arrive before the pause
    session, _ = a_small_session(tmp_path, [answer("a", 560), half, answer("c")])
    await talk(session, ONE)
    heard = Listener(session)
    await session.prompt(TWO)
    await signal.reached()
    async with asyncio.timeout(PATIENCE):
        await session.abort()
    assert session.history.conversation.context_tokens() == 560 + 25 + 20
    assert heard.of(e.CompactionStart) == [], "whoever aborts wants an end"
    heard.clear()
    await talk(session, THREE)
    assert heard.kinds()[0] == "CompactionStart" and shown(session) == [SUMMARY, THREE, "c"]
    await session.close()


async def test_between_two_turns_of_a_run_the_context_is_compacted_with_calls_and_results_together(tmp_path: Path) -> None:
    call = Turn(tool_calls=[ToolCall("c1", "one", {})], usage=Usage(input=601))
    session, model = a_small_session(tmp_path, [answer("a"), call, answer("b")], tools=[a_tool("one")])
    await talk(session, ONE)
    heard = Listener(session)
    await talk(session, TWO)
    assert heard.outline(*MARKS) == [
        "AgentStart",
        "TurnStart",
        "TurnEnd",
        "CompactionStart",
        "CompactionEnd",
        "TurnStart",
        "TurnEnd",
        "AgentEnd",
        "AgentSettled",
    ]
    told = model.answers.requests[-1].messages
    assert "In short." in texts(told)[0]
    assert [type(message).__name__ for message in told[1:]] == ["UserMessage", "AssistantMessage", "ToolResultMessage"]
    assert shown(session)[-1] == "b" and len(heard.of(e.AgentEnd)[0].messages) == 4, "the run tells of all its messages"
    await session.close()


async def test_an_abort_between_two_turns_ends_the_compaction_and_the_run(tmp_path: Path) -> None:
    signal = Signal()
    call = Turn(tool_calls=[ToolCall("c1", "one", {})], usage=Usage(input=601))
    summaries = [structs.replace(SUMMARISED, pause=signal)]
    session, model = a_small_session(tmp_path, [answer("a"), call, answer("b")], summaries, tools=[a_tool("one")])
    await talk(session, ONE)
    heard = Listener(session)
    await session.prompt(TWO)
    await signal.reached()
    await session.steer("waits")
    async with asyncio.timeout(PATIENCE):
        await session.abort()
    assert heard.of(e.CompactionEnd) == [e.CompactionEnd("threshold", aborted=True)]
    assert session.activity.last_end is not None and session.activity.last_end.message.stop_reason == "aborted"
    assert session.queue.steering.texts() == ["waits"]
    assert len(model.summaries.requests) == 1, "nor is another one begun"
    kinds = [type(message) for message in session.messages]
    assert ToolResultMessage in kinds and CompactionSummaryMessage not in kinds
    await session.close()


async def test_a_message_that_was_taken_up_before_a_compaction_between_turns_is_not_lost_in_it(tmp_path: Path) -> None:
    turn, go = held("b")
    signal = Signal()
    answers = [answer("a"), structs.replace(turn, usage=Usage(input=601)), answer("c")]
    session, _ = a_small_session(tmp_path, answers, [structs.replace(SUMMARISED, pause=signal)])
    await talk(session, ONE)
    heard = Listener(session)
    await session.prompt(TWO)
    await heard.until(e.MessageEnd)
    await session.steer("taken up")
    go.set()
    await signal.reached()
    await session.steer("taken back")
    assert session.queue.clear() == (["taken back"], [])
    crashed = copy_session(file_of(session), tmp_path / "crashed.jsonl")
    signal.go.set()
    await settled(session)
    assert said(session) == [TWO, "taken up"]
    await session.close()
    again = a_kept_session(Scripted([answer("x")]), tmp_path, file=crashed)
    assert again.queue.steering.texts() == ["taken up"]
    await again.close()


async def test_a_compaction_that_breaks_by_itself_has_an_end_too(tmp_path: Path) -> None:
    class NoSummaries:
        """Keeps nothing, and breaks on a summary."""

        def write(self, entry: Entry, line: bytes) -> None:
            if isinstance(entry, CompactionEntry):
                raise ZeroDivisionError("a bug")

        def hold(self, line: bytes) -> None: ...

    session, _ = a_small_session(tmp_path, [answer("a"), full("b")])
    await talk(session, ONE)
    session.history.log.sink = NoSummaries()
    heard = Listener(session)
    await talk(session, TWO)
    error = "Auto-compaction failed: ZeroDivisionError: a bug"
    assert heard.of(e.CompactionEnd) == [e.CompactionEnd("threshold", error=error)]
    assert [event.error for event in heard.of(e.ExtensionError)] == ["Internal error: ZeroDivisionError: a bug"]
    assert heard[-1] == e.AgentSettled()
    await session.close()


async def test_a_compaction_that_fails_between_turns_does_not_stop_the_run_and_is_not_repeated_in_it(tmp_path: Path) -> None:
    call = Turn(tool_calls=[ToolCall("c1", "one", {})], usage=Usage(input=601))
    session, model = a_small_session(tmp_path, [answer("a"), call, call, full("b")], [BROKEN], tools=[a_tool("one")])
    await talk(session, ONE)
    heard = Listener(session)
    await talk(session, TWO)
    error = "Auto-compaction failed: Summarization failed: out of order"
    assert heard.of(e.CompactionEnd) == [e.CompactionEnd("threshold", error=error)]
    assert shown(session)[0] == ONE and shown(session)[-1] == "b"
    assert len(model.summaries.requests) == 1
    await talk(session, THREE)
    assert len(model.summaries.requests) == 2, "the next run has its own chance"
    await session.close()


async def test_where_everything_is_recent_a_full_context_is_left_alone_without_a_word(tmp_path: Path) -> None:
    session, model = a_small_session(tmp_path, [full("a")])
    heard = Listener(session)
    await talk(session, ONE)
    assert heard.of(e.CompactionStart) == heard.of(e.CompactionEnd) == []
    assert (shown(session), model.summaries.requests) == ([ONE, "a"], [])
    await session.close()


@pytest.mark.parametrize("by", ["settings", "command"])
async def test_switched_off_neither_a_full_context_nor_an_overflow_is_compacted(tmp_path: Path, by: str) -> None:
    settings = structs.replace(SETTINGS, enabled=by != "settings")
    session, model = a_small_session(tmp_path, [answer("a"), full("b"), OVERFLOW], compaction=settings)
    if by == "command":
        session.activity.auto_compaction = False
    heard = Listener(session)
    await talk(session, ONE, TWO, THREE)
    assert heard.of(e.CompactionStart) == [] and len(heard.of(e.AgentEnd)) == 3
    assert session.activity.last_end is not None and session.activity.last_end.message.stop_reason == "error"
    await compacted(session)
    assert len(model.summaries.requests) == 1, "on request it is"
    await session.close()


async def test_a_window_smaller_than_the_reserve_is_not_compacted_without_end(tmp_path: Path) -> None:
    tiny = structs.replace(SCRIPTED_MODEL, context_window=400)  # of which three quarters are for use, and 100 may stay
    answers = [answer("a", 100), answer("b", 100), answer("c", 310), answer("d", 100)]
    session, model = a_small_session(tmp_path, answers, models=[tiny], compaction=CompactionSettings())
    heard = Listener(session)
    long = [f"{name:-<300}" for name in ("one", "two", "three", "four")]  # 75 tokens each
    await talk(session, *long)
    assert heard.of(e.CompactionStart) == [e.CompactionStart("threshold")]
    assert shown(session) == [SUMMARY, long[1], "b", long[2], "c", long[3], "d"]
    (request,) = model.summaries.requests
    assert request.max_tokens is not None and request.max_tokens <= 200, "the summary has to fit, too"
    await session.close()


async def test_an_unknown_context_window_is_never_full(tmp_path: Path) -> None:
    unknown = structs.replace(SCRIPTED_MODEL, context_window=0)
    session, _ = a_small_session(tmp_path, [answer("a", 10**9)], models=[unknown])
    heard = Listener(session)
    await talk(session, ONE, TWO)
    assert heard.of(e.CompactionStart) == []
    await compacted(session)
    assert shown(session) == [SUMMARY, TWO, "a"]
    await session.close()


async def test_it_is_the_window_of_the_present_model_that_counts(tmp_path: Path) -> None:
    large = structs.replace(SCRIPTED_MODEL, id="large")
    session, _ = a_small_session(tmp_path, [answer("a"), full("b"), answer("c")], models=[large, SMALL])
    heard = Listener(session)
    await talk(session, ONE, TWO)
    assert heard.of(e.CompactionStart) == []
    session.models.set_model("scripted", SMALL.id)
    await talk(session, THREE)
    assert heard.of(e.CompactionStart) == [e.CompactionStart("threshold")]
    assert shown(session) == [SUMMARY, THREE, "c"]
    await session.close()


# When a request was too large


async def test_a_session_in_memory_is_compacted_too(tmp_path: Path) -> None:
    model = WithSummaries([answer("a"), full("b")], [SUMMARISED])
    session = a_session(model, tmp_path, models=[SMALL], compaction=SETTINGS)
    await talk(session, ONE, TWO)
    assert shown(session) == [SUMMARY, TWO, "b"]
