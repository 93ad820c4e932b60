"""A program that may write to the database of the jobs runs no code on the workers, on Postgres either."""

from __future__ import annotations

import base64
import os
import pickle
from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest
from tests.support.fleet import fleet_in
from tests.support.postgres import PostgresServer

from fairlead.jobs import Jobs

pytestmark = pytest.mark.system


class Canary:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self._path),)


@pytest.fixture(scope="module")
def postgres() -> Generator[PostgresServer]:
    server = PostgresServer()
    try:
        yield server
    finally:
        server.remove()


async def test_no_worker_unpickles_a_row_of_postgres(tmp_path: Path, postgres: PostgresServer) -> None:
    canary = tmp_path / "canary"
    value = base64.b64encode(pickle.dumps({"args": (Canary(canary),), "kwargs": {}})).decode()
    with fleet_in(tmp_path, postgres.url) as fleet:
        async with Jobs(fleet.url) as jobs:
            await jobs.submit(fleet.job("first", "true"), fleet.job("old", "true"), fleet.job("last", "true"))
            with psycopg.connect(postgres.url, autocommit=True) as connection:
                planted = "UPDATE dbos.workflow_status SET inputs = %s, serialization = %s, application_version = %s"
                connection.execute(f"{planted} WHERE workflow_uuid = 'first'", (value, "py_pickle", "2"))
                connection.execute(f"{planted} WHERE workflow_uuid = 'old'", (value, None, "1"))
                connection.execute("UPDATE dbos.workflow_input SET inputs = %s WHERE workflow_uuid <> 'last'", (value,))
            fleet.start_worker()
            results = {result.id: result async for result in jobs.results(timeout=60)}
        assert {id: result.status for id, result in results.items()} == {"first": "failed", "old": "done", "last": "done"}
        assert "portable JSON" in (results["first"].error or "") and not canary.exists()
        assert "fairlead reads only portable JSON" in (fleet.root / "worker.log").read_text()
