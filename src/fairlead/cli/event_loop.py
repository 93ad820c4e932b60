"""The event loop of the command, and how a coroutine runs in it."""

from __future__ import annotations

import asyncio
from asyncio import SelectorEventLoop
from collections.abc import Coroutine
from selectors import DefaultSelector, SelectorKey
from typing import Any, TypeVar

from fairlead.platform.process import runs_foreign_code

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine like `asyncio.run`, but do not wait for tasks and threads of extensions."""
    runner = asyncio.Runner(loop_factory=new_event_loop)
    try:
        return runner.run(work)
    finally:
        if not runs_foreign_code():
            runner.close()


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop that asks the system only every second time for new input while it has callbacks to run.

    Input that wakes the loop usually wakes a task, whose turn comes in the next round. Asking the system again before it would
    take a tenth of what a piece of an answer costs.
    """
    return SelectorEventLoop(_Selector())


class _Selector(DefaultSelector):
    """Does not ask the system again at once."""

    has_asked = False

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        if timeout == 0 and self.has_asked:
            self.has_asked = False
            return []
        self.has_asked = True
        return super().select(timeout)
