"""Programs that tests need from packages of Debian."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


def need(program: str, package: str) -> str:
    """Return the path of a program. Its package is installed if that is possible; the test fails otherwise."""
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
    if shutil.which(program, path=path) is None and os.geteuid() == 0 and shutil.which("apt-get") is not None:
        install = ["apt-get", "install", "-y", "--no-install-recommends", package]
        if subprocess.run(install, capture_output=True, check=False, timeout=300).returncode:  # its lists may be old, or missing
            subprocess.run(["apt-get", "update"], capture_output=True, check=False, timeout=300)
            subprocess.run(install, capture_output=True, check=False, timeout=300)
    found = shutil.which(program, path=path)
    if found is None:
        pytest.fail(f"This test needs {program}. Install it, for example with: apt-get install {package}")
    return found
