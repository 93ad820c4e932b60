"""What extensions say to the session, on its way there: work that is done later, in the order in which it came."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from contextvars import Context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator


class WorkQueue:
    """One thing after another, on a task of its own while there is something to do. What is put in raises nothing."""

    def __init__(self) -> None:
        self._pending: deque[Callable[[], Awaitable[None]]] = deque()
        self._task: asyncio.Task[None] | None = None

    def put(self, work: Callable[[], Awaitable[None]]) -> None:
        self._pending.append(work)
        if self._task is None:
            # What surrounds whoever asks for it, does not surround the work.
            self._task = asyncio.get_running_loop().create_task(self._work(), context=Context())

    @property
    def busy(self) -> bool:
        return self._task is not None

    def runs_in(self, task: asyncio.Task[object] | None) -> bool:
        return task is not None and task is self._task

    async def idle(self) -> None:
        """Wait until everything is done."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _work(self) -> None:
        try:
            while self._pending:
                await self._pending.popleft()()
        finally:
            self._task = None


class Outbox:
    """Things that take time, such as starting a run: they are done in order, and nobody waits for them.

    What a command sends leaves when the command is done, or waits for something itself: a host that has asked for the command
    gets its answer before it hears of a run that comes of it.
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
        """Let go of everything."""
        held, self._held = self._held, []
        for work in held:
            self._queue.put(work)

    @contextmanager
    def held(self) -> Generator[None]:
        """While this lasts, and until whoever asked has been answered, things wait for `send`."""
        self._holding += 1
        try:
            yield
        finally:
            self._holding -= 1
            # The caller goes on in this very step, and answers in it.
            asyncio.get_running_loop().call_soon(self.send)

    async def sent(self) -> None:
        """Wait until all of it is with the session."""
        self.send()
        await self._queue.idle()


def run_without_waiting(work: Any) -> Any:
    """What a coroutine returns that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    work.close()
    raise RuntimeError("This would have to wait, and nobody can wait for it here.")
