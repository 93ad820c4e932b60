"""Real clients of real peers, driven against this program or against the peer itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from bench import peers
from bench.contestants import Turn, scripted_provider, surroundings

HARNESS = Path(__file__).with_name("client_harness.mjs")


def launcher(folder: Path) -> str:
    """What a client that spawns node is told to start, so that it gets fairlead."""
    fairlead = Path(sys.executable).with_name("fairlead")
    subprocess.run([str(fairlead), "shim", "pi", str(folder)], check=True, capture_output=True)
    return str(folder / "cli.js")


@pytest.fixture
def drive(tmp_path: Path) -> Callable[..., Any]:
    def drive(client: peers.Peer, script: str, turns: Sequence[Turn], agent: peers.Peer | None = None) -> Any:
        """Run JavaScript that has pi's `client` in it, against an agent (this program, unless given); what the script returns."""
        client.command()
        node = peers.node()
        cli = agent.command()[1] if agent else launcher(tmp_path)
        with scripted_provider(turns) as port:
            environment, directory = surroundings(Path(tempfile.mkdtemp(dir=tmp_path)), port)
            environment["PATH"] = os.pathsep.join([str(node.parent), environment["PATH"]])
            task = {
                "module": str(client.package_directory / "dist" / "index.js"),
                "cli": cli,
                "directory": directory,
                "script": script,
            }
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
