"""What the core needs from the world around it: a clock, concurrency, and a way to be told to stop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Cancel:
    """Says "stop" to everything that one run has going.

    It fires once. Whoever waits for something slow asks `fired`, or leaves a callback that cuts the
    wait short (closes the connection, kills the process). Work ends in its own way; nothing is torn.
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
        """Call `callback` when the signal fires (at once if it has); the returned function takes it back."""
        if self.fired:
            callback()
            return lambda: None
        key = object()
        self._callbacks[key] = callback
        return lambda: self._callbacks.pop(key, None)


class Runtime(Protocol):
    """Time and concurrency, as the core sees them. `session.runtime` has the real one."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...

    async def run_all(self, jobs: Sequence[Callable[[], Coroutine[Any, Any, None]]], limit: int) -> None:
        """Run every job, at most `limit` at once, started in order; return when all have ended."""
        ...

    async def bounded(self, work: Awaitable[T], cancel: Cancel, *, timeout: float | None, grace: float) -> T:
        """Await `work`. It is expected to end by itself soon after `cancel` fires; `grace` seconds later
        it is cut off with `Interrupted`. Past `timeout` seconds it is cut off with `TimedOut`."""
        ...


class Interrupted(Exception):
    """Work did not end by itself after its run was cancelled, and was cut off."""


class TimedOut(Exception):
    """Work exceeded its time limit and was cut off."""
