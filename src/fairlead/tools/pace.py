"""Limits how often something is reported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Paced:
    """Calls `act` on request, but at most once every `interval` seconds. An earlier request is delayed until then."""

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
        """Drop a delayed request."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _now(self) -> None:
        self._timer = None
        self._last = self._loop.time()
        self._act()
