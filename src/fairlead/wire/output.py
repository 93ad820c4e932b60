"""The one ordered way out. It never blocks the loop, and it knows when the host has stopped reading."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from fairlead.core.runtime import Cancel

#: With more than this unwritten, the host is behind: streaming updates are merged instead of sent.
BEHIND = 1 << 16


class Outlet(Protocol):
    """Where frames go, as those who make them see it."""

    @property
    def behind(self) -> bool:
        """Whether the host does not keep up, so that what can be merged should be."""
        ...

    def when_caught_up(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when the host is no longer behind."""
        ...

    def send(self, frame: bytes) -> None:
        """Send one frame, which ends with its LF."""
        ...


class Output:
    """Frames on their way to the host.

    `put` hands bytes to the writer; `written` is told how many of them left. With more than `limit` bytes
    on the way the output is `paused`: it takes every frame still, but whoever makes many should `wait`.
    """

    def __init__(self, put: Callable[[bytes], None], *, limit: int) -> None:
        self.backlog = 0
        #: Bytes that left, in all.
        self.total = 0
        self._put = put
        self._limit = limit
        self._waiters: set[asyncio.Future[None]] = set()
        self._on_caught_up: list[Callable[[], None]] = []
        self._moved = asyncio.Event()

    def send(self, frame: bytes) -> None:
        """Send one frame, which ends with its LF."""
        self.backlog += len(frame)
        self._put(frame)

    @property
    def behind(self) -> bool:
        return self.backlog > BEHIND

    @property
    def paused(self) -> bool:
        return self.backlog > self._limit

    def when_caught_up(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when the host is no longer behind."""
        self._on_caught_up.append(callback)

    async def wait(self, cancel: Cancel) -> None:
        """Return when the output is no longer paused, or when `cancel` fires."""
        while self.paused and not cancel.fired:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            forget = cancel.on_fire(lambda w=waiter: _wake(w))
            try:
                await waiter
            finally:
                forget()
                self._waiters.discard(waiter)

    async def flushed(self, patience: float) -> bool:
        """Wait until everything left, as long as the host reads: True if it did."""
        while self.backlog:
            self._moved.clear()
            try:
                async with asyncio.timeout(patience):
                    await self._moved.wait()
            except TimeoutError:
                return False
        return True

    def written(self, count: int) -> None:
        self.backlog -= count
        self.total += count
        self._moved.set()
        if not self.behind and self._on_caught_up:
            callbacks, self._on_caught_up = self._on_caught_up, []
            for callback in callbacks:
                callback()
        if not self.paused:
            for waiter in self._waiters:
                _wake(waiter)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
