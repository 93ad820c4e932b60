"""Installs, updates and removes packages of pi, with the user's npm and git, where pi keeps them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, cast

from msgspec import Struct

from fairlead.config import files, json_files
from fairlead.config.git import git_call, serving
from fairlead.config.home import Home, expand_user
from fairlead.config.packages import PackageSource, package_paths, parse_source
from fairlead.config.private_files import make_folders
from fairlead.config.programs import current_folder, search_path
from fairlead.core.secrets import redacted, without_credentials
from fairlead.errors import ConfigError
from fairlead.extend.node.manifest import missing_extensions

#: pi's own packages, which extensions name as peers, are provided by the runtime. npm must not install them.
_NPM_FLAGS = ("--legacy-peer-deps", "--no-audit", "--no-fund")

#: Seconds that npm and git have to install a package for one run, and to bring it up to date.
_INSTALL_SECONDS, _REFRESH_SECONDS = 300.0, 20.0


class ConfiguredPackage(Struct, frozen=True):
    """A package that settings list."""

    source: PackageSource
    scope: Literal["user", "project"]
    #: Where it is, if it is installed.
    path: Path | None


class PackageManager:
    """The packages that one settings file lists: the user's, or with `project` those of the project in that directory."""

    def __init__(self, home: Home, env: Mapping[str, str], project: Path | None = None) -> None:
        #: The folder that holds the settings and the packages.
        self.folder = home.root if project is None else project / home.project_names[0]
        self.scope: Literal["user", "project"] = "user" if project is None else "project"
        self._fetcher = PackageFetcher(self.folder, env)
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
            if self._within is not None and not files.is_inside(folder, self._within):
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

        Raises ConfigError if an update fails.
        """
        self._refuse_if_shared()
        wanted = None if text is None else self._identity(text)
        sources = [each.source for each in self.packages() if wanted is None or each.source.identity == wanted]
        for source in sources:
            if source.kind != "local":
                self._fetcher.fetch(source)
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
        data = files.read_if_present(self._settings)
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
        make_folders(self.folder)
        json_files.change_object(self._settings, "packages", entries)


class PackageFetcher:
    """Installs packages in a folder. Programs that take longer than `timeout` seconds are stopped."""

    def __init__(self, base: Path, env: Mapping[str, str], timeout: float | None = None) -> None:
        self._base = base
        self._env = env
        self._timeout = timeout
        self._outside = current_folder()

    def fetch(self, source: PackageSource) -> None:
        """Install a package, or bring it up to date. Raises ConfigError if that fails."""
        self._check(source)
        if source.kind == "npm":
            root = self._base / "npm"
            make_folders(root)
            if not os.path.exists(root / "package.json"):
                (root / "package.json").write_text(json.dumps({"name": "pi-packages", "private": True}) + "\n")
            spec = source.identity + (f"@{source.ref}" if source.ref else "@latest")
            self._npm("install", spec, "--prefix", str(root.resolve()), *_NPM_FLAGS, cwd=root)
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
        make_folders(folder.parent)
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
            with contextlib.suppress(ConfigError):  # a tag or a commit, not a branch
                self._git("rev-parse", "-q", "--verify", branch, repository=repository)
                target = branch
        self._git("--work-tree", str(folder), "reset", "-q", "--hard", target, repository=repository)
        if os.path.exists(folder / "package.json"):
            self._npm("install", "--omit=dev", *_NPM_FLAGS, cwd=folder)

    def delete(self, source: PackageSource) -> None:
        """Delete a package. Raises ConfigError if npm fails."""
        self._check(source)
        if source.kind == "npm":
            root = self._base / "npm"
            self._npm("uninstall", source.identity, "--prefix", str(root.resolve()), *_NPM_FLAGS, cwd=root)
        else:
            shutil.rmtree(source.folder(self._base), ignore_errors=True)

    def _npm(self, *arguments: str, cwd: Path) -> None:
        from fairlead.extend.node.program import npm_command

        env = {**self._env, "PATH": search_path(self._env.get("PATH"), outside=self._outside)}
        self._run([*npm_command(self._env, self._outside), *arguments], env, cwd, f"npm {arguments[0]}")

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
            raise ConfigError(f"{name} failed: {' '.join(said[-3:])}")


def fetch_temporarily(source: PackageSource, home: Home, env: Mapping[str, str]) -> Path:
    """Install a package for one run, as `-e npm:NAME` does, and return where it is. Raises ConfigError if that fails.

    What an earlier run installed is brought up to date, unless a version pins it. If that fails, it is used as it is.
    """
    if home.isolated:
        raise ConfigError("Packages cannot be installed in an isolated run.")
    base = home.root / "tmp" / "extensions" / (source.ref or "newest").replace("/", "-")
    folder = source.folder(base)
    quiet = {**env, "GIT_TERMINAL_PROMPT": "0"}  # no user is there who could answer
    if not os.path.exists(folder):
        PackageFetcher(base, quiet, _INSTALL_SECONDS).fetch(source)
    elif source.ref is None and env.get("PI_OFFLINE", "") not in ("1", "true", "yes"):
        with contextlib.suppress(ConfigError):
            PackageFetcher(base, quiet, _REFRESH_SECONDS).fetch(source)
    return folder


def _existing_path(text: str, cwd: Path) -> Path:
    """Return the path that a source names, without links. Raises ConfigError if there is nothing."""
    path = cwd / expand_user(text)
    if os.path.exists(path):
        return path.resolve()
    if text.startswith(("npm:", "git:")):
        raise ConfigError(
            f"{without_credentials(text)} does not name a package. Expected npm:NAME, npm:NAME@VERSION or git:HOST/PATH."
        )
    raise ConfigError(f"{path} does not exist.")


def _source_of(entry: Any) -> str:
    """Return the source in an entry of the list, which is a text or an object."""
    described = cast("dict[str, Any]", entry).get("source") if isinstance(entry, dict) else entry
    return str(described)
