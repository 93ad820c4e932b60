"""Finds what this process runs from the working directory, which commands in the sandbox must not change.

fairlead may be installed below the working directory: in the `.venv` of a project, or from a checkout. Modules are imported when
they are first needed, outside the sandbox. So everything they may come from is read-only inside: the folders of `sys.path`, the
interpreter, the launcher, and each file that was loaded. Where that is not possible, there is no sandbox.
"""

from __future__ import annotations

import os
import re
import site
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.util import cache_from_source
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from fairlead.errors import ConfigError
from fairlead.platform.open_files import Identity, has_several, identity_of
from fairlead.policy.hard_links import LinkedFiles

_MOST_LINKS = 40
#: Variables from which the loader of libraries, OpenSSL and Node take code: folders and files.
_VARIABLES = (
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "GCONV_PATH"),
    *("OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES", "NODE_PATH"),
)
#: In these, an empty entry is the working directory: `/opt/lib:`.
_EMPTY_MEANS_HERE = ("LD_LIBRARY_PATH",)
#: When a folder has more hard links to files of the installation than this, it is protected as a whole.
_MOST_IN_FOLDER = 8
#: The maximum number of hard links, or folders of them, to protect. Each one costs time.
_MOST_NAMES = 200
_WHAT_HELPS = "Install fairlead elsewhere (pipx install fairlead, uv tool install fairlead), or start without a sandbox."


#: Reads the attributes of a module, and does not load one that is imported when it is first used, as `vars` would.
_read_attributes: Callable[[object], dict[str, Any]] = vars(ModuleType)["__dict__"].__get__


class Installation:
    """What this process runs from the working directory.

    Args:
        cwd: the working directory, as a real path.
        named: the extensions that the user named.
        programs: programs that fairlead starts outside the sandbox.
        env: the environment of these programs, besides that of this process.
    """

    def __init__(
        self, cwd: Path, named: Iterable[Path], programs: Iterable[str], env: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._cwd = str(cwd)
        #: Commands and file tools ask from several threads.
        self._looking = threading.Lock()
        self._named = [os.path.abspath(path) for path in named]  # noqa: PTH100
        self._programs = list(programs)
        self._env = env
        self._known: tuple[object, ...] = ()
        self._found: list[Path] = []
        #: The modules that were looked at, and the files and folders in the working directory that they come from.
        self._modules: dict[str, int] = {}
        self._loaded: dict[str, None] = {}
        self._outer_folders: dict[str, bool] = {}
        self._linked_here = LinkedFiles(cwd)
        #: Files in the working directory that have a link elsewhere, those that the installation has too, and all to protect.
        self._foreign: set[Identity] = set()
        self._linked: set[Identity] = set()
        self._named_twice: set[Identity] = set()

    def paths(self) -> list[Path]:
        """Return the real paths of what is read-only in the working directory, none inside another. Some may not exist yet.

        Raises ConfigError if something cannot be protected. Asked again, it looks only at what has changed.
        """
        with self._looking:
            return self._paths()

    def _paths(self) -> list[Path]:
        self._note_modules()
        variables = [each.get(name) for each in (os.environ, self._env) for name in ("HOME", *_VARIABLES)]
        known = (tuple(sys.path), len(sys.meta_path), len(self._loaded), *variables)
        if known != self._known:
            self._found = self._find()
            self._known = known
        return self._found

    def names(self, protected: Sequence[Path]) -> list[Path]:
        """Return the hard links in the working directory to files of the installation, besides those in `protected`.

        Raises ConfigError if there are too many.
        """
        with self._looking:
            return self._names(protected)

    def _names(self, protected: Sequence[Path]) -> list[Path]:
        here = self._linked_here.find()
        if not here:
            self._named_twice = set()
            return []
        roots = {str(path) for path in protected}
        folders = tuple(f"{path}/" for path in roots)

        def is_protected(path: str) -> bool:
            return path in roots or path.startswith(folders)

        inside = {each for each, (_, paths) in here.items() if any(map(is_protected, paths))}
        foreign = {each for each, (links, paths) in here.items() if each not in inside and len(paths) < links}
        if foreign and foreign != self._foreign:
            self._linked = foreign & {each for folder in self._folders() for each in _links_in(folder).find()}
            self._foreign = foreign
        self._named_twice = inside | (self._linked & foreign)
        return self._group([path for each in self._named_twice for path in here[each][1] if not is_protected(path)])

    def part_at(self, path: Path, found: os.stat_result | None) -> Path | None:
        """Return which part of the installation a file belongs to, by its path or because it is a hard link to it.

        Raises ConfigError as `paths` does.
        """
        protected = self.paths()
        folded = str(path).casefold()
        for part in protected:
            if folded == str(part).casefold() or folded.startswith(f"{part}/".casefold()):
                return part
        if found is not None and has_several(found):
            self.names(protected)
            if identity_of(found) in self._named_twice:
                return path
        return None

    def _group(self, names: Sequence[str]) -> list[Path]:
        """Return the files, or the folders of those that are many. Raises ConfigError."""
        by_folder: dict[str, list[str]] = {}
        for name in names:
            by_folder.setdefault(os.path.dirname(name), []).append(name)  # noqa: PTH120
        grouped: list[str] = []
        for folder, inside in by_folder.items():
            grouped += inside if len(inside) <= _MOST_IN_FOLDER or folder == self._cwd else [folder]
        if len(grouped) > _MOST_NAMES:
            raise ConfigError(
                f"The working directory {self._cwd} cannot be a sandbox: it has hard links to more than {_MOST_NAMES} files of"
                f" fairlead's installation. {_WHAT_HELPS}"
            )
        return _outermost(grouped)

    def _find(self) -> list[Path]:
        # Programs start in the working directory of the agent, and this process may have another one.
        variables = [each for env in (os.environ, self._env) for cwd in (self._cwd, _here()) for each in _variables(env, cwd)]
        imports = [*_import_folders(), *self._list_loaded_folders()]
        wholes = [
            each for each in (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, sys.pycache_prefix) if each
        ]
        files = [*self._loaded, *self._find_named_files(), *variables, *_launcher(), *self._programs]
        pythons = [each for each in (sys.executable, getattr(sys, "_base_executable", "")) if each]
        inside: list[str] = []
        links: list[str] = []
        for path in (*imports, *wholes, *files):
            passed, real = _follow(path)
            links += passed
            if self._is_inside(real):
                inside.append(real)
        for path in imports:
            self._check_import(path, _follow(path)[1])
        for path in filter(os.path.isdir, variables):
            real = _follow(path)[1]
            if self._is_imported_from(real):
                raise ConfigError(
                    f"The working directory {self._cwd} cannot be a sandbox: libraries are loaded from {real}, because a variable"
                    f" such as LD_LIBRARY_PATH names it, or has an empty entry. Remove that. {_WHAT_HELPS}"
                )
        for path in wholes:
            if _follow(path)[1] == self._cwd:
                raise ConfigError(
                    f"The working directory {self._cwd} cannot be a sandbox: Python is installed there. {_WHAT_HELPS}"
                )
        found = _outermost(inside)
        folders = tuple(f"{path}/" for path in found)
        for path in pythons:
            passed, real = _follow(path)
            links += passed
            if self._is_inside(real) and not real.startswith(folders):
                raise self._error(real, "It is the Python that runs fairlead.")
        for link in links:
            if self._is_inside(link) and not link.startswith(folders):
                raise self._error(link, "It is a link that leads to what fairlead runs.")
        return found

    def _error(self, path: str, what: str) -> ConfigError:
        text = f"The working directory {self._cwd} cannot be a sandbox: commands could change {path}. {what}"
        return ConfigError(f"{text} {_WHAT_HELPS}")

    def _check_import(self, path: str, real: str) -> None:
        """Raise ConfigError if fairlead would import modules from the working directory itself."""
        if not self._is_imported_from(real):
            return
        raise ConfigError(
            f"The working directory {self._cwd} cannot be a sandbox: commands could change what fairlead runs, because Python"
            f" imports modules from {path} (PYTHONPATH, an editable install, or the folder of the script). Remove it from"
            f" sys.path, or start Python with -P. {_WHAT_HELPS}"
        )

    def _is_imported_from(self, real: str) -> bool:
        if self._cwd == real:
            return True
        above = real.rstrip("/") + "/"
        # A folder above the working directory: only a folder with the name of a module can be imported from it.
        return self._cwd.startswith(above) and self._cwd[len(above) :].split("/")[0].isidentifier()

    def _is_inside(self, path: str) -> bool:
        return path.startswith(f"{self._cwd}/")

    def _folders(self) -> list[Path]:
        """Return all folders of the installation, wherever they are."""
        wholes = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[1]))
        programs = [os.path.dirname(os.path.realpath(each)) for each in (*self._programs, sys.executable)]  # noqa: PTH120
        folders = [_follow(each)[1] for each in (*_import_folders(), *wholes, *programs)]
        # Python of the system has /usr for its prefix, which holds much else; its modules are on `sys.path`.
        return _outermost([each for each in folders if each not in ("/", "/usr", "/usr/local") and os.path.isdir(each)])

    def _note_modules(self) -> None:
        """Look at the modules that were loaded since the last time."""
        for name, module in list(sys.modules.items()):
            if self._modules.get(name) == id(module):
                continue
            self._modules[name] = id(module)
            for path in _places(module):
                folder = os.path.dirname(path)  # noqa: PTH120
                if folder not in self._outer_folders:
                    self._outer_folders[folder] = not self._is_inside(_follow(folder)[1] + "/")
                if not self._outer_folders[folder] or os.path.islink(path):
                    self._loaded[path] = None

    def _list_loaded_folders(self) -> list[str]:
        """Return the folders in which packages that were loaded look for their modules."""
        found = [path for path in self._loaded if os.path.isdir(path)]
        for finder in list(sys.meta_path):
            # setuptools knows where the packages of an editable install are.
            module = sys.modules.get(getattr(finder, "__module__", ""))
            mapping: Mapping[str, str] = getattr(module, "MAPPING", None) or {}
            found += map(str, mapping.values())
        return found

    def _find_named_files(self) -> Iterator[str]:
        """Yield the extensions that the user named, with their bytecode, or the files that scripts import."""
        for path in filter(os.path.exists, self._named):
            yield path
            if path.endswith(".py"):
                yield cache_from_source(path)
                continue
            real = _follow(path if os.path.isdir(path) else os.path.dirname(path))[1]  # noqa: PTH120
            if real == self._cwd:
                raise self._error(path, "The extension imports files beside it. Move it into its own folder.")
            if self._is_inside(real):
                yield real
            while self._is_inside(real):
                real = os.path.dirname(real)  # noqa: PTH120
                yield f"{real}/node_modules"  # a new one that is nearer would come first


@lru_cache(maxsize=64)
def _links_in(folder: Path) -> LinkedFiles:
    """Return what finds the hard links in a folder of the installation, which all sessions of this process share."""
    return LinkedFiles(folder)


def _import_folders() -> Iterator[str]:
    """Yield the folders and archives that modules are imported from, now or at the next start."""
    for path in sys.path:
        yield os.path.join(_here(), path)  # noqa: PTH118
    if site.ENABLE_USER_SITE:
        yield site.getusersitepackages()


def _here() -> str:
    """Return the working directory of this process; `/` if it was deleted, and nothing is loaded from there."""
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        return "/"


def _variables(env: Mapping[str, str], cwd: str) -> Iterator[str]:
    """Yield the files and folders that variables name for code, as absolute paths. Relative ones begin in `cwd`."""
    for name in _VARIABLES:
        value = env.get(name, "")
        for path in re.split("[ :;]", value) if value else ():
            if path or name in _EMPTY_MEANS_HERE:
                yield os.path.normpath(os.path.join(cwd, path))  # noqa: PTH118


def _launcher() -> Iterator[str]:
    script = getattr(sys.modules.get("__main__"), "__file__", None) or ""
    for path in (sys.argv[0] if sys.argv else "", script):
        if path and os.path.isfile(path):
            yield os.path.abspath(path)  # noqa: PTH100


def _places(module: object) -> Iterator[str]:
    """Yield the files and folders that a module was loaded from, and where Python keeps its bytecode."""
    try:
        read = _read_attributes if isinstance(module, ModuleType) else vars
        values: dict[str, Any] = read(module)
    except TypeError:
        return
    spec = values.get("__spec__")
    try:
        folders: list[Any] = list(getattr(spec, "submodule_search_locations", None) or ())
    except (KeyError, AttributeError):  # a namespace whose parent was removed
        folders = []
    for path in (values.get("__file__"), getattr(spec, "origin", None), getattr(spec, "cached", None), *folders):
        if isinstance(path, str) and path.startswith("/"):
            yield path


def _follow(path: str) -> tuple[list[str], str]:
    """Return the links on the way to a path, and the real path. Raises ConfigError if the links form a circle."""
    links: list[str] = []
    current = ""
    pending = path.split("/")[::-1]
    while pending:
        name = pending.pop()
        if name in ("", "."):
            continue
        if name == "..":
            current = current.rpartition("/")[0]
            continue
        try:
            target = os.readlink(f"{current}/{name}")  # noqa: PTH115
        except OSError:
            current = f"{current}/{name}"
            continue
        links.append(f"{current}/{name}")
        if len(links) > _MOST_LINKS:
            raise ConfigError(f"{path} leads through too many links.")
        pending += target.split("/")[::-1]
        current = "" if target.startswith("/") else current
    return links, current or "/"


def _outermost(paths: Iterable[str]) -> list[Path]:
    """Return the paths that are not inside another of them."""
    kept: list[str] = []
    for path in sorted(set(paths), key=lambda path: path.split("/")):
        if not kept or not path.startswith(f"{kept[-1].rstrip('/')}/"):
            kept.append(path)
    return [Path(path) for path in kept]
