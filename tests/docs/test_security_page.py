"""Every promise on the security page names code and tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "security.md").read_text().splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| promise |"))
]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_promise_names_what_enforces_it_and_tests_that_show_it(row: list[str]) -> None:
    promise, enforced, shown, _ = row
    assert promise and enforced
    tests = re.findall(r"`(tests/[\w/]+\.py)`", shown)
    assert tests, "a promise without a test does not belong on the page"
    for name in tests:
        assert re.search(r"^(async )?def test_", (ROOT / name).read_text(), re.MULTILINE), name
    for module in re.findall(r"`([a-z]+(?:/\w+)+\.py)`", enforced):
        assert (ROOT / "src" / "fairlead" / module).is_file(), module
