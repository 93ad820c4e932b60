"""The short forms of the endurance tests that start processes. `make endurance` runs the long ones."""

from __future__ import annotations

import pytest
from tests.endurance.entries import Options, entries, starts_processes

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

#: test_serve_fuzz.py, test_serve_churn.py and test_fleet_chaos.py in tests/system are the short forms of these.
TESTED_ELSEWHERE = ("server", "churn", "jobs")


@pytest.mark.parametrize(
    "name", [name for name, entry in entries().items() if starts_processes(entry) and name not in TESTED_ELSEWHERE]
)
def test_a_short_run_with_processes_finds_no_problem(name: str) -> None:
    figures = entries()[name].run(Options(seed=20, short=True))
    assert figures.problems == []
    assert figures.done
