"""A thread that does blocking work for event loops, in the order in which it is asked for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Condition
from typing import Any, Generic, TypeVar, cast

from fairlead.config.process import start_thread
from fairlead.stores.store import closed

C = TypeVar("C")
T = TypeVar("T")


class Job(Generic[C]):
    """A piece of work. `resource` is what the thread works with, such as a connection."""

    __slots__ = ("_future", "_loop", "error", "result", "work")

    def __init__(self, work: Callable[[C], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.work = work
        self._loop = loop
        self._future: asyncio.Future[Any] = loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None

    @property
    def future(self) -> asyncio.Future[Any]:
        return self._future

    def do(self, resource: C) -> None:
        """Do the work, and keep its result or its error."""
        self.result = self.error = None
        try:
            self.result = self.work(resource)
        except BaseException as error:
            self.error = error

    def answer(self) -> None:
        """Give the caller the result, or the error."""
        with suppress(RuntimeError):  # its loop was closed
            self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        if self._future.done():  # the caller was cancelled
            return
        if self.error is not None:
            self._future.set_exception(self.error)
        else:
            self._future.set_result(self.result)


class Worker(Generic[C]):
    """Runs jobs on one thread, which starts with the first job.

    `run` gets all jobs that wait, at least one, and must answer each. `end` is called on the thread after the last job.
    """

    def __init__(self, name: str, run: Callable[[list[Job[C]]], None], end: Callable[[], None] = lambda: None) -> None:
        self._name = name
        self._run = run
        self._end = end
        self._waiting: deque[Job[C]] = deque()
        self._changed = Condition()
        self._started = False
        self._closing: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] | None = None
        self._ended = False

    async def do(self, work: Callable[[C], T]) -> T:
        """Do some work on the thread, and return its result. It is done even if the caller is cancelled meanwhile."""
        job: Job[C] = Job(work, asyncio.get_running_loop())
        with self._changed:
            if self._closing is not None:
                raise closed()
            self._waiting.append(job)
            if not self._started:
                self._started = True
                start_thread(self._work, self._name)
            self._changed.notify()
        return cast("T", await job.future)

    async def close(self) -> None:
        """Take no more work, and wait until what was asked for is done."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        with self._changed:
            if self._closing is None:
                self._closing = []
            if self._ended or not self._started:
                return
            self._closing.append((loop, done))
            self._changed.notify()
        await done

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and self._closing is None:
                    self._changed.wait()
                jobs = list(self._waiting)
                self._waiting.clear()
            if not jobs:
                break
            self._run(jobs)
        self._end()
        with self._changed:
            self._ended = True
            waiters = self._closing or []
        for loop, done in waiters:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(lambda done=done: None if done.done() else done.set_result(None))
