"""Keeps the memory of the process small, and gives it back to the system after large sessions were closed.

The parts of a session refer to each other, so that only the garbage collector can free a closed session. In a process that has
become idle, it may not run for a long time. And what it frees stays in the C library's heap until that is trimmed.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc

#: The number of the option of glibc that limits the heaps: see `use_one_heap`.
_M_ARENA_MAX = -8
#: How many bytes closed sessions have used before they are given back.
ENOUGH = 50_000_000
#: How many bytes a session uses besides its entries, and how often it keeps these: as JSON, as objects, in requests.
OF_A_SESSION, COPIES = 250_000, 4
#: Seconds from there to the collection. By then, the program has usually dropped the agents that it closed.
PATIENCE = 1.0

_closed = 0
_timer: asyncio.TimerHandle | None = None


def session_closed(size: int) -> None:
    """Count a closed session, whose entries have `size` bytes as JSON. After large or many ones, memory is given back a moment
    later.

    The work is that of the full collection which as many new objects would cause anyway.
    """
    global _closed, _timer
    _closed += OF_A_SESSION + COPIES * size
    if _closed < ENOUGH:
        return
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    if _timer is not None:  # a timer of a loop that has ended would never fire
        _timer.cancel()
    _timer = loop.call_later(PATIENCE, _give_back)


def _give_back() -> None:
    global _closed, _timer
    _closed, _timer = 0, None
    gc.collect()
    trim_heap()


def trim_heap() -> None:
    """Return the free pages of the C library's heap to the system. Only glibc can do that; elsewhere this does nothing."""
    _call_c_library("malloc_trim", 0)


def use_one_heap() -> None:
    """Let all threads that start from now on allocate from the same heap. Without glibc, this does nothing.

    glibc gives each thread its own heap, so that threads need not wait for each other. Python's threads hardly ever work at the
    same time. But each heap grows to what the largest work of its thread needed, and other threads cannot use what is freed
    there. In a process that runs for long, most of the memory is then free and belongs to the wrong thread.
    """
    _call_c_library("mallopt", _M_ARENA_MAX, 1)


def _call_c_library(name: str, *arguments: int) -> None:
    """Call a function of the C library, if it has it."""
    try:
        getattr(ctypes.CDLL(None), name)(*arguments)
    except (AttributeError, OSError, TypeError):
        return
