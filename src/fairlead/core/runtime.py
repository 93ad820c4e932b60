"""What the core needs from outside: a clock, concurrency, and a signal to stop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class CancelToken:
    """The signal that stops everything that belongs to one run.

    It fires once. Code that waits for something slow checks `fired`, or adds a callback that ends the wait (closes the
    connection, kills the process). Work ends by itself and cleans up; it is not interrupted.
    """

    __slots__ = ("_callbacks", "fired")

    def __init__(self) -> None:
        self.fired = False
        self._callbacks: dict[object, Callable[[], object]] = {}

    def fire(self) -> None:
        if self.fired:
            return
        self.fired = True
        callbacks = list(self._callbacks.values())
        self._callbacks.clear()
        for callback in callbacks:
            callback()

    def on_fire(self, callback: Callable[[], object]) -> Callable[[], object]:
        """Call `callback` when the signal fires, or at once if it has. Returns a function that removes the callback."""
        if self.fired:
            callback()
            return lambda: None
        key = object()
        self._callbacks[key] = callback
        return lambda: self._callbacks.pop(key, None)


class Runtime(Protocol):
    """Time and concurrency for the core. `session.runtime` has the real implementation."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...

    async def run_all(self, jobs: Sequence[Callable[[], Coroutine[Any, Any, None]]], limit: int) -> None:
        """Run all jobs, started in order, at most `limit` at the same time. Returns when all have ended."""
        ...

    async def bounded(self, work: Awaitable[T], cancel: CancelToken, *, timeout: float | None, grace: float) -> T:
        """Await `work` and return its result. When `cancel` fires, it has `grace` seconds to end by itself.

        Raises Interrupted if it had to be cut off after that, and TimedOut if it was cut off after `timeout` seconds."""
        ...


class Interrupted(Exception):
    """Work did not end by itself after its run was cancelled, and was cut off."""


class TimedOut(Exception):
    """Work exceeded its time limit and was cut off."""
