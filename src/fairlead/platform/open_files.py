"""Opens files and folders by descriptor, locks open files, and makes files and folders that only their owner may use.

A descriptor keeps naming the same file, so what was checked is what is used, even if the path leads elsewhere by then.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TypeAlias

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
    import fcntl  # noqa: PLC0415  POSIX only

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


_OTHERS = stat.S_IRWXG | stat.S_IRWXO
#: What SQLite keeps beside a database.
_SIDECARS = ("", "-wal", "-shm", "-journal")


def make_private_folders(folder: Path) -> None:
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
    make_private_folders(path.parent)
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


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk. Raises OSError."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
