"""A request that was too large for the model: it is sent again after a compaction, or the run ends."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from msgspec import structs
from tests.session.scene import PATIENCE, Listener, a_tool, settled, talk, texts
from tests.session.small_session import (
    BROKEN,
    MARKS,
    ONE,
    OVERFLOW,
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

from fairlead.core import events as e
from fairlead.core.messages import ToolCall, Usage
from fairlead.core.tool import ToolContext, ToolResult
from fairlead.testing import SCRIPTED_MODEL, Turn


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
