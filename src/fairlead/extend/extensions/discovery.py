"""Finds extensions, those written for pi too, decides with the user whether those of a project may run, and loads them."""

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

from fairlead.config.home import Home, Level
from fairlead.config.packages import find_listed_packages, manifest_paths, package_of, read_manifest
from fairlead.config.project_code import project_extensions
from fairlead.config.project_files import list_folder, read_bytes
from fairlead.config.trust import code_of, is_own_folder, save_decision, trust_question
from fairlead.errors import ConfigError
from fairlead.extend import SCRIPT_SUFFIXES
from fairlead.extend.extensions.presence import FOLDER, GROUP, any_package_declares_one
from fairlead.session.slash_commands import Origin

if TYPE_CHECKING:
    from fairlead.core.runtime import Ui
    from fairlead.extend.extensions.late import ExtensionHost


class FoundExtension(Struct, frozen=True):
    """An extension that was found but not loaded yet. `entry_point` is the `module:function` of an installed package."""

    name: str
    path: Path
    origin: Origin
    entry_point: str | None = None
    #: Why it cannot be loaded, if it cannot.
    problem: str | None = None
    #: Whether the command line, the program or the user's settings name it. No prompt runs without it.
    is_required: bool = False
    #: Whether it is written in JavaScript or TypeScript, for pi. `path` is then its file.
    is_script: bool = False

    @property
    def shown_path(self) -> str:
        """The path that hosts see in errors."""
        return self.entry_point or str(self.path)


def find_user_extensions(host: ExtensionHost) -> list[FoundExtension]:
    """Find the extensions in the home and those of installed packages. If two have the same name, the first is used."""
    return [*_in_folder(host.home.root, "user"), *_find_installed()] if host.find else []


def find_required_extensions(host: ExtensionHost) -> list[FoundExtension]:
    """Find the extensions that the command line, the program or the user's settings name."""
    found = [*_find_named(host.named), *(_find_listed(host, host.listed, "user") if host.find else ())]
    return [replace(each, is_required=True) for each in found]


def find_project_extensions(host: ExtensionHost, cwd: Path) -> list[FoundExtension]:
    """Find the extensions of the project. The caller decides whether they may run."""
    folders = [folder for folder in host.home.project_folders(cwd) if not is_own_folder(host.home, folder)]
    if not host.find or not folders:
        return []
    problems: list[str] = []
    paths = project_extensions(host.home, cwd, problems)
    host.warn(problems)
    within = host.home.boundary(cwd)
    found = [each for folder in reversed(folders) for each in _in_folder(folder, "project", within)]
    found += _find_listed(host, paths, "project", within)
    return [each if within is None or each.problem else _check(each, within) for each in found]


def _find_named(paths: Sequence[Path]) -> Iterator[FoundExtension]:
    """Find the extensions that the command line, or a program that uses the library, names."""
    for path in paths:
        yield from _at(path, Origin(path, "cli", "temporary"))


def _find_listed(host: ExtensionHost, names: Sequence[str], scope: Level, within: Path | None = None) -> Iterator[FoundExtension]:
    """Find the extensions that settings name, or that their packages bring."""
    packages = find_listed_packages(host.home, host.cwd) if names else []
    for name in names:
        path = host.user / name[2:] if name.startswith("~/") else Path(name)
        origin = Origin(path, "local", scope)
        if (package := package_of(path, packages)) is not None:
            origin = replace(origin, base=package.folder, package=package.text)
        yield from _at(path, origin, within)


def _in_folder(base: Path, scope: Level, within: Path | None = None) -> Iterator[FoundExtension]:
    """Find the extensions in the folder `extensions` of a home, or of a folder of the project."""
    yield from _inside(base / FOLDER, scope, base, within=within)


def _check(found: FoundExtension, within: Path) -> FoundExtension:
    """Mark an extension of a project as unusable if its file is outside the project."""
    file = found.path if found.is_script or found.path.suffix == ".py" else found.path / "__init__.py"
    try:
        read_bytes(file, within=within)
    except ConfigError as error:
        return replace(found, problem=str(error))
    return found


def _find_installed() -> Iterator[FoundExtension]:
    """Find the extensions that installed packages declare."""
    if not any_package_declares_one():
        return
    from importlib.metadata import entry_points  # noqa: PLC0415  takes 13 ms

    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        path = Path(point.value.partition(":")[0].replace(".", "/"))
        yield FoundExtension(point.name, path, Origin(path, "auto", "user"), point.value)


def _at(path: Path, origin: Origin, within: Path | None = None) -> Iterator[FoundExtension]:
    """Find the extension at `path`, or all extensions in it if it is a directory of extensions."""
    if _is_extension(path):
        yield _make_found(path, origin)
    elif scripts := script_files(path):
        yield from _scripts(path, scripts, origin)
    elif read_declared_extensions(path) is not None:  # nothing else in the package is loaded instead
        if (problem := missing_extensions(path)) is not None:
            yield FoundExtension(path.stem, path, origin, problem=problem)
    else:
        # A directory that cannot be read is not an error here.
        found = list(_inside(path, origin.scope, None, origin, within)) if os.path.isdir(path) else []
        problem = f"There is no extension at {path}: expected a file in Python, TypeScript or JavaScript, or a directory of one."
        yield from found or [FoundExtension(path.stem, path, origin, problem=problem)]


def _inside(
    folder: Path, scope: str, base: Path | None, origin: Origin | None = None, within: Path | None = None
) -> Iterator[FoundExtension]:
    """Find the extensions in a directory."""
    problems: list[str] = []
    names = list_folder(folder, problems, within=within)
    where = origin or Origin(folder, "auto", "project" if scope == "project" else "user", base)
    yield from (FoundExtension(folder.name, folder, where, problem=problem) for problem in problems)
    for name in names:
        path = folder / name
        if name.startswith((".", "_")):
            continue
        here = Origin(path, "auto", "project" if scope == "project" else "user", base)
        if origin is not None:
            here = replace(origin, path=path)
        if _is_extension(path):
            yield _make_found(path, here)
        else:
            yield from _scripts(path, script_files_inside(path), here)


def _is_extension(path: Path) -> bool:
    if path.suffix == ".py":
        return os.path.isfile(path)
    return os.path.isfile(path / "__init__.py")


def _scripts(place: Path, files: Sequence[Path], origin: Origin) -> Iterator[FoundExtension]:
    """Return the extensions in these files, which were found at `place`."""
    for file in files:
        yield FoundExtension(script_name(place, file), file, replace(origin, path=file), is_script=True)


def _make_found(path: Path, origin: Origin) -> FoundExtension:
    return FoundExtension(path.stem if path.suffix == ".py" else path.name, path, origin)


#: Prefix of the names of extension modules in `sys.modules`. No package has such a name.
_PREFIX = "_fairlead_extension_"
_numbers = count(1)
SETUP = "setup"


def module_name(found: FoundExtension) -> str:
    """Return a name for the module of an extension. A reload, or another session, gets a new module."""
    if found.entry_point is not None:
        return found.entry_point.partition(":")[0].strip()
    return f"{_PREFIX}{next(_numbers)}_" + "".join(char if char.isalnum() else "_" for char in found.name)


def setup_function(found: FoundExtension, module_name: str) -> Callable[[Any], Any]:
    """Import an extension and return its `setup` function.

    Raises ConfigError if the extension has no `setup`, and whatever its module raises.
    """
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
    """Remove the modules of an extension from `sys.modules`, so that the next import loads them again."""
    for loaded in [each for each in list(sys.modules) if each == module_name or each.startswith(f"{module_name}.")]:
        del sys.modules[loaded]
    importlib.invalidate_caches()


@contextmanager
def without_bytecode() -> Generator[None]:
    """Import without writing bytecode.

    Nothing is written beside the files of extensions, and a file that changes twice within a second is read twice.
    """
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


#: Seconds that the user has to answer. A prompt waits for the answer.
TRUST_TIMEOUT = 120.0


async def ask_user_for_trust(ui: Ui, home: Home, project: Path, warn: Callable[[Sequence[str]], None]) -> bool | None:
    """Ask the user whether to trust a project.

    Returns True, and saves the decision, if the user agrees. Returns None if they do not agree or cannot be asked.
    """
    if not ui.available or home.is_shared:  # the project's code would run with the keys of the other users
        return None
    try:
        code = code_of(home, project)
    except ConfigError as error:
        warn([str(error)])
        return None
    if not await ui.confirm("Trust this project?", trust_question(home, project), timeout=TRUST_TIMEOUT):
        return None
    save_trust(home, project, True, warn, code)
    return True


def save_trust(
    home: Home, project: Path, trusted: bool, warn: Callable[[Sequence[str]], None], code: dict[str, str] | None = None
) -> None:
    """Save a decision about a project, and the code that the user was shown.

    If that fails, warn that the decision is valid for this run only.
    """
    try:
        save_decision(home, project, trusted, code)
    except ConfigError as error:
        warn([f"{error} The decision about {project} is valid for this run only."])


#: The names of files that make a folder an extension.
_INDEX_FILES = ("index.ts", "index.js", "index.mts", "index.mjs")


def script_files(path: Path) -> list[Path]:
    """Return the files of the extensions at a path: one for a file or a folder with an index, any number for a package.

    Returns none if pi would not load anything from there.
    """
    if path.suffix in SCRIPT_SUFFIXES and os.path.isfile(path):
        return [] if path.name.endswith((".d.ts", ".d.mts", ".d.cts")) else [path]
    manifest = read_manifest(path)
    if manifest is not None and "extensions" in manifest:
        return [file for named in manifest_paths(path, manifest["extensions"]) for file in _in_place(named)]
    return _index_of(path)


def script_files_inside(path: Path) -> list[Path]:
    """Return the same for a path inside a folder of extensions: an index counts if nothing exists that the manifest names."""
    return script_files(path) or _index_of(path)


def read_declared_extensions(path: Path) -> list[str] | None:
    """Return what the manifest of a package says about its extensions; None if there is no manifest, or it says nothing."""
    manifest = read_manifest(path)
    return None if manifest is None else manifest.get("extensions")


def missing_extensions(path: Path) -> str | None:
    """Return the error for a package whose manifest names extensions of which none exists; None for other folders."""
    declared = read_declared_extensions(path)
    if not declared or script_files(path):
        return None
    return f"The package {path} has no extension that its manifest names: {', '.join(declared)}."


def _in_place(path: Path) -> list[Path]:
    """Return the extensions at a place that a manifest names: a file, a folder with an index, or a folder of files."""
    if path.suffix in SCRIPT_SUFFIXES:
        return [path]
    return _index_of(path) or folder_scripts(path)


def folder_scripts(folder: Path) -> list[Path]:
    """Return the extensions in a folder, in the order of their names: files, and folders with an index or a manifest."""
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208
    except OSError:
        return []
    return [file for name in names if not name.startswith((".", "_")) for file in script_files_inside(folder / name)]


def _index_of(folder: Path) -> list[Path]:
    return [folder / name for name in _INDEX_FILES if os.path.isfile(folder / name)][:1]


def script_name(place: Path, file: Path) -> str:
    """Return the name of the extension in a file that was found at `place`."""
    if place == file:
        return file.stem
    return place.name if file.stem == "index" and file.parent == place else f"{place.name}/{file.stem}"
