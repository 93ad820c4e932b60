"""Where extensions are: files that are named, folders of the user's and of the project's, installed packages."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from fairlead.config.home import Level, project_folder
from fairlead.extend.extensions.looking import FOLDER, GROUP, is_announced
from fairlead.session.additions import Origin

if TYPE_CHECKING:
    from fairlead.extend.extensions.late import ExtensionHost


class Found(Struct, frozen=True):
    """An extension that may be loaded. `entry_point` is `module:function` of an installed package."""

    name: str
    path: Path
    origin: Origin
    entry_point: str | None = None
    #: Why it cannot be loaded.
    problem: str | None = None

    @property
    def shown_path(self) -> str:
        """What hosts are told when something is wrong with it."""
        return self.entry_point or str(self.path)


def own_extensions(host: ExtensionHost) -> list[Found]:
    """What the user, the command line and installed packages bring. Of two with one name, the first counts."""
    found = list(_named(host.named))
    if host.find:
        found += _in_folder(host.home.root, "user")
        found += _listed(host.listed, host.user, "user")
        found += _installed()
    return found


def project_extensions(host: ExtensionHost, cwd: Path) -> list[Found]:
    """What the project brings. Whether it may is for others to say."""
    from fairlead.config.settings import project_extensions
    from fairlead.config.trust import is_own_folder

    if not host.find or is_own_folder(host.home, cwd):
        return []
    problems: list[str] = []
    paths = project_extensions(host.home, cwd, problems)
    host.warn(problems)
    return [*_in_folder(project_folder(cwd), "project"), *_listed(paths, host.user, "project")]


def _named(paths: Sequence[Path]) -> Iterator[Found]:
    """What the command line asks for, or a program that uses the library."""
    for path in paths:
        yield from _at(path, Origin(path, "cli", "temporary"))


def _listed(names: Sequence[str], user: Path, scope: Level) -> Iterator[Found]:
    """What settings ask for."""
    for name in names:
        path = user / name[2:] if name.startswith("~/") else Path(name)
        yield from _at(path, Origin(path, "local", scope))


def _in_folder(base: Path, scope: Level) -> Iterator[Found]:
    """What is in the folder `extensions` of a home, or of a project's `.fairlead`."""
    yield from _inside(base / FOLDER, scope, base)


def _installed() -> Iterator[Found]:
    """What installed packages announce."""
    if not is_announced():
        return
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        path = Path(point.value.partition(":")[0].replace(".", "/"))
        yield Found(point.name, path, Origin(path, "auto", "user"), point.value)


def _at(path: Path, origin: Origin) -> Iterator[Found]:
    """The extension at a path that somebody named, or all that are in a folder."""
    if _is_extension(path):
        yield _found(path, origin)
    elif os.path.isdir(path):  # noqa: PTH112 (a folder that cannot be looked into is no error here)
        yield from _inside(path, origin.scope, None, origin)
    else:
        problem = f"There is no Python extension at {path}: expected a .py file, or a folder with an __init__.py."
        yield Found(path.stem, path, origin, problem=problem)


def _inside(folder: Path, scope: str, base: Path | None, origin: Origin | None = None) -> Iterator[Found]:
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if not entry.name.startswith((".", "_")))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        problem = f"The extensions in {folder} cannot be looked for: {error.strerror}."
        where = origin or Origin(folder, "auto", "project" if scope == "project" else "user", base)
        yield Found(folder.name, folder, where, problem=problem)
        return
    for name in names:
        path = folder / name
        if _is_extension(path):
            found = Origin(path, "auto", "project" if scope == "project" else "user", base)
            yield _found(path, found if origin is None else Origin(path, origin.source, origin.scope))


def _is_extension(path: Path) -> bool:
    if path.suffix == ".py":
        return os.path.isfile(path)  # noqa: PTH113
    return os.path.isfile(path / "__init__.py")  # noqa: PTH113


def _found(path: Path, origin: Origin) -> Found:
    return Found(path.stem if path.suffix == ".py" else path.name, path, origin)
