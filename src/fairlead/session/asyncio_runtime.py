"""Time and concurrency for the core, on asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from types import CoroutineType
from typing import Any, TypeVar, cast

from fairlead.core.runtime import CancelToken, Interrupted, TimedOut

T = TypeVar("T")

#: The error of work that raised a CancelledError although no caller had cancelled it.
CANCELLED_ELSEWHERE = "It was cancelled, but not by the agent."


class AsyncioRuntime:
    """Implements `fairlead.core.runtime.Runtime`."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float, cancel: CancelToken) -> None:
        """Wait for some seconds, or until `cancel` fires."""
        woken = asyncio.Event()
        forget = cancel.on_fire(woken.set)
        try:
            async with asyncio.timeout(seconds):
                await woken.wait()
        except TimeoutError:
            pass
        finally:
            forget()

    async def run_all(self, jobs: Sequence[Callable[[], Coroutine[Any, Any, None]]], limit: int) -> None:
        if len(jobs) == 1:
            await jobs[0]()
            return
        remaining = iter(jobs)

        async def worker() -> None:
            for job in remaining:
                await job()

        async with asyncio.TaskGroup() as group:
            for _ in range(min(limit, len(jobs))):
                group.create_task(worker())

    def slots(self, count: int) -> asyncio.Semaphore:
        return asyncio.Semaphore(count)

    async def run_bounded(self, work: Awaitable[T], cancel: CancelToken, *, timeout: float | None, grace: float) -> T:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(_with_ordinary_errors(work))
        cut: list[Exception] = []
        timers: list[asyncio.TimerHandle] = []

        def cut_off(reason: Exception) -> None:
            cut.append(reason)
            task.cancel()

        forget = cancel.on_fire(lambda: timers.append(loop.call_later(grace, cut_off, Interrupted())))
        if timeout is not None:
            timers.append(loop.call_later(timeout, cut_off, TimedOut()))
        try:
            return await task
        except asyncio.CancelledError:
            if cut:
                raise cut[0] from None
            task.cancel()
            raise
        finally:
            forget()
            for timer in timers:
                timer.cancel()
            _close_unless_begun(work)


def _close_unless_begun(work: Awaitable[object]) -> None:
    """Close a coroutine that was cancelled before it began: Python would warn about it.

    `inspect.getcoroutinestate` says the same, but the first prompt would have to load `inspect`.
    """
    if not isinstance(work, CoroutineType):
        return
    coroutine = cast("CoroutineType[Any, Any, Any]", work)
    if coroutine.cr_frame is not None and not coroutine.cr_running and not coroutine.cr_suspended:
        coroutine.close()


async def _with_ordinary_errors(work: Awaitable[T]) -> T:
    """Do `work`, and turn what would end more than it into a RuntimeError.

    asyncio would let a SystemExit end the process. A CancelledError that no caller asked for, such as that of a task which the
    work awaits, would end the run.
    """
    try:
        return await work
    except SystemExit as error:
        raise RuntimeError(f"tried to end the process with exit code {error.code}") from error
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        raise RuntimeError(CANCELLED_ELSEWHERE) from error


def is_cancelled() -> bool:
    """Whether a caller has cancelled the present task, as opposed to a CancelledError that code within it raised."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
