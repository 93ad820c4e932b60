"""Work that nobody waits for, done in the order in which it came."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context


class Lane:
    """One thing after another, on a task of its own while there is something to do. What is put in raises nothing."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], Awaitable[None]]] = deque()
        self._task: asyncio.Task[None] | None = None

    def put(self, work: Callable[[], Awaitable[None]]) -> None:
        self._waiting.append(work)
        if self._task is None:
            # What surrounds whoever asks for it, does not surround the work.
            self._task = asyncio.get_running_loop().create_task(self._work(), context=Context())

    @property
    def busy(self) -> bool:
        return self._task is not None

    def is_mine(self, task: asyncio.Task[object] | None) -> bool:
        return task is not None and task is self._task

    async def idle(self) -> None:
        """Wait until everything is done."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._waiting.popleft()()
        finally:
            self._task = None
