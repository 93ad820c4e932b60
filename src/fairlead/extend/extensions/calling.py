"""Running the code of extensions: it prints to stderr, ends in time, and cannot end anything but itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from inspect import isawaitable
from typing import Any, TypeVar

from fairlead.extend.extensions.deadline import Deadline, Overdue, interrupted_after
from fairlead.extend.extensions.quiet import quiet

T = TypeVar("T")

#: Seconds that cancelled code has to end; then it is broken off.
_GRACE = 1.0


class TooSlow(Exception):
    """The code of an extension did not end in time."""

    def __init__(self, seconds: float, *, heedless: bool = False) -> None:
        rest = " It did not heed its cancellation, and was broken off." if heedless else ""
        super().__init__(f"Not done after {seconds:g} seconds, and stopped.{rest}")


class Quit(Exception):
    """The code of an extension tried to end the process, or raised something that would."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__} was raised, which does not end the agent.")


class Steps(Awaitable[T]):
    """A coroutine of an extension's, run step by step: each prints to stderr, and one that blocks is interrupted.

    `after_step` is called when a step has ended and the coroutine has not. Once `given_up` is set, the next cancellation ends it,
    whatever the coroutine does with it.
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
                with guarded(self._deadline):
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
            except BaseException as error:  # a cancellation, or what the future that was waited for has raised
                if self.given_up and isinstance(error, asyncio.CancelledError):
                    self._break_off(steps)
                    raise
                thrown = error

    def _break_off(self, steps: Generator[Any, Any, T]) -> None:
        try:
            with guarded(self._deadline):
                steps.close()
        except Exception:  # it does not even heed this: nobody will ever run it again
            return


def _throw(steps: Generator[Any, Any, Any], error: BaseException) -> Any:
    return steps.throw(error)


class guarded:
    """One uninterrupted stretch of an extension's code. What it raises is an Exception, or a cancellation of asyncio's."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._quiet = quiet()
        self._alarm = interrupted_after(deadline.left())

    def __enter__(self) -> None:
        self._quiet.__enter__()
        self._alarm.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        self._alarm.__exit__(None, None, None)
        self._quiet.__exit__(None, None, None)
        if isinstance(error, Overdue):
            raise TooSlow(self._deadline.limit or 0) from None
        if error is not None and not isinstance(error, (Exception, asyncio.CancelledError)):
            raise Quit(error) from error


async def call(
    function: Callable[[], Any],
    deadline: Deadline,
    after_step: Callable[[], None] = lambda: None,
    on_task: Callable[[asyncio.Task[Any]], None] = lambda task: None,
) -> Any:
    """What `function` returns, awaited if need be. Raises what it raises, TooSlow or Quit: always an Exception, unless the
    caller itself is cancelled. `on_task` gets the task in which it is awaited."""
    try:
        with guarded(deadline):
            result = function()
    except asyncio.CancelledError as error:  # its own doing: what does not wait cannot be cancelled
        raise Quit(error) from error
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
        raise TooSlow(deadline.limit or 0, heedless=steps.given_up)
    if task.cancelled():
        raise RuntimeError("It was cancelled, but not by the agent.")
    return task.result()


async def _run(steps: Steps[Any]) -> Any:
    return await steps


def _end(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


def _forget(task: asyncio.Task[Any]) -> None:
    """Take note of how a task ended that nobody waits for any more, so that nobody complains of it."""
    if not task.cancelled():
        task.exception()


def in_thread(function: Callable[[], T]) -> Coroutine[Any, Any, T]:
    """Run a function that may block, on a thread of its own. It cannot be stopped, and does not keep the process alive."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def resolve(result: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(result)  # pyright: ignore[reportArgumentType]
        else:
            # No future can hold a StopIteration.
            can_be_told = isinstance(error, Exception) and not isinstance(error, StopIteration)
            done.set_exception(error if can_be_told else Quit(error))

    def work() -> None:
        result, error = None, None
        try:
            with quiet():
                result = function()
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(resolve, result, error)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return

    async def wait() -> T:
        threading.Thread(target=work, name="fairlead-extension", daemon=True).start()
        return await done

    return wait()


def told(error: BaseException) -> str:
    """What an exception says, in one line if it can."""
    text = str(error).strip()
    return text if text and not isinstance(error, KeyError) else f"{type(error).__name__}: {text}".removesuffix(": ")


def from_their_side(error: BaseException) -> BaseException:
    """An exception without the part of its traceback that is about how extensions are called."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("fairlead.extend.extensions."):
        trace = trace.tb_next
    return error if trace is None else error.with_traceback(trace)
