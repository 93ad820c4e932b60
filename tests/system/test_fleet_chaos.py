"""Many jobs, while workers are killed and stopped and Postgres is restarted: each is answered once.

`make endurance` runs this with 1,000 jobs.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.chaos import Chaos
from tests.support.fleet import fleet_in
from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.system

COUNT = int(os.environ.get("FAIRLEAD_CHAOS_JOBS", "60"))
SEED = int(os.environ.get("FAIRLEAD_CHAOS_SEED", "1"))
TIMEOUT = 120 + COUNT * 1.5


@pytest.mark.timeout(TIMEOUT + 120)
async def test_on_sqlite_every_job_is_answered_once(tmp_path: Path) -> None:
    with fleet_in(tmp_path) as fleet:
        report = await Chaos(fleet, COUNT, seed=SEED).run(TIMEOUT)
    print(f"SQLite: {report}")
    assert report.kills + report.stops + report.hosts >= 2 and report.twice
    assert report.narrow <= 3


@pytest.mark.timeout(TIMEOUT + 120)
async def test_on_postgres_every_job_is_answered_once(tmp_path: Path) -> None:
    server = PostgresServer()
    try:
        with fleet_in(tmp_path, server.url) as fleet:
            report = await Chaos(fleet, COUNT, seed=SEED, restart=server.restart).run(TIMEOUT)
    finally:
        server.remove()
    print(f"Postgres: {report}")
    assert report.kills + report.stops + report.hosts >= 2 and report.restarts and report.twice
    assert report.narrow <= 3
