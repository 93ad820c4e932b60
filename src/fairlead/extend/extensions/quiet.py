"""What extensions print goes to stderr: stdout belongs to a host, a pipe or the program that this library is part of."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TextIO, cast


class _Divided:
    """Standard output while extensions run: theirs goes to stderr, that of everybody else where it always went."""

    def __init__(self, real: TextIO) -> None:
        self.real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr if _speaking[threading.get_ident()] else self.real, name)


#: How many calls of extensions are on the stack of each thread.
_speaking: Counter[int] = Counter()
_lock = threading.Lock()


@contextmanager
def quiet() -> Generator[None]:
    """While this lasts, what this thread prints goes to stderr."""
    me = threading.get_ident()
    with _lock:
        if not isinstance(sys.stdout, _Divided):
            sys.stdout = cast("TextIO", _Divided(sys.stdout))
        _speaking[me] += 1
    try:
        yield
    finally:
        with _lock:
            _speaking[me] -= 1
            if not _speaking[me]:
                del _speaking[me]
            if not _speaking and isinstance(sys.stdout, _Divided):
                sys.stdout = sys.stdout.real
