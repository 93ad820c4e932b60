"""A program that may write to the database of the jobs can submit jobs, and runs no code on the workers."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import pickle
import sqlite3
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.fleet import Fleet, fleet_in

from fairlead.jobs import Jobs
from fairlead.jobs.dbos_queue import WORKFLOW


class Canary:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self._path),)


def pickled(path: Path) -> str:
    return base64.b64encode(pickle.dumps({"args": (Canary(path),), "kwargs": {}})).decode()


def connect(fleet: Fleet) -> sqlite3.Connection:
    connection = sqlite3.connect(fleet.url.removeprefix("sqlite:///"), isolation_level=None, timeout=30)
    connection.row_factory = sqlite3.Row
    return connection


def plant(fleet: Fleet, **values: object) -> None:
    """Copy the queued workflow of the job `first`, with other values."""
    with closing(connect(fleet)) as connection:
        row = dict(connection.execute("SELECT * FROM workflow_status WHERE workflow_uuid = 'first'").fetchone())
        row |= values
        marks = ", ".join("?" * len(row))
        connection.execute(f"INSERT OR REPLACE INTO workflow_status ({', '.join(row)}) VALUES ({marks})", list(row.values()))
        if "inputs" in values:  # arguments have their own table, which counts first
            connection.execute(
                "INSERT OR REPLACE INTO workflow_input (workflow_uuid, inputs, retention_timestamp) VALUES (?, ?, 0)",
                (row["workflow_uuid"], row["inputs"]),
            )


@pytest.fixture
def fleet(tmp_path: Path) -> Generator[Fleet]:
    """A fleet whose job `first` is queued, with no worker."""

    async def submit(fleet: Fleet) -> None:
        async with Jobs(fleet.url) as jobs:
            await jobs.submit(fleet.job("first", "true"))

    with fleet_in(tmp_path) as fleet:
        asyncio.run(submit(fleet))
        yield fleet


@pytest.mark.parametrize(
    ("serialization", "version"),
    [
        ("py_pickle", "2"),
        (None, "2"),
        ("custom_serializer", "2"),
        ("portable_json", "2"),
        ("py_pickle", "1"),
        ("py_pickle", None),
    ],
)
async def test_no_worker_unpickles_the_arguments_of_a_workflow(
    fleet: Fleet, serialization: str | None, version: str | None
) -> None:
    canary = fleet.root / "canary"
    plant(
        fleet,
        workflow_uuid="hostile",
        inputs=pickled(canary),
        output=pickled(canary),
        error=pickled(canary),
        serialization=serialization,
        application_version=version,
        priority=0,
    )
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        results = [result.status async for result in jobs.results(["first"], timeout=60)]
        await jobs.submit(fleet.job("last", "true"))
        results += [result.status async for result in jobs.results(["last"], timeout=60)]
    assert results == ["done", "done"] and not canary.exists()
    if version == "2":
        assert "hostile" in (fleet.root / "worker.log").read_text()


async def test_a_job_whose_arguments_are_replaced_by_a_pickle_fails_and_says_so(fleet: Fleet) -> None:
    canary = fleet.root / "canary"
    plant(fleet, inputs=pickled(canary), serialization="py_pickle")
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        (result,) = [result async for result in jobs.results(["first"], timeout=60)]
        assert result.status == "failed" and "portable JSON" in (result.error or "")
        await jobs.retry("first")
        (result,) = [result async for result in jobs.results(["first"], timeout=60)]
    assert result.status == "done" and not canary.exists()
    log = (fleet.root / "worker.log").read_text()
    assert "Error executing workflow first" in log and "job first has failed" in log


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("serialization", "unknown"),
        ("serialization", "custom_serializer"),
        ("serialization", ""),
        ("serialization", None),
        ("name", "os.system"),
        ("class_name", "os"),
        ("config_name", "os"),
        ("inputs", "5"),
        ("inputs", "null"),
        ("inputs", "[" * 100_000),
        ("inputs", '{"positionalArgs": ["first", 1], "namedArgs": ["x"]}'),
        ("inputs", '{"positionalArgs": ["first", 1], "namedArgs": {"x": 1}}'),
        ("inputs", '{"positionalArgs": ["first", 2], "namedArgs": {}}'),
        ("inputs", '{"positionalArgs": ["another", 1], "namedArgs": {}}'),
        ("inputs", None),
    ],
)
async def test_a_job_whose_workflow_no_client_has_written_fails_and_can_be_retried(
    fleet: Fleet, column: str, value: str | None
) -> None:
    plant(fleet, **{column: value})
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        (result,) = [result async for result in jobs.results(["first"], timeout=60)]
        assert result.status == "failed" and "no client writes" in (result.error or "")
        await jobs.retry("first")
        (result,) = [result async for result in jobs.results(["first"], timeout=60)]
    assert result.status == "done"


async def test_jobs_that_an_older_fairlead_has_queued_run_without_unpickling(fleet: Fleet) -> None:
    canary = fleet.root / "canary"
    plant(fleet, inputs=pickled(canary), serialization="py_pickle", application_version="1")
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        (result,) = [result async for result in jobs.results(["first"], timeout=60)]
    assert result.status == "done" and not canary.exists()
    assert "1 jobs that an older fairlead has queued were converted" in (fleet.root / "worker.log").read_text()


async def test_no_worker_unpickles_what_other_tables_of_dbos_contain(fleet: Fleet) -> None:
    canary = fleet.root / "canary"
    value = pickled(canary)
    planted: list[str] = []
    with closing(connect(fleet)) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
            names = {column["name"] for column in columns}
            if table.startswith(("fairlead", "sqlite", "workflow_status")) or not names & {"serialization", "context"}:
                continue
            known = {
                **dict.fromkeys(["output", "error", "value", "message", "inputs", "context"], value),
                **dict.fromkeys(["workflow_uuid", "destination_uuid", "workflow_id"], "first"),
                "serialization": "py_pickle",
                "workflow_name": WORKFLOW,
                "schedule": "* * * * * *",
                "application_name": "fairlead-jobs",
                "status": "ACTIVE",
            }
            row = {
                column["name"]: known.get(column["name"], "1" if "TEXT" in column["type"].upper() else 1)
                for column in columns
                if column["name"] in known or (column["notnull"] and column["dflt_value"] is None)
            }
            marks = ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", list(row.values()))
            planted.append(table)
    assert {"operation_outputs", "notifications", "workflow_events", "workflow_schedules"} <= set(planted)
    worker = fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("last", "true"))
        results = {result.id: result.status async for result in jobs.results(["first", "last"], timeout=60)}
        await jobs.limit("key", concurrency=1)
        await jobs.cancel("first")
        assert len(await jobs.list()) == 2
    worker.stop()
    assert results == {"first": "done", "last": "done"} and not canary.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["first"],
        [["first"], 1],
        [{"id": 1}, 1],
        ["../../first", 1],
        ["first", "1"],
        ["first", True],
        [None, None],
        "text",
        None,
    ],
)
async def test_arguments_that_no_client_queues_are_refused(fleet: Fleet, arguments: object) -> None:
    inputs = json.dumps({"positionalArgs": arguments, "namedArgs": {}})
    plant(fleet, workflow_uuid="hostile", inputs=inputs, serialization="portable_json", priority=0)
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        assert [result.status async for result in jobs.results(["first"], timeout=60)] == ["done"]


@pytest.mark.parametrize("name", ["os.system", "subprocess.run", "builtins.eval", "temp_workflow"])
async def test_names_of_functions_and_classes_in_a_row_are_not_imported(fleet: Fleet, name: str) -> None:
    canary = fleet.root / "canary"
    inputs = json.dumps({"positionalArgs": [f"touch {canary}"], "namedArgs": {}})
    plant(fleet, workflow_uuid="one", name=name, inputs=inputs, priority=0)
    plant(fleet, workflow_uuid="two", class_name=name, config_name=name, inputs=inputs, priority=0)
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        assert [result.status async for result in jobs.results(["first"], timeout=60)] == ["done"]
    assert not canary.exists()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("task", "not JSON"),
        ("task", '{"id": "first", "prompt": "x"}'),
        ("task", '{"id": "first", "prompt": "x", "workdir": "relative"}'),
        ("task", '{"id": "first", "prompt": "x", "workdir": "/", "session": "../../../victim"}'),
        ("task", '{"id": "first", "prompt": "x", "repo": "/", "commit": "--upload-pack=touch canary"}'),
        ("task", '{"id": "first", "prompt": "x", "workdir": "/", "container": "--privileged"}'),
        ("session", "../../../victim"),
        ("snapshot", "--upload-pack=touch canary"),
        ("key", "../key"),
    ],
)
async def test_a_row_that_no_client_writes_ends_its_job_and_no_other(fleet: Fleet, column: str, value: str) -> None:
    victim = fleet.root / "victim"
    victim.mkdir()
    with closing(connect(fleet)) as connection:
        connection.execute(f"UPDATE fairlead_jobs SET {column} = ? WHERE id = 'first'", (value,))
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("last", "true"))
        results = {result.id: result async for result in jobs.results(["first", "last"], timeout=60)}
    assert results["last"].status == "done" and victim.is_dir()
    assert results["first"].status == "failed" and "The worker refuses the job" in (results["first"].error or "")
    assert "job first is refused" in (fleet.root / "worker.log").read_text()


async def test_an_id_of_the_database_that_is_a_path_ends_the_worker_at_its_start(fleet: Fleet) -> None:
    with closing(connect(fleet)) as connection:
        connection.execute("UPDATE fairlead_fleet SET id = '../../victim'")
    ended = fleet.run("worker", "--sessions", "1")
    assert ended.returncode != 0 and "Expected twelve hexadecimal digits" in ended.stderr
