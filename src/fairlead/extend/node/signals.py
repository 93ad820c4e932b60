"""Cancellation tokens as numbers, which become abort signals in the Node process."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from fairlead.core.runtime import CancelToken


class Signals:
    """Gives tokens their numbers. `abort` is called with the number of a token that fires."""

    def __init__(self, abort: Callable[[int], None]) -> None:
        self._abort = abort
        self._next = 0
        #: The token of the run that was asked for last, and its number.
        self._run: tuple[CancelToken, int] | None = None

    def of_run(self, cancel: CancelToken) -> int:
        """Return the number of the token of a run. Each run has one."""
        if self._run is None or self._run[0] is not cancel:
            self._run = cancel, self._number(cancel)[0]
        return self._run[1]

    @contextmanager
    def of_call(self, cancel: CancelToken | None) -> Generator[int | None]:
        """Give a token a number while a call runs."""
        if cancel is None:
            yield None
            return
        number, forget = self._number(cancel)
        try:
            yield number
        finally:
            forget()

    def _number(self, cancel: CancelToken) -> tuple[int, Callable[[], object]]:
        self._next += 1
        number = self._next
        return number, cancel.on_fire(lambda: self._abort(number))
