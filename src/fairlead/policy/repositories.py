"""Finds git repositories below a folder, and takes away those that a command made.

Git runs commands that a repository's configuration names, even for `git status`. It takes a folder for a repository if there is
a `.git` in it, or if the folder itself looks like one: it has a `HEAD`, and `refs` or a `commondir` that leads to them.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from fairlead.config.files import LIST, PASS, open_below

GIT = ".git"
HEAD = "HEAD"
#: Beside `HEAD`, each of these makes a folder look like a repository. `objects` may be elsewhere (GIT_OBJECT_DIRECTORY).
LOOKS = ("refs", "commondir")
#: What the names above are renamed to.
TAKEN = "-from-sandbox"
#: A path that is longer cannot be used by git, nor by most programs.
_LONGEST_PATH = 4096
#: Folders inside one another that are held open: all of the first, then some. Others are opened from the nearest.
_HELD, _HELD_EVERY = 48, 32

#: A file or folder by what it is, not by its path: device and number. A `.git` that is a link, by its path and what it says.
Identity: TypeAlias = tuple[int, int] | str


class Repository(Struct, frozen=True):
    """Something that makes git see a repository: a `.git`, or the `HEAD` of a folder that looks like one."""

    #: The `.git`, or the folder.
    path: Path
    identity: Identity

    @property
    def mark(self) -> Path:
        """What `identity` is about."""
        return self.path if self.path.name == GIT else self.path / HEAD


class TooMany(Exception):
    """There are more files and folders than are looked at."""


class Check(Struct):
    """What `take_away` did: old and new paths, and the paths that could not be renamed or looked into."""

    renamed: list[tuple[Path, Path]] = []
    failed: list[Path] = []


def find_repositories(root: Path, most: int) -> list[Repository]:
    """All repositories below the real path `root`, without those in repositories. Raises OSError, and TooMany past `most`."""
    found: list[Repository] = []
    deque(_walk(root, most, lambda folder: _note(folder, found)), maxlen=0)
    return found


def take_away(root: Path, known: set[Identity]) -> Check:
    """Rename what makes git see a repository below `root`, unless it is one of the `known`. Empty folders stay."""
    check = Check()
    for folder in _walk(root, None, lambda folder: _clear(folder, known, check)):
        check.failed.append(folder)
    return check


def move_aside(folder: Path, name: str) -> Path | None:
    """Rename something in a folder as `take_away` does. Returns the new path; None if that fails."""
    opened = _listed(os.open(folder, LIST), str(folder))
    try:
        new = opened.rename(name)
    finally:
        opened.close()
    return None if new is None else folder / new


def looks_like_repository(has: Callable[[str], bool]) -> bool:
    """Return whether git may take a folder for a repository, given which names are in it."""
    return has(HEAD) and any(map(has, LOOKS))


class _OpenFolder:
    """An open folder, with the folders in it that are still to be entered.

    `git` is its `.git`, and `head` its HEAD if it looks like a repository itself; None: there is none.
    """

    def __init__(self, file: int, path: str, mode: int | None) -> None:
        self.file = file
        self.path = path
        #: The mode to give back when it is closed; None: it was not changed.
        self._mode = mode
        self.folders: list[str] = []
        names: set[str] = set()
        with os.scandir(file) as entries:
            for entry in entries:
                names.add(entry.name.lower())
                if entry.is_dir(follow_symlinks=False):
                    self.folders.append(entry.name)
        self.size = len(names)
        # File systems differ in what they take for the same name; these two are looked up if they may be here.
        is_plain = all(map(str.isascii, names))
        self.git = self._git() if GIT in names or not is_plain else None
        self.head = self.identity(HEAD) if HEAD.lower() in names or not is_plain else None
        if self.head is not None and not looks_like_repository(lambda name: self.identity(name) is not None):
            self.head = None

    def identity(self, name: str) -> tuple[int, int] | None:
        """Return what is here under a name; None if nothing is."""
        try:
            found = os.stat(name, dir_fd=self.file, follow_symlinks=False)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _git(self) -> Identity | None:
        with suppress(OSError):
            return f"{self.path}\0{os.readlink(GIT, dir_fd=self.file)}"
        return self.identity(GIT)

    def is_empty(self, name: str) -> bool:
        """Return whether an empty folder is here under a name."""
        try:
            file = os.open(name, LIST, dir_fd=self.file)
        except OSError:
            return False
        try:
            with os.scandir(file) as entries:
                return next(entries, None) is None
        finally:
            os.close(file)

    def rename(self, name: str) -> str | None:
        """Give what is here another name, which is returned; None if that fails."""
        taken = next(new for new in _new_names(name) if self.identity(new) is None)
        for attempt in (0, 1):
            try:
                os.rename(name, taken, src_dir_fd=self.file, dst_dir_fd=self.file)
                return taken
            except PermissionError:
                if attempt or not self._make_writable():
                    return None
            except OSError:
                return None
        return None

    def _make_writable(self) -> bool:
        try:
            mode = stat.S_IMODE(os.fstat(self.file).st_mode)
            os.fchmod(self.file, mode | stat.S_IRWXU)
        except OSError:
            return False
        self._mode = mode if self._mode is None else self._mode
        return True

    @property
    def is_unchanged(self) -> bool:
        return self._mode is None

    def close(self) -> None:
        if self.file >= 0:
            if self._mode is not None:
                with suppress(OSError):
                    os.fchmod(self.file, self._mode)
            os.close(self.file)
            self.file = -1


def _walk(root: Path, most: int | None, enter: Callable[[_OpenFolder], None]) -> Iterator[Path]:
    """Call `enter` for every folder below `root`, which may take names out of its `folders`. Links are never followed.

    Yields the folders that cannot be looked into.
    """
    pending: list[_OpenFolder] = []
    count = 0
    try:
        _push(pending, _listed(os.open(root, LIST), str(root)), enter)
        while pending:
            count, pending[-1].size = count + pending[-1].size, 0
            if most is not None and count > most:
                raise TooMany
            if not pending[-1].folders:
                pending.pop().close()
                continue
            name = pending[-1].folders.pop()
            path = f"{pending[-1].path}/{name}"
            if len(os.fsencode(path)) > _LONGEST_PATH:
                yield Path(path)
                continue
            try:
                inner = _open(pending, path)
            except (FileNotFoundError, NotADirectoryError):  # it has gone, or is a link by now
                continue
            except OSError:
                if os.access(path, os.W_OK):  # otherwise no command could have put anything there either
                    yield Path(path)
                continue
            _push(pending, inner, enter)
    finally:
        for folder in reversed(pending):
            folder.close()


def _push(pending: list[_OpenFolder], folder: _OpenFolder, enter: Callable[[_OpenFolder], None]) -> None:
    depth = len(pending)
    pending.append(folder)
    enter(folder)
    if depth >= _HELD and depth % _HELD_EVERY and folder.is_unchanged:
        folder.close()


def _open(pending: Sequence[_OpenFolder], path: str) -> _OpenFolder:
    """Open a folder of the last one on the stack. Raises OSError, also if it has become a link."""
    nearest = next(folder for folder in reversed(pending) if folder.file >= 0)
    names = path[len(nearest.path) + 1 :].split("/")
    mode = None
    try:
        file = open_below(nearest.file, names, LIST)
    except PermissionError:
        mode = _make_readable(nearest.file, names)
        file = open_below(nearest.file, names, LIST)
    return _listed(file, path, mode)


def _listed(file: int, path: str, mode: int | None = None) -> _OpenFolder:
    """Return the folder with the descriptor `file`, which is closed if the folder cannot be listed. Raises OSError."""
    try:
        return _OpenFolder(file, path, mode)
    except BaseException:
        os.close(file)
        raise


def _make_readable(outer: int, names: Sequence[str]) -> int:
    """Let a folder be listed that its owner may not list; returns its mode. Raises OSError if another user owns it."""
    file = open_below(outer, names, PASS)
    try:
        mode = stat.S_IMODE(os.fstat(file).st_mode)
        os.chmod(f"/proc/self/fd/{file}", mode | stat.S_IRWXU)  # noqa: PTH101
    finally:
        os.close(file)
    return mode


def _note(folder: _OpenFolder, found: list[Repository]) -> None:
    path = Path(folder.path)
    if folder.git is not None:
        found.append(Repository(path / GIT, folder.git))
        _leave_out_git(folder)
    if folder.head is not None:
        found.append(Repository(path, folder.head))
        folder.folders.clear()


def _clear(folder: _OpenFolder, known: set[Identity], check: Check) -> None:
    if folder.git is not None:
        was_folder = _leave_out_git(folder)
        if folder.git not in known and not folder.is_empty(GIT):
            new = _taken(folder, GIT, check)
            if new is not None and was_folder:
                folder.folders.append(new)  # it looks like a repository itself
    if folder.head is None:
        return
    if folder.head in known:
        folder.folders.clear()
    else:
        _taken(folder, HEAD, check)


def _taken(folder: _OpenFolder, name: str, check: Check) -> str | None:
    path = Path(folder.path)
    new = folder.rename(name)
    if new is None:
        check.failed.append(path / name)
    else:
        check.renamed.append((path / name, path / new))
    return new


def _leave_out_git(folder: _OpenFolder) -> bool:
    """Do not enter the `.git`, by whatever name the folder lists it. Returns whether it is a folder."""
    before = len(folder.folders)
    same = folder.identity(GIT)
    folder.folders = [
        name for name in folder.folders if name.lower() != GIT and (name.isascii() or folder.identity(name) != same)
    ]
    return len(folder.folders) < before


def _new_names(name: str) -> Iterator[str]:
    yield f"{name}{TAKEN}"
    number = 2
    while True:
        yield f"{name}{TAKEN}-{number}"
        number += 1
