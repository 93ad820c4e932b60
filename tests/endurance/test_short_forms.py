"""The short forms of the endurance tests that need only this process. `make endurance` runs the long ones."""

from __future__ import annotations

import pytest
from tests.endurance import page
from tests.endurance.entries import Options, entries, starts_processes


@pytest.mark.parametrize("name", [name for name, entry in entries().items() if not starts_processes(entry)])
def test_a_short_run_finds_no_problem(name: str) -> None:
    figures = entries()[name].run(Options(seed=20, short=True))
    assert figures.problems == []
    assert figures.done


def test_the_table_of_the_page_is_that_of_the_stored_figures() -> None:
    assert page.PAGE.read_text("utf-8") == page.text()
