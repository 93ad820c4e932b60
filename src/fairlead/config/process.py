"""Daemon threads for work that blocks, and what the end of the process has to call.

The event loop's own pool (`asyncio.to_thread`) makes the process wait for its threads before it can exit. A daemon thread
does not, even while it blocks.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


def start_thread(work: Callable[[], object], name: str) -> None:
    """Run `work` in a daemon thread and do not wait for it.

    Args:
        work: the function to run. Its result is dropped; an exception ends its thread only.
        name: the thread's name, for debuggers.
    """
    threading.Thread(target=work, name=name, daemon=True).start()


async def run_in_thread(work: Callable[[], T], name: str = "fairlead-blocking") -> T:
    """Run `work` in a daemon thread and wait for its result.

    The thread sees the context variables of the caller. A caller that is cancelled stops waiting at once. The thread itself
    cannot be stopped; its result is then dropped.

    Args:
        work: the function to run.
        name: the thread's name, for debuggers.

    Returns:
        What `work` returns.

    Raises:
        BaseException: what `work` raises, except that a StopIteration arrives as a RuntimeError.
    """
    import asyncio  # not at the top: the command can do without it for --version and --help

    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def deliver(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)  # pyright: ignore[reportArgumentType]
        elif isinstance(error, StopIteration):  # which a future refuses to hold
            done.set_exception(RuntimeError("StopIteration was raised in a thread"))
        else:
            done.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop is closed, so no caller is waiting
            loop.call_soon_threadsafe(deliver, result, error)

    context = contextvars.copy_context()
    start_thread(lambda: context.run(run), name)
    return await done


_callbacks: list[Callable[[], None]] = []


def on_process_ending(callback: Callable[[], None]) -> None:
    """Call `callback`, on any thread, when the process is about to end. Registering twice is the same as once."""
    if callback not in _callbacks:
        _callbacks.append(callback)


def process_is_ending() -> None:
    """Call every registered callback: the process is about to end."""
    for callback in list(_callbacks):
        callback()


def runs_foreign_code() -> bool:
    """Return whether code that is not ours may have run in this process."""
    return bool(_callbacks)
