"""Finds the names of files that have several (hard links), as far as they are in some folders."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from fairlead.config.descriptors import LIST

#: Device and inode number.
Identity: TypeAlias = tuple[int, int]
#: Files and folders that are looked at in all.
_MOST = 300_000
#: Seconds for which what was found holds. A file that got a name meanwhile is told by the time of its last change.
_FRESH = 5.0


class HardLinks:
    """The names of all files below some folders that have several. Links to folders are not followed."""

    def __init__(self, folders: Iterable[Path], most: int = _MOST) -> None:
        #: There were not more files than are looked at.
        self.complete = True
        self._began = time.time()
        self._until = time.monotonic() + _FRESH
        self._room = most
        self._seen: set[Identity] = set()
        #: A name is that of an entry in a folder: the same folder may be reached by several paths.
        self._names: dict[Identity, dict[tuple[Identity, str], Path]] = {}
        for folder in folders:
            self._add(folder)

    def is_fresh(self, found: os.stat_result | None = None) -> bool:
        """Return whether what was found still holds, also for a file that was opened just now."""
        return time.monotonic() < self._until and (found is None or found.st_ctime < self._began - 1)

    def names(self, identity: Identity) -> list[Path]:
        return list(self._names.get(identity, {}).values())

    def has_all_names(self, path: Path, found: os.stat_result) -> bool:
        """Return whether every name of an open file is known. `path` is one of them."""
        known = set(self._names.get((found.st_dev, found.st_ino), {}))
        try:
            known.add((_identity(path.parent.stat()), path.name))
        except OSError:
            return False
        return len(known) >= found.st_nlink

    def identities(self) -> set[Identity]:
        return set(self._names)

    def _add(self, folder: Path) -> None:
        pending = [folder]
        while pending:
            if self._room < 0:
                self.complete = False
                return
            path = pending.pop()
            try:
                file = os.open(path, LIST)
            except OSError:
                continue
            try:
                self._list(file, path, pending)
            except OSError:
                continue
            finally:
                os.close(file)

    def _list(self, file: int, path: Path, pending: list[Path]) -> None:
        where = _identity(os.fstat(file))
        if where in self._seen:
            return
        self._seen.add(where)
        with os.scandir(file) as entries:
            for entry in entries:
                self._room -= 1
                if self._room < 0:
                    self.complete = False
                    return
                if entry.is_dir(follow_symlinks=False):
                    pending.append(path / entry.name)
                elif entry.is_file(follow_symlinks=False):
                    found = entry.stat(follow_symlinks=False)
                    if has_several(found):
                        self._names.setdefault(_identity(found), {})[where, entry.name] = path / entry.name


def has_several(found: os.stat_result | None) -> bool:
    """Return whether something is a file with several names."""
    return found is not None and found.st_nlink > 1 and stat.S_ISREG(found.st_mode)


def _identity(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino
