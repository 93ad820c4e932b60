"""Runs a Python program and counts the lines of Python that it executes, in all its threads.

    python bench/line_counter.py FILE PROGRAM [ARGUMENT ...]

It appends the count so far to FILE whenever it gets SIGUSR2, and once more when the program ends. The count does not depend on
the machine, so it can be compared with a stored one where instructions cannot be counted.
"""

from __future__ import annotations

import itertools
import os
import runpy
import signal
import sys
import threading
from types import FrameType
from typing import Any

_counter = itertools.count()  # threads can share it: each call of `next` is one step


def _count(frame: FrameType, event: str, argument: Any) -> Any:
    next(_counter)
    return _count


def _append(file: int) -> None:
    os.write(file, b"%d\n" % int(repr(_counter)[len("count(") : -1]))


def main() -> None:
    file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    exit_at_once = os._exit

    def counted_exit(code: int) -> None:
        _append(file)
        exit_at_once(code)

    def mark(number: int, frame: FrameType | None) -> None:
        _append(file)

    signal.signal(signal.SIGUSR2, mark)
    os._exit = counted_exit  # type: ignore[assignment]
    sys.argv = sys.argv[2:]
    threading.settrace(_count)
    sys.settrace(_count)
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        _append(file)


if __name__ == "__main__":
    main()
