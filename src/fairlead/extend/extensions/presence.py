"""Answers whether there may be any extension, before anything that finds or loads them is imported."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.config import project_code

if TYPE_CHECKING:
    from fairlead.extend.extensions.late import ExtensionHost

#: The group of entry points with which installed packages declare extensions.
GROUP = "fairlead.extensions"
FOLDER = "extensions"
#: The folders of Python's library, where no packages are installed.
_LIBRARY = (os.__file__.rpartition(os.sep)[0], os.path.join(os.__file__.rpartition(os.sep)[0], "lib-dynload"))  # noqa: PTH118
#: How many bytes of an `entry_points.txt` are read at most.
_MAX_ENTRY_POINTS_BYTES = 1 << 20
#: How many are read first: Python allocates as much, and one file after the other is read.
_USUAL_ENTRY_POINTS_BYTES = 1 << 12


def may_have_extensions(host: ExtensionHost) -> bool:
    """Whether there may be any extension. Cheap, and loads none of them: usually there are none."""
    if host.named or host.sources:
        return True
    if not host.find:
        return False
    return (
        bool(host.listed)
        or _has_entries(host.home.root / FOLDER)
        or any(_has_entries(folder / FOLDER) for folder in host.home.project_folders(host.cwd))
        or _names_extensions(host)
        or any_package_declares_one()
    )


def any_package_declares_one() -> bool:
    """Whether an installed package declares an extension. `importlib.metadata` would take 50 ms to find out."""
    return _any_package_declares_one(tuple((folder, _find_changed_at(folder)) for folder in sys.path if folder not in _LIBRARY))


@lru_cache(maxsize=4)
def _any_package_declares_one(folders: tuple[tuple[str, int], ...]) -> bool:
    """Answer for folders that were last changed at the given times: a server asks for each of its sessions."""
    return any(GROUP.encode() in _entry_points_of(package) for folder, _ in folders for package in _packages_in(folder))


def _find_changed_at(folder: str) -> int:
    """Return when a package was last added to a folder or removed from it, in nanoseconds."""
    try:
        return os.stat(folder or ".").st_mtime_ns  # noqa: PTH116
    except OSError:
        return 0


def _has_entries(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(not entry.name.startswith((".", "_")) for entry in entries)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # loading it will report what is wrong
        return True


def _names_extensions(host: ExtensionHost) -> bool:
    """Whether the project's settings name extensions."""
    if not any(level == "project" and os.path.lexists(path) for level, path in host.home.settings_files(host.cwd)):
        return False
    return bool(project_code.project_extensions(host.home, host.cwd, []))


def _packages_in(folder: str) -> list[str]:
    try:
        names = os.listdir(folder or ".")  # noqa: PTH208
    except OSError:
        return []
    return [f"{folder or '.'}/{name}" for name in names if name.endswith((".dist-info", ".egg-info"))]


def _entry_points_of(package: str) -> bytes:
    try:
        handle = os.open(f"{package}/entry_points.txt", os.O_RDONLY)
    except OSError:
        return b""
    try:
        start = os.read(handle, _USUAL_ENTRY_POINTS_BYTES)
        return start if len(start) < _USUAL_ENTRY_POINTS_BYTES else start + os.read(handle, _MAX_ENTRY_POINTS_BYTES)
    finally:
        os.close(handle)
