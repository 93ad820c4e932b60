"""Sessions and jobs in a real Postgres server: the conformance suite, a server that goes away, and newer tables."""

from __future__ import annotations

import asyncio
import json
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.postgres import PostgresServer
from tests.support.stopped_worker import stop_and_take_over
from tests.support.store_worker import work

from fairlead.errors import ConfigError, SessionLost, SessionNotFound, StoreUnavailable
from fairlead.jobs import Job, Jobs
from fairlead.jobs.database import DBOS_VERSION, TABLES_VERSION, Database, DatabaseUrl
from fairlead.stores import PostgresStore
from fairlead.testing import STORE_CHECKS, check_store, scripted_agent
from fairlead.testing.store_writes import Check

pytestmark = pytest.mark.system

HEADER = b'{"type":"session"}'


@pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
def test_postgres_conforms(postgres: PostgresServer, check: Check) -> None:
    check_store(lambda: PostgresStore(postgres.url), check)


async def test_a_store_continues_after_the_server_was_away(postgres: PostgresServer) -> None:
    store = PostgresStore(postgres.url)
    lease = await store.create("away", HEADER, owner="a", lease_seconds=600, lines=[b"1"])
    assert await store.append(lease, [b"2"], after=1) == 2
    postgres.stop("immediate")
    for call in (store.append(lease, [b"3"], after=2), store.renew(lease), store.read("away")):
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await call
    postgres.start()
    assert await store.append(lease, [b"3"], after=2) == 3
    assert (await store.renew(lease)).epoch == lease.epoch
    assert [line.line for line in (await store.read("away")).lines] == [b"1", b"2", b"3"]
    await store.close()


async def test_each_entry_is_written_once_while_the_server_restarts(postgres: PostgresServer) -> None:
    stores = [PostgresStore(postgres.url) for _ in range(2)]
    leases = [await store.create(f"once-{n}", HEADER, owner="a", lease_seconds=600) for n, store in enumerate(stores * 4)]
    restarted = asyncio.Event()

    async def fill(store: PostgresStore, number: int) -> int:
        """Append entries until the server has been restarted, each until it succeeds."""
        written = 0
        while not restarted.is_set() or written < 20:
            try:
                written = await store.append(leases[number], [b"%d" % written, b"x"], after=written)
            except StoreUnavailable:
                await asyncio.sleep(0.02)
        return written

    async def restart() -> None:
        for mode in ("fast", "immediate"):
            await asyncio.to_thread(postgres.restart, mode)
        restarted.set()

    *counts, _ = await asyncio.gather(*(fill(store, number) for number, store in enumerate(stores * 4)), restart())
    for number, count in enumerate(counts):
        lines = [line.line for line in (await stores[0].read(f"once-{number}")).lines]
        assert lines == [line for first in range(0, count or 0, 2) for line in (b"%d" % first, b"x")]
    for store in stores:
        await store.close()


async def test_an_old_owner_is_refused_while_the_next_one_writes(postgres: PostgresServer) -> None:
    old, new = PostgresStore(postgres.url), PostgresStore(postgres.url)
    lease = await old.create("fenced", HEADER, owner="old", lease_seconds=600)
    await old.release(lease)
    taken = await new.open("fenced", owner="new", lease_seconds=600)
    late = [old.append(lease, [b"late"]) for _ in range(20)]
    results = await asyncio.gather(*late, *(new.append(taken, [b"good"]) for _ in range(20)), return_exceptions=True)
    assert all(isinstance(result, SessionLost) and "new" in str(result) for result in results[:20]), results
    assert {line.line for line in (await new.read("fenced")).lines} == {b"good"}
    await old.close()
    await new.close()


# Agents


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL], ids=["stopped", "killed"])
async def test_a_worker_that_is_gone_loses_its_session(how: signal.Signals, postgres: PostgresServer, tmp_path: Path) -> None:
    store = PostgresStore(postgres.url)
    with suppress(SessionNotFound):
        await store.delete("job")
    await store.close()
    await stop_and_take_over(postgres.url, tmp_path / "marks", how)


async def test_a_run_continues_when_the_server_was_away_for_less_than_the_lease(postgres: PostgresServer, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    working = asyncio.create_task(work(postgres.url, "steady", 30, marks, turns=20))
    async with asyncio.timeout(30):
        while not marks.exists():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await asyncio.to_thread(postgres.restart, "immediate")
    assert await working == "Done."
    assert marks.read_text().split() == [str(number) for number in range(20)], "each tool ran once"
    store = PostgresStore(postgres.url)
    lines = [line.line for line in (await store.read("steady")).lines]
    ids = [json.loads(line)["id"] for line in lines]
    assert len(set(ids)) == len(ids), "each entry was written once"
    assert sum(b'"toolResult"' in line for line in lines) == 20
    await store.close()


async def test_agents_share_a_store(postgres: PostgresServer) -> None:
    store = PostgresStore(postgres.url)

    async def one(number: int) -> str:
        async with scripted_agent(f"I am {number}.", store=store, session_id=f"shared-{number}") as agent:
            return (await agent.ask("Who?")).text

    assert await asyncio.gather(*map(one, range(20))) == [f"I am {number}." for number in range(20)]
    found = [session for session in await store.list(after="shared") if session.id.startswith("shared-")]
    assert len(found) == 20 and not any(session.owner for session in found)
    await store.close()


async def test_jobs_in_a_database_of_a_newer_fairlead_are_refused(postgres: PostgresServer) -> None:
    async with Jobs(postgres.url) as jobs:
        await jobs.submit(Job(id="kept", prompt="[]", workdir="/"))
    database = Database(DatabaseUrl(postgres.url), patience=10)
    for table, known in (("fairlead_schema", TABLES_VERSION), ("dbos.dbos_migrations", DBOS_VERSION)):
        assert await database.rows(f"SELECT version FROM {table}") == [(known,)]
        await database.run(f"UPDATE {table} SET version = ?", (known + 1,))
        with pytest.raises(ConfigError, match=f"newer fairlead .*: {table} has the version {known + 1}"):
            async with Jobs(postgres.url):
                pass
        await database.run(f"UPDATE {table} SET version = ?", (known,))
    await database.run("DROP TABLE fairlead_schema")  # as a database of an older fairlead
    async with Jobs(postgres.url) as jobs:
        assert [job.id for job in await jobs.list()] == ["kept"]
    assert await database.rows("SELECT version FROM fairlead_schema") == [(TABLES_VERSION,)]
    await database.close()
