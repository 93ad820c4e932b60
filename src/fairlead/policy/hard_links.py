"""Finds all names of files that have several: their hard links. It is loaded when such a file is found, or a sandbox is made."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from fairlead.platform.open_files import LIST, Identity, has_several, identity_of

#: The maximum number of files and folders that a scan looks at, and how many seconds it may take.
_MOST = 300_000
_PATIENCE = 20.0
#: How many seconds a scan stays valid. A file that gets a new link in that time has a later time of change.
_FRESH = 5.0


class HardLinks:
    """A scan of folders for files with several hard links. It does not follow symbolic links.

    Args:
        folders: where to scan, at any depth.
        besides: a folder in them that is not scanned.
        most: stop after this many files and folders, or when the scan has taken too long.
    """

    def __init__(self, folders: Iterable[Path], *, besides: Path | None = None, most: int = _MOST) -> None:
        #: Whether everything was scanned.
        self.complete = True
        self._began = time.time()
        self._deadline = time.monotonic() + _PATIENCE
        self._besides = besides
        self._room = most
        self._seen: set[Identity] = set()
        #: The inner keys are a folder's identity and a name in it, because several paths may lead to the same folder.
        self._names: dict[Identity, dict[tuple[Identity, str], Path]] = {}
        for folder in folders:
            self._add(folder)
        self._until = time.monotonic() + _FRESH

    def is_fresh(self, found: os.stat_result | None = None) -> bool:
        """Return whether the scan is still valid, and valid for a file that was just opened."""
        return time.monotonic() < self._until and (found is None or found.st_ctime < self._began - 1)

    def names(self, identity: Identity) -> list[Path]:
        """Return the paths that the scan found for a file with several links."""
        return list(self._names.get(identity, {}).values())

    def has_all_names(self, path: Path, found: os.stat_result) -> bool:
        """Return whether the scan found every name of an open file. `path` is one of them."""
        known = set(self._names.get((found.st_dev, found.st_ino), {}))
        try:
            known.add((identity_of(path.parent.stat()), path.name))
        except OSError:
            return False
        return len(known) >= found.st_nlink

    def identities(self) -> set[Identity]:
        """Return all files with several links that the scan found."""
        return set(self._names)

    def _add(self, folder: Path) -> None:
        pending = [folder]
        while pending:
            if self._room < 0 or time.monotonic() > self._deadline:
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
        where = identity_of(os.fstat(file))
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
                    pending += [inner for inner in (path / entry.name,) if inner != self._besides]
                elif entry.is_file(follow_symlinks=False):
                    found = entry.stat(follow_symlinks=False)
                    if has_several(found):
                        self._names.setdefault(identity_of(found), {})[where, entry.name] = path / entry.name


class LinkedFiles:
    """The files with several hard links below a folder. Asked again, it looks only into the folders that have changed."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._folders: dict[str, _Folder] = {}

    def find(self) -> dict[Identity, tuple[int, list[str]]]:
        """Return the files: the number of links that each has, and its paths below the folder. Links are not followed."""
        found: dict[Identity, tuple[int, list[str]]] = {}
        folders: dict[str, _Folder] = {}
        pending = [self._root]
        while pending:
            path = pending.pop()
            try:
                folder = self._look(path)
            except OSError:  # it was deleted, or belongs to another user
                continue
            folders[path] = folder
            pending += [f"{path}/{name}" for name in folder.folders]
            for name, identity, links in folder.files:
                found.setdefault(identity, (links, []))[1].append(f"{path}/{name}")
        self._folders = folders
        return found

    def _look(self, path: str) -> _Folder:
        status = os.stat(path, follow_symlinks=False)  # noqa: PTH116 (for every folder of the tree)
        change = (*identity_of(status), status.st_ctime_ns)
        known = self._folders.get(path)
        if known is not None and known.change == change and known.is_settled:
            return known
        folders: list[str] = []
        files: list[tuple[str, Identity, int]] = []
        now = time.time()
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif entry.is_file(follow_symlinks=False) and has_several(found := entry.stat(follow_symlinks=False)):
                    files.append((entry.name, identity_of(found), found.st_nlink))
        # A change just after the look may get the same time, because the kernel's clock has steps of some milliseconds.
        return _Folder(change, status.st_ctime < now - 1, folders, files)


class _Folder(Struct, frozen=True):
    """What was in a folder: the names of the folders in it, and its files with several links."""

    change: tuple[int, int, int]
    #: Whether the folder would have another time of change if something were added to it after the look.
    is_settled: bool
    folders: list[str]
    files: list[tuple[str, Identity, int]]
