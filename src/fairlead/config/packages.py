"""Packages of pi: where they are installed, and what they bring. `packages` in the settings lists them.

A package comes from npm (`npm:NAME`), from git (`git:HOST/PATH`, a URL), or is a folder or file (`./path`). npm packages are in
`npm/node_modules` beside the settings file that lists them, git repositories in `git`. Others stay where they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct

from fairlead.config import json_files, project_files
from fairlead.config.home import Home, expand_user
from fairlead.config.settings import PATHS
from fairlead.core.model import THINKING_LEVELS
from fairlead.core.secrets import learn_url, without_credentials
from fairlead.errors import ConfigError

#: What a package can bring that has a meaning here.
Kind: TypeAlias = Literal["extensions", "skills", "prompts"]

#: The parts of a package on npm, and of a source in git.
_NPM = re.compile(r"npm:(?P<name>(?:@[^/@]+/)?[^@/]+)(?:@(?P<version>.+))?$")
_GIT = re.compile(
    r"(?:git:|git\+)?(?P<url>(?:(?:https?|ssh|git|file)://|git@|(?<=git:))(?:[^@/]*@)?(?P<host>[^/:]*)[:/](?P<path>[^@#]+?)(?:\.git)?)"
    r"(?:[@#](?P<ref>.*))?$"
)
#: All that a package can bring: the keys of its manifest, and the folders that count without one.
_RESOURCES = ("extensions", "skills", "prompts", "themes")
#: The most files and folders that are looked at for a pattern in a manifest.
_MOST_ENTRIES = 10_000
#: The keys of a `package.json` that hold a manifest.
MANIFEST_KEYS = ("pi", "omp", "xcsh")


class PackageSource(Struct, frozen=True):
    """Where a package comes from."""

    text: str
    kind: Literal["npm", "git", "local"]
    #: The package on npm, `HOST/PATH` in git, or the path. Two sources with the same identity are the same package.
    identity: str
    #: What git clones, and the version or reference that was asked for.
    url: str = ""
    ref: str | None = None

    @property
    def shown(self) -> str:
        """The text without a password or token, for lists and errors."""
        if self.kind != "git" or "://" in self.text:
            return without_credentials(self.text)
        name = self.text.removeprefix("git:")
        # `git:USER@HOST/PATH`. In `git@HOST:PATH`, which is for ssh, the user is not secret.
        is_plain = name == self.text or name.startswith("git@")
        return self.text if is_plain else "git:" + without_credentials(f"https://{name}").removeprefix("https://")

    def folder(self, base: Path) -> Path:
        """Return where the package is, if it is installed. `base` is the folder of the settings that list it."""
        if self.kind == "npm":
            return base / "npm" / "node_modules" / self.identity
        if self.kind == "git":
            return base / "git" / self.identity
        return base / expand_user(self.identity)


def parse_source(text: str) -> PackageSource:
    """Return where a package comes from. What is neither a package of npm nor a URL is a path."""
    if match := _NPM.match(text):
        return PackageSource(text, "npm", match["name"], ref=match["version"])
    if match := _GIT.match(text):
        given = match["url"]
        url = given if "://" in given or given.startswith("git@") else f"https://{given}"
        if without_credentials(url) != url:
            learn_url(url)
        host = match["host"] or "local"
        return PackageSource(text, "git", f"{host}/{match['path'].strip('/')}", url, match["ref"])
    return PackageSource(text, "local", text)


def is_package(text: str | Path) -> bool:
    """Whether a word names a package that has to be installed, not a path."""
    return isinstance(text, str) and ":" in text and parse_source(text).kind != "local"


def make_no_package_error(text: str) -> ConfigError:
    """Return the error for a word that begins like the name of a package, but does not name one."""
    return ConfigError(
        f"{without_credentials(text)} does not name a package. Expected npm:NAME, npm:NAME@VERSION or git:HOST/PATH."
    )


class ListedPackage(Struct, frozen=True):
    """A package that settings list: how they name it, without a password, and the folder or file that it is."""

    text: str
    path: Path

    @property
    def folder(self) -> Path:
        """Its folder, or that of its file."""
        return self.path.parent if os.path.isfile(self.path) else self.path


def find_listed_packages(home: Home, cwd: Path) -> list[ListedPackage]:
    """Return the packages that the settings of the user and the project list. Settings that cannot be read list none."""
    found: list[ListedPackage] = []
    for level, path in home.settings_files(cwd):
        try:
            data = project_files.read_if_present(path, within=home.boundary(cwd) if level == "project" else None)
            is_json = data is not None and path.suffix == ".json"  # omp's and xcsh's YAML lists no packages of pi
            packages: Any = json_files.parse_object(path, data or b"").get("packages") if is_json else None
        except ConfigError:  # it was reported when the settings were loaded
            continue
        for package in cast("list[Any]", packages) if isinstance(packages, list) else ():
            text = cast("dict[str, Any]", package).get("source") if isinstance(package, dict) else package
            if isinstance(text, str):
                source = parse_source(text)
                found.append(ListedPackage(source.shown, source.folder(path.parent)))
    return found


def package_of(path: Path, packages: Sequence[ListedPackage]) -> ListedPackage | None:
    """Return the package that brought the file or folder at `path`; None if none of them did."""
    return next((each for each in packages if path.is_relative_to(each.path)), None)


def with_packages(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return settings with the resources of their packages among the paths that they list. `folder` holds their file.

    What remains of `packages` are the sources of those that are missing.
    """
    packages = values.get("packages")
    if not isinstance(packages, list):
        return values
    found = {key: value for key, value in values.items() if key != "packages"}
    if missing := [source for each in cast("list[Any]", packages) if (source := _missing(each, folder)) is not None]:
        found["packages"] = missing
    for kind in ("extensions", "skills", "prompts"):
        if brought := [path for package in cast("list[Any]", packages) for path in _find_resources(package, kind, folder)]:
            named = found.get(kind)
            found[kind] = [*(cast("list[Any]", named) if isinstance(named, list) else ()), *brought]
    return found


def missing_text(source: str) -> str:
    """Return what to tell the user about a listed package that is missing."""
    package = parse_source(source)
    if package.kind == "local":
        return (
            f"The package {package.shown} does not exist. Correct its path, or remove it with `fairlead remove {package.shown}`."
        )
    return f"The package {package.shown} is not installed, so what it brings is missing. `fairlead update` installs it."


def _missing(package: Any, folder: Path) -> str | None:
    """Return the source of a listed package if it is not there."""
    source: Any = cast("dict[str, Any]", package).get("source") if isinstance(package, dict) else package
    return source if isinstance(source, str) and not os.path.lexists(parse_source(source).folder(folder)) else None


def _find_resources(package: Any, kind: Kind, folder: Path) -> list[str]:
    """Return the paths of one kind that a listed package brings.

    Its extensions count as named: one of them may protect the user. A package that is not installed brings nothing.
    """
    described = cast("dict[str, Any]", package) if isinstance(package, dict) else {"source": package}
    source = described.get("source")
    if not isinstance(source, str) or described.get(kind) == []:
        return []
    parsed = parse_source(source)
    paths = package_paths(parsed, parsed.folder(folder), kind, filtered=described is package)
    chosen = described.get(kind)
    if isinstance(chosen, list) and paths:
        patterns = [str(each) for each in cast("list[Any]", chosen)]
        named = [path for path in manifest_paths(parsed.folder(folder), patterns) if os.path.isfile(path)]
        paths = [str(path) for path in named if any(path.is_relative_to(allowed) for allowed in paths)] or paths
    return paths


def package_paths(source: PackageSource, installed: Path, kind: Kind, *, filtered: bool = False) -> list[str]:
    """Return the paths of one kind that a package brings: those in its manifest, or the folder with the usual name.

    Args:
        source: where the package comes from.
        installed: where it is.
        kind: what to look for.
        filtered: whether the settings choose among what the package brings.
    """
    if os.path.isfile(installed):
        return [str(installed)] if kind == "extensions" else []
    declared = read_manifest(installed)
    if declared is not None:
        if kind in declared:
            return [str(installed)] if kind == "extensions" else [str(path) for path in manifest_paths(installed, declared[kind])]
        # What a manifest does not name is not looked for, unless the settings choose among what the package brings.
        if not filtered and any(each in declared for each in _RESOURCES):
            return []
    if os.path.isdir(installed / kind):
        return [str(installed / kind)]
    # A local folder that brings nothing else is an extension itself.
    brings_others = any(os.path.exists(installed / each) for each in _RESOURCES)
    is_extension = kind == "extensions" and source.kind == "local" and os.path.isdir(installed) and not brings_others
    return [str(installed)] if is_extension else []


def read_manifest(folder: Path) -> dict[str, list[str]] | None:
    """Return the lists of paths in the manifest of a package; None if the folder has no manifest.

    A list with something that is not text counts as missing, as in pi.
    """
    path = folder / "package.json"
    try:
        package = json_files.parse_object(path, project_files.read_bytes(path) or b"{}")
    except ConfigError:
        return None
    found = next((package[key] for key in MANIFEST_KEYS if isinstance(package.get(key), dict)), None)
    if found is None:
        return None
    lists: dict[str, list[str]] = {}
    for key, value in cast("dict[str, Any]", found).items():
        if isinstance(value, list) and all(isinstance(each, str) for each in cast("list[Any]", value)):
            lists[key] = cast("list[str]", value)
    return lists


def manifest_paths(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """Return the paths in a package that patterns name, without those that patterns with `!` exclude."""
    wanted = [pattern.lstrip("+") for pattern in patterns if not pattern.startswith(("!", "-"))]
    unwanted = [pattern[1:] for pattern in patterns if pattern.startswith(("!", "-"))]
    named = [path for pattern in wanted for path in _matching(folder, pattern)]
    excluded = {path for pattern in unwanted for path in _matching(folder, pattern)}
    return [path for path in dict.fromkeys(named) if path not in excluded]


def _matching(folder: Path, pattern: str) -> list[Path]:
    plain = os.path.normpath(pattern).lstrip("/")
    parts = plain.split("/")
    if ".." in parts:  # a package has nothing outside its folder
        return []
    if any(char in plain for char in "*?["):
        return sorted(_glob(folder, parts))
    return [folder / plain] if os.path.lexists(folder / plain) else []


def _glob(folder: Path, parts: Sequence[str]) -> set[Path]:
    """Return what a pattern matches in a package, as far as a search of limited length finds it. Links are not followed.

    A project that is not trusted may have the package, and its pattern must not make fairlead search the whole disk.
    """
    found: set[Path] = set()
    room = _MOST_ENTRIES
    seen: set[tuple[Path, int]] = set()
    pending = [(folder, 0)]
    while pending and room > 0:
        where, at = pending.pop()
        if (where, at) in seen:
            continue
        seen.add((where, at))
        if parts[at] == "**":
            if at + 1 == len(parts):
                found.add(where)
            else:
                pending.append((where, at + 1))
        try:
            with os.scandir(where) as entries:
                inside = list(islice(entries, room))
        except OSError:
            continue
        room -= len(inside) + 1
        for entry in inside:
            is_folder = entry.is_dir(follow_symlinks=False)
            if parts[at] == "**":
                if is_folder:
                    pending.append((Path(entry.path), at))
            elif fnmatchcase(entry.name, parts[at]):
                if at + 1 == len(parts):
                    found.add(Path(entry.path))
                elif is_folder:
                    pending.append((Path(entry.path), at + 1))
    return found


#: Settings whose name means something else in omp.
_OTHER_MEANING = ("skills", "tools", "mcp", "output", "prompts", "defaultModel", "defaultProvider")
#: What happens to a call for which the settings of omp have a rule.
_ACTIONS = {"allow": "allow", "prompt": "ask", "ask": "ask", "deny": "deny"}
#: The approval modes of omp that are not as strict as `ask`.
_MODES = {"yolo": "auto", "write": "write"}


def from_peer(values: dict[str, Any], folder: Path, *, omp: bool) -> dict[str, Any]:
    """Return the settings of pi, or with `omp` of omp or xcsh, under fairlead's names. `folder` holds the file they are in."""
    found = _from_omp(values) if omp else dict(values)
    for key in PATHS:
        if isinstance(names := found.get(key), list):
            found[key] = [name for name in cast("list[Any]", names) if not _chooses(name)]
    return with_packages({**found, "packages": values.get("packages")}, folder)


def _chooses(name: Any) -> bool:
    """Whether an entry in a list of paths chooses among what is found elsewhere, instead of naming a path."""
    return isinstance(name, str) and (name.startswith(("!", "+", "-", "builtin:")) or "*" in name or "?" in name)


def _from_omp(values: dict[str, Any]) -> dict[str, Any]:
    """Return the settings in a file of omp or xcsh under fairlead's names."""
    found = {key: value for key, value in values.items() if key not in _OTHER_MEANING}
    found |= _default_model(_group(values, "modelRoles").get("default"))
    if "steeringMode" not in found and "queueMode" in values:
        found["steeringMode"] = values["queueMode"]
    if budgets := _group(values, "thinkingBudgets"):
        found["thinkingBudgets"] = {level: tokens for level, tokens in budgets.items() if level in THINKING_LEVELS}
    if models := values.get("enabledModels"):
        named = [name for name in cast("list[Any]", models) if isinstance(name, str)] if isinstance(models, list) else []
        found["enabledModels"] = named or None
    retry = _group(values, "retry")
    if "maxDelayMs" in retry:
        found["retry"] = {"maxAgentDelayMs": retry["maxDelayMs"], **retry}
    todo = _group(values, "todo")
    if isinstance(todo.get("eager"), str):
        found["todo"] = {**todo, "eager": None if todo["eager"] == "default" else True}
    skills = _group(values, "skills")
    found["skills"] = skills.get("customDirectories")
    found["enableSkillCommands"] = skills.get("enableSkillCommands")
    if approvals := _approvals(_group(values, "tools")):
        # What the file says under fairlead's own name counts as well.
        own = _group(values, "approvals")
        found["approvals"] = {**approvals, **own, "rules": [*approvals.get("rules", ()), *own.get("rules", ())]}
    return {key: value for key, value in found.items() if value is not None}


def _default_model(role: Any) -> dict[str, Any]:
    """Return the default model, and its thinking level if the role names one (`provider/model:high`)."""
    if not isinstance(role, str) or not role:
        return {}
    model, _, level = role.rpartition(":")
    if not model or level not in (*THINKING_LEVELS, "auto"):
        return {"defaultModel": role}
    return {"defaultModel": model, "defaultThinkingLevel": level}


def _approvals(tools: dict[str, Any]) -> dict[str, Any]:
    """Return fairlead's approvals for omp's `tools.approvalMode` and `tools.approval`."""
    mode, policies = tools.get("approvalMode"), _group(tools, "approval")
    rules = [{"tool": name, "action": _ACTIONS.get(str(action), "ask")} for name, action in policies.items()]
    approvals: dict[str, Any] = {"rules": rules} if rules else {}
    if mode is not None:
        approvals["mode"] = _MODES.get(str(mode), "ask")
    return approvals


def _group(values: dict[str, Any], key: str) -> dict[str, Any]:
    """Return a group of settings, with those whose name is written with a dot (`retry.enabled`) in it."""
    group = values.get(key)
    found = cast("dict[str, Any]", group) if isinstance(group, dict) else {}
    dotted = {name.partition(".")[2]: value for name, value in values.items() if name.startswith(f"{key}.")}
    return {**dotted, **found}
