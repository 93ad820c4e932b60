"""Keeps the pauses of Python's garbage collector short in a process with many sessions.

A full collection looks at every object. With a thousand open sessions it takes a fifth of a second, in which no client is served.
The objects of open sessions live long, so the collector is told to skip them (`gc.freeze`). What closed sessions leave behind is
collected when no session works, or when there is much of it: the more sessions are open, the longer a collection takes, and the
more closed ones it must be worth.
"""

from __future__ import annotations

import asyncio
import gc
import time
from typing import TYPE_CHECKING

from fairlead.config.memory import trim_heap

if TYPE_CHECKING:
    from fairlead.serve.sessions.hub import Hub

#: How many allocations cause a collection of young objects, and how many of those one of older objects, and so on.
THRESHOLDS = (10_000, 20, 20)
#: Seconds between two looks, and seconds after which an idle server is collected in full.
INTERVAL, FULL_SECONDS = 1.0, 600.0
#: How many sessions are opened before their objects are skipped.
ENOUGH_OPENED = 20
#: How many sessions are closed before the server is collected in full. While it works, also this part of the open ones.
ENOUGH_CLOSED, ENOUGH_PART = 50, 0.25


class Collector:
    """Decides when to collect what. `hub` has the sessions."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._opened = hub.opened
        self._closed = self._closed_by_now
        self._full_at = time.monotonic()

    @property
    def _closed_by_now(self) -> int:
        return self._hub.opened - len(self._hub.sessions) + self._hub.hosts_closed

    def tidy(self) -> None:
        """Collect or skip objects if it is time to."""
        opened, closed = self._hub.opened - self._opened, self._closed_by_now - self._closed
        sessions = self._hub.sessions
        is_worth_a_pause = closed >= max(ENOUGH_CLOSED, len(sessions) * ENOUGH_PART)
        is_due = time.monotonic() - self._full_at > FULL_SECONDS or closed >= ENOUGH_CLOSED
        if is_worth_a_pause or (is_due and not any(each.is_working for each in sessions)):
            gc.unfreeze()
            gc.collect()
            trim_heap()
            self._full_at, self._closed = time.monotonic(), self._closed_by_now
        elif opened >= ENOUGH_OPENED:
            gc.collect(1)
        else:
            return
        gc.freeze()
        self._opened = self._hub.opened


async def keep_pauses_short(hub: Hub) -> None:
    """Look after the garbage collector of the process until the task is cancelled. Then it works as before."""
    before = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)
    collector = Collector(hub)
    try:
        while True:
            await asyncio.sleep(INTERVAL)
            collector.tidy()
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
