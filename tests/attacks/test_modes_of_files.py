"""Another user of the machine looks for what fairlead leaves readable or writable, with a umask that hides nothing."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.support.fleet import Fleet, make_repository
from tests.support.front_end import FrontEnd

from fairlead.cli.code_cache import CodeCache
from fairlead.jobs import Jobs
from fairlead.jobs.results_export import export_jobs
from fairlead.platform.open_files import keep_database_private, make_private_folders, open_private
from fairlead.stores import open_store

pytest_plugins = ["tests.jobs.conftest"]


@contextmanager
def umask(mask: int = 0) -> Generator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def everything_in(place: Path) -> list[Path]:
    """Return a folder with all that it contains. A worker may be removing the files of a job meanwhile."""
    return [place, *(Path(folder, name) for folder, folders, files in os.walk(place) for name in (*folders, *files))]


def open_to_others(*places: Path, known: set[Path] | None = None) -> list[str]:
    """The files and folders below some places that other users may use."""
    found = [each for place in places for each in everything_in(place) if not each.is_symlink() and each.exists()]
    return [
        f"{each} {stat.S_IMODE(each.stat().st_mode):o}"
        for each in found
        if each not in (known or ()) and each.stat().st_mode & 0o077
    ]


def test_a_fleet_leaves_nothing_open(fleet: Fleet) -> None:
    """A worker, a server, jobs in a directory and in a repository, a session over HTTP, and an export."""
    database = fleet.root / "new" / "deep" / "jobs.db"
    fleet.url = f"sqlite:///{database}"
    make_repository(fleet.root / "repo")
    fleet.home.chmod(0o700)
    (fleet.home / "models.json").chmod(0o600)
    with umask():
        fleet.start_worker()
        with FrontEnd(fleet, "--log-file", str(fleet.root / "new" / "log")) as server:
            session = server.begin(approval="auto")
            server.prompt(session, "true")
            server.settled(session, 4)

            async def work() -> None:
                async with Jobs(fleet.url) as jobs:
                    await jobs.submit(
                        fleet.job("a", "true"), fleet.job("b", "echo x > new", repo=str(fleet.root / "repo"), commit="main")
                    )
                    assert {result.status async for result in jobs.results(["a", "b"], timeout=60)} == {"done"}
                    await export_jobs(jobs, fleet.root / "new" / "results")

            asyncio.run(work())
            assert {f"jobs.db{end}" for end in ("", "-wal", "-shm")} <= {each.name for each in database.parent.iterdir()}
            # What git makes in a private folder keeps the modes of the repository.
            private = list((fleet.home / "jobs").glob("*/*"))
            assert private
            inside = {below for each in private for below in everything_in(each)}
            assert open_to_others(fleet.root / "new", fleet.home, known=inside) == []


def run(fleet: Fleet, *words: str) -> None:
    with umask():
        done = fleet.run(*words)
    assert done.returncode == 0, done.stderr


def test_commands_leave_nothing_open(fleet: Fleet) -> None:
    home, out = fleet.root / "a" / "b" / "home", fleet.root / "out"
    out.mkdir(mode=0o700)
    models = (fleet.home / "models.json").read_text()
    fleet.home = home
    with umask(0o077):
        home.mkdir(parents=True)
        (home / "models.json").write_text(models)
    prompt = ["-p", "--model", "test/test-model", '["true"]']
    run(fleet, "--log-file", str(out / "log"), "--mode", "json", *prompt)
    session = next((home / "sessions").rglob("*.jsonl"))
    run(fleet, "export", str(session), "--output", str(out / "page.html"))
    run(fleet, "trust", str(fleet.workdir))
    with umask():
        subprocess.run(
            [sys.executable, "-P", "-m", "fairlead", "login", "anthropic"],
            input="sk-ant-a-key-that-is-long\n",
            env=fleet.env,
            cwd=fleet.root,
            text=True,
            capture_output=True,
            timeout=60,
        )
    assert open_to_others(home, out) == []


@pytest.mark.parametrize("scheme", ["store", "jobs"])
def test_an_existing_database_is_taken_away_from_others(tmp_path: Path, scheme: str) -> None:
    path = tmp_path / "jobs.db"
    with umask(), closing(sqlite3.connect(path)) as holder:
        holder.execute("PRAGMA journal_mode=WAL")
        holder.execute("CREATE TABLE other (x)")
        holder.commit()
        assert len(open_to_others(path, tmp_path / "jobs.db-wal", tmp_path / "jobs.db-shm")) == 3

        async def use() -> None:
            if scheme == "jobs":
                async with Jobs(f"sqlite:///{path}") as jobs:
                    await jobs.list()
                return
            store = open_store(f"sqlite:///{path}")
            await store.list()
            await store.close()

        asyncio.run(use())
        assert open_to_others(path, *tmp_path.glob("jobs.db-*")) == []
        assert holder.execute("SELECT count(*) FROM other").fetchone() == (0,)


def test_taking_a_database_away_from_others_keeps_the_locks_of_this_process(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    keep_database_private(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        path.chmod(0o644)
        keep_database_private(path)
        other = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
        done = subprocess.run([sys.executable, "-c", other, str(path)], capture_output=True, text=True)
        assert "locked" in done.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_files_that_are_not_ours_alone_keep_their_mode(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.write_text("of another program")
    shared.chmod(0o644)
    os.link(shared, tmp_path / "name")
    with open_private(tmp_path / "name", "ab") as file:
        file.write(b".")
    assert stat.S_IMODE(shared.stat().st_mode) == 0o644


def test_folders_and_files_are_private_from_the_beginning(tmp_path: Path) -> None:
    with umask():
        make_private_folders(tmp_path / "a" / "b" / "c")
        with open_private(tmp_path / "a" / "file", "wb") as file:
            assert os.fstat(file.fileno()).st_mode & 0o077 == 0
    assert open_to_others(tmp_path / "a") == []


def test_no_other_user_can_change_the_cached_code_of_the_program(tmp_path: Path) -> None:
    with umask():
        cache = CodeCache(str(tmp_path / "cache"))
        cache._write({"module": ((1, 2, 3, "x", 0, 0), b"code")})  # pyright: ignore
    assert (tmp_path / "cache").stat().st_mode & 0o022 == 0


def test_the_results_of_jobs_are_for_their_owner(tmp_path: Path) -> None:
    async def work() -> None:
        async with Jobs(f"sqlite:///{tmp_path / 'jobs.db'}") as jobs:
            await export_jobs(jobs, tmp_path / "results")

    old = tmp_path / "results"
    old.mkdir()
    (old / "results.csv").write_text("old")
    (old / "results.csv").chmod(0o666)
    with umask():
        asyncio.run(work())
    assert open_to_others(*old.iterdir()) == [] and json.loads((old / "results.jsonl").read_text() or "[]") == []
