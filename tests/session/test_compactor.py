"""When a session is compacted, and what happens to the run, the queues and the file meanwhile."""

from __future__ import annotations

import asyncio
import gc
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.session.scene import (
    PATIENCE,
    Listener,
    WithSummaries,
    a_kept_session,
    a_session,
    a_tool,
    entry_of,
    file_of,
    full_disk,
    held,
    said,
    settled,
    talk,
    texts,
)

from fairlead.config.settings import CompactionSettings
from fairlead.core import events as e
from fairlead.core.messages import CompactionSummaryMessage, ToolCall, ToolResultMessage, Usage
from fairlead.core.model import ThinkingLevel
from fairlead.core.tool import ToolContext, ToolResult
from fairlead.errors import (
    AlreadyCompacted,
    CompactingError,
    CompactionCancelled,
    ConfigError,
    NothingToCompact,
    ProviderError,
    SessionError,
)
from fairlead.session.history.entries import CompactionEntry, Entry
from fairlead.session.history.reading import read_session
from fairlead.session.session import Session
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

#: With a window of 1,000 tokens and a reserve of 400, 600 are for use; about 20 of them stay after a compaction.
SMALL = structs.replace(SCRIPTED_MODEL, context_window=1000)
SETTINGS = CompactionSettings(reserve_tokens=400, keep_recent_tokens=20)
#: Questions of 25 tokens each, so that a compaction keeps the last one and what follows it.
ONE, TWO, THREE, FOUR = (f"{number:-<100}" for number in ("one", "two", "three", "four"))
SUMMARY = "CompactionSummaryMessage"

SUMMARISED = Turn(text="In short.", usage=Usage(input=30, output=10))
BROKEN = Turn(error="out of order")
OVERFLOW = Turn(error="prompt is too long: 1001 tokens > 1000 maximum")

MARKS = (
    e.AgentStart,
    e.AgentEnd,
    e.AgentSettled,
    e.TurnStart,
    e.TurnEnd,
    e.CompactionStart,
    e.CompactionEnd,
)


def answer(text: str, tokens: int = 100, **more: Any) -> Turn:
    """An answer after which the context has this many tokens."""
    return Turn(text=text, usage=Usage(input=tokens), **more)


def full(text: str) -> Turn:
    """An answer after which it is time for a compaction."""
    return answer(text, 601)


class Signal:
    """A pause of a turn: says when it has been reached, and lasts until it is told to go on."""

    def __init__(self) -> None:
        self._reached, self.go = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> None:
        self._reached.set()
        await self.go.wait()

    async def reached(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._reached.wait()


async def nothing() -> None:
    """A pause that is none."""


def a_small_session(
    tmp_path: Path, answers: Sequence[Turn], summaries: Sequence[Turn] = (SUMMARISED,), **changes: Any
) -> tuple[Session, WithSummaries]:
    model = WithSummaries(answers, summaries)
    options: dict[str, Any] = {"models": [SMALL], "compaction": SETTINGS}
    return a_kept_session(model, tmp_path, **(options | changes)), model


async def compacted(session: Session, instructions: str | None = None) -> e.CompactionResult:
    async with asyncio.timeout(PATIENCE):
        return await session.compact(instructions)


def shown(session: Session) -> list[str]:
    return texts(session.messages)


def saved(session: Session) -> list[str]:
    return texts(read_session(file_of(session))[0].messages())


# Asked for


async def test_on_request_the_older_part_of_the_conversation_becomes_a_summary(tmp_path: Path) -> None:
    session, model = a_small_session(tmp_path, [answer("a"), answer("b"), answer("c")])
    await talk(session, ONE, TWO)
    heard = Listener(session)
    assert session.history.conversation.context_tokens() == 100
    result = await compacted(session)
    assert heard == [e.CompactionStart("manual"), e.CompactionEnd("manual", result)]
    assert (result.summary, result.tokens_before) == ("In short.", 100)
    assert result.first_kept_entry_id == entry_of(session.history.log, TWO)
    assert shown(session) == saved(session) == [SUMMARY, TWO, "b"]
    assert session.history.conversation.context_tokens() is None, "until the next answer nobody knows"
    assert not session.activity.is_streaming and not session.activity.is_compacting

    await talk(session, THREE)
    told = texts(model.answers.requests[-1].messages)
    assert "In short." in told[0] and told[1:] == [TWO, "b", THREE]
    assert session.history.conversation.context_tokens() == 100
    await session.close()


async def test_a_later_compaction_updates_the_summary_of_the_one_before(tmp_path: Path) -> None:
    session, model = a_small_session(tmp_path, [answer("a")])
    await talk(session, ONE, TWO)
    await compacted(session)
    await talk(session, THREE)
    await compacted(session, "mind the gap")
    (asked,) = texts(model.summaries.requests[-1].messages)
    assert "<previous-summary>\nIn short.\n</previous-summary>" in asked and "mind the gap" in asked
    assert TWO in asked and ONE not in asked
    assert shown(session) == [SUMMARY, THREE, "a"]
    await session.close()


@pytest.mark.parametrize(("level", "used"), [("off", "off"), ("minimal", "minimal"), ("high", "low")])
async def test_a_summary_is_not_thought_about_for_long(tmp_path: Path, level: ThinkingLevel, used: ThinkingLevel) -> None:
    session, model = a_small_session(tmp_path, [answer("a")], thinking=level)
    await talk(session, ONE, TWO)
    await compacted(session)
    assert [request.thinking for request in model.summaries.requests] == [used]
    await session.close()


async def test_where_everything_is_recent_there_is_nothing_to_compact(tmp_path: Path) -> None:
    session, model = a_small_session(tmp_path, [answer("a")])
    heard = Listener(session)
    with pytest.raises(NothingToCompact, match=r"^Nothing to compact \(session too small\)$"):
        await compacted(session)
    assert heard.of(e.CompactionEnd) == [
        e.CompactionEnd("manual", error="Compaction failed: Nothing to compact (session too small)")
    ]
    await talk(session, ONE, TWO)
    await compacted(session)
    with pytest.raises(AlreadyCompacted, match=r"^Already compacted$"):
        await compacted(session)
    assert len(model.summaries.requests) == 1 and not session.activity.is_compacting
    await session.close()


async def test_without_a_model_nobody_can_write_the_summary(tmp_path: Path) -> None:
    session, _ = a_small_session(tmp_path, [answer("a")])
    await talk(session, ONE, TWO)
    session.models.model = None
    with pytest.raises(ConfigError, match="No model is chosen that could write the summary"):
        await compacted(session)
    assert shown(session) == [ONE, "a", TWO, "a"]
    await session.close()


async def test_a_compaction_on_request_ends_the_run_first_with_all_its_events(tmp_path: Path) -> None:
    turn, _ = held()
    session, _ = a_small_session(tmp_path, [answer("a"), turn])
    await talk(session, ONE)
    heard = Listener(session)
    await session.prompt(TWO)
    await heard.until(e.MessageEnd)
    await compacted(session)
    assert heard.outline(*MARKS) == [
        "AgentStart",
        "TurnStart",
        "TurnEnd",
        "AgentEnd",
        "AgentSettled",
        "CompactionStart",
        "CompactionEnd",
    ]
    assert session.activity.last_end is not None and session.activity.last_end.message.stop_reason == "aborted"
    assert shown(session) == [SUMMARY, TWO, ""]
    await session.close()


async def test_meanwhile_a_prompt_and_a_second_request_are_refused(tmp_path: Path) -> None:
    signal = Signal()
    session, model = a_small_session(tmp_path, [answer("a")], [structs.replace(SUMMARISED, pause=signal)])
    await talk(session, ONE, TWO)
    compaction = session.compact()
    # It counts from the request on, not only when the model has been asked.
    with pytest.raises(CompactingError, match=r"^Cannot submit a prompt while compaction is in progress"):
        await session.prompt("at once")
    await signal.reached()
    assert session.activity.is_compacting and not session.activity.is_streaming
    with pytest.raises(CompactingError, match=r"^Cannot submit a prompt while compaction is in progress"):
        await session.prompt("too soon")
    with pytest.raises(CompactingError, match=r"^The session is being compacted already\.$"):
        session.compact()
    await session.steer("by the way")
    signal.go.set()
    await compaction
    await talk(session, THREE)
    assert said(session) == [TWO, THREE, "by the way"]
    assert len(model.summaries.requests) == 1
    await session.close()


async def test_an_abort_ends_a_compaction_and_nothing_has_changed(tmp_path: Path) -> None:
    signal = Signal()
    session, _ = a_small_session(tmp_path, [answer("a")], [structs.replace(SUMMARISED, pause=signal)])
    await talk(session, ONE, TWO)
    before, heard = file_of(session).read_bytes(), Listener(session)
    compaction = session.compact()
    await signal.reached()
    async with asyncio.timeout(PATIENCE):
        await session.abort()
    assert not session.activity.is_compacting, "an abort returns when it is over"
    with pytest.raises(CompactionCancelled, match=r"^Compaction cancelled$"):
        await compaction
    assert heard == [e.CompactionStart("manual"), e.CompactionEnd("manual", aborted=True)]
    assert shown(session) == [ONE, "a", TWO, "a"] and file_of(session).read_bytes() == before
    await talk(session, THREE)
    await session.close()


async def test_another_conversation_ends_a_compaction(tmp_path: Path) -> None:
    signal = Signal()
    session, _ = a_small_session(tmp_path, [answer("a")], [structs.replace(SUMMARISED, pause=signal)])
    await talk(session, ONE, TWO)
    first, heard = file_of(session), Listener(session)
    compaction = session.compact()
    await signal.reached()
    async with asyncio.timeout(PATIENCE):
        await session.history.new()
    assert heard.kinds() == ["CompactionStart", "CompactionEnd", "SessionReplaced"]
    with pytest.raises(CompactionCancelled):
        await compaction
    assert texts(read_session(first)[0].messages()) == [ONE, "a", TWO, "a"]


async def test_a_summary_that_fails_loses_nothing(tmp_path: Path) -> None:
    session, _ = a_small_session(tmp_path, [answer("a")], [BROKEN, SUMMARISED])
    await talk(session, ONE, TWO)
    before, heard = file_of(session).read_bytes(), Listener(session)
    with pytest.raises(ProviderError, match=r"^Summarization failed: out of order$"):
        await compacted(session)
    error = "Compaction failed: Summarization failed: out of order"
    assert heard == [e.CompactionStart("manual"), e.CompactionEnd("manual", error=error)]
    assert shown(session) == [ONE, "a", TWO, "a"] and file_of(session).read_bytes() == before
    await compacted(session)
    assert shown(session) == [SUMMARY, TWO, "a"]
    await session.close()


async def test_a_summary_that_cannot_be_written_loses_nothing(tmp_path: Path) -> None:
    session, _ = a_small_session(tmp_path, [answer("a")])
    await talk(session, ONE, TWO)
    heard = Listener(session)
    with full_disk(session), pytest.raises(SessionError, match="File too large"):
        await compacted(session)
    (end,) = heard.of(e.CompactionEnd)
    assert end.result is None and end.error is not None and "File too large" in end.error
    assert shown(session) == saved(session) == [ONE, "a", TWO, "a"]
    await session.close()


async def test_a_failure_that_nobody_waits_for_is_no_complaint(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    session, _ = a_small_session(tmp_path, [answer("a")], [BROKEN])
    await talk(session, ONE, TWO)
    session.compact()
    await settled(session)
    await session.close()
    gc.collect()  # asyncio complains when the task goes
    assert caplog.records == []


async def test_a_command_that_ends_during_a_compaction_is_kept(tmp_path: Path) -> None:
    signal = Signal()
    session, _ = a_small_session(tmp_path, [answer("a")], [structs.replace(SUMMARISED, pause=signal)])
    await talk(session, ONE, TWO)
    compaction = session.compact()
    await signal.reached()
    await session.host.bash("true")
    signal.go.set()
    await compaction
    assert shown(session) == saved(session) == [SUMMARY, TWO, "a", "BashExecutionMessage"]
    await session.close()


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
async def test_messages_queued_during_the_compaction_at_the_end_are_heard(tmp_path: Path, how: str, summary: Turn) -> None:
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


async def test_what_an_aborted_answer_filled_is_looked_at_before_the_next_prompt(tmp_path: Path) -> None:
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
    crashed = Path(shutil.copy(file_of(session), tmp_path / "crashed.jsonl"))
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


async def test_a_window_that_nobody_knows_is_never_full(tmp_path: Path) -> None:
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


async def test_a_request_that_overflowed_is_sent_again_after_a_compaction(tmp_path: Path) -> None:
    session, model = a_small_session(tmp_path, [answer("a"), OVERFLOW, answer("b")])
    await talk(session, ONE)
    heard = Listener(session)
    await talk(session, TWO)
    assert heard.outline(*MARKS, e.EntryAppended) == [
        *["AgentStart", "TurnStart", "TurnEnd", "AgentEnd"],
        *["EntryAppended", "CompactionStart", "CompactionEnd"],
        *["AgentStart", "TurnStart", "TurnEnd", "AgentEnd", "AgentSettled"],
    ]
    assert [end.will_retry for end in heard.of(e.AgentEnd)] == [True, False]
    (end,) = heard.of(e.CompactionEnd)
    assert (end.reason, end.will_retry, end.error) == ("overflow", True, None)
    told = texts(model.answers.requests[-1].messages)
    assert "In short." in told[0] and told[1:] == [TWO], "without the answer that failed"
    assert shown(session) == saved(session) == [SUMMARY, TWO, "b"]
    assert session.activity.last_end is not None and session.activity.last_end.message.stop_reason == "stop"
    await session.close()


async def test_a_request_that_overflows_again_and_again_is_given_up(tmp_path: Path) -> None:
    session, model = a_small_session(tmp_path, [answer("a"), OVERFLOW])
    await talk(session, ONE)
    heard = Listener(session)
    await talk(session, TWO)
    ends = heard.of(e.AgentEnd)
    assert len(ends) <= 6 and all(end.will_retry for end in ends[:-1])
    assert heard.of(e.CompactionStart) == [e.CompactionStart("overflow")], "nothing is left to summarise after that"
    (given_up,) = heard.of(e.CompactionEnd)[1:]
    assert given_up.error is not None and given_up.error.startswith("Context overflow recovery failed.")
    assert "larger-context model" in given_up.error
    assert heard.kinds().count("AgentSettled") == 1 and heard.kinds()[-1] == "AgentSettled"
    assert len(model.answers.requests) == 1 + len(ends)
    assert session.activity.last_end is not None and session.activity.last_end.message.stop_reason == "error"
    await session.close()


async def test_a_request_that_overflows_again_after_good_answers_has_another_chance(tmp_path: Path) -> None:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult.text("x" * 400)

    call = Turn(tool_calls=[ToolCall("c1", "one", {})], usage=Usage(input=100))
    answers = [answer("a"), OVERFLOW, call, OVERFLOW, answer("b")]
    session, _ = a_small_session(tmp_path, answers, tools=[a_tool("one", run)])
    await talk(session, ONE)
    heard = Listener(session)
    await talk(session, TWO)
    assert [end.error for end in heard.of(e.CompactionEnd)] == [None, None]
    assert [end.will_retry for end in heard.of(e.AgentEnd)] == [True, True, False]
    assert shown(session)[-1] == "b"
    await session.close()


async def test_an_answer_that_was_given_up_is_not_in_any_summary(tmp_path: Path) -> None:
    given_up = structs.replace(OVERFLOW, text="half an answer")
    session, model = a_small_session(tmp_path, [answer("a"), given_up, answer("b"), answer("c")])
    await talk(session, ONE, TWO, THREE)
    await compacted(session)
    (asked,) = texts(model.summaries.requests[-1].messages)
    assert TWO in asked and "[Assistant]: b" in asked and "half an answer" not in asked
    await session.close()


async def test_every_run_has_its_own_chance_to_recover(tmp_path: Path) -> None:
    session, _ = a_small_session(tmp_path, [answer("a"), OVERFLOW, answer("b"), OVERFLOW, answer("c")])
    heard = Listener(session)
    await talk(session, ONE, TWO, THREE)
    assert [end.error for end in heard.of(e.CompactionEnd)] == [None, None]
    assert shown(session) == [SUMMARY, THREE, "c"]
    await session.close()


async def test_where_a_compaction_fails_an_overflow_ends_the_run_and_nothing_is_lost(tmp_path: Path) -> None:
    session, model = a_small_session(tmp_path, [answer("a"), OVERFLOW], [BROKEN])
    await talk(session, ONE)
    heard = Listener(session)
    await talk(session, TWO)
    (end,) = heard.of(e.CompactionEnd)
    assert end == e.CompactionEnd("overflow", error="Auto-compaction failed: Summarization failed: out of order")
    assert len(model.answers.requests) == 2
    assert heard.kinds()[-1] == "AgentSettled"
    assert session.activity.last_end is not None and session.activity.last_end.message.stop_reason == "error"
    assert shown(session) == saved(session) == [ONE, "a", TWO]
    await session.close()


async def test_an_abort_during_the_recovery_ends_the_run(tmp_path: Path) -> None:
    signal = Signal()
    session, model = a_small_session(tmp_path, [answer("a"), OVERFLOW], [structs.replace(SUMMARISED, pause=signal)])
    await talk(session, ONE)
    heard = Listener(session)
    await session.prompt(TWO)
    await signal.reached()
    async with asyncio.timeout(PATIENCE):
        await session.abort()
    assert heard.of(e.CompactionEnd) == [e.CompactionEnd("overflow", aborted=True)]
    assert heard.kinds()[-1] == "AgentSettled" and len(model.answers.requests) == 2
    assert shown(session) == [ONE, "a", TWO]
    await session.close()


async def test_an_overflow_of_a_model_that_no_longer_answers_is_not_compacted_for(tmp_path: Path) -> None:
    signal = Signal()
    large = structs.replace(SCRIPTED_MODEL, id="large")
    overflow = structs.replace(OVERFLOW, text="x", pause=signal)
    session, model = a_small_session(tmp_path, [answer("a"), overflow], models=[SMALL, large])
    await talk(session, ONE)
    await session.prompt(TWO)
    await signal.reached()
    session.models.set_model("scripted", "large")
    signal.go.set()
    await settled(session)
    assert model.summaries.requests == []
    await session.close()


async def test_other_failures_are_not_taken_for_an_overflow(tmp_path: Path) -> None:
    session, model = a_small_session(tmp_path, [answer("a"), Turn(error="400 invalid request")])
    heard = Listener(session)
    await talk(session, ONE, TWO)
    assert heard.of(e.CompactionStart) == [] and model.summaries.requests == []
    await session.close()


async def test_a_session_in_memory_is_compacted_all_the_same(tmp_path: Path) -> None:
    model = WithSummaries([answer("a"), full("b")], [SUMMARISED])
    session = a_session(model, tmp_path, models=[SMALL], compaction=SETTINGS)
    await talk(session, ONE, TWO)
    assert shown(session) == [SUMMARY, TWO, "b"]
