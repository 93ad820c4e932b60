"""Finds what takes effect outside the sandbox below a folder, and disables what a sandboxed command created of it.

Git runs commands that the configuration of a repository names, even for `git status`. So a command in the sandbox could escape
by creating a repository that the user's git reads later. Git treats a folder as a repository if it contains `.git`, or if the
folder itself looks like one: it contains `HEAD`, and `refs` or a `commondir` that points to them.

Agents that start in a folder run the extensions and MCP servers that its `.fairlead`, its `.mcp.json` and the folders of other
agents name. `EFFECTIVE` lists these names. Everything here calls what has such a name, and a repository, effective.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import TypeAlias

from msgspec import Struct

from fairlead.config.home import AGENT_FOLDERS, MCP_FILE
from fairlead.platform.open_files import LIST, PASS, open_below

GIT = ".git"
HEAD = "HEAD"
#: Next to `HEAD`, each of these makes a folder look like a repository. `objects` may be elsewhere (GIT_OBJECT_DIRECTORY).
LOOKS = ("refs", "commondir")
#: The names that take effect outside the sandbox in every folder.
EFFECTIVE = (GIT, MCP_FILE, *AGENT_FOLDERS)
#: The suffix that `take_away` adds to names.
TAKEN = "-from-sandbox"
#: Git and most other programs cannot use longer paths.
_LONGEST_PATH = 4096
#: Which nested folders stay open during a walk: the outermost 48, then every 32nd. The others are reopened from the nearest.
_HELD, _HELD_EVERY = 48, 32

#: Device and inode number of a file or folder. For a symbolic link: its path, its target, and what that leads to.
Identity: TypeAlias = tuple[int, int] | str


class Effective(Struct, frozen=True):
    """A file or folder that takes effect outside the sandbox.

    `mark` is what `identity` identifies: the same path, or the `HEAD` of a folder that looks like a repository.
    """

    path: Path
    identity: Identity
    mark: Path


class TooMany(Exception):
    """The walk exceeded its limit of files and folders."""


class Check(Struct):
    """The result of `take_away`: old and new paths, and the paths that could not be renamed or listed."""

    renamed: list[tuple[Path, Path]] = []
    failed: list[Path] = []


def find_effective(root: Path, most: int) -> list[Effective]:
    """Return what takes effect outside below a folder, except what is inside such a folder.

    What a link of such a name leads to in the folder is included.

    Args:
        root: the folder, as a real path.
        most: the maximum number of files and folders to look at.

    Raises:
        OSError: `root` cannot be listed.
        TooMany: there are more than `most` files and folders.
    """
    found: list[Effective] = []
    deque(_walk(root, most, lambda folder: _note(folder, root, found)), maxlen=0)
    return found


def take_away(root: Path, known: set[Identity]) -> Check:
    """Disable what takes effect outside below a folder by renaming it, or the `HEAD` of a repository. Empty folders stay.

    Args:
        root: the folder, as a real path.
        known: what to leave alone.

    Returns:
        What was renamed, and what could not be renamed or listed.

    Raises:
        OSError: `root` cannot be listed.
    """
    check = Check()
    for folder in _walk(root, None, lambda folder: _clear(folder, known, check)):
        check.failed.append(folder)
    return check


def move_aside(folder: Path, name: str) -> Path | None:
    """Rename an entry of a folder as `take_away` does. Returns the new path, or None if renaming fails. Raises OSError."""
    opened = _list_folder(os.open(folder, LIST), str(folder))
    try:
        new = opened.rename(name)
    finally:
        opened.close()
    return None if new is None else folder / new


def looks_like_repository(has: Callable[[str], bool]) -> bool:
    """Return whether git may treat a folder as a repository. `has` says whether the folder contains a name."""
    return has(HEAD) and any(map(has, LOOKS))


def is_of_repository(folder: PurePath, names: Sequence[str]) -> bool:
    """Return whether a file belongs to a git repository, or would turn a folder above it into one.

    `names` are the parts of its path, starting from `folder`.
    """
    for name in names:
        if name.casefold() == GIT:
            return True
        if looks_like_repository(
            lambda other, folder=folder, name=name: name.casefold() == other.casefold() or os.path.lexists(folder / other)
        ):
            return True
        folder = folder / name
    return False


class _OpenFolder:
    """An open folder, and the names of the folders in it that the walk has not entered yet.

    `effective` identifies what takes effect outside by its name, and `head` the `HEAD` if the folder looks like a repository.
    """

    def __init__(self, file: int, path: str, mode: int | None) -> None:
        self.file = file
        self.path = path
        #: The mode to restore when the folder is closed. None if the mode was not changed.
        self._mode = mode
        self.folders: list[str] = []
        names: set[str] = set()
        with os.scandir(file) as entries:
            for entry in entries:
                names.add(entry.name.lower())
                if entry.is_dir(follow_symlinks=False):
                    self.folders.append(entry.name)
        self.size = len(names)
        # File systems differ in which names they treat as equal, so look these two up if they may exist.
        is_plain = all(map(str.isascii, names))
        present = (name for name in EFFECTIVE if name in names or not is_plain)
        self.effective = {name: found for name in present if (found := self._identity_of_any(name)) is not None}
        self.head = self.identity(HEAD) if HEAD.lower() in names or not is_plain else None
        if self.head is not None and not looks_like_repository(lambda name: self.identity(name) is not None):
            self.head = None

    def identity(self, name: str) -> tuple[int, int] | None:
        """Return the identity of an entry, or None if there is none."""
        try:
            found = os.stat(name, dir_fd=self.file, follow_symlinks=False)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _identity_of_any(self, name: str) -> Identity | None:
        """Return the identity of an entry, which may be a link. Another link, or another target, has another identity."""
        try:
            target = os.readlink(name, dir_fd=self.file)
        except OSError:
            return self.identity(name)
        real = os.path.realpath(f"{self.path}/{name}")
        try:
            found = os.stat(real)  # noqa: PTH116
        except OSError:
            return f"{self.path}/{name}\0{target}\0{real}"
        return f"{self.path}/{name}\0{target}\0{real}\0{found.st_dev}:{found.st_ino}"

    def is_empty(self, name: str) -> bool:
        """Return whether an entry is an empty folder."""
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
        """Rename an entry to an unused name. Returns that name, or None if renaming fails."""
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
    """Call `enter` for every folder below `root`, and yield the folders that cannot be listed.

    `enter` may remove names from a folder's `folders` to skip them. Symbolic links are never followed.
    Raises OSError if `root` cannot be listed, and TooMany after `most` files and folders.
    """
    pending: list[_OpenFolder] = []
    count = 0
    try:
        _push(pending, _list_folder(os.open(root, LIST), str(root)), enter)
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
            except (FileNotFoundError, NotADirectoryError):  # it was deleted, or replaced by a link
                continue
            except OSError:
                if os.access(path, os.W_OK):  # otherwise the command could not have written there either
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
    """Open a folder inside the last one of `pending`. Raises OSError, also if it was replaced by a link."""
    nearest = next(folder for folder in reversed(pending) if folder.file >= 0)
    names = path[len(nearest.path) + 1 :].split("/")
    mode = None
    try:
        file = open_below(nearest.file, names, LIST)
    except PermissionError:
        mode = _make_readable(nearest.file, names)
        file = open_below(nearest.file, names, LIST)
    return _list_folder(file, path, mode)


def _list_folder(file: int, path: str, mode: int | None = None) -> _OpenFolder:
    """List the folder with the descriptor `file`. Raises OSError, and closes `file`, if the folder cannot be listed."""
    try:
        return _OpenFolder(file, path, mode)
    except BaseException:
        os.close(file)
        raise


def _make_readable(outer: int, names: Sequence[str]) -> int:
    """Give the owner of a folder permission to list it. Returns the old mode. Raises OSError if another user owns it."""
    file = open_below(outer, names, PASS)
    try:
        mode = stat.S_IMODE(os.fstat(file).st_mode)
        os.chmod(f"/proc/self/fd/{file}", mode | stat.S_IRWXU)  # noqa: PTH101
    finally:
        os.close(file)
    return mode


def _note(folder: _OpenFolder, root: Path, found: list[Effective]) -> None:
    path = Path(folder.path)
    for name, identity in folder.effective.items():
        found.append(Effective(path / name, identity, path / name))
        _leave_out(folder, name)
        if isinstance(identity, str) and (target := effective_at(path / name, root)) is not None:
            found.append(target)
    if folder.head is not None:
        found.append(Effective(path, folder.head, path / HEAD))
        folder.folders.clear()


def effective_at(path: Path, root: Path) -> Effective | None:
    """Return what a path leads to, if it is below `root`, which is a real path. Links are followed."""
    real = Path(os.path.realpath(path))
    try:
        status = real.lstat()
    except OSError:
        return None
    return Effective(real, (status.st_dev, status.st_ino), real) if root in real.parents else None


def _clear(folder: _OpenFolder, known: set[Identity], check: Check) -> None:
    for name, identity in folder.effective.items():
        was_folder = _leave_out(folder, name)
        if identity not in known and not folder.is_empty(name):
            new = _rename_away(folder, name, check)
            if new is not None and was_folder:
                folder.folders.append(new)  # it may look like a repository itself, or contain one
    if folder.head is None:
        return
    if folder.head in known:
        folder.folders.clear()
    else:
        _rename_away(folder, HEAD, check)


def _rename_away(folder: _OpenFolder, name: str, check: Check) -> str | None:
    path = Path(folder.path)
    new = folder.rename(name)
    if new is None:
        check.failed.append(path / name)
    else:
        check.renamed.append((path / name, path / new))
    return new


def _leave_out(folder: _OpenFolder, effective: str) -> bool:
    """Skip a name, even if the folder lists it in another spelling. Returns whether it is a folder."""
    before = len(folder.folders)
    same = folder.identity(effective)
    folder.folders = [
        name for name in folder.folders if name.lower() != effective and (name.isascii() or folder.identity(name) != same)
    ]
    return len(folder.folders) < before


def _new_names(name: str) -> Iterator[str]:
    yield f"{name}{TAKEN}"
    number = 2
    while True:
        yield f"{name}{TAKEN}-{number}"
        number += 1
