"""Run the tests of the core and the wire on newer Pythons, each in its own environment (.venv-3.12, ...).

A version that is not installed is named and skipped. Arguments go to pytest.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.12", "3.13")
TESTS = ("tests/core", "tests/wire")


def main() -> None:
    failed: list[str] = []
    for version in VERSIONS:
        python = find(version)
        if python is None:
            print(f"Python {version} is not on this machine: left out", flush=True)
        elif not run_tests(version, python):
            failed.append(version)
    if failed:
        sys.exit(f"failed on Python {', '.join(failed)}")


def run_tests(version: str, python: str) -> bool:
    print(f"Python {version}: {python}", flush=True)
    directory = f".venv-{version}"
    set_up = subprocess.run([python, "scripts/setup.py", directory, "test"], cwd=ROOT, check=False)
    if set_up.returncode:
        return False
    pytest = [str(ROOT / directory / "bin" / "python"), "-m", "pytest", "-n", "auto", *TESTS, *sys.argv[1:]]
    return subprocess.run(pytest, cwd=ROOT, check=False).returncode == 0


def find(version: str) -> str | None:
    """A Python of that version: from PATH, else one that pyenv built without making it current."""
    on_path = shutil.which(f"python{version}")
    built = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"), reverse=True)
    candidates = ([on_path] if on_path else []) + [str(path) for path in built]
    return next((candidate for candidate in candidates if runs(candidate)), None)


def runs(python: str) -> bool:
    """A shim may stand for a version that is not there: only running it tells."""
    return subprocess.run([python, "-c", "import venv, ensurepip"], capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    main()
