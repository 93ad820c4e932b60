"""A way for extensions to talk to each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

#: Calls a handler on behalf of the extension that it belongs to.
Start: TypeAlias = Callable[[str, Callable[[], Any]], None]
Listeners: TypeAlias = dict[str, list[tuple[Start, Callable[[Any], Any]]]]


class EventBus:
    """Events of the extensions' own: whoever emits one need not know who listens."""

    def __init__(self, listeners: Listeners, start: Start) -> None:
        self._listeners = listeners
        self._start = start
        self._is_closed = False

    def on(self, name: str, handler: Callable[[Any], Any]) -> Callable[[], None]:
        """Call `handler` with whatever is emitted under a name; the returned function takes it back."""
        self._be_open()
        if not callable(handler):
            raise TypeError(f"A handler is a function, not {type(handler).__name__}.")
        listener = self._start, handler
        self._listeners.setdefault(name, []).append(listener)

        def take_back() -> None:
            if listener in self._listeners.get(name, ()):
                self._listeners[name].remove(listener)

        return take_back

    def emit(self, name: str, data: Any = None) -> None:
        """Hand `data` to everybody who listens. They are called soon, in order, and nobody waits for them."""
        self._be_open()
        for start, handler in list(self._listeners.get(name, ())):
            start(f"bus:{name}", lambda handler=handler: handler(data))

    def close(self) -> None:
        """Take back what this extension listens to. It cannot speak any more, either."""
        self._is_closed = True
        for name, listeners in self._listeners.items():
            self._listeners[name] = [listener for listener in listeners if listener[0] is not self._start]

    def _be_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("This extension was reloaded: what is left of it cannot act any more.")
