"""Stores that several processes use: one that is stopped, one that is killed, and many that write at the same time."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from fairlead import Agent
from fairlead.errors import ConfigError, SessionError, SessionInUse
from fairlead.stores import FileStore, Lease, SessionStore, SqliteStore, open_store

HEADER = b'{"type":"session","version":3,"id":"x","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}'
ENTRY = b'{"type":"custom","id":"%08x","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z","customType":"x"}'

#: Takes the lease of a session, says so, and appends a line for each line that it reads. It prints what came of it.
OWNER = """
import asyncio, sys
from fairlead.stores import open_store
from fairlead.errors import SessionError
async def main(url, id, seconds):
    store = open_store(url)
    lease = await store.open(id, owner="child", lease_seconds=float(seconds))
    print("owner", flush=True)
    for line in sys.stdin:
        try:
            print(await store.append(lease, [line.strip().encode()]), flush=True)
        except SessionError as error:
            print(type(error).__name__, flush=True)
asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture(params=["sqlite", "files"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/sessions.db" if request.param == "sqlite" else f"file:{tmp_path}/sessions"


@contextmanager
def owner_process(url: str, id: str, seconds: float) -> Generator[tuple[subprocess.Popen[str], IO[str], IO[str]]]:
    command = [sys.executable, "-c", OWNER, url, id, str(seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            assert process.stdout.readline() == "owner\n"
            yield process, process.stdin, process.stdout
        finally:
            process.kill()


async def opened(store: SessionStore, id: str) -> Lease:
    """Open a session as soon as that is possible."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await store.open(id, owner="next", lease_seconds=60)
            except SessionInUse as error:
                assert error.owner == "child"
                await asyncio.sleep(0.02)


async def test_an_owner_that_was_stopped_is_refused_when_it_wakes(url: str) -> None:
    store = open_store(url)
    await store.release(await store.create("x", HEADER, owner="first", lease_seconds=60))
    with owner_process(url, "x", 0.5) as (process, stdin, stdout):
        process.send_signal(signal.SIGSTOP)
        lease = await opened(store, "x")
        assert await store.append(lease, [b"next"]) == 1
        stdin.write("late\n")
        stdin.flush()
        process.send_signal(signal.SIGCONT)
        assert await asyncio.to_thread(stdout.readline) == "SessionLost\n"
    assert [line.line for line in (await store.read("x")).lines] == [b"next"]
    await store.close()


async def test_the_lock_of_a_killed_process_does_not_keep_its_session(tmp_path: Path) -> None:
    url = f"file:{tmp_path}"
    store = open_store(url)
    await store.release(await store.create("x", HEADER, owner="first", lease_seconds=60))
    with owner_process(url, "x", 600) as (process, stdin, stdout):
        stdin.write("1\n")
        stdin.flush()
        assert await asyncio.to_thread(stdout.readline) == "1\n"
        with pytest.raises(SessionInUse, match="child"):
            await store.open("x", owner="next", lease_seconds=60)
        process.kill()
        process.wait()
        assert (await store.open("x", owner="next", lease_seconds=60)).last == 1
    await store.close()


def test_many_processes_write_to_one_store(url: str) -> None:
    program = """
import asyncio, sys
from fairlead.stores import open_store
async def main(url, name):
    store = open_store(url)
    async def fill(id):
        lease = await store.create(id, b"{}", owner=name, lease_seconds=60)
        for number in range(20):
            await store.append(lease, [b"%d" % number], after=number)
    await asyncio.gather(*(fill(f"{name}-{n}") for n in range(5)))
    await store.close()
asyncio.run(main(*sys.argv[1:]))
"""
    processes = [subprocess.Popen([sys.executable, "-c", program, url, f"p{number}"]) for number in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]

    async def look() -> None:
        store = open_store(url)
        sessions = await store.list()
        assert len(sessions) == 15
        for session in sessions:
            lines = [line.line for line in (await store.read(session.id)).lines]
            assert lines == [b"%d" % number for number in range(20)]
        await store.close()

    asyncio.run(look())


# Files


async def test_many_stores_create_one_database_at_the_same_time(tmp_path: Path) -> None:
    # SQLite refuses one of two connections that switch a new file to the write-ahead log, about once in 14 rounds.
    for round in range(100):
        stores = [SqliteStore(tmp_path / f"{round}.db") for _ in range(6)]
        answers = await asyncio.gather(*(store.list() for store in stores), return_exceptions=True)
        assert answers == [[]] * 6
        for store in stores:
            await store.close()


async def test_a_file_of_the_store_is_a_session_file_and_back(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    lease = await store.create("abc", HEADER.replace(b'"x"', b'"abc"'), owner="a", lease_seconds=60, lines=[ENTRY % 1])
    await store.append(lease, [ENTRY % 2])
    path = tmp_path / "abc.jsonl"
    assert path.read_bytes().splitlines()[1:] == [ENTRY % 1, ENTRY % 2]
    with pytest.raises(SessionError, match="in use"):
        Agent(session=path, isolated=True)
    await store.release(lease)
    async with Agent(session=path, isolated=True) as agent:
        assert [entry.id for entry in agent.session.history.log.entries()] == ["00000001", "00000002"]
        with pytest.raises(SessionInUse):
            await store.open("abc", owner="b", lease_seconds=60)
    assert (await store.open("abc", owner="b", lease_seconds=60)).last == 2
    await store.close()


async def test_a_session_that_is_open_without_a_store_is_not_taken_because_of_an_old_lease(tmp_path: Path) -> None:
    url = f"file:{tmp_path}"
    store = open_store(url)
    await store.release(await store.create("x", HEADER, owner="first", lease_seconds=60))
    with owner_process(url, "x", 0.1) as (process, _, _):  # it dies without releasing its lease, which expires
        process.kill()
        process.wait()
    async with Agent(session=tmp_path / "x.jsonl", isolated=True):
        await asyncio.sleep(0.2)
        with pytest.raises(SessionInUse):
            await store.open("x", owner="next", lease_seconds=60)
    assert (await store.open("x", owner="next", lease_seconds=60)).last == 0
    await store.close()


async def test_a_session_that_was_saved_without_a_store_is_found_by_its_id(tmp_path: Path) -> None:
    name = "2026-01-31T23-59-59-999Z_the-id.jsonl"
    (tmp_path / name).write_bytes(HEADER + b"\n" + ENTRY % 1 + b'\n{"type":"cus')
    store = FileStore(tmp_path)
    assert [(session.id, session.last) for session in await store.list()] == [("the-id", 1)]
    lease = await store.open("the-id", owner="a", lease_seconds=60)
    assert await store.append(lease, [ENTRY % 2], after=1) == 2
    assert (tmp_path / name).read_bytes() == b"\n".join([HEADER, ENTRY % 1, ENTRY % 2, b""]), "the torn line was cut off"
    await store.close()


@pytest.mark.parametrize("change", ["delete", "replace", "append", "truncate"])
async def test_a_file_that_another_program_has_changed_is_lost(change: str, tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    lease = await store.create("x", HEADER, owner="a", lease_seconds=60, lines=[ENTRY % 1])
    path = tmp_path / "x.jsonl"
    if change == "delete":
        path.unlink()
    elif change == "replace":
        other = tmp_path / "other"
        other.write_bytes(path.read_bytes())
        other.replace(path)
    elif change == "append":
        with path.open("ab") as file:
            file.write(b"{}\n")
    else:
        os.truncate(path, 10)
    with pytest.raises(SessionError, match="is lost"):
        await store.append(lease, [ENTRY % 2])
    await store.close()


# URLs


async def test_urls_name_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("sqlite:///some.db")
    assert isinstance(store, SqliteStore)
    await store.create("x", HEADER, owner="a", lease_seconds=60)
    await store.close()
    assert (tmp_path / "some.db").exists()
    for url in ("mysql://host/name", "sqlite:some.db", "sessions", "", "file:", "file://"):
        with pytest.raises(ConfigError, match="does not name a session store"):
            open_store(url)
    with pytest.raises(ConfigError, match=r"A SqliteStore needs a file\. Give memory: for"):
        open_store("sqlite:///:memory:")


@pytest.mark.parametrize(
    "url", ["mysql://ann:hunter2@host/name", "postgresql//ann:hunter2@host", "mysql://host?password=hunter2"]
)
def test_the_error_for_a_wrong_url_does_not_show_its_password(url: str) -> None:
    with pytest.raises(ConfigError, match="does not name a session store") as caught:
        open_store(url)
    assert "host" in str(caught.value)
    assert "hunter2" not in str(caught.value)
