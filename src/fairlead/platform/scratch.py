"""Makes a private folder for files that only this process needs, and removes those of killed processes.

A folder belongs to a living process as long as the file `.lock` in it is locked. This works for any
process number and in any container.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import stat
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from fairlead.platform.open_files import try_lock

_PREFIX = "fairlead-"
_LOCK = ".lock"
#: How many things of the temporary directory are looked at, and how many folders are removed, at one start.
_MOST_LOOKED_AT, _MOST_REMOVED = 20_000, 100


#: How many bytes of files that a host knows of may be in a folder before a new one is added. The oldest ones are deleted.
_MOST_KEPT = 224 * 1024 * 1024
#: Threads ask for a folder too, and there must be only one of each `Scratch`.
_making = threading.Lock()


class Scratch:
    """A private folder for logs of commands, under the system's temporary directory.

    It is made on first use, readable by its owner alone, and removed when the process exits. Files that a host
    knows of stay. The next start removes the whole folder of a process that was killed.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._named: list[Path] = []
        self._lock: int | None = None

    def path(self) -> Path:
        """Return the folder, and make it on first use."""
        with _making:
            if self._folder is None:
                folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_temporary_directory())).resolve()
                self._lock = _claim(folder)
                atexit.register(self.remove)
                self._folder = folder
            return self._folder

    def keep(self, file: Path) -> None:
        """Keep `file` after this process ends, because a host knows its path. If there are too many, delete the oldest."""
        with _making:
            sizes = [(each, each.stat().st_size if each.exists() else 0) for each in self._named]
            total = sum(size for _, size in sizes)
            for each, size in sizes:
                if total <= _MOST_KEPT:
                    break
                total -= size
                self._named.remove(each)
                _delete(each)
            self._named.append(file.resolve())

    def remove(self) -> None:
        """Delete the folder, except for files that were kept. What cannot be deleted stays."""
        folder, self._folder = self._folder, None
        lock, self._lock = self._lock, None
        if folder is None:
            return
        atexit.unregister(self.remove)
        if not any(file.is_relative_to(folder) for file in self._named):
            _delete(folder)
        else:
            with suppress(OSError):  # another program may have deleted the folder
                for file in list(folder.iterdir()):
                    if not any(named.is_relative_to(file) for named in self._named):
                        _delete(file)
        if lock is not None:
            os.close(lock)


def remove_leftovers() -> None:
    """Remove the folders of processes that were killed. It may take a while."""
    directory = _temporary_directory()
    if directory is None:
        return
    removed = 0
    with suppress(OSError), os.scandir(directory) as items:
        for number, item in enumerate(items):
            if number >= _MOST_LOOKED_AT or removed >= _MOST_REMOVED:
                return
            if item.name.startswith(_PREFIX) and item.is_dir(follow_symlinks=False):
                # Before all else, because other programs may have left thousands of folders with such names.
                if not os.path.lexists(f"{item.path}/{_LOCK}"):
                    continue
                try:
                    removed += _remove_leftover(Path(item.path))
                except OSError as error:
                    logging.getLogger("fairlead.config").debug("%s is left alone (%s)", item.path, error.strerror)


def _temporary_directory() -> str | None:
    """Return the system's temporary directory; None where only `tempfile` can find it.

    `tempfile` writes a file to try a directory out. A process that exits at that moment would leave the file there.
    """
    if os.name == "nt":
        return None
    # A program may have set it. Loading `tempfile` only to ask, with a dozen modules that it needs, would take milliseconds.
    chosen = getattr(sys.modules.get("tempfile"), "tempdir", None)
    named = [chosen, *map(os.environ.get, ("TMPDIR", "TEMP", "TMP")), "/tmp"]
    usable = (path for path in named if path and Path(path).is_dir() and os.access(path, os.W_OK | os.X_OK))
    return next(usable, None)


def _claim(folder: Path) -> int | None:
    """Lock a new folder for this process. None where there are no locks: then only this process removes it."""
    # The file gets its name only when it is locked, so that no other process finds it before.
    unnamed = folder / f"{_LOCK}-new"
    try:
        handle = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError:
        return None
    if try_lock(handle):
        with suppress(OSError):
            unnamed.rename(folder / _LOCK)
            return handle
    os.close(handle)
    return None


def _remove_leftover(folder: Path) -> bool:
    """Remove a folder if it is ours and its process has ended. Returns whether it was removed. Follows no link."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    lock = -1
    try:
        status = os.fstat(place)
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) != 0o700:
            return False
        lock = os.open(_LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)
        if not try_lock(lock):  # the process is alive
            return False
        _delete(folder)
        return True
    finally:
        os.close(place)
        if lock >= 0:
            os.close(lock)


def _delete(path: Path) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        path.unlink()
