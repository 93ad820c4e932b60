"""Files and folders that only their owner may use, whatever the umask says."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import IO

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
#: What SQLite keeps beside a database.
_SIDECARS = ("", "-wal", "-shm", "-journal")


def make_folders(folder: Path) -> None:
    """Create a folder and its parents, with access for this user only. Those that exist stay as they are. Raises OSError."""
    missing = [folder]
    while not os.path.exists(missing[-1].parent):
        missing.append(missing[-1].parent)
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)


def open_private(path: Path, mode: str) -> IO[bytes]:
    """Open a file to write (`wb`) or to append (`ab`). No other user can open it, also if an earlier one had another mode.

    A file with several names, or one that belongs to another user, keeps its mode. Raises OSError.
    """
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if mode == "ab" else 0)
    handle = os.open(path, flags | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0), 0o600)
    try:
        found = os.fstat(handle)
        if _is_ours(found):
            os.fchmod(handle, 0o600)
        if mode == "wb":
            os.ftruncate(handle, 0)
        return os.fdopen(handle, mode)
    except BaseException:
        os.close(handle)
        raise


def keep_database_private(path: Path) -> None:
    """Create the file of a SQLite database, with its folder, or take existing files of it away from other users. Raises OSError.

    SQLite gives the files beside a database the mode that the database has. An existing file is not opened here: closing it would
    release the locks of other connections of this process.
    """
    make_folders(path.parent)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600))
    for suffix in _SIDECARS:
        each = path.with_name(f"{path.name}{suffix}")
        with suppress(FileNotFoundError):  # nothing is beside it, or it is a link to a file that SQLite will create
            if _is_ours(each.stat()):
                each.chmod(0o600)


def _is_ours(found: os.stat_result) -> bool:
    """Whether a file is one that others may use and that belongs to this user."""
    is_open = bool(found.st_mode & _OTHERS) and stat.S_ISREG(found.st_mode) and found.st_nlink == 1
    return is_open and hasattr(os, "geteuid") and found.st_uid == os.geteuid()
