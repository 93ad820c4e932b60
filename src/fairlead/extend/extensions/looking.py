"""Whether there are any extensions at all. Nothing is loaded to find out: mostly there are none."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.config.home import project_folder

if TYPE_CHECKING:
    from fairlead.extend.extensions.late import ExtensionHost

#: The group of entry points in which installed packages announce their extensions.
GROUP = "fairlead.extensions"
FOLDER = "extensions"
#: Longer lists of entry points than this are not looked through.
_LONGEST_LIST = 1 << 20


def anything_there(host: ExtensionHost) -> bool:
    """Whether extensions were named, are in a usual folder, in settings, or announced by an installed package."""
    if host.named:
        return True
    if not host.find:
        return False
    project = project_folder(host.cwd)
    return (
        bool(host.listed)
        or _has_entries(host.home.root / FOLDER)
        or _has_entries(project / FOLDER)
        or _names_extensions(host, project)
        or is_announced()
    )


def is_announced() -> bool:
    """Whether an installed package announces an extension. `importlib.metadata` would take 50 ms to say so."""
    return any(GROUP.encode() in _entry_points_of(package) for place in sys.path for package in _packages_in(place))


def _has_entries(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(not entry.name.startswith((".", "_")) for entry in entries)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # whoever loads it will say what is wrong with it
        return True


def _names_extensions(host: ExtensionHost, project: Path) -> bool:
    if not os.path.lexists(project / "settings.json"):
        return False
    from fairlead.config.project_settings import project_extensions

    return bool(project_extensions(host.home, host.cwd, []))


def _packages_in(place: str) -> list[str]:
    try:
        names = os.listdir(place or ".")  # noqa: PTH208
    except OSError:
        return []
    return [f"{place or '.'}/{name}" for name in names if name.endswith((".dist-info", ".egg-info"))]


def _entry_points_of(package: str) -> bytes:
    try:
        handle = os.open(f"{package}/entry_points.txt", os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(handle, _LONGEST_LIST)
    finally:
        os.close(handle)
