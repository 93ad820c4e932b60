"""Opens files and folders by descriptor, without following links, and locks open files.

A descriptor keeps naming the same file, so what was checked is what is used, even if the path leads elsewhere by then.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

#: Device and inode number.
Identity: TypeAlias = tuple[int, int]

_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | _CLOEXEC
#: For folders that are only passed through; where there is no O_PATH, they have to be readable.
PASS: int = getattr(os, "O_PATH", os.O_RDONLY) | _FOLDER
#: For folders that are listed.
LIST: int = os.O_RDONLY | _FOLDER
#: For files that are read. O_NONBLOCK: some files of /proc would block the reader, and so would a named pipe.
READ: int = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | _CLOEXEC

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_below(folder: int, names: Sequence[str], flags: int) -> int:
    """Open what `names` lead to from an open folder, step by step; no names lead to the folder itself.

    Returns a file descriptor. Raises OSError, also if one of the names is a link.
    """
    inner = folder
    try:
        for name in names[:-1]:
            passed, inner = inner, os.open(name, PASS, dir_fd=inner)
            if passed != folder:
                os.close(passed)
        return os.open(names[-1] if names else ".", flags, dir_fd=inner)
    finally:
        if inner != folder:
            os.close(inner)


def open_real(path: Path, flags: int) -> int:
    """Open an absolute path in which all links are resolved. Raises OSError, also if a part of it is a link by now."""
    root = os.open("/", PASS)
    try:
        return open_below(root, path.parts[1:], flags)
    finally:
        os.close(root)


@contextmanager
def opened_folder(path: Path, flags: int = PASS) -> Generator[int]:
    """Open the folder at a real path for the block. The descriptor keeps naming that folder, even if the path changes."""
    folder = open_real(path, flags)
    try:
        yield folder
    finally:
        os.close(folder)


def make_folders(path: Path, before: Callable[[], None]) -> None:
    """Make the folder at a real path, with all missing folders above it.

    `before` is called before the first one is made, and may refuse by raising. Raises OSError, also if a part of the path is a
    link or becomes one meanwhile.
    """
    folder = os.open("/", PASS)
    asked = False
    try:
        for name in path.parts[1:]:
            try:
                inner = os.open(name, PASS, dir_fd=folder)
            except FileNotFoundError:
                if not asked:
                    before()
                    asked = True
                # Another process may make it meanwhile; if that is not a folder, opening it fails.
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
                inner = os.open(name, PASS, dir_fd=folder)
            os.close(folder)
            folder = inner
    finally:
        os.close(folder)


def stat_at(folder: int, name: str) -> os.stat_result:
    """Return the status of what has this name in an open folder. Raises OSError, also if it is a link."""
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return found


def identity_of(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino


def has_several(found: os.stat_result | None) -> bool:
    """Return whether this is a regular file with several hard links."""
    return found is not None and found.st_nlink > 1 and stat.S_ISREG(found.st_mode)


def kind_of(mode: int) -> str:
    """Name the kind of something that is not a regular file, for error texts."""
    return _KINDS.get(stat.S_IFMT(mode), "something else")


def try_lock(handle: int) -> bool | None:
    """Lock an open file for as long as `handle` is open.

    The lock ends with the process at the latest, however that ends. Returns True if the file is locked now, False if another
    process has locked it, None if the system has no locks for it.
    """
    if os.name == "nt":  # a lock there would keep readers out
        return None
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return True


def lock_holder(handle: int) -> int | None:
    """Return the id of the process that has locked an open file, on systems that tell it; None if it is not known."""
    status = os.fstat(handle)
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        locks = Path("/proc/locks").read_text()
    except OSError:
        return None
    for line in locks.splitlines():
        words = line.split()
        if len(words) >= 6 and words[1] == "FLOCK" and words[5] == file:
            return int(words[4]) if words[4].isdecimal() else None
    return None
