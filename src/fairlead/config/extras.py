"""The optional parts of fairlead: what each one needs, and the command that installs it.

The requirements come from the metadata of this installation, so that the command works wherever fairlead itself came from.
"""

from __future__ import annotations

import re
import shlex
import sys
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from shutil import which

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MARKER = re.compile(r"""extra\s*==\s*["']([A-Za-z0-9._-]+)["']""")


@lru_cache(maxsize=1)
def extras() -> dict[str, list[str]]:
    """Return the extras of this installation, each with its requirements. It is empty if fairlead is not installed."""
    try:
        declared = requires("fairlead") or []
    except PackageNotFoundError:
        return {}
    found: dict[str, list[str]] = {}
    for line in declared:
        requirement, _, marker = line.partition(";")
        for extra in _MARKER.findall(marker):
            found.setdefault(extra, []).append(requirement.strip())
    return found


def missing_packages(extra: str) -> list[str]:
    """Return the requirements of an extra that are not installed."""
    return [each for each in extras().get(extra, []) if not _is_installed(each)]


def install_command(extra: str) -> str:
    """Return the command that installs an extra into the environment that runs fairlead."""
    needed = extras().get(extra)
    if needed is None:  # fairlead runs from its source code
        needed = ["-e", f"{Path(__file__).parents[3]}[{extra}]"]
    if find_spec("pip") is None and which("uv"):
        return shlex.join(["uv", "pip", "install", "--python", sys.executable, *needed])
    return shlex.join([sys.executable, "-m", "pip", "install", *needed])


def _is_installed(requirement: str) -> bool:
    found = _NAME.match(requirement)
    try:
        return found is not None and bool(version(found[0]))
    except PackageNotFoundError:
        return False
