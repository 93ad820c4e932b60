"""Tests that are coroutine functions: they are awaited, whichever way pytest gets them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent

FILE = """
import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.fixture
def fixture():
    return "made"


@pytest.mark.parametrize("expected", ["made", "wrong"])
async def test_arguments(fixture, expected):
    await asyncio.sleep(0)
    assert fixture == expected


@settings(max_examples=5, database=None)
@given(st.booleans())
async def test_property(value):
    await asyncio.sleep(0)
    assert not value


class TestInClass:
    async def test_method(self):
        await asyncio.sleep(0)
        assert False


async def test_forgotten_await():
    asyncio.sleep(0)


def test_returned_coroutine():
    return test_forgotten_await()
"""


def outcomes(folder: Path) -> list[str]:
    (folder / "test_file.py").write_text(FILE)
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(TESTS.parent)}
    output = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment).stdout
    summary = output.partition("short test summary info")[2]
    # Where the variable CI is set, the summary of a failure goes on over several lines.
    found = re.findall(r"^(PASSED|FAILED|ERROR) test_file\.py::(\S+)", summary, re.MULTILINE)
    return sorted(f"{outcome} {test}" for outcome, test in found)


def test_coroutine_functions_pass_and_fail_like_other_tests(tmp_path: Path) -> None:
    shutil.copy(TESTS / "conftest.py", tmp_path)
    assert outcomes(tmp_path) == [
        "FAILED TestInClass::test_method",
        "FAILED test_arguments[wrong]",
        "FAILED test_forgotten_await",
        "FAILED test_property",
        "FAILED test_returned_coroutine",
        "PASSED test_arguments[made]",
    ]


def test_without_the_hook_they_fail(tmp_path: Path) -> None:
    """So a test that the hook should ever overlook does not pass unseen."""
    found = outcomes(tmp_path)
    assert found
    assert not [outcome for outcome in found if not outcome.startswith("FAILED")]
