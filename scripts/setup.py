"""Create a virtual environment with this project (editable) and its extras, at the pinned versions.

    setup.py DIRECTORY [EXTRAS]

It needs only a Python and the standard library. It also runs on a Python that is too old for the project, to say so. If two
are started at once, one waits for the other.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)


def main() -> None:
    require_python()
    prepare((ROOT / sys.argv[1]).resolve(), sys.argv[2] if len(sys.argv) > 2 else "")


def require_python() -> None:
    """End the process if this Python is too old."""
    if sys.version_info < OLDEST:
        found = ".".join(str(part) for part in sys.version_info[:3])
        sys.exit(f"fairlead needs Python 3.11 or newer; {sys.executable} is {found}. Name another: make PYTHON=python3.12 ...")


def prepare(directory: Path, extras: str) -> Path:
    """Create the environment in `directory` with these extras, separated by commas, unless it is there. Returns its Python."""
    stamp = directory / ".ready"
    python = directory / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    with locked(ROOT / ".cache" / "setup.lock"):
        if not fresh(stamp, extras):
            install(python, directory, f"[{extras}]" if extras else "")
            stamp.write_text(extras)
    return python


def install(python: Path, directory: Path, extras: str) -> None:
    """Fill the environment. If its Python is gone or was replaced, create it again."""
    if not works(python):
        print(f"Making {directory.name} with {sys.executable}", flush=True)
        result = subprocess.run([sys.executable, "-m", "venv", "--clear", str(directory)], check=False)
        if result.returncode:
            sys.exit(f"{sys.executable} -m venv failed; on Debian and Ubuntu the package python3-venv is missing.")
    pins = str(ROOT / "constraints.txt")
    # From pip 25.3 on, the second variable pins the build backend. Older versions take both from the first.
    environment = {**os.environ, "PIP_CONSTRAINT": pins, "PIP_BUILD_CONSTRAINT": pins, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    print(f"Installing fairlead{extras} into {directory.name}", flush=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--editable", f".{extras}"]
    result = subprocess.run(command, cwd=str(ROOT), env=environment, check=False)
    if result.returncode:
        sys.exit("pip could not install the dependencies; its message is above. Nothing else was changed; run make again.")


def fresh(stamp: Path, extras: str) -> bool:
    """Whether the environment has the extras and is newer than everything it is built from."""
    if not stamp.exists() or not set(extras.split(",")) <= set(stamp.read_text().split(",")):
        return False
    sources = [ROOT / "pyproject.toml", ROOT / "constraints.txt", Path(__file__)]
    return stamp.stat().st_mtime > max(source.stat().st_mtime for source in sources)


def works(python: Path) -> bool:
    """Whether there is an environment, of a Python new enough, with its pip."""
    if not python.exists():
        return False
    test = f"import sys, pip; sys.exit(sys.version_info < {OLDEST!r})"
    return subprocess.run([str(python), "-c", test], stderr=subprocess.DEVNULL, check=False).returncode == 0


@contextlib.contextmanager
def locked(path: Path) -> Generator[None]:
    """Held by one process at a time, where the system has such locks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            import fcntl
        except ImportError:
            yield
            return
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    main()
