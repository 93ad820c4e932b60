"""The events of a session: extensions get each one first, then the listeners, in the order in which they subscribed."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from fairlead.core.events import Event
from fairlead.core.runtime import CancelToken
from fairlead.core.secrets import redacted

if TYPE_CHECKING:
    from fairlead.session.hook_calls import HookCalls

_log = logging.getLogger("fairlead.session")

Listener: TypeAlias = Callable[[Event], None]
#: Sends an event without waiting for anything.
Notify: TypeAlias = Callable[[Event], None]


class Gate(Protocol):
    """Makes a run wait while a listener cannot keep up."""

    @property
    def paused(self) -> bool: ...

    async def wait(self, cancel: CancelToken) -> None:
        """Return when there is room again, or when `cancel` fires."""
        ...


class Events:
    """Sends the events of one session. It is a `Gate` itself: it is paused while a gate of one of its listeners is."""

    def __init__(self) -> None:
        #: Passes events to extensions, once these are loaded.
        self.extensions: HookCalls | None = None
        self._listeners: list[Listener] = []
        self._gates: list[Gate] = []

    def subscribe(self, listener: Listener, gate: Gate | None = None) -> Callable[[], None]:
        """Call `listener` with every event from now on, and make runs wait while `gate` is paused.

        Returns a function that ends the subscription.
        """
        self._listeners.append(listener)
        if gate is not None:
            self._gates.append(gate)

        def unsubscribe() -> None:
            self._listeners.remove(listener)
            if gate is not None:
                self._gates.remove(gate)

        return unsubscribe

    def notify(self, event: Event) -> None:
        """Send an event at once. Extensions receive it later, in order."""
        if self.extensions is not None:
            self.extensions.notify(event)
        self.send(event)

    def notify_last(self, event: Event, later: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
        """Send an event at once if no extension wants it. Otherwise `later` gets what sends it, and returns what is called when
        extensions have handled it."""
        if self.extensions is None or not self.extensions.wants(event):
            self.send(event)
        else:
            self.extensions.notify(event, later(lambda: self.send(event)))

    async def emit(self, event: Event, cancel: CancelToken) -> None:
        """Send an event after extensions have handled it, or after `cancel` fires."""
        if self.extensions is not None:
            await self.extensions.emit(event, cancel)
        self.send(event)

    def send(self, event: Event) -> None:
        """Send an event at once, to listeners only."""
        for listener in list(self._listeners):
            try:
                listener(event)
            except Exception as error:  # a listener's bug must neither end the run nor keep the event from the others
                report(error)

    # As a gate

    @property
    def paused(self) -> bool:
        return any(gate.paused for gate in self._gates)

    async def wait(self, cancel: CancelToken) -> None:
        for gate in list(self._gates):
            if gate.paused:
                await gate.wait(cancel)


def report(error: BaseException) -> None:
    """Log a bug of ours, or of a listener, with its traceback."""
    _log.error("%s", redacted("".join(traceback.format_exception(error))))
