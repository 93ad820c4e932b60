"""File work off the event loop: it can be told to stop, and the changes of one file happen in the order they were asked for."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from fairlead.core.runtime import Cancel
from fairlead.errors import ToolError

T = TypeVar("T")


class Stop:
    """Asked by work in a thread between two steps, so that it never outlives its call for long."""

    __slots__ = ("asked",)

    def __init__(self) -> None:
        self.asked = False

    def ask(self) -> None:
        self.asked = True

    def check(self) -> None:
        if self.asked:
            raise ToolError("Operation aborted")


async def in_thread(cancel: Cancel, work: Callable[[Stop], T]) -> T:
    """Run `work` in a thread; when `cancel` fires or the caller is cut off, its `Stop` says so."""
    stop = Stop()
    take_back = cancel.on_fire(stop.ask)
    try:
        stop.check()
        return await asyncio.to_thread(work, stop)
    finally:
        take_back()
        stop.ask()


_latest_change: dict[str, Future[None]] = {}
_latest_change_guard = threading.Lock()


async def change_in_order(path: Path, cancel: Cancel, work: Callable[[], T]) -> T:
    """Run `work`, which changes the file at `path`, in a thread, after all changes of that file that were asked for before.

    Once begun, it is finished even if the caller is cut off: the next change must not meet it half done.
    """
    # Not in a thread: the order of the calls has to be the order of the changes.
    key = os.path.realpath(path)  # noqa: ASYNC240
    done: Future[None] = Future()
    done.set_running_or_notify_cancel()  # whoever waits for it may give up, but not take it away from the others
    with _latest_change_guard:
        before = _latest_change.get(key)
        _latest_change[key] = done

    def finish(_: object = None) -> None:
        done.set_result(None)
        with _latest_change_guard:
            if _latest_change.get(key) is done:
                del _latest_change[key]

    def run() -> T:
        try:
            return work()
        finally:
            finish()

    if before is not None:
        try:
            await asyncio.wrap_future(before)
        except BaseException:
            before.add_done_callback(finish)
            raise
    if cancel.fired:
        finish()
        raise ToolError("Operation aborted")
    return await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, run))
