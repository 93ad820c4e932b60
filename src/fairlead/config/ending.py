"""Ends the process in spite of code in it that is not ours.

An extension may block the event loop or leave threads behind. The module that loads such code registers a callback
here. The process calls it before it ends, and exits without waiting for what was left.
"""

from __future__ import annotations

from collections.abc import Callable

_callbacks: list[Callable[[], None]] = []


def on_process_ending(callback: Callable[[], None]) -> None:
    """Call `callback`, on any thread, when the process is about to end. Registering twice is the same as once."""
    if callback not in _callbacks:
        _callbacks.append(callback)


def process_is_ending() -> None:
    """Call every registered callback: the process is about to end."""
    for callback in list(_callbacks):
        callback()


def runs_foreign_code() -> bool:
    """Return whether code that is not ours may have run in this process."""
    return bool(_callbacks)
