"""Events that wait until the entries before them are durable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fairlead.core.events import Event, TurnStart
from fairlead.core.runtime import CancelToken
from fairlead.errors import SessionLost
from fairlead.session.session_events import Events


class Writer:
    """A writer with one entry that becomes durable when the test says so."""

    def __init__(self) -> None:
        self.on_progress: Callable[[], None] = lambda: None
        self.lost: SessionLost | None = None
        self.queued, self.durable = 1, 0
        self._written = asyncio.Event()

    @property
    def is_pending(self) -> bool:
        return self.durable < self.queued

    async def wait_written(self) -> None:
        await self._written.wait()

    def write(self) -> None:
        self.durable = self.queued
        self.on_progress()
        self._written.set()


async def test_a_run_continues_while_events_wait_for_the_store_up_to_a_limit() -> None:
    events, writer, seen, cancel = Events(), Writer(), list[Event](), CancelToken()
    events.subscribe(seen.append)
    events.follow(writer)
    for _ in range(100):
        await events.emit(TurnStart(), cancel)
    assert not seen
    behind = asyncio.create_task(_emit(events, 1000, cancel))
    done, _ = await asyncio.wait([behind], timeout=0.05)
    assert not done, "the run waits for the store"
    writer.write()
    await behind
    assert len(seen) == 1100


async def _emit(events: Events, count: int, cancel: CancelToken) -> None:
    for _ in range(count):
        await events.emit(TurnStart(), cancel)
