"""The end of the process, for code in it that is not ours.

An extension may block the event loop or leave threads behind. Whoever loads such code registers a callback here; the process
calls it when it is about to end, and exits without waiting for what was left.
"""

from __future__ import annotations

from collections.abc import Callable

_callbacks: list[Callable[[], None]] = []


def on_process_ending(callback: Callable[[], None]) -> None:
    """Call `callback`, on any thread, when the process is about to end. Registering twice is the same as once."""
    if callback not in _callbacks:
        _callbacks.append(callback)


def process_is_ending() -> None:
    """Tell everything that registered that the process is about to end."""
    for callback in list(_callbacks):
        callback()


def runs_foreign_code() -> bool:
    """Whether code that is not ours may have run in this process."""
    return bool(_callbacks)
