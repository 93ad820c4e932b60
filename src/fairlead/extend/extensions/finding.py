"""Where extensions are: files that are named, folders of the user's and of the project's, installed packages."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from fairlead.config.files import list_folder, read_bytes
from fairlead.config.home import Level, project_folder
from fairlead.errors import ConfigError
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
    from fairlead.config.project_settings import project_extensions
    from fairlead.config.trust import is_own_folder

    if not host.find or is_own_folder(host.home, cwd):
        return []
    problems: list[str] = []
    paths = project_extensions(host.home, cwd, problems)
    host.warn(problems)
    within = host.home.boundary(cwd)
    found = [*_in_folder(project_folder(cwd), "project", within), *_listed(paths, host.user, "project", within)]
    return [each if within is None or each.problem else _checked(each, within) for each in found]


def _named(paths: Sequence[Path]) -> Iterator[Found]:
    """What the command line asks for, or a program that uses the library."""
    for path in paths:
        yield from _at(path, Origin(path, "cli", "temporary"))


def _listed(names: Sequence[str], user: Path, scope: Level, within: Path | None = None) -> Iterator[Found]:
    """What settings ask for."""
    for name in names:
        path = user / name[2:] if name.startswith("~/") else Path(name)
        yield from _at(path, Origin(path, "local", scope), within)


def _in_folder(base: Path, scope: Level, within: Path | None = None) -> Iterator[Found]:
    """What is in the folder `extensions` of a home, or of a project's `.fairlead`."""
    yield from _inside(base / FOLDER, scope, base, within=within)


def _checked(found: Found, within: Path) -> Found:
    """An extension of a project, which cannot be loaded if its file is outside the project."""
    file = found.path if found.path.suffix == ".py" else found.path / "__init__.py"
    try:
        read_bytes(file, within=within)
    except ConfigError as error:
        return replace(found, problem=str(error))
    return found


def _installed() -> Iterator[Found]:
    """What installed packages announce."""
    if not is_announced():
        return
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        path = Path(point.value.partition(":")[0].replace(".", "/"))
        yield Found(point.name, path, Origin(path, "auto", "user"), point.value)


def _at(path: Path, origin: Origin, within: Path | None = None) -> Iterator[Found]:
    """The extension at a path that somebody named, or all that are in a folder."""
    if _is_extension(path):
        yield _found(path, origin)
    elif os.path.isdir(path):  # noqa: PTH112 (a folder that cannot be looked into is no error here)
        yield from _inside(path, origin.scope, None, origin, within)
    else:
        problem = f"There is no Python extension at {path}: expected a .py file, or a folder with an __init__.py."
        yield Found(path.stem, path, origin, problem=problem)


def _inside(
    folder: Path, scope: str, base: Path | None, origin: Origin | None = None, within: Path | None = None
) -> Iterator[Found]:
    problems: list[str] = []
    names = list_folder(folder, problems, within=within)
    where = origin or Origin(folder, "auto", "project" if scope == "project" else "user", base)
    yield from (Found(folder.name, folder, where, problem=problem) for problem in problems)
    for name in names:
        path = folder / name
        if not name.startswith((".", "_")) and _is_extension(path):
            found = Origin(path, "auto", "project" if scope == "project" else "user", base)
            yield _found(path, found if origin is None else Origin(path, origin.source, origin.scope))


def _is_extension(path: Path) -> bool:
    if path.suffix == ".py":
        return os.path.isfile(path)  # noqa: PTH113
    return os.path.isfile(path / "__init__.py")  # noqa: PTH113


def _found(path: Path, origin: Origin) -> Found:
    return Found(path.stem if path.suffix == ".py" else path.name, path, origin)
