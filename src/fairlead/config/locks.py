"""Locks on files, between processes. A lock ends with the process that holds it, however that ends."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


def try_lock(handle: int) -> bool | None:
    """Lock an open file for as long as `handle` is open.

    Returns True if it is locked now, False if another process has locked it, None if the system has no locks for it.
    """
    if os.name == "nt":  # a lock there would keep readers out
        return None
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return True


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold the lock for changes of the file `path`, and wait for it if need be. Raises OSError."""
    lock = path.with_name(f".{path.name}.lock")
    if os.name == "nt":  # no flock; a file that is replaced is still never half written
        yield
        return
    import fcntl

    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
