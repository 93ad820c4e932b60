"""How npm is called: without the scripts of packages, settings of their folders, or secrets.

The user may ask for scripts.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from fairlead.config import json_files, project_files
from fairlead.core.secrets import is_secret_variable
from fairlead.errors import ConfigError
from fairlead.platform.programs import find_program

#: pi's own packages, which extensions name as peers, are provided by the runtime, so npm must not install them.
_FLAGS = ("--legacy-peer-deps", "--no-audit", "--no-fund")

#: npm's own settings in the environment, which may hold a token.
_SETTINGS = "npm_config_"
#: The longest list of installed packages that is read, in bytes.
_LARGEST_LOCK = 64 * 1024 * 1024
#: A variable that a line of `.npmrc` names.
_NAMED = re.compile(r"\$\{([^}?]+)\??\}")


def npm_flags(env: Mapping[str, str], outside: Iterable[Path], *, scripts: bool) -> list[str]:
    """Return the flags for npm. Without `scripts`, scripts of packages do not run.

    For a dependency in a git repository, npm starts npm in a clone, where a `.npmrc` can say which program is git, and what node
    loads. What the flags say holds there too.
    """
    if scripts:
        return [*_FLAGS]
    git = find_program("git", env.get("PATH"), outside=outside) or os.devnull
    return ["--ignore-scripts", f"--git={git}", f"--node-options={env.get('NODE_OPTIONS') or '--no-warnings'}", *_FLAGS]


def npm_environment(env: Mapping[str, str], *, signs_in: bool = True) -> dict[str, str]:
    """Return the environment for npm: without secrets, except those that npm itself was told to use.

    These are npm's settings, and the variables that the user's own `.npmrc` names, such as `${NPM_TOKEN}`. Without `signs_in`
    they are left out too, because scripts of packages are about to run.
    """
    named = frozenset(_find_variables(env)) if signs_in else frozenset[str]()

    def is_kept(name: str, value: str) -> bool:
        return name in named or (signs_in and name.lower().startswith(_SETTINGS)) or not _holds_secret(name, value)

    return {name: value for name, value in env.items() if is_kept(name, value)}


def _holds_secret(name: str, value: str) -> bool:
    """Whether a variable holds a secret, by its name or as a password in an address. A proxy's address is needed as it is."""
    if is_secret_variable(name):
        return True
    try:
        return "@" in value and "proxy" not in name.lower() and urlsplit(value).password is not None
    except ValueError:
        return True


def _find_variables(env: Mapping[str, str]) -> Iterator[str]:
    """Yield the variables that the user's `.npmrc` names."""
    configured = next((value for name, value in env.items() if name.lower() == "npm_config_userconfig"), "")
    path = Path(configured) if configured else Path(env.get("HOME") or os.path.expanduser("~")) / ".npmrc"  # noqa: PTH111
    try:
        text = (project_files.read_bytes(path) or b"").decode("utf-8", "replace")
    except ConfigError:
        return
    for line in text.splitlines():
        if not line.lstrip().startswith(("#", ";")):
            yield from _NAMED.findall(line)


def refuse_settings(folder: Path) -> None:
    """Raise ConfigError if npm would read settings in a folder that others may have filled. They can name programs to run."""
    path = folder / ".npmrc"
    if os.path.lexists(path):
        raise ConfigError(
            f"{path} would tell npm what to run and where to send tokens. Move what you need to ~/.npmrc, and delete it."
        )


def drop_settings(folder: Path) -> None:
    """Delete the settings for npm that a cloned repository brings."""
    path = folder / ".npmrc"
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def packages_with_scripts(root: Path, name: str | None) -> list[str]:
    """Return the packages whose install scripts did not run: the package `name` in `root` and what it needs; None: all.

    npm notes in `node_modules/.package-lock.json` which packages have install scripts.
    """
    path = root / "node_modules" / ".package-lock.json"
    try:
        data = project_files.read_if_present(path, largest=_LARGEST_LOCK)
        lock: dict[str, Any] = {} if data is None else json_files.parse_object(path, data)
    except ConfigError:
        return []
    installed = _objects(lock.get("packages"))
    by_name: dict[str, list[dict[str, Any]]] = {}
    for place, package in installed.items():
        by_name.setdefault(place.rpartition("node_modules/")[2], []).append(package)
    wanted = list(by_name) if name is None else [name]
    seen: set[str] = set()
    while wanted:
        each = wanted.pop()
        if each not in seen and each in by_name:
            seen.add(each)
            for package in by_name[each]:
                for kind in ("dependencies", "optionalDependencies", "peerDependencies"):
                    wanted += _objects(package.get(kind), values=object)
    return sorted(each for each in seen if any(package.get("hasInstallScript") is True for package in by_name[each]))


def _objects(value: Any, values: type = dict) -> dict[str, Any]:
    """Return the entries of an object of JSON that have the type `values`."""
    if not isinstance(value, dict):
        return {}
    return {name: each for name, each in cast("dict[str, Any]", value).items() if isinstance(each, values)}


def remark(source: str, skipped: list[str]) -> str:
    """Return what to tell the user about install scripts that did not run."""
    shown = ", ".join(skipped[:5]) + (f" and {len(skipped) - 5} more" if len(skipped) > 5 else "")
    return (
        f"Note: the install scripts of {shown} did not run. If {source} does not work without them, and you trust them: "
        f"fairlead install --scripts {source}"
    )
