"""Agents that only the benchmark needs: the whole of omp, and tau. It installs them into .cache/peers when it needs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from bench import peers

#: npm lacks some dependencies of 18.3. It takes 650 MB.
OMP_VERSION = "18.2.3"
TAU_VERSION = "0.4.8"
#: The oldest minor version of Python 3 that tau runs on.
TAU_PYTHON = 12


def omp() -> tuple[str, ...]:
    """Return the command that starts omp, which runs on bun. Installs both if needed."""
    folder = peers.install(f"omp-{OMP_VERSION}", peers.OMP, OMP_VERSION)
    return str(peers.bun()), str(folder / "node_modules" / peers.OMP / "dist" / "cli.js")


def tau() -> tuple[str, ...] | None:
    """Return the command that starts tau, or None without a Python that is new enough. Installs tau if needed."""
    target = peers.CACHE / f"tau-{TAU_VERSION}"
    python = None if target.exists() else newer_python(TAU_PYTHON)
    if python is None and not target.exists():
        return None

    def fill(directory: Path) -> None:
        subprocess.run([str(python), "-m", "venv", "--without-pip", str(directory)], check=True)
        peers.pip_install_into(directory, f"tau-ai=={TAU_VERSION}")

    folder = peers.provide(target, f"tau {TAU_VERSION}", fill)
    # Do not use the script `tau`, which contains the path where it was created.
    return str(folder / "bin" / "python"), "-c", "from tau_coding.cli import app; app()"


def newer_python(minor: int) -> str | None:
    """Return a Python 3 with this minor version or a newer one: this one, one from pyenv, or one on the PATH."""
    if sys.version_info >= (3, minor):
        return sys.executable
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for newer in range(minor, minor + 4):
        installed = [str(path) for path in versions.glob(f"3.{newer}.*/bin/python")]
        for program in (*installed, shutil.which(f"python3.{newer}")):
            # pyenv puts programs on the PATH that fail unless their version is selected
            if program and subprocess.run([program, "-c", ""], capture_output=True, check=False).returncode == 0:
                return program
    return None
