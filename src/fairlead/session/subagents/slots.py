"""Limits how many sub-agents work at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fairlead.core.runtime import CancelToken


class Slots:
    """A number of slots. Waiters get them in the order in which they asked."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: list[asyncio.Future[bool]] = []

    async def take(self, cancel: CancelToken) -> bool:
        """Wait for a slot; False if `cancel` fires first."""
        if cancel.fired:
            return False
        if self._free:
            self._free -= 1
            return True
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        forget = cancel.on_fire(lambda: _answer(waiter, False))
        try:
            return await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled() and waiter.result():  # it was given a slot that it will not use
                self.give_back()
            raise
        finally:
            forget()

    def give_back(self) -> None:
        while self._waiting:
            if _answer(self._waiting.pop(0), True):
                return
        self._free += 1


class Slot:
    """The slot of one sub-agent. While the agent waits for its own sub-agents, others may use it, or all could wait forever."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._held = False
        self._lendings = 0
        self._is_wanted_back = False

    async def take(self, cancel: CancelToken) -> bool:
        """Wait for a slot; False if `cancel` fires first."""
        self._held = await self._slots.take(cancel)
        return self._held

    def give_back(self) -> None:
        if self._held:
            self._held = False
            self._slots.give_back()

    @asynccontextmanager
    async def lent(self, cancel: CancelToken) -> AsyncGenerator[None]:
        """Leave the slot to others; in the end wait for one again, unless `cancel` fires."""
        self._lendings += 1
        self.give_back()
        try:
            yield
        finally:
            self._lendings -= 1
            if not self._lendings and not self._is_wanted_back:
                await self._take_back(cancel)

    async def _take_back(self, cancel: CancelToken) -> None:
        self._is_wanted_back = True
        try:
            await self.take(cancel)
        finally:
            self._is_wanted_back = False
            if self._lendings:  # it waits again, for others
                self.give_back()


def _answer(waiter: asyncio.Future[bool], answer: bool) -> bool:
    """Answer a waiter. Returns whether it was still waiting."""
    if waiter.done():
        return False
    waiter.set_result(answer)
    return True
