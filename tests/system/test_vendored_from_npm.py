"""The code of others in the sources, made again from npm."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]


def test_npm_gives_the_same_bytes() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "make_vendored.py"), "--compare"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
