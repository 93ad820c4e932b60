"""Installs, updates and removes packages of pi, with the user's npm and git, where pi keeps them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, cast

from msgspec import Struct

from fairlead.config import json_files, project_files
from fairlead.config.home import Home, expand_user
from fairlead.config.packages import PackageSource, make_no_package_error, package_paths, parse_source
from fairlead.core.secrets import redacted, without_credentials
from fairlead.errors import ConfigError
from fairlead.extend.extensions.discovery import missing_extensions
from fairlead.extend.node.program import npm_command
from fairlead.extend.npm import drop_settings, npm_environment, npm_flags, packages_with_scripts, refuse_settings, remark
from fairlead.platform.open_files import make_private_folders
from fairlead.platform.programs import current_folder, git_call, own_environment, serving

#: Seconds that npm and git have to install a package for one run.
_INSTALL_SECONDS = 300.0

#: The folder of packages that no version pins, among those that were installed for one run.
_NEWEST = "newest"
#: A version that nothing newer fits.
_EXACT = re.compile(r"v?\d+\.\d+\.\d+[-+.\w]*")
#: The scripts that npm runs for a package that is cloned, in their order.
_OWN_SCRIPTS = ("preinstall", "install", "postinstall", "prepare")


class ConfiguredPackage(Struct, frozen=True):
    """A package that settings list."""

    source: PackageSource
    scope: Literal["user", "project"]
    #: Where it is, if it is installed.
    path: Path | None


class PackageManager:
    """The packages that one settings file lists: the user's, or with `project` those of the project in that directory.

    With `scripts`, install scripts of packages run. `tell` gets remarks for the user.
    """

    def __init__(
        self,
        home: Home,
        env: Mapping[str, str],
        project: Path | None = None,
        *,
        scripts: bool = False,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        #: The folder that holds the settings and the packages.
        self.folder = home.root if project is None else project / home.project_names[0]
        self.scope: Literal["user", "project"] = "user" if project is None else "project"
        self._make_fetcher = partial(PackageFetcher, env=env, scripts=scripts, tell=tell, is_own=project is None)
        self._fetcher = self._make_fetcher(self.folder)
        #: Where packages are that were installed for one run.
        self._temporary = _temporary_folder(home) if project is None else None
        self._settings = self.folder / "settings.json"
        self._home = home if project is None else None
        #: What a project may bring must be in here.
        self._within = None if project is None else home.boundary(project)
        if project is None and home.has_omp_layout:
            raise ConfigError("Packages are listed in pi's settings. omp and xcsh have their own package managers.")

    def packages(self) -> list[ConfiguredPackage]:
        """Return the packages that the settings list. Raises ConfigError if the file cannot be read."""
        found: list[ConfiguredPackage] = []
        for entry in self._entries():
            source = parse_source(_source_of(entry))
            path = source.folder(self.folder)
            found.append(ConfiguredPackage(source, self.scope, path if os.path.exists(path) else None))
        return found

    def install(self, text: str, cwd: Path) -> Path:
        """Install a package and list it. Returns where it is. Raises ConfigError if that fails."""
        if not text.strip():
            raise ConfigError("Name a package: npm:NAME, git:URL or a path.")
        self._refuse_if_shared()
        self._entries()  # raises if the settings cannot be read, before anything is installed
        source = parse_source(text)
        if source.kind == "local":
            folder = _existing_path(text, cwd)
            if self._within is not None and not project_files.is_inside(folder, self._within):
                raise ConfigError(
                    f"{folder} is outside the project {self._within}, so the project cannot load it. "
                    "Move it there, or install it for yourself, without --local."
                )
            relative = os.path.relpath(folder, self.folder.resolve())
            source = PackageSource(relative, "local", relative)
        else:
            folder = source.folder(self.folder)
        self._fetcher.fetch(source)
        problem = missing_extensions(folder)
        if not any(package_paths(source, folder, kind) for kind in ("extensions", "skills", "prompts")):
            problem = f"{source.shown} brings no extensions, skills or prompts."
        if problem is not None:
            if source.kind != "local":
                self._fetcher.delete(source)
            raise ConfigError(problem)
        self._list(source)
        return folder

    def update(self, text: str | None = None) -> list[PackageSource]:
        """Install the newest version of a listed package, or of all, that no version pins. Returns those it looked at.

        Packages that `-e` installed for one run are among those of the user.

        Raises ConfigError if an update fails.
        """
        self._refuse_if_shared()
        wanted = None if text is None else self._identity(text)
        sources = [each.source for each in self.packages() if wanted is None or each.source.identity == wanted]
        for source in sources:
            if source.kind != "local":
                self._fetcher.fetch(source)
        if self._temporary is not None:
            for base, source in _temporary_packages(self._temporary):
                if wanted in (None, source.identity):
                    self._make_fetcher(base).fetch(source)
                    sources.append(source)
        return sources

    def remove(self, text: str) -> bool:
        """Delete a package and take it off the list. Returns False if it was not listed."""
        self._refuse_if_shared()
        wanted = self._identity(text)
        entries = self._entries()
        kept = [entry for entry in entries if parse_source(_source_of(entry)).identity != wanted]
        if len(kept) == len(entries):
            return False
        source = next(each.source for each in self.packages() if each.source.identity == wanted)
        if source.kind != "local":
            self._fetcher.delete(source)
        json_files.change_object(self._settings, "packages", kept)
        return True

    # Inside

    def _refuse_if_shared(self) -> None:
        if self._home is not None:
            self._home.refuse_if_shared("The packages of the server")

    def _identity(self, text: str) -> str:
        """Return what two sources of the same package have in common. A path may be given in several ways."""
        source = parse_source(text)
        if source.kind != "local":
            return source.identity
        given = expand_user(text).resolve()
        same = (each.source for each in self.packages() if each.path is not None and each.path.resolve() == given)
        return next((each.identity for each in same if each.kind == "local"), source.identity)

    def _entries(self) -> list[Any]:
        data = project_files.read_if_present(self._settings)
        listed: Any = None if data is None else json_files.parse_object(self._settings, data).get("packages")
        return cast("list[Any]", listed) if isinstance(listed, list) else []

    def _list(self, source: PackageSource) -> None:
        """List a package. An entry of the same package keeps its place, and what it chooses."""
        entries = self._entries()
        for place, entry in enumerate(entries):
            if parse_source(_source_of(entry)).identity == source.identity:
                chooses = cast("dict[str, Any]", entry) if isinstance(entry, dict) else None
                entries[place] = source.text if chooses is None else {**chooses, "source": source.text}
                break
        else:
            entries.append(source.text)
        make_private_folders(self.folder)
        json_files.change_object(self._settings, "packages", entries)


class PackageFetcher:
    """Installs packages in a folder. Programs that take longer than `timeout` seconds are stopped.

    With `scripts`, install scripts of packages run. `tell` gets remarks for the user. `is_own` says that no project can have put
    anything in the folder.
    """

    def __init__(
        self,
        base: Path,
        env: Mapping[str, str],
        timeout: float | None = None,
        *,
        scripts: bool = False,
        tell: Callable[[str], None] = lambda text: None,
        is_own: bool = True,
    ) -> None:
        self._base = base
        self._env = env
        self._timeout = timeout
        self._outside = current_folder()
        self._scripts = scripts
        self._tell = tell
        self._is_own = is_own

    def fetch(self, source: PackageSource) -> None:
        """Install a package, or bring it up to date. Raises ConfigError if that fails."""
        self._check(source)
        if source.kind == "npm":
            root = self._base / "npm"
            make_private_folders(root)
            if not os.path.exists(root / "package.json"):
                (root / "package.json").write_text(json.dumps({"name": "pi-packages", "private": True}) + "\n")
            spec = source.identity + (f"@{source.ref}" if source.ref else "@latest")
            self._npm("install", spec, root=root)
            self._run_scripts(source, root, source.identity)
        elif source.kind == "git":
            self._clone(source)

    def _check(self, source: PackageSource) -> None:
        """Raise ConfigError for a package whose name would be an option, or a place outside the folder."""
        parts = source.identity.split("/")
        if source.kind != "local" and (any(part in ("", ".", "..") for part in parts) or parts[0].startswith("-")):
            raise ConfigError(f"{source.shown} is not the name of a package.")
        if source.ref is not None and source.ref.startswith("-"):
            raise ConfigError(f"{source.shown}: {source.ref} is not a version.")

    def _clone(self, source: PackageSource) -> None:
        folder = source.folder(self._base)
        make_private_folders(folder.parent)
        # What is interrupted or fails leaves what was there. An update clones again too: the configuration of the clone that is
        # there may have changed, and git would run what it names.
        with TemporaryDirectory(prefix=".", dir=folder.parent) as begun:
            clone = Path(begun, "clone")
            words = ("clone", "-q", "--no-checkout", *serving("upload-pack", source.url), "--")
            self._git(*words, without_credentials(source.url), str(clone), address=source.url)
            self._check_out(source, clone)
            if os.path.lexists(folder):
                folder.rename(Path(begun, "before"))
            clone.rename(folder)

    def _check_out(self, source: PackageSource, folder: Path) -> None:
        target = source.ref or "origin/HEAD"
        repository = folder / ".git"
        if source.ref:
            branch = f"origin/{source.ref}"
            with suppress(ConfigError):  # a tag or a commit, not a branch
                self._git("rev-parse", "-q", "--verify", branch, repository=repository)
                target = branch
        self._git("--work-tree", str(folder), "reset", "-q", "--hard", target, repository=repository)
        if os.path.exists(folder / "package.json"):
            drop_settings(folder)
            self._npm("install", "--omit=dev", root=folder)
            self._run_scripts(source, folder, None)

    def _run_scripts(self, source: PackageSource, root: Path, name: str | None) -> None:
        """Run the install scripts of what was installed if the user asked for it, otherwise say that they did not run."""
        skipped = packages_with_scripts(root, name)
        own = [each for each in _OWN_SCRIPTS if name is None and each in _scripts_of(root)]
        if not skipped and not own:
            return
        if not self._scripts:
            self._tell(remark(source.text, skipped or [source.identity]))
            return
        if skipped:
            self._npm("rebuild", *skipped, root=root, scripts=True)
        for each in own:
            self._npm("run", each, root=root, scripts=True)

    def delete(self, source: PackageSource) -> None:
        """Delete a package. Raises ConfigError if npm fails."""
        self._check(source)
        if source.kind == "npm":
            root = self._base / "npm"
            self._npm("uninstall", source.identity, root=root)
        else:
            shutil.rmtree(source.folder(self._base), ignore_errors=True)

    def _npm(self, *arguments: str, root: Path, scripts: bool = False) -> None:
        if not self._is_own:
            refuse_settings(root)
        flags = npm_flags(self._env, self._outside, scripts=scripts)
        command = [*npm_command(self._env, self._outside), *arguments, "--prefix", str(root.resolve()), *flags]
        env = own_environment(npm_environment(self._env, signs_in=not scripts), outside=self._outside)
        self._run(command, env, root, f"npm {arguments[0]}")

    def _git(self, *words: str, repository: Path | None = None, address: str | None = None) -> None:
        may_ask = self._env.get("GIT_TERMINAL_PROMPT") != "0"
        call = git_call(*words, env=self._env, outside=self._outside, repository=repository, address=address, may_ask=may_ask)
        name = next(word for word in words if not word.startswith(("-", "/")))
        self._run(call.command, call.env, call.cwd, f"git {name}")

    def _run(self, command: Sequence[str], env: Mapping[str, str], cwd: str | Path, name: str) -> None:
        try:
            done = subprocess.run(
                command,
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=self._timeout,
            )
        except OSError as error:
            raise ConfigError(f"{command[0]} could not be started: {error.strerror}.") from error
        except subprocess.TimeoutExpired as error:
            raise ConfigError(f"{name} was not done after {error.timeout:g} seconds.") from None
        if done.returncode:
            said = redacted(without_credentials(done.stderr or done.stdout)).strip().splitlines()
            raise ConfigError(f"{name} failed: {' '.join(_find_reason(said))}")


#: How npm marks the lines that say what failed. The last ones only say where its log is.
_NPM_ERROR = re.compile(r"npm (?:error|ERR!) ?(?:code |[A-Z]*\d+(?: |$))?")


def _find_reason(said: Sequence[str]) -> list[str]:
    """Return the lines of a program that say why it failed: those that npm marks, else the last ones."""
    marked = [_NPM_ERROR.sub("", line).strip() for line in said if _NPM_ERROR.match(line)]
    reasons = [line for line in marked if line and "A complete log of this run" not in line]
    return reasons[:4] or list(said[-3:])


def fetch_temporarily(
    source: PackageSource, home: Home, env: Mapping[str, str], tell: Callable[[str], None] = lambda text: None
) -> Path:
    """Install a package for one run, as `-e npm:NAME` does, and return where it is. Raises ConfigError if that fails.

    What is installed is used as it is, unless it has another version than the one that is asked for.
    """
    if home.isolated:
        raise ConfigError("Packages cannot be installed in an isolated run.")
    if source.kind == "npm" and not home.has_omp_layout:
        installed = source.folder(home.root)
        if os.path.exists(installed) and source.ref in (None, _version_of(installed)):
            return installed
    base = _temporary_folder(home) / (source.ref or _NEWEST).replace("/", "-")
    folder = source.folder(base)
    quiet = {**env, "GIT_TERMINAL_PROMPT": "0"}  # no user is there who could answer
    if not os.path.exists(folder):
        PackageFetcher(base, quiet, _INSTALL_SECONDS, tell=tell).fetch(source)
    return folder


def _temporary_folder(home: Home) -> Path:
    return home.root / "tmp" / "extensions"


def _temporary_packages(folder: Path) -> Iterator[tuple[Path, PackageSource]]:
    """Yield the packages that were installed for one run and that no version pins, each after the folder it is in."""
    for base in sorted(path for path in folder.glob("*") if path.is_dir()):
        ref = None if base.name == _NEWEST else base.name
        if ref is None or not _EXACT.fullmatch(ref):
            for name in _package_json(base / "npm").get("dependencies") or ():
                yield base, parse_source(f"npm:{name}" + (f"@{ref}" if ref else ""))
        if ref is None:
            for repository in sorted((base / "git").glob("*/**/.git")):
                identity = str(repository.parent.relative_to(base / "git"))
                yield base, PackageSource(f"git:{identity}", "git", identity, _origin_of(repository))


def _origin_of(repository: Path) -> str:
    """Return the address that a repository was cloned from, without a password; an empty string if it names none."""
    config = ConfigParser(strict=False, interpolation=None)
    with suppress(OSError, ValueError, ConfigParserError):
        config.read_string("\n".join(line.strip() for line in (repository / "config").read_text().splitlines()))
    return config.get('remote "origin"', "url", fallback="")


def _version_of(folder: Path) -> str:
    return str(_package_json(folder).get("version"))


def _scripts_of(folder: Path) -> dict[str, Any]:
    scripts: Any = _package_json(folder).get("scripts")
    return cast("dict[str, Any]", scripts) if isinstance(scripts, dict) else {}


def _package_json(folder: Path) -> dict[str, Any]:
    """Return what is in a folder's `package.json`; nothing if it cannot be read."""
    path = folder / "package.json"
    try:
        return json_files.parse_object(path, project_files.read_if_present(path) or b"{}")
    except ConfigError:
        return {}


def _existing_path(text: str, cwd: Path) -> Path:
    """Return the path that a source names, without links. Raises ConfigError if there is nothing."""
    path = cwd / expand_user(text)
    if os.path.exists(path):
        return path.resolve()
    if text.startswith(("npm:", "git:")):
        raise make_no_package_error(text)
    raise ConfigError(f"{path} does not exist.")


def _source_of(entry: Any) -> str:
    """Return the source in an entry of the list, which is a text or an object."""
    described = cast("dict[str, Any]", entry).get("source") if isinstance(entry, dict) else entry
    return str(described)
