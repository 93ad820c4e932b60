"""Carries events between extensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

#: Calls a handler in the name of the extension that registered it.
Start: TypeAlias = Callable[[str, Callable[[], Any]], None]
Listeners: TypeAlias = dict[str, list[tuple[Start, Callable[[Any], Any]]]]


class EventBus:
    """Events that extensions send to each other, by name. All extensions of a session share one bus."""

    def __init__(self, listeners: Listeners, start: Start) -> None:
        self._listeners = listeners
        self._start = start
        self._is_closed = False

    def on(self, name: str, handler: Callable[[Any], Any]) -> Callable[[], None]:
        """Call `handler(data)` whenever an extension emits `name`.

        Returns a function that removes the handler again. Raises TypeError if `handler` is not callable, and RuntimeError if the
        extension has been reloaded.
        """
        self._be_open()
        if not callable(handler):
            raise TypeError(f"A handler must be a function, not {type(handler).__name__}.")
        listener = self._start, handler
        self._listeners.setdefault(name, []).append(listener)

        def remove() -> None:
            if listener in self._listeners.get(name, ()):
                self._listeners[name].remove(listener)

        return remove

    def emit(self, name: str, data: Any = None) -> None:
        """Pass `data` to all handlers of `name`. They are called soon, in order; this method does not wait for them.

        Raises RuntimeError if the extension has been reloaded.
        """
        self._be_open()
        for start, handler in list(self._listeners.get(name, ())):
            start(f"bus:{name}", lambda handler=handler: handler(data))

    def close(self) -> None:
        """Remove the handlers of this extension, and stop it from emitting events."""
        self._is_closed = True
        for name, listeners in self._listeners.items():
            self._listeners[name] = [listener for listener in listeners if listener[0] is not self._start]

    def _be_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("This extension was reloaded. Its old code can no longer use the event bus.")
