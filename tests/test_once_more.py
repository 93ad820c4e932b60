"""`--once-more`, with which CI gives a failed test one run alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

FILE = """
from pathlib import Path

import pytest


@pytest.mark.parametrize("name", {passing_later})
def test_passes_later(name):
    seen = Path(name)
    assert seen.exists() or seen.touch()


@pytest.mark.parametrize("name", {failing})
def test_fails(name):
    assert not name


def test_passes():
    pass
"""


def run(folder: Path, passing_later: str, failing: str, more: str = "") -> tuple[int, str]:
    shutil.copy(TESTS / "conftest.py", folder)
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (folder / "test_file.py").write_text(FILE.format(passing_later=list(passing_later), failing=list(failing)) + more)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--once-more", "2", "-p", "no:cacheprovider", "."]
    environment = {**os.environ, "PYTHONPATH": str(TESTS.parent)}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
    return done.returncode, done.stdout


def test_a_test_that_passes_alone_is_excused_and_named(tmp_path: Path) -> None:
    code, output = run(tmp_path, "ab", "")
    assert code == 0
    named = output.partition("FLAKY: passed alone")[2]
    assert "test_file.py::test_passes_later[a]" in named
    assert "test_file.py::test_passes_later[b]" in named


@pytest.mark.parametrize(("passing_later", "failing"), [("a", "x"), ("abc", "")])
def test_one_that_fails_again_or_too_many_are_not_excused(tmp_path: Path, passing_later: str, failing: str) -> None:
    code, output = run(tmp_path, passing_later, failing)
    assert code == 1
    assert "FLAKY" not in output


def test_a_file_that_does_not_load_is_not_excused(tmp_path: Path) -> None:
    assert run(tmp_path, "a", "", more="raise OSError")[0] not in (0, 5)
