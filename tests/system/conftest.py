"""Real clients of real peers, driven against this program or against the peer itself."""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from bench import peers
from bench.contestants import Turn, scripted_provider, surroundings
from tests.export.browser import Browser, browser
from tests.support.postgres import PostgresServer
from tests.system.omp_clients import DriveOmp
from tests.system.pi_clients import Drive, rpc_client
from tests.system.public_hosts import Compare, Home, what_is_printed

HARNESS = Path(__file__).with_name("client_harness.mjs")


@pytest.fixture(scope="session")
def launchers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """What a client of a version of pi, which spawns node, is told to start, so that it gets fairlead."""

    @cache
    def launcher(version: str) -> str:
        return write_launcher(tmp_path_factory.mktemp("pi"), f"pi@{version}")

    return launcher


@pytest.fixture(scope="session")
def omp_launcher(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a client that spawns bun is told to start, so that it gets fairlead."""
    return write_launcher(tmp_path_factory.mktemp("omp"), "omp")


@pytest.fixture(scope="module")
def postgres() -> Generator[PostgresServer]:
    """A private Postgres server, which a test may stop and start. Its `url` names an empty database."""
    server = PostgresServer()
    try:
        yield server
    finally:
        server.remove()


@pytest.fixture
def drive(tmp_path: Path, launchers: Callable[[str], str]) -> Drive:
    def drive(
        client: peers.Peer,
        script: str,
        *turns: Turn,
        agent: peers.Peer | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Any:
        client.command()
        cli = agent.command()[1] if agent else launchers(client.version)
        return run_script(script, turns, tmp_path, runtime=peers.node(), module=rpc_client(client), cli=cli, env=env)

    return drive


@pytest.fixture
def drive_omp(tmp_path: Path, omp_launcher: str) -> DriveOmp:
    def drive(client: peers.OmpClient, script: str, *turns: Turn) -> Any:
        return run_script(script, turns, tmp_path, runtime=peers.bun(), module=client.module(), cli=omp_launcher)

    return drive


@pytest.fixture
def compare(tmp_path: Path) -> Compare:
    def compare(drive: Callable[[Home], str], *turns: Turn, pi: peers.Peer = peers.PI_15, launcher: str = "pi") -> str:
        theirs = what_is_printed(drive, turns, pi, tmp_path / "1")
        ours = what_is_printed(drive, turns, launcher, tmp_path / "2")
        difference = list(
            difflib.unified_diff(theirs.splitlines(), ours.splitlines(), "with pi", "with fairlead", n=1, lineterm="")
        )
        if difference:
            pytest.fail("\n".join(difference), pytrace=False)
        return theirs

    return compare


def write_launcher(folder: Path, dialect: str) -> str:
    fairlead = Path(sys.executable).with_name("fairlead")
    subprocess.run([str(fairlead), "shim", dialect, str(folder)], check=True, capture_output=True)
    return str(folder / "cli.js")


def run_script(
    script: str,
    turns: Sequence[Turn],
    root: Path,
    *,
    runtime: Path,
    module: Path,
    cli: str,
    env: Mapping[str, str] | None = None,
) -> Any:
    """What a script returns that has a client, which starts `cli` with the runtime that it is written for."""
    with scripted_provider(turns) as port:
        environment, directory = surroundings(Path(tempfile.mkdtemp(dir=root)), port)
        environment["PATH"] = os.pathsep.join([str(runtime.parent), environment["PATH"]])
        environment |= env or {}
        task = {"module": str(module), "cli": cli, "directory": directory, "script": script}
        result = subprocess.run(
            [str(runtime), str(HARNESS)],
            input=json.dumps(task),
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def chromium() -> Generator[Browser]:
    """Return a tab of a real browser that the tests of a module share."""
    with browser() as found:
        yield found


@pytest.fixture
def tab(chromium: Browser) -> Browser:
    """Return a tab with the size and the colours of a desktop."""
    chromium.size(1280, 900)
    chromium.media()
    return chromium
