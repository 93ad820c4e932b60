"""The order in which extensions get events, and in which what they send reaches the session."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager


class WorkQueue:
    """Runs pieces of work one after another, in a task that exists while there is work. The work must not raise."""

    def __init__(self) -> None:
        self._pending: deque[Callable[[], Awaitable[None]]] = deque()
        self._task: asyncio.Task[None] | None = None

    def put(self, work: Callable[[], Awaitable[None]]) -> None:
        self._pending.append(work)
        if self._task is None:
            # The work does not inherit the context variables of the caller.
            self._task = asyncio.get_running_loop().create_task(self._work(), context=contextvars.Context())

    @property
    def busy(self) -> bool:
        return self._task is not None

    def runs_in(self, task: asyncio.Task[object] | None) -> bool:
        """Whether `task` is the one that runs the work."""
        return task is not None and task is self._task

    async def idle(self) -> None:
        """Wait until all work is done."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _work(self) -> None:
        try:
            while self._pending:
                await self._pending.popleft()()
        finally:
            self._task = None


class Outbox:
    """Work that takes time, such as starting a run. It is done in order, and extensions do not wait for it.

    What a command sends is held back until the command is done or waits for something. A host that sent the command thus gets the
    response before the events of a run that the command starts.
    """

    def __init__(self) -> None:
        self._held: list[Callable[[], Awaitable[None]]] = []
        self._holding = 0
        self._queue = WorkQueue()

    @property
    def is_empty(self) -> bool:
        return not self._held and not self._queue.busy

    def put(self, work: Callable[[], Awaitable[None]]) -> None:
        self._held.append(work)
        if not self._holding:
            self.send()

    def send(self) -> None:
        """Start all work that was held back."""
        held, self._held = self._held, []
        for work in held:
            self._queue.put(work)

    @contextmanager
    def held(self) -> Generator[None]:
        """Hold work back until `send` is called, or until the caller has sent its response."""
        self._holding += 1
        try:
            yield
        finally:
            self._holding -= 1
            # The caller sends its response in this same step of the event loop.
            asyncio.get_running_loop().call_soon(self.send)

    async def sent(self) -> None:
        """Start all work, and wait until it is done."""
        self.send()
        await self._queue.idle()
