"""Locks on session files, and new files that get their name only when they are complete.

    handle, path = temporary(folder)      # locked, with a name that is never mistaken for a session
    ...                                   # write the whole file
    put_in_place(path, target)            # it appears complete; an existing file is never overwritten

A process that is killed meanwhile leaves a temporary file without a lock, which `remove_leftovers` deletes.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from fairlead.config.open_files import lock_holder, try_lock
from fairlead.errors import SessionError

#: The flag that keeps Windows from translating line ends.
BINARY: int = getattr(os, "O_BINARY", 0)
#: Flags to follow no symbolic link, and not to block on a pipe.
NO_LINKS: int = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

_PREFIX, _SUFFIX = ".fairlead-", ".tmp"
#: The errors of `link` on file systems without hard links.
_LINKS_UNKNOWN = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES})


# Temporary files


def temporary(folder: Path) -> tuple[int, Path]:
    """Create a file that only this user can read and that this process has locked. No listing mistakes its name for a session.

    Returns its handle and its path. Raises OSError.
    """
    while True:
        path = folder / f"{_PREFIX}{os.urandom(8).hex()}{_SUFFIX}"
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | BINARY, 0o600)
        with suppress(FileNotFoundError):
            if try_lock(handle) is not False and os.path.samestat(os.fstat(handle), path.stat()):
                return handle, path
        # Another process took it for a leftover before it was locked, and deletes it.
        os.close(handle)


def is_temporary(name: str) -> bool:
    """Whether a name is one that `temporary` makes."""
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


def remove_leftovers(paths: Iterable[str]) -> None:
    """Delete the temporary files among `paths` whose process has ended. A locked file belongs to a running process."""
    if os.name == "nt":
        return
    for path in paths:
        with suppress(OSError):
            handle = os.open(path, os.O_RDWR | NO_LINKS)
            try:
                status = os.fstat(handle)
                if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and try_lock(handle):
                    Path(path).unlink()
            finally:
                os.close(handle)


def remove_leftovers_in(folder: Path) -> None:
    """Call `remove_leftovers` for all temporary files in a folder. A folder that cannot be read is ignored."""
    with suppress(OSError), os.scandir(folder) as items:
        remove_leftovers([item.path for item in items if is_temporary(item.name)])


def put_in_place(source: Path, target: Path) -> None:
    """Rename a complete file to `target`, which must not be a symbolic link. A blank file there is replaced.

    Raises SessionError if anything else is there, and OSError. `source` still exists then.
    """
    try:
        os.link(source, target)
    except FileExistsError:
        _replace_blank(source, target)
    except OSError as error:
        if error.errno not in _LINKS_UNKNOWN:
            raise
        with suppress(FileExistsError):
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # no other process gets the name now
        _replace_blank(source, target)
    else:
        with suppress(OSError):  # if it stays, it is a leftover like any other
            source.unlink()


def _replace_blank(source: Path, target: Path) -> None:
    from fairlead.stores.headers import is_blank

    if not stat.S_ISREG(target.lstat().st_mode):
        raise SessionError(f"Session file {target} cannot be created: something that is not a file has this name.")
    handle = open_locked(target, os.O_RDWR | BINARY)
    try:
        if not is_blank(handle):
            raise SessionError(f"Session file {target} exists already.")
        source.replace(target)
    finally:
        os.close(handle)


def set_aside(path: Path) -> Path:
    """Keep the contents of a file under another name beside it, which no listing mistakes for a session. Return that path.

    Where the file system has hard links, the file itself stays too. Raises OSError.
    """
    for number in range(1, 1000):
        aside = path.with_name(f"{path.name}.changed-{number}")
        try:
            os.link(path, aside)
        except FileExistsError:
            continue
        except OSError as error:
            if error.errno not in _LINKS_UNKNOWN:
                raise
            if aside.exists():
                continue
            path.rename(aside)
        return aside
    raise OSError(errno.EEXIST, f"There are too many copies of {path.name} already")


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk. Raises OSError."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# Locking


def open_locked(path: Path, flags: int) -> int:
    """Open and lock a file. Return its handle. Raises SessionError if another process has locked it, and OSError."""
    while True:
        handle = os.open(path, flags)
        try:
            lock(handle, path)
            # The process that held the lock before may have replaced the file that is open here.
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        except FileNotFoundError:
            pass  # it was deleted
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def lock(handle: int, path: Path) -> None:
    """Lock a session file for as long as `handle` is open. Raises SessionError if another process has locked it."""
    if try_lock(handle) is not False:
        return
    pid = lock_holder(handle)
    if pid == os.getpid():
        raise SessionError(f"Session file {path} is in use by another session of this process.")
    known = f" (pid {pid})" if pid else ""
    raise SessionError(f"Session file {path} is in use by another process{known}.")
