"""Another attempt at a summary whose request failed in a way that may pass."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec import structs
from tests.session.scene import PATIENCE, Listener, WithSummaries, a_kept_session, entry_of, talk, texts

from fairlead.config.settings import CompactionSettings, RetrySettings
from fairlead.core import events as e
from fairlead.core.messages import Usage
from fairlead.errors import CompactionCancelled, ProviderError
from fairlead.session.session import Session
from fairlead.testing import SCRIPTED_MODEL, Turn

SMALL = structs.replace(SCRIPTED_MODEL, context_window=1000)
SETTINGS = CompactionSettings(reserve_tokens=400, keep_recent_tokens=20)
OVERLOADED = Turn(error="529 Overloaded", status=529, transient=True, usage=Usage(input=5))
DROPPED = Turn(text="In sh", error="The connection was lost.", transient=True)
SUMMARISED = Turn(text="In short.", usage=Usage(input=30, output=10))
FULL = Turn(text="b", usage=Usage(input=601))
ONE, TWO = (f"{number:-<100}" for number in ("one", "two"))
AT_ONCE, MUCH_LATER = RetrySettings(base_delay_ms=0), RetrySettings(base_delay_ms=60_000)
RETRIES = (e.CompactionStart, e.SummaryRetryScheduled, e.SummaryRetryStart, e.SummaryRetryEnd, e.CompactionEnd)


async def a_conversation(
    tmp_path: Path, summaries: list[Turn], retry: RetrySettings = AT_ONCE, last: Turn | None = None
) -> tuple[Session, Listener, WithSummaries]:
    model = WithSummaries([Turn(text="a"), last or Turn(text="b")], summaries)
    session = a_kept_session(model, tmp_path, models=[SMALL], compaction=SETTINGS, retry=retry)
    heard = Listener(session)
    await talk(session, ONE, TWO)
    return session, heard, model


def retries(heard: Listener) -> list[e.Event]:
    return [event for event in heard if isinstance(event, RETRIES)]


@pytest.mark.parametrize("failure", [OVERLOADED, DROPPED])
async def test_a_failure_that_passes_is_not_the_end_of_a_compaction(tmp_path: Path, failure: Turn) -> None:
    session, heard, _ = await a_conversation(tmp_path, [failure, SUMMARISED])
    async with asyncio.timeout(PATIENCE):
        result = await session.compact()
    assert retries(heard) == [
        e.CompactionStart("manual"),
        e.SummaryRetryScheduled(1, 3, 0, failure.error or ""),
        e.SummaryRetryStart("compaction", "manual"),
        e.SummaryRetryEnd(),
        e.CompactionEnd("manual", result),
    ]
    assert result.usage is not None and result.usage.input == 30 + (failure.usage.input if failure.usage else 0)
    assert texts(session.messages) == ["CompactionSummaryMessage", TWO, "b"]
    await session.close()


async def test_a_compaction_by_itself_and_the_summary_of_a_branch_have_further_attempts_too(tmp_path: Path) -> None:
    session, heard, _ = await a_conversation(tmp_path, [OVERLOADED, SUMMARISED], last=FULL)
    assert e.SummaryRetryStart("compaction", "threshold") in heard
    await session.close()
    session, heard, _ = await a_conversation(tmp_path, [OVERLOADED, SUMMARISED])
    async with asyncio.timeout(PATIENCE):
        await session.navigate(entry_of(session.history.log, "a"), summarise=True)
    assert retries(heard)[1:] == [e.SummaryRetryStart("branchSummary"), e.SummaryRetryEnd()]
    await session.close()


async def test_attempts_at_a_summary_come_to_an_end(tmp_path: Path) -> None:
    session, heard, model = await a_conversation(tmp_path, [OVERLOADED])
    with pytest.raises(ProviderError, match="Overloaded"):
        await session.compact()
    assert [event.attempt for event in heard.of(e.SummaryRetryScheduled)] == [1, 2, 3]
    assert len(heard.of(e.SummaryRetryEnd)) == 1 and len(model.summaries.requests) == 4
    assert texts(session.messages) == [ONE, "a", TWO, "b"]
    await session.close()


async def test_without_retries_and_for_lasting_failures_there_is_one_attempt(tmp_path: Path) -> None:
    session, heard, _ = await a_conversation(tmp_path, [OVERLOADED, Turn(error="401 no key", status=401)])
    session.activity.auto_retry = False
    with pytest.raises(ProviderError, match="Overloaded"):
        await session.compact()
    session.activity.auto_retry = True
    with pytest.raises(ProviderError, match="no key"):
        await session.compact()
    assert heard.of(e.SummaryRetryScheduled) == []
    await session.close()


@pytest.mark.parametrize("how", ["abort", "abort the retry"])
async def test_an_abort_ends_the_wait_for_the_next_attempt_at_once(tmp_path: Path, how: str) -> None:
    session, heard, model = await a_conversation(tmp_path, [OVERLOADED, SUMMARISED], MUCH_LATER)
    compaction = asyncio.ensure_future(session.compact())
    await heard.until(e.SummaryRetryScheduled)
    error = CompactionCancelled if how == "abort" else ProviderError
    if how == "abort":
        session.activity.cancel()
    else:
        session.activity.cancel_retry()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(error):
            await compaction
    assert len(model.summaries.requests) == 1 and retries(heard)[-2] == e.SummaryRetryEnd()
    assert texts(session.messages) == [ONE, "a", TWO, "b"]
    await session.close()
