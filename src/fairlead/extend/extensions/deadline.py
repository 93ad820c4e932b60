"""How long an extension may take: a clock that stands still while the user is asked, and a way to interrupt code that blocks."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

#: Seconds between two looks at code that blocks: whether its time is over, or that of the process.
_TICK = 0.2
#: Seconds that code has, which blocks, once the process is to end.
_LAST = 0.2

#: When the process was told to end.
_ending_since: list[float] = []


def hurry() -> None:
    """The process is to end: interrupt code that blocks, whatever time it has. May be called on any thread."""
    _ending_since.append(time.monotonic())


class Overdue(BaseException):
    """Interrupts code that blocks. No Exception: an `except Exception` of the extension's must not swallow it."""


class Deadline:
    """The time that one call has left. None: as much as it wants."""

    def __init__(self, seconds: float | None) -> None:
        self.limit = seconds
        self._left = seconds
        self._since = time.monotonic()
        self._pauses = 0
        self._timer: asyncio.TimerHandle | None = None
        self._on_expiry: Callable[[], object] | None = None

    def left(self) -> float | None:
        """Seconds; None if there is no limit, or if the clock stands still."""
        if self._left is None or self._pauses:
            return None
        return max(self._left - (time.monotonic() - self._since), 0.001)

    def watch(self, on_expiry: Callable[[], object]) -> None:
        """Call `on_expiry` when the time is over."""
        self._on_expiry = on_expiry
        self._start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @contextmanager
    def paused(self) -> Generator[None]:
        """While this lasts, no time passes."""
        if not self._pauses:
            self._left = self.left()
            self.stop()
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                self._since = time.monotonic()
                self._start()

    def _start(self) -> None:
        left = self.left()
        if left is not None and self._on_expiry is not None:
            self._timer = asyncio.get_running_loop().call_later(left, self._on_expiry)


@contextmanager
def interrupted_after(seconds: float | None) -> Generator[None]:
    """Raise Overdue in code that is still running after so long, or soon after the process was told to end.

    Only the main thread can be interrupted, and only where there are interval timers (not on Windows); elsewhere code that
    blocks goes on for as long as it does. A timer that the program itself has running goes off when it would have.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    began = time.monotonic()
    until = None if seconds is None else began + seconds
    before = signal.signal(signal.SIGALRM, lambda number, frame: _look(until, began, frame))
    theirs, interval = signal.setitimer(signal.ITIMER_REAL, _next_look(until, began))
    try:
        yield
    finally:
        # This frame is never interrupted: see below.
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if before is None else before)
        if theirs:
            signal.setitimer(signal.ITIMER_REAL, max(theirs - (time.monotonic() - began), 0.001), interval)


def _look(until: float | None, began: float, frame: FrameType | None) -> None:
    """Interrupt what runs, if its time is over. Code that swallows an interruption is interrupted again."""
    is_over = _left(until, began) <= 0
    signal.setitimer(signal.ITIMER_REAL, _TICK if is_over else _next_look(until, began))
    if is_over and frame is not None and not _is_ours(frame):
        raise Overdue


def _next_look(until: float | None, began: float) -> float:
    return min(max(_left(until, began), 0.001), _TICK)


def _left(until: float | None, began: float) -> float:
    """Seconds until code that began at a time has to be interrupted."""
    if _ending_since:
        last = max(_ending_since[0], began) + _LAST
        until = last if until is None else min(until, last)
    return _TICK if until is None else until - time.monotonic()


def _is_ours(frame: FrameType) -> bool:
    """Whether no extension is at work, but the code around it that gets ready for it, or tidies up."""
    return (
        frame.f_globals.get("__name__", "").startswith("fairlead.extend.extensions.") or frame.f_code.co_filename == _CONTEXTLIB
    )


_CONTEXTLIB = contextmanager.__code__.co_filename
