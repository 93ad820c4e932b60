"""Write constraints.txt: the exact version of everything that the project, its extras and its build need.

    make_constraints.py            pin what is installed in the environment that runs this
    make_constraints.py --check    fail unless the file pins exactly that

The file holds names and versions only, and leaves out installed packages that nothing requires.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "constraints.txt"
PROJECT = "fairlead"
EXTRAS = ("dev", "rg")
HEADER = (
    "# Exact versions for development and CI, written by `make constraints`; the floors that users get are in pyproject.toml.\n"
)

Pins = dict[str, str]


def main() -> None:
    installed = closure(Requirement(f"{PROJECT}[{','.join(EXTRAS)}]"))
    if sys.argv[1:] == ["--check"]:
        sys.exit(check(installed))
    pins = {**build_backend(), **installed}
    TARGET.write_text(HEADER + "".join(f"{name}=={pins[name]}\n" for name in sorted(pins)))


def closure(root: Requirement) -> Pins:
    """Find the installed distributions that a requirement leads to, without the project itself."""
    pins: Pins = {}
    seen: set[tuple[str, str]] = set()
    waiting = [root]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        distribution = metadata.distribution(name)
        if name != PROJECT:
            pins[name] = distribution.version
        for extra in ("", *requirement.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            needed = (Requirement(text) for text in distribution.requires or ())
            waiting += [other for other in needed if other.marker is None or other.marker.evaluate({"extra": extra})]
    return pins


def build_requirements() -> list[str]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]


def build_backend() -> Pins:
    """Ask pip what it would install to build the project. No environment contains these packages afterwards."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    report = subprocess.run([*command, *build_requirements()], check=True, stdout=subprocess.PIPE)
    found = [item["metadata"] for item in json.loads(report.stdout)["install"]]
    return {canonicalize_name(item["name"]): item["version"] for item in found}


def check(installed: Pins) -> str | None:
    lines = [line for line in TARGET.read_text().splitlines() if not line.startswith("#")]
    pinned = dict(line.split("==") for line in lines)
    wrong = [
        f"{name} {version} is installed, {pinned.get(name, 'nothing')} is pinned"
        for name, version in installed.items()
        if pinned.get(name) != version
    ]
    names = [canonicalize_name(Requirement(text).name) for text in build_requirements()]
    wrong += [f"the build backend {name} is not pinned" for name in names if name not in pinned]
    return "\n".join([*wrong, "constraints.txt is stale: run `make constraints`"]) if wrong else None


if __name__ == "__main__":
    main()
