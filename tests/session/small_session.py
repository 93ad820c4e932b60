"""A session with so small a context window that a few answers make a compaction due."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import structs
from tests.session.scene import PATIENCE, WithSummaries, a_kept_session, file_of, texts

from fairlead.config.settings import CompactionSettings
from fairlead.core import events as e
from fairlead.core.messages import Usage
from fairlead.session.history.reading import read_session
from fairlead.session.session import Session
from fairlead.testing import SCRIPTED_MODEL, Turn

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
