"""What the core needs from outside: a clock, concurrency, a signal to stop, and a user to ask."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from fairlead.core.approval import ApprovalAnswer, ApprovalRequest

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

    def slots(self, count: int) -> AbstractAsyncContextManager[object]:
        """Something that at most `count` tasks can enter at the same time; the others wait for their turn."""
        ...

    async def run_bounded(self, work: Awaitable[T], cancel: CancelToken, *, timeout: float | None, grace: float) -> T:
        """Await `work` and return its result. When `cancel` fires, it has `grace` seconds to end by itself.

        Raises Interrupted if it had to be cut off after that, and TimedOut if it was cut off after `timeout` seconds."""
        ...


class Interrupted(Exception):
    """Work did not end by itself after its run was cancelled, and was cut off."""


class TimedOut(Exception):
    """Work exceeded its time limit and was cut off."""


NotifyKind: TypeAlias = Literal["info", "success", "warning", "error"]
Placement: TypeAlias = Literal["aboveEditor", "belowEditor"]


class Ui(Protocol):
    """What a host can show and ask.

    Asking never raises. Without an answer (after a timeout, a dismissal or an abort, or when the host has left), it returns the
    value that changes nothing: None or False. `timeout` is in seconds; None waits forever."""

    @property
    def available(self) -> bool:
        """Whether there is a user who can answer."""
        ...

    async def select(
        self, title: str, options: Sequence[str], *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None: ...

    async def confirm(
        self, title: str, message: str = "", *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> bool: ...

    async def input(
        self, title: str, placeholder: str | None = None, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None: ...

    async def editor(self, title: str, prefill: str | None = None, *, cancel: CancelToken | None = None) -> str | None: ...

    async def approve(
        self, request: ApprovalRequest, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> ApprovalAnswer | None:
        """Ask whether a tool call may run. Returns `Allow`, `Deny`, or None if there was no answer, which refuses the call."""
        ...

    def notify(self, message: str, kind: NotifyKind | None = None) -> None: ...

    def set_status(self, key: str, text: str | None) -> None: ...

    def set_widget(self, key: str, lines: Sequence[str] | None, placement: Placement | None = None) -> None: ...

    def set_title(self, title: str) -> None: ...

    def set_editor_text(self, text: str) -> None: ...

    def open_url(self, url: str, instructions: str | None = None) -> None: ...


class NoUi:
    """For a session without a user: shows nothing, and answers every question with the value that changes nothing."""

    available = False

    async def select(
        self, title: str, options: Sequence[str], *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None:
        return None

    async def confirm(
        self, title: str, message: str = "", *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> bool:
        return False

    async def input(
        self, title: str, placeholder: str | None = None, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None:
        return None

    async def editor(self, title: str, prefill: str | None = None, *, cancel: CancelToken | None = None) -> str | None:
        return None

    async def approve(
        self, request: ApprovalRequest, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> ApprovalAnswer | None:
        return None

    def notify(self, message: str, kind: NotifyKind | None = None) -> None: ...

    def set_status(self, key: str, text: str | None) -> None: ...

    def set_widget(self, key: str, lines: Sequence[str] | None, placement: Placement | None = None) -> None: ...

    def set_title(self, title: str) -> None: ...

    def set_editor_text(self, text: str) -> None: ...

    def open_url(self, url: str, instructions: str | None = None) -> None: ...
