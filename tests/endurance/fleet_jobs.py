"""Runs jobs in a fleet whose workers are killed and stopped, on SQLite and on Postgres."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from tests.endurance.entries import Figures, Options
from tests.support.chaos import Chaos, ChaosReport
from tests.support.fleet import fleet_in
from tests.support.postgres import PostgresServer

NAME = "jobs"
TITLE = "Jobs while worker processes are killed and stopped, hosts are lost and Postgres restarts: each is answered once"
STARTS_PROCESSES = True


def run(options: Options) -> Figures:
    count = options.choose(60, 1_000)
    timeout = 120 + count * 1.5
    with tempfile.TemporaryDirectory(prefix="fairlead-jobs-") as folder:
        with fleet_in(_made(Path(folder, "sqlite"))) as fleet:
            on_sqlite = asyncio.run(Chaos(fleet, count, seed=options.seed).run(timeout))
        server = PostgresServer()
        try:
            with fleet_in(_made(Path(folder, "postgres")), server.url) as fleet:
                on_postgres = asyncio.run(Chaos(fleet, count, seed=options.seed, restart=server.restart).run(timeout))
        finally:
            server.remove()
    reports = (on_sqlite, on_postgres)
    print(f"SQLite: {on_sqlite}", f"Postgres: {on_postgres}", sep="\n", flush=True)  # docs/fleet.md has them one by one
    done: dict[str, int | float | str] = {
        "jobs": sum(each.jobs for each in reports),
        "attempts": sum(each.attempts for each in reports),
        "workers killed": sum(each.kills for each in reports),
        "workers stopped": sum(each.stops for each in reports),
        "hosts lost": sum(each.hosts for each in reports),
        "jobs that lost their worker twice": sum(each.twice for each in reports),
        "restarts of Postgres": on_postgres.restarts,
    }
    problems = [f"too little happened: {each}" for each in reports if each.kills + each.stops + each.hosts <= 2]
    problems += [f"no job was struck twice: {each}" for each in reports if not each.twice]
    problems += [f"a limit did not hold: {each}" for each in reports if not _held(each)]
    return Figures(done, problems)


def _held(report: ChaosReport) -> bool:
    """Whether the limit of 3 running jobs of one key held."""
    return report.narrow <= 3


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
