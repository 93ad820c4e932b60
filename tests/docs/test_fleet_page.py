"""Every line of "When something dies" names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "fleet.md").read_text().partition("## When something dies")[2].partition("## Figures")[0]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| what |"))
]
SYSTEM = ROOT / "tests" / "system"
FILES = [
    *(ROOT / "tests" / "jobs").glob("test_*.py"),
    *(ROOT / "tests" / "session").glob("test_resuming_*.py"),
    *SYSTEM.glob("test_fleet_*.py"),
    *SYSTEM.glob("test_front_end*.py"),
]
TESTS = {name for path in FILES for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)}


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_every_failure_row_names_existing_tests(row: list[str]) -> None:
    what, then, shown = row
    named = re.findall(r"`(test_\w+)`", shown)
    assert what and then and named
    assert set(named) <= TESTS, set(named) - TESTS
