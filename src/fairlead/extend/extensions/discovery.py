"""Finds extensions, and loads them: where they are, whether a project's may run, and `setup(fl)` in each."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from fairlead.config.files import list_folder, read_bytes
from fairlead.config.home import Level, project_folder
from fairlead.errors import ConfigError
from fairlead.session.additions import Origin

if TYPE_CHECKING:
    from fairlead.config.home import Home
    from fairlead.core.ui import Ui
    from fairlead.extend.extensions.late import ExtensionHost


#: The group of entry points in which installed packages announce their extensions.
GROUP = "fairlead.extensions"
FOLDER = "extensions"
#: Longer lists of entry points than this are not looked through.
_LONGEST_LIST = 1 << 20


def may_have_extensions(host: ExtensionHost) -> bool:
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
        or any_package_declares_one()
    )


def any_package_declares_one() -> bool:
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


class FoundExtension(Struct, frozen=True):
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


def find_user_extensions(host: ExtensionHost) -> list[FoundExtension]:
    """What the user, the command line and installed packages bring. Of two with one name, the first counts."""
    found = list(_named(host.named))
    if host.find:
        found += _in_folder(host.home.root, "user")
        found += _listed(host.listed, host.user, "user")
        found += _installed()
    return found


def find_project_extensions(host: ExtensionHost, cwd: Path) -> list[FoundExtension]:
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


def _named(paths: Sequence[Path]) -> Iterator[FoundExtension]:
    """What the command line asks for, or a program that uses the library."""
    for path in paths:
        yield from _at(path, Origin(path, "cli", "temporary"))


def _listed(names: Sequence[str], user: Path, scope: Level, within: Path | None = None) -> Iterator[FoundExtension]:
    """What settings ask for."""
    for name in names:
        path = user / name[2:] if name.startswith("~/") else Path(name)
        yield from _at(path, Origin(path, "local", scope), within)


def _in_folder(base: Path, scope: Level, within: Path | None = None) -> Iterator[FoundExtension]:
    """What is in the folder `extensions` of a home, or of a project's `.fairlead`."""
    yield from _inside(base / FOLDER, scope, base, within=within)


def _checked(found: FoundExtension, within: Path) -> FoundExtension:
    """An extension of a project, which cannot be loaded if its file is outside the project."""
    file = found.path if found.path.suffix == ".py" else found.path / "__init__.py"
    try:
        read_bytes(file, within=within)
    except ConfigError as error:
        return replace(found, problem=str(error))
    return found


def _installed() -> Iterator[FoundExtension]:
    """What installed packages announce."""
    if not any_package_declares_one():
        return
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        path = Path(point.value.partition(":")[0].replace(".", "/"))
        yield FoundExtension(point.name, path, Origin(path, "auto", "user"), point.value)


def _at(path: Path, origin: Origin, within: Path | None = None) -> Iterator[FoundExtension]:
    """The extension at a path that somebody named, or all that are in a folder."""
    if _is_extension(path):
        yield _found(path, origin)
    elif os.path.isdir(path):  # noqa: PTH112 (a folder that cannot be looked into is no error here)
        yield from _inside(path, origin.scope, None, origin, within)
    else:
        problem = f"There is no Python extension at {path}: expected a .py file, or a folder with an __init__.py."
        yield FoundExtension(path.stem, path, origin, problem=problem)


def _inside(
    folder: Path, scope: str, base: Path | None, origin: Origin | None = None, within: Path | None = None
) -> Iterator[FoundExtension]:
    problems: list[str] = []
    names = list_folder(folder, problems, within=within)
    where = origin or Origin(folder, "auto", "project" if scope == "project" else "user", base)
    yield from (FoundExtension(folder.name, folder, where, problem=problem) for problem in problems)
    for name in names:
        path = folder / name
        if not name.startswith((".", "_")) and _is_extension(path):
            found = Origin(path, "auto", "project" if scope == "project" else "user", base)
            yield _found(path, found if origin is None else Origin(path, origin.source, origin.scope))


def _is_extension(path: Path) -> bool:
    if path.suffix == ".py":
        return os.path.isfile(path)  # noqa: PTH113
    return os.path.isfile(path / "__init__.py")  # noqa: PTH113


def _found(path: Path, origin: Origin) -> FoundExtension:
    return FoundExtension(path.stem if path.suffix == ".py" else path.name, path, origin)


#: Modules of extensions are known to Python under names that no package has.
_PREFIX = "_fairlead_extension_"
_numbers = count(1)
SETUP = "setup"


def module_name(found: FoundExtension) -> str:
    """What an extension's module is called. Loaded anew, or for another session, it is another module."""
    if found.entry_point is not None:
        return found.entry_point.partition(":")[0].strip()
    return f"{_PREFIX}{next(_numbers)}_" + "".join(char if char.isalnum() else "_" for char in found.name)


def setup_function(found: FoundExtension, module_name: str) -> Callable[[Any], Any]:
    """Import an extension, and give its `setup`. Raises whatever its module raises, and ConfigError if there is no `setup`."""
    if found.problem is not None:
        raise ConfigError(found.problem)
    if found.entry_point is not None:
        attribute = found.entry_point.partition(":")[2]
        setup: Any = importlib.import_module(module_name)
        for name in (attribute.strip() or SETUP).split("."):
            setup = getattr(setup, name, None)
    else:
        setup = getattr(_load(found, module_name), SETUP, None)
    if not callable(setup):
        raise ConfigError(f"{found.shown_path} defines no function `setup(fl)`.")
    return setup


def forget_module(module_name: str) -> None:
    """Have the modules of an extension loaded anew the next time."""
    for loaded in [each for each in sys.modules if each == module_name or each.startswith(f"{module_name}.")]:
        del sys.modules[loaded]
    importlib.invalidate_caches()


@contextmanager
def without_bytecode() -> Generator[None]:
    """Nothing is written beside the files of extensions, and a file that changes twice within a second is read twice."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def _load(found: FoundExtension, name: str) -> ModuleType:
    is_package = found.path.suffix != ".py"
    file = found.path / "__init__.py" if is_package else found.path
    spec = spec_from_file_location(name, file, submodule_search_locations=[str(found.path)] if is_package else None)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{file} cannot be loaded as a Python module.")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


#: Seconds that the user has to answer: a prompt waits meanwhile.
TRUST_TIMEOUT = 120.0


async def ask_user_for_trust(ui: Ui, home: Home, project: Path, warn: Callable[[Sequence[str]], None]) -> bool | None:
    """Whether the user trusts a project, which is remembered if so; None if nobody says."""
    if not ui.available:
        return None
    question = f"{project} brings extensions or servers of its own. They run with all your rights. Trust it from now on?"
    if not await ui.confirm("Trust this project?", question, timeout=TRUST_TIMEOUT):
        return None
    save_trust(home, project, True, warn)
    return True


def save_trust(home: Home, project: Path, trusted: bool, warn: Callable[[Sequence[str]], None]) -> None:
    """Keep a decision for the runs to come. If that is not possible, it still holds for this one."""
    from fairlead.config.trust import save_decision

    try:
        save_decision(home, project, trusted)
    except ConfigError as error:
        warn([f"{error} What was decided about {project} holds in this run alone."])
