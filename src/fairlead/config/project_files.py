"""Reads the files that people write by hand.

A file of a project comes with its repository, often from a stranger, and a link in it can lead anywhere. `read_bytes` and
`list_folder` look at what was opened, not at the path that led there, and refuse what is outside the project.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from fairlead.errors import ConfigError
from fairlead.platform.open_files import kind_of

_BOM = b"\xef\xbb\xbf"

#: The largest configuration file that is read, and the largest file of the kinds that a project can bring.
LARGEST_FILE = 16 * 1024 * 1024
LARGEST_PROJECT_FILE = 1024 * 1024

#: Their files look regular, but the kernel generates them: they hold this process's environment, or never end.
_KERNEL_FOLDERS = ("/proc", "/sys", "/dev")
#: Ordinary files in memory.
_NOT_KERNEL = "/dev/shm"
#: Git keeps credentials there, and no repository can check out a file in it.
_GIT = ".git"
#: What Linux adds to the path of an open file that has been deleted or replaced since.
_DELETED = " (deleted)"


#: How files and directories are opened: nothing that opening them does may block.
_READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)

#: Checks a file that has been opened; the path is the one that led to it. Raises ConfigError if it must not be read.
Check: TypeAlias = Callable[[int, Path], None]


class Budget:
    """Limits how much is read for one purpose. All places that one project can fill share a budget."""

    def __init__(self, *, entries: int = 10_000, files: int = 500, size: int = 8 * 1024 * 1024) -> None:
        self.entries = entries
        self.files = files
        self.size = size

    def read(self, path: Path, check: Check | None = None, *, within: Path | None = None) -> bytes | None:
        """`read_bytes`, for a file that a project can bring. Raises ConfigError also if it is one file too many."""
        self.files -= 1
        if self.files < 0:
            raise ConfigError(f"{path}: not read: there are too many files of this kind.")
        data = read_bytes(path, check, within=within, largest=LARGEST_PROJECT_FILE)
        self.size -= len(data or b"")
        if self.size < 0:
            raise ConfigError(f"{path}: not used: the files of this kind are too large together.")
        return data


def read_bytes(
    path: Path, check: Check | None = None, *, within: Path | None = None, largest: int = LARGEST_FILE
) -> bytes | None:
    """Read a file.

    Args:
        path: The file. Links are followed.
        check: Raises ConfigError for an opened file that must not be read.
        within: The real path of the directory that the file must be in, for a file that comes with a project.
        largest: The largest size in bytes.

    Returns:
        The contents without a byte order mark; None if there is no such file.

    Raises:
        ConfigError: The file cannot be read, is too large, is outside `within`, or is not a regular file on a disk. A pipe or a
            device might never end, and a file in /proc holds this process's environment.
    """
    try:
        handle = _open_regular(path)
        try:
            _check_opened(handle, path)
            if check is not None:
                check(handle, path)
            if within is not None:
                _check_of_project(handle, path, within)
            data = _read_up_to(handle, largest + 1)
        finally:
            os.close(handle)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}.") from error
    except ValueError as error:  # a path with a null character
        raise ConfigError(f"{path!r}: cannot be read: {error}.") from error
    if len(data) > largest:
        raise ConfigError(f"{path}: cannot be read: it is longer than {largest >> 20} MiB.")
    return data.removeprefix(_BOM)


def read_start(path: Path, most: int) -> bytes:
    """Return the first bytes of a file; none if it is not a regular file. Raises OSError if it cannot be read."""
    try:
        handle = _open_regular(path)
    except ConfigError:
        return b""
    try:
        return _read_up_to(handle, most)
    finally:
        os.close(handle)


def is_absent(path: Path) -> bool:
    """Return whether this user certainly has no such file.

    False for a link to nowhere, and if the directory cannot be searched or is itself a link to nowhere. True if the directory
    lies in one that belongs to another user and cannot be searched, as `~/.fairlead` does where HOME belongs to another user.
    """
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return not os.path.islink(path.parent) or os.path.isdir(path.parent)
    except PermissionError:
        return _belongs_to_another(path.parent.parent)
    except OSError:
        return False
    return False


def _belongs_to_another(folder: Path) -> bool:
    """Return whether a directory cannot be searched because it, or one that it is in, is closed to this user by another one."""
    for each in (folder, *folder.parents):
        try:
            owner = each.stat().st_uid
        except OSError:
            continue
        return owner != os.geteuid() and not os.access(each, os.X_OK, effective_ids=os.access in os.supports_effective_ids)
    return False


def read_if_present(path: Path, *, within: Path | None = None, largest: int = LARGEST_FILE) -> bytes | None:
    """`read_bytes`, for a file that forbids something: None only if there is certainly no such file."""
    data = read_bytes(path, within=within, largest=largest)
    if data is None and not is_absent(path):
        raise ConfigError(f"{path}: cannot be read: it is a link to a file that does not exist.")
    return data


def list_folder(path: Path, problems: list[str], *, within: Path | None = None, budget: Budget | None = None) -> list[str]:
    """Return the sorted names in a directory; none if it does not exist.

    A directory outside `within`, or one that cannot be read, has no names and adds a sentence to `problems`. So does one
    with more entries than the budget has left, of which only some are returned.
    """
    budget = budget or Budget()
    try:
        handle = os.open(path, _READING | os.O_DIRECTORY)
        try:
            if within is not None:
                _check_inside(find_opened_path(handle, path), path, within)
                _check_owner(os.fstat(handle), path, within)
            names: list[str] = []
            with os.scandir(handle) as entries:
                for entry in entries:
                    budget.entries -= 1
                    if budget.entries < 0:
                        problems.append(f"{path}: too many entries to look at all of them. Some are left out.")
                        break
                    names.append(entry.name)
        finally:
            os.close(handle)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError) as error:
        problems.append(f"{path}: cannot be read: {error.strerror if isinstance(error, OSError) else error}.")
        return []
    except ConfigError as error:
        problems.append(str(error))
        return []
    return sorted(names)


def find_opened_path(file: int, path: Path) -> Path:
    """Return the real path of an open file or directory. `path` is how it was opened, for systems that do not say."""
    try:
        if sys.platform == "darwin":
            import fcntl  # noqa: PLC0415  POSIX only

            return Path(os.fsdecode(fcntl.fcntl(file, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0")))
        return Path(str(Path(f"/proc/self/fd/{file}").readlink()).removesuffix(_DELETED))
    except OSError:
        return Path(os.path.realpath(path))


def is_inside(real: Path, within: Path) -> bool:
    """Return whether a path without links is in a directory, also if the names differ only in a way that the system ignores."""
    if real.is_relative_to(within):
        return True
    try:
        root = within.stat()
        return any(os.path.samestat(each.stat(), root) for each in (real, *real.parents))
    except OSError:
        return False


def _open_regular(path: Path) -> int:
    """Open a regular file. Nothing else is opened: that alone could block, or set off a device."""
    _expect_regular(path, path.stat())
    # What is there by now may be something else, which must not block either.
    handle = os.open(path, _READING | getattr(os, "O_BINARY", 0))
    try:
        _expect_regular(path, os.fstat(handle))
    except BaseException:
        os.close(handle)
        raise
    return handle


def _expect_regular(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(f"{path}: cannot be read: expected a regular file, found {kind_of(found.st_mode)}.")


def _check_opened(file: int, path: Path) -> None:
    real = find_opened_path(file, path)
    if _is_generated(real, os.fstat(file)):
        raise ConfigError(f"{path}: not read: it leads to {real}, which is not a file on a disk.")


def is_owned(path: Path, within: Path) -> bool:
    """Return whether only the user, the system's administrator and the owner of a project could have made a file or folder of it.

    `within` is the project. In a folder such as /tmp, other users can add files to it.
    """
    try:
        return all(_is_owner(found.st_uid, within) for found in (path.lstat(), path.stat()))
    except OSError:
        return False


def _is_owner(owner: int, within: Path) -> bool:
    user = getattr(os, "geteuid", None)
    return user is None or owner in (0, user(), within.stat().st_uid)


def _check_owner(found: os.stat_result, path: Path, within: Path) -> None:
    """Raise ConfigError if another user made a file of a project, or the link that led to it, or can change the file."""
    for each in (path.lstat(), found):
        if not _is_owner(each.st_uid, within):
            raise ConfigError(
                f"{path}: not read: it belongs to another user (number {each.st_uid}). Files of a project must belong to you, to "
                "root or to the owner of the project. To use it, copy it."
            )
    if stat.S_ISREG(found.st_mode) and _is_open_to_all(found) and not _is_open_to_all(within.stat()):
        raise ConfigError(f"{path}: not read: every user can change it. To use it, take that permission away: chmod o-w.")


def _is_open_to_all(found: os.stat_result) -> bool:
    """Return whether every user can change a file, or the files in a folder. Some file systems say so of everything."""
    return os.name != "nt" and bool(found.st_mode & stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX


def _check_of_project(file: int, path: Path, within: Path) -> None:
    _check_inside(find_opened_path(file, path), path, within)
    _check_owner(os.fstat(file), path, within)
    names = os.fstat(file).st_nlink
    if names > 1:
        raise ConfigError(
            f"{path}: not read: the file has {names} names (hard links), of which one may be outside the project. "
            "Replace it with a copy."
        )


def _check_inside(real: Path, path: Path, within: Path) -> None:
    if not is_inside(real, within):
        raise ConfigError(f"{path}: not read: it leads to {real}, which is outside the project {within}.")
    if any(part.lower() == _GIT for part in real.parts[len(within.parts) :]):
        raise ConfigError(f"{path}: not read: it leads to {real}, which belongs to git.")


def _is_generated(real: Path, found: os.stat_result) -> bool:
    """Return whether the kernel generates the file, under its usual path or another one."""
    if any(real.is_relative_to(folder) for folder in _KERNEL_FOLDERS) and not real.is_relative_to(_NOT_KERNEL):
        return True
    return is_of_kernel(found)


def is_of_kernel(found: os.stat_result) -> bool:
    """Return whether a file is in /proc or /sys. Some of those never end, and reading others never returns."""
    return found.st_dev in _kernel_devices()


def _kernel_devices() -> set[int]:
    devices: set[int] = set()
    for folder in ("/proc", "/sys"):
        try:
            device = os.stat(folder).st_dev  # noqa: PTH116
        except OSError:
            continue
        if device != os.stat("/").st_dev:  # noqa: PTH116  # an empty directory where nothing is mounted
            devices.add(device)
    return devices


def _read_up_to(file: int, most: int) -> bytes:
    pieces: list[bytes] = []
    while most > 0 and (piece := os.read(file, min(most, 1 << 20))):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)
