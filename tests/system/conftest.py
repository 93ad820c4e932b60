"""Real clients of real peers, driven against this program or against the peer itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from bench import peers
from bench.contestants import Turn, scripted_provider, surroundings
from tests.system.pi_clients import Drive, rpc_client

HARNESS = Path(__file__).with_name("client_harness.mjs")


@pytest.fixture(scope="session")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a client that spawns node is told to start, so that it gets fairlead."""
    folder = tmp_path_factory.mktemp("launchers")
    fairlead = Path(sys.executable).with_name("fairlead")
    subprocess.run([str(fairlead), "shim", "pi", str(folder)], check=True, capture_output=True)
    return str(folder / "cli.js")


@pytest.fixture
def drive(tmp_path: Path, launcher: str) -> Drive:
    def drive(client: peers.Peer, script: str, *turns: Turn, agent: peers.Peer | None = None) -> Any:
        client.command()
        node = peers.node()
        cli = agent.command()[1] if agent else launcher
        with scripted_provider(turns) as port:
            environment, directory = surroundings(Path(tempfile.mkdtemp(dir=tmp_path)), port)
            environment["PATH"] = os.pathsep.join([str(node.parent), environment["PATH"]])
            task = {"module": str(rpc_client(client)), "cli": cli, "directory": directory, "script": script}
            result = subprocess.run(
                [str(node), str(HARNESS)],
                input=json.dumps(task),
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return drive
