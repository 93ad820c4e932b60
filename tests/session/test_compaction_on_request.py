"""Compaction on request: what it keeps, what may not happen meanwhile, and how it ends."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest
from msgspec import structs
from tests.session.scene import PATIENCE, Listener, entry_of, file_of, full_disk, held, said, settled, talk, texts
from tests.session.small_session import (
    BROKEN,
    MARKS,
    ONE,
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
from fairlead.core.model import ThinkingLevel
from fairlead.errors import (
    AlreadyCompacted,
    CompactingError,
    CompactionCancelled,
    ConfigError,
    NothingToCompact,
    ProviderError,
    SessionError,
)
from fairlead.session.history.reading import read_session


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


async def test_compaction_fails_without_a_model(tmp_path: Path) -> None:
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


async def test_an_unawaited_compaction_failure_is_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
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
