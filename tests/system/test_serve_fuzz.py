"""A short form of the fuzz of the server. `make endurance` runs the long one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.system.serve_fuzz import fuzz

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]


async def test_random_requests_harm_neither_the_server_nor_a_healthy_session(tmp_path: Path) -> None:
    report = await fuzz(2_000, 18, tmp_path)
    assert report.problems == [], report
    assert sum(report.statuses.values()) == 2_000
    assert report.healthy > 5
