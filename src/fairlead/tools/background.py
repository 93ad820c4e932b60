"""Does file work off the event loop. It can be stopped, and changes of one file happen in the order of the calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from fairlead.core.runtime import CancelToken
from fairlead.errors import ToolError
from fairlead.tools.files.targets import Target

T = TypeVar("T")

#: Seconds that a call which is cut off waits for a change that can no longer be stopped.
_SETTLING = 1.0
#: Characters of a text that are split at once.
_LINES_BLOCK = 1024 * 1024


class Stop:
    """Asks work in a thread to stop. The work checks it between two steps, so that it does not outlive its call.

    The request comes from another thread. Work that changes something commits right before the change: a request to stop
    is either early enough that nothing changes, or too late, and `committed` says which.
    """

    __slots__ = ("_guard", "asked", "committed")

    def __init__(self) -> None:
        self.asked = False
        self.committed = False
        self._guard = threading.Lock()

    def ask(self) -> None:
        with self._guard:
            if not self.committed:
                self.asked = True

    def check(self) -> None:
        """Raise ToolError if the work should stop."""
        if self.asked:
            raise ToolError("Operation aborted")

    def commit(self) -> None:
        """The last check: after it, the work is finished whatever happens."""
        with self._guard:
            self.check()
            self.committed = True

    def each(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, with a check before each."""
        for item in items:
            self.check()
            yield item


def split_lines(text: str, stop: Stop) -> list[str]:
    """Split a text at its newlines, as `text.split("\\n")` does.

    It works block by block: one split of a huge text would block the interpreter, and so the event loop, for seconds.
    """
    lines: list[str] = []
    start = 0
    while (end := text.find("\n", start + _LINES_BLOCK)) >= 0:
        stop.check()
        lines += text[start:end].split("\n")
        start = end + 1
    lines += text[start:].split("\n")
    return lines


async def in_thread(cancel: CancelToken, work: Callable[[Stop], T]) -> T:
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


async def change_in_order(target: Target, cancel: CancelToken, work: Callable[[Stop], T]) -> T:
    """Run `work`, which changes the file `target`, in a thread, after all earlier changes of that file.

    When `cancel` fires or the caller is cut off before `work` has committed itself, the file stays as
    it is; after that, the result is the work's own. The next change begins when the thread has ended.
    """
    key = str(target.real)
    done: Future[None] = Future()
    done.set_running_or_notify_cancel()  # a caller that gives up must not cancel it for the others
    with _latest_change_guard:
        before = _latest_change.get(key)
        _latest_change[key] = done

    def finish(_: object = None) -> None:
        done.set_result(None)
        with _latest_change_guard:
            if _latest_change.get(key) is done:
                del _latest_change[key]

    stop = Stop()

    def run() -> T:
        try:
            stop.check()
            return work(stop)
        finally:
            finish()

    take_back = cancel.on_fire(stop.ask)
    try:
        try:
            if before is not None:
                await _end_or_abort(before, cancel)
            stop.check()
        except BaseException:
            if before is None:
                finish()
            else:
                before.add_done_callback(finish)
            raise
        return await _result_or_cut(asyncio.get_running_loop().run_in_executor(None, run), stop, target.named)
    finally:
        take_back()


async def _end_or_abort(change: Future[None], cancel: CancelToken) -> None:
    """Wait until an earlier change has ended, or until `cancel` fires: the change may be of another run."""
    ended = asyncio.wrap_future(change)
    take_back = cancel.on_fire(ended.cancel)
    try:
        await asyncio.wait([ended])
    finally:
        take_back()


async def _result_or_cut(running: asyncio.Future[T], stop: Stop, path: Path) -> T:
    """Return the result of work in a thread. A caller that is cut off still gets it if the file is changing already."""
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.ask()
        if not stop.committed:
            running.add_done_callback(_ignore_failure)  # it stops by raising, and no caller is left to see that
            raise
    # The cut is not passed on: it would be reported as a call that did nothing.
    await asyncio.wait([running], timeout=_SETTLING)
    if not running.done():
        running.add_done_callback(_ignore_failure)
        raise ToolError(f"{path} was being replaced when the call was cut off, and may have changed. Read it again.")
    return running.result()


def _ignore_failure(running: asyncio.Future[T]) -> None:
    if not running.cancelled():
        running.exception()


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
