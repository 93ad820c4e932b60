"""Runs the code of extensions.

What it prints goes to stderr, because stdout belongs to the host, a pipe or the program that uses this library. It is interrupted
when its time is up. It cannot end the process, or any task but its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from inspect import isawaitable
from types import FrameType
from typing import Any, TextIO, TypeVar, cast

from fairlead.core.secrets import learn_variables, redacted
from fairlead.errors import FairleadError
from fairlead.platform.process import run_in_thread

_log = logging.getLogger("fairlead.extend")
#: Another logger, so that a front end for people can leave tracebacks out.
_tracebacks = logging.getLogger("fairlead.extend.tracebacks")


class _SplitStdout:
    """Standard output while extensions run: what they print goes to stderr, everything else goes where it always went."""

    def __init__(self, real: TextIO) -> None:
        self.real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr if _calls_by_thread[threading.get_ident()] else self.real, name)


#: How many calls of extension code are on the stack of each thread.
_calls_by_thread: Counter[int] = Counter()
_lock = threading.Lock()


@contextmanager
def stdout_to_stderr() -> Generator[None]:
    """Send what this thread prints to stderr instead of stdout."""
    me = threading.get_ident()
    with _lock:
        if not isinstance(sys.stdout, _SplitStdout):
            sys.stdout = cast("TextIO", _SplitStdout(sys.stdout))
        _calls_by_thread[me] += 1
    try:
        yield
    finally:
        with _lock:
            _calls_by_thread[me] -= 1
            if not _calls_by_thread[me]:
                del _calls_by_thread[me]
            if not _calls_by_thread and isinstance(sys.stdout, _SplitStdout):
                sys.stdout = sys.stdout.real


#: Seconds between two checks whether blocking code must be interrupted.
_TICK = 0.2
#: Seconds that blocking code has left once the process is ending.
_LAST_SECONDS = 0.2

#: When the process began to end, if it did.
_ending_since: list[float] = []


def interrupt_soon() -> None:
    """Interrupt blocking code soon, whatever time it has left, because the process is ending. May be called on any thread."""
    _ending_since.append(time.monotonic())


class Overdue(BaseException):
    """Interrupts blocking code. Not an Exception, so that an `except Exception` in the extension does not swallow it."""


class Deadline:
    """The time that one call has left. With None, it has no limit."""

    def __init__(self, seconds: float | None) -> None:
        self.limit = seconds
        self._left = seconds
        self._since = time.monotonic()
        self._pauses = 0
        self._timer: asyncio.TimerHandle | None = None
        self._on_expiry: Callable[[], object] | None = None

    def compute_left(self) -> float | None:
        """Return the seconds left, or None if there is no limit or the clock is paused."""
        if self._left is None or self._pauses:
            return None
        return max(self._left - (time.monotonic() - self._since), 0.001)

    def allow(self, seconds: float) -> None:
        """Give code whose time is up some more, to clean up."""
        self._left = seconds
        self._since = time.monotonic()

    def watch(self, on_expiry: Callable[[], object]) -> None:
        """Call `on_expiry` when the time is up."""
        self._on_expiry = on_expiry
        self._start()

    def stop(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @contextmanager
    def paused(self) -> Generator[None]:
        """Stop the clock, for example while the user is asked something."""
        if not self._pauses:
            self._left = self.compute_left()
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
        left = self.compute_left()
        if left is not None and self._on_expiry is not None:
            self._timer = asyncio.get_running_loop().call_later(left, self._on_expiry)


@contextmanager
def interrupted_after(seconds: float | None) -> Generator[None]:
    """Raise Overdue in code that still runs after `seconds`, or soon after the process began to end.

    This works on the main thread only, and not on Windows, which has no interval timers; elsewhere, blocking code is not
    interrupted. A timer that the program itself has set still goes off when it should.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    began = time.monotonic()
    until = None if seconds is None else began + seconds
    before = signal.signal(signal.SIGALRM, lambda number, frame: _on_alarm(until, began, frame))
    theirs, interval = signal.setitimer(signal.ITIMER_REAL, _next_check(until, began))
    try:
        yield
    finally:
        # This frame is never interrupted: see `_is_our_frame`.
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if before is None else before)
        if theirs:
            signal.setitimer(signal.ITIMER_REAL, max(theirs - (time.monotonic() - began), 0.001), interval)


def _on_alarm(until: float | None, began: float, frame: FrameType | None) -> None:
    """Interrupt the running code if its time is up. Code that swallows the interruption is interrupted again."""
    is_over = _compute_left(until, began) <= 0
    signal.setitimer(signal.ITIMER_REAL, _TICK if is_over else _next_check(until, began))
    if is_over and frame is not None and not _is_our_frame(frame):
        raise Overdue


def _next_check(until: float | None, began: float) -> float:
    return min(max(_compute_left(until, began), 0.001), _TICK)


def _compute_left(until: float | None, began: float) -> float:
    """Return the seconds until code that began at `began` must be interrupted."""
    if _ending_since:
        last = max(_ending_since[0], began) + _LAST_SECONDS
        until = last if until is None else min(until, last)
    return _TICK if until is None else until - time.monotonic()


def _is_our_frame(frame: FrameType) -> bool:
    """Whether the frame is not code of an extension but our code around it, which must not be interrupted."""
    return (
        frame.f_globals.get("__name__", "").startswith("fairlead.extend.extensions.") or frame.f_code.co_filename == _CONTEXTLIB
    )


_CONTEXTLIB = contextmanager.__code__.co_filename


T = TypeVar("T")

#: Seconds that cancelled code has to end before it is abandoned.
_GRACE = 1.0
#: The beginnings of the names of modules that import and call extensions.
_OUR_MODULES = ("fairlead.extend.extensions.", "importlib.")


class TooSlow(Exception):
    """The code of an extension took too long."""

    def __init__(self, seconds: float, *, ignored_cancellation: bool = False) -> None:
        rest = " It ignored its cancellation and was abandoned." if ignored_cancellation else ""
        super().__init__(f"Stopped because it was not done after {seconds:g} seconds.{rest}")


class ExitAttempt(Exception):
    """The code of an extension tried to end the process, or raised something that would."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__} was raised, which does not end the agent.")


class Steps(Awaitable[T]):
    """Runs a coroutine of an extension step by step. What a step prints goes to stderr; a step that blocks is interrupted.

    `after_step` is called after each step except the last. Once `given_up` is set, the next cancellation ends the coroutine, even
    if it tries to ignore it.
    """

    def __init__(self, work: Awaitable[T], deadline: Deadline, after_step: Callable[[], None]) -> None:
        self._work = work
        self._deadline = deadline
        self._after_step = after_step
        self.given_up = False

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._work.__await__()
        given: Any = None
        thrown: BaseException | None = None
        while True:
            try:
                with guard_call(self._deadline):
                    waits_for = steps.send(given) if thrown is None else _throw(steps, thrown)
            except StopIteration as end:
                return end.value
            self._after_step()
            given, thrown = None, None
            try:
                given = yield waits_for
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:  # a cancellation, or what the awaited future raised
                if self.given_up and isinstance(error, asyncio.CancelledError):
                    self._abandon(steps)
                    raise
                thrown = error

    def _abandon(self, steps: Generator[Any, Any, T]) -> None:
        try:
            with guard_call(self._deadline):
                steps.close()
        except Exception:  # it ignores even this, but it will never run again
            return


def _throw(steps: Generator[Any, Any, Any], error: BaseException) -> Any:
    return steps.throw(error)


class guard_call:
    """Guards one uninterrupted stretch of extension code. It lets only an Exception or a cancellation from asyncio pass."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._redirection = stdout_to_stderr()
        self._alarm = interrupted_after(deadline.compute_left())

    def __enter__(self) -> None:
        self._redirection.__enter__()
        self._alarm.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        self._alarm.__exit__(None, None, None)
        self._redirection.__exit__(None, None, None)
        if isinstance(error, Overdue):
            raise TooSlow(self._deadline.limit or 0) from None
        if error is not None and not isinstance(error, (Exception, asyncio.CancelledError)):
            raise ExitAttempt(error) from error


async def call(
    function: Callable[[], Any],
    deadline: Deadline,
    after_step: Callable[[], None] = lambda: None,
    on_task: Callable[[asyncio.Task[Any]], None] = lambda task: None,
) -> Any:
    """Call `function`, and await what it returns if it can be awaited. `on_task` gets the task in which the result is awaited.

    Raises what `function` raises, TooSlow or ExitAttempt. That is always an Exception, unless the caller itself is cancelled.
    """
    try:
        with guard_call(deadline):
            result = function()
    except asyncio.CancelledError as error:  # it raised this itself: code that does not wait cannot be cancelled
        raise ExitAttempt(error) from error
    if not isawaitable(result):
        return result
    steps = Steps(result, deadline, after_step)
    task = asyncio.ensure_future(_run(steps))
    on_task(task)
    return await _outcome(task, steps, deadline)


async def _outcome(task: asyncio.Task[Any], steps: Steps[Any], deadline: Deadline) -> Any:
    loop = asyncio.get_running_loop()
    expired: list[bool] = []
    over: asyncio.Future[None] = loop.create_future()

    def give_up() -> None:
        if not task.done():
            steps.given_up = True
            task.cancel()

    def stop() -> None:
        task.cancel()
        loop.call_later(_GRACE, give_up)

    def expire() -> None:
        expired.append(True)
        deadline.allow(_GRACE)  # without it, the code that cleans up would be interrupted at once
        stop()

    deadline.watch(expire)
    task.add_done_callback(lambda _: _end(over))
    try:
        await over
    except asyncio.CancelledError:
        stop()
        task.add_done_callback(_forget)
        raise
    finally:
        deadline.stop()
    if expired and (task.cancelled() or isinstance(task.exception(), asyncio.CancelledError)):
        raise TooSlow(deadline.limit or 0, ignored_cancellation=steps.given_up)
    if task.cancelled():
        raise RuntimeError("It was cancelled, but not by the agent.")
    return task.result()


async def _run(steps: Steps[Any]) -> Any:
    return await steps


def _end(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


def _forget(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception of a task that no caller waits for, so that asyncio does not report it."""
    if not task.cancelled():
        task.exception()


async def call_in_thread(function: Callable[[], T]) -> T:
    """Run a function of an extension that may block in a daemon thread, with what it prints sent to stderr.

    Returns what the function returns. Raises what it raises, and ExitAttempt for what would end the process.
    """

    def run_redirected() -> T:
        try:
            with stdout_to_stderr():
                return function()
        except BaseException as error:
            # No future can hold a StopIteration.
            if isinstance(error, Exception) and not isinstance(error, StopIteration):
                raise
            raise ExitAttempt(error) from None

    return await run_in_thread(run_redirected, "fairlead-extension")


def error_text(error: BaseException) -> str:
    """Return the text of an exception, with its type if the text alone says too little. Secrets in it are redacted.

    Extensions see all variables of the environment, and an error may quote one.
    """
    learn_variables(os.environ.items())
    text = redacted(str(error).strip())
    return text if text and not isinstance(error, KeyError) else f"{type(error).__name__}: {text}".removesuffix(": ")


def without_our_frames(error: BaseException) -> BaseException:
    """Return an exception without those traceback entries that are about how extensions are imported and called."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(_OUR_MODULES):
        trace = trace.tb_next
    # A syntax error names its place itself. For other errors, our entries are better than none.
    return error.with_traceback(trace) if trace is not None or isinstance(error, SyntaxError) else error


def log_traceback(error: Exception, level: int) -> None:
    """Write the traceback of an error in the code of an extension to the log, for its author."""
    stack = getattr(error, "stack", None)
    if stack is not None:  # from the Node process
        _tracebacks.log(level, "%s", stack or error)
    elif not isinstance(error, FairleadError):
        _tracebacks.log(level, "%s", "".join(traceback.format_exception(without_our_frames(error))).rstrip())
