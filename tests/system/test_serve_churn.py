"""A short form of the churn of sessions on the server. `make endurance` runs the long one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.system.serve_churn import churn

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]


async def test_sessions_that_come_and_go_leave_no_memory_behind(tmp_path: Path) -> None:
    created, reopened = await churn(800, 200, tmp_path)
    assert (created.done, reopened.done) == (800, 200)
    assert created.is_flat, created
    assert reopened.is_flat, reopened
