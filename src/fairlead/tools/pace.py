"""Telling of something that changes often, now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Paced:
    """Calls `act` when it is asked to, but not more often than every `interval` seconds: what comes sooner waits its time."""

    def __init__(self, act: Callable[[], None], interval: float) -> None:
        self._act = act
        self._interval = interval
        self._loop = asyncio.get_running_loop()
        self._last = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self) -> None:
        if self._timer is None:
            due = self._last + self._interval
            if due <= self._loop.time():
                self._now()
            else:
                self._timer = self._loop.call_at(due, self._now)

    def stop(self) -> None:
        """Forget what waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _now(self) -> None:
        self._timer = None
        self._last = self._loop.time()
        self._act()
