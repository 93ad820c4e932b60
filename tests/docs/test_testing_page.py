"""The programs of "Testing a host" are in examples/testing, and its tests pass as a user would run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "testing"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_tests_of_the_example_pass(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    flags = ["-q", "-W", "error", "-p", "no:cacheprovider", "-p", "no:xdist", "-c", os.devnull, "--rootdir", str(EXAMPLES)]
    command = [sys.executable, "-m", "pytest", *flags, str(EXAMPLES)]
    result = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == 0, result.stdout
    assert "5 passed" in result.stdout


def test_the_programs_of_the_page_are_those_of_the_example() -> None:
    shown = BLOCK.findall((ROOT / "docs" / "testing.md").read_text())
    programs = "\n".join(path.read_text() for path in sorted(EXAMPLES.glob("*.py")))
    assert len(shown) >= 4
    assert [block for block in shown if block not in programs] == []
