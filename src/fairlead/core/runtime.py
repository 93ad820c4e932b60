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


#: Where a front end draws: a `dialog` has the keys while it is open, `editor` takes the place of the editor, and `keys` draws
#: nothing and gets the keys of the editor before it.
SheetPlace: TypeAlias = Literal["dialog", "header", "footer", "editor", "keys", "aboveEditor", "belowEditor"]


class Sheet:
    """What an extension draws in one place of a front end: lines of text with styles, as wide as the front end says.

    Attributes:
        place, key: Where it is drawn. A sheet replaces the one with the same place and key.
        lines: What is drawn. The extension may have put anything into them.
        cursor: The row in `lines` and the column of the cursor; None hides it.
        owner: Hears what the front end tells the sheet.
    """

    def __init__(self, place: SheetPlace, key: str, owner: SheetOwner) -> None:
        self.place: SheetPlace = place
        self.key = key
        self.lines: Sequence[str] = ()
        self.cursor: tuple[int, int] | None = None
        self.owner = owner


class SheetOwner(Protocol):
    """What draws sheets."""

    def press(self, sheet: Sheet, data: str) -> None:
        """The user has pressed a key, or pasted something, which is for the sheet. `data` is what the terminal sent."""
        ...

    def resize(self, columns: int, rows: int) -> None:
        """The front end is this large now."""
        ...

    def follow_editor(self, text: str, at: int) -> None:
        """The user has changed the text in the front end's own editor. The cursor is before the character `at`."""
        ...


class Canvas(Protocol):
    """A front end that draws sheets."""

    def size(self) -> tuple[int, int]:
        """Return the columns and rows there are for a sheet."""
        ...

    async def show_dialog(self, sheet: Sheet) -> None:
        """Show a sheet that has the keys, until the user closes it or the task is cancelled."""
        ...

    def put(self, sheet: Sheet) -> None:
        """Show a sheet in its place."""
        ...

    def remove(self, sheet: Sheet) -> None: ...

    def touch(self) -> None:
        """Draw again: the lines of a sheet have changed."""
        ...

    def press_in_editor(self, data: str) -> None:
        """Act as if the user had pressed a key in the front end's own editor."""
        ...

    def submit(self, text: str) -> None:
        """Act as if the user had sent a text."""
        ...

    def editor_text(self) -> tuple[str, int]:
        """Return the text of the front end's own editor, and the number of the character that the cursor is before."""
        ...

    def set_working(self, **given: Any) -> None:
        """Change what is shown while the agent works: `message`, `visible`, `frames` and `interval`. None is the usual one."""
        ...


class Ui(Protocol):
    """What a host can show and ask.

    Asking never raises. Without an answer (after a timeout, a dismissal or an abort, or when the host has left), it returns the
    value that changes nothing: None or False. `timeout` is in seconds; None waits forever."""

    @property
    def available(self) -> bool:
        """Whether there is a user who can answer."""
        ...

    @property
    def canvas(self) -> Canvas | None:
        """What draws components of extensions; None if they can only show lines of text."""
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
    canvas: Canvas | None = None

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
