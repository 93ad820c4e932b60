"""The events of a session: extensions get each one first, then the listeners, in the order in which they subscribed.

Where a store keeps the session, an event waits until the entries before it are durable. The events after it wait too. The run
continues meanwhile, unless there are extensions: they handle an event before the run continues.
"""

from __future__ import annotations

import logging
import traceback
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeAlias

from fairlead.core.events import Event
from fairlead.core.runtime import CancelToken
from fairlead.core.secrets import redacted
from fairlead.errors import SessionLost

if TYPE_CHECKING:
    from fairlead.session.hook_calls import HookCalls

_log = logging.getLogger("fairlead.session")

Listener: TypeAlias = Callable[[Event], None]
#: `Events.subscribe`.
Subscribe: TypeAlias = Callable[..., object]
#: How many events may wait for the store before the run waits as well.
_MOST_HELD = 256
#: Sends an event without waiting for anything.
Notify: TypeAlias = Callable[[Event], None]


class Gate(Protocol):
    """Makes a run wait while a listener cannot keep up."""

    @property
    def paused(self) -> bool: ...

    async def wait(self, cancel: CancelToken) -> None:
        """Return when there is room again, or when `cancel` fires."""
        ...


class Writing(Protocol):
    """What writes the entries of a session while others work: see `fairlead.session.history.stored`."""

    on_progress: Callable[[], None]
    lost: SessionLost | None
    #: The numbers of the last entry that was queued, and of the last one that is durable.
    queued: int
    durable: int

    @property
    def is_pending(self) -> bool: ...

    async def wait_written(self) -> None: ...


class Events:
    """Sends the events of one session. It is a `Gate` itself: it is paused while a gate of one of its listeners is."""

    def __init__(self) -> None:
        #: Passes events to extensions, once these are loaded.
        self.extensions: HookCalls | None = None
        #: Each listener with the events that it wants; None: all.
        self._listeners: list[tuple[Listener, tuple[type[Event], ...] | None]] = []
        #: The listeners of each kind of event that was sent.
        self._by_kind: dict[type[Event], tuple[Listener, ...]] = {}
        self._gates: list[Gate] = []
        #: What writes the entries of the session; None: they are durable as soon as they are added.
        self._writing: Writing | None = None
        self._is_releasing = False
        #: Actions that wait until the entry with this number is durable, in order; None: none has waited so far.
        self._held: deque[tuple[int, Callable[[], object]]] | None = None

    def follow(self, writing: Writing | None) -> None:
        """Hold events back from now on until the entries before them are durable. Those of another session wait no longer."""
        while writing is not self._writing and self._held:
            self._held.popleft()[1]()
        self._writing = writing
        if writing is not None:
            writing.on_progress = self._release

    def call_when_written(self, action: Callable[[], object]) -> None:
        """Call `action` when everything so far is durable and every event before it was sent: now, unless it must wait."""
        writing = self._writing
        if writing is None or not (self._held or writing.is_pending):
            action()
        else:
            if self._held is None:
                self._held = deque()
            self._held.append((writing.queued, action))
            self._release()  # the last entry may have become durable, or the session lost, while others were sent

    async def wait_written(self) -> None:
        """Wait until everything so far is durable, or the session is lost."""
        if self._writing is not None and self._writing.is_pending:
            with suppress(SessionLost):
                await self._writing.wait_written()

    def _release(self) -> None:
        """Do what has waited for entries that are durable now."""
        writing = self._writing
        if self._is_releasing or writing is None:
            return
        self._is_releasing = True
        try:
            while self._held and (self._held[0][0] <= writing.durable or writing.lost is not None):
                self._held.popleft()[1]()
        finally:
            self._is_releasing = False

    def subscribe(
        self, listener: Listener, gate: Gate | None = None, kinds: tuple[type[Event], ...] | None = None
    ) -> Callable[[], None]:
        """Call `listener` with every event from now on, or with those of some `kinds`, and make runs wait while `gate` is paused.

        Returns a function that ends the subscription.
        """
        entry = (listener, kinds)
        self._listeners.append(entry)
        self._by_kind.clear()
        if gate is not None:
            self._gates.append(gate)

        def unsubscribe() -> None:
            self._listeners.remove(entry)
            self._by_kind.clear()
            if gate is not None:
                self._gates.remove(gate)

        return unsubscribe

    def notify(self, event: Event) -> None:
        """Send an event without waiting. Extensions receive it later, in order."""
        if self._writing is None:
            self._notify(event)
        else:
            self.call_when_written(lambda: self._notify(event))

    def _notify(self, event: Event) -> None:
        if self.extensions is not None:
            self.extensions.notify(event)
        self._deliver(event)

    def notify_last(self, event: Event, later: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
        """Send an event at once if no extension wants it and nothing is being written. Otherwise `later` gets what sends it, and
        returns what is called when extensions have handled it."""
        is_written = self._writing is None or not (self._held or self._writing.is_pending)
        extensions = self.extensions if self.extensions is not None and self.extensions.wants(event) else None
        if extensions is None and is_written:
            self._deliver(event)
            return
        announce = later(lambda: self._deliver(event))
        self.call_when_written(announce if extensions is None else lambda: extensions.notify(event, announce))

    async def room(self) -> None:
        """Wait until everything so far is durable if there are extensions, or if many events wait for that."""
        if self._writing is not None and (self._has_extensions or (self._held is not None and len(self._held) > _MOST_HELD)):
            await self.wait_written()

    @property
    def _has_extensions(self) -> bool:
        return self.extensions is not None and self.extensions.hooks is not None

    def send_at_once(self, event: Event, cancel: CancelToken) -> Awaitable[None] | None:
        """Send an event. Returns what to await before the next one, if there is something to await.

        An answer has many updates, and the coroutines of `emit` would cost as much as the listeners.
        """
        if self._writing is not None or (self.extensions is not None and self.extensions.wants(event)):
            return self._emit_and_wait(event, cancel)
        self._deliver(event)
        for gate in self._gates:
            if gate.paused:
                return self.wait(cancel)
        return None

    async def _emit_and_wait(self, event: Event, cancel: CancelToken) -> None:
        await self.emit(event, cancel)
        await self.wait(cancel)

    async def emit(self, event: Event, cancel: CancelToken) -> None:
        """Send an event after extensions have handled it, or after `cancel` fires."""
        if self._writing is not None:
            await self.room()
        if self.extensions is not None:
            await self.extensions.emit(event, cancel)
        self.send(event)

    def send(self, event: Event) -> None:
        """Send an event without waiting, to listeners only."""
        if self._writing is None:
            self._deliver(event)
        else:
            self.call_when_written(lambda: self._deliver(event))

    def _deliver(self, event: Event) -> None:
        for listener in self._by_kind.get(type(event)) or self._find_listeners(event):
            try:
                listener(event)
            except Exception as error:  # a listener's bug must neither end the run nor keep the event from the others
                report(error)

    def _find_listeners(self, event: Event) -> tuple[Listener, ...]:
        found = tuple(each for each, kinds in self._listeners if kinds is None or isinstance(event, kinds))
        self._by_kind[type(event)] = found
        return found

    # As a gate

    @property
    def paused(self) -> bool:
        for gate in self._gates:  # noqa: SIM110 (a generator costs more than the one gate that there usually is)
            if gate.paused:
                return True
        return False

    async def wait(self, cancel: CancelToken) -> None:
        for gate in list(self._gates):
            if gate.paused:
                await gate.wait(cancel)


def report(error: BaseException) -> None:
    """Log a bug of ours, or of a listener, with its traceback."""
    _log.error("%s", redacted("".join(traceback.format_exception(error))))
