"""An agent that is killed leaves nothing running, whatever it had started."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.gates import wait_for_exit
from tests.support.stage import BEGAN, Stage, bash, calls, says, stage

#: Writes the numbers of a shell and of its child, and does not end by itself.
FAMILY = f"sleep 600 & echo $$ > shell; echo $! > child; {BEGAN}; wait"
SUPPORT = Path(__file__).parent.parent / "support"


def in_the_tool(host: Stage) -> None:
    host.send({"type": "prompt", "message": "Go."})


def for_the_host(host: Stage) -> None:
    host.send({"type": "bash", "command": FAMILY})


@pytest.mark.parametrize("start", [in_the_tool, for_the_host])
def test_commands_end_with_a_killed_agent(tmp_path: Path, start: Callable[[Stage], None]) -> None:
    with stage(tmp_path, "omp", [calls(bash(FAMILY)), says("done")]) as host:
        start(host)
        host.began.wait()
        host.request("get_state")  # the agent has seen by now that it started the command
        host.signal(signal.SIGKILL)
        for name in ("shell", "child"):
            wait_for_exit(int((host.around.cwd / name).read_text()))


def test_a_stubborn_server_ends_with_a_killed_agent(tmp_path: Path) -> None:
    number = tmp_path / "number"
    server = {"command": sys.executable, "args": ["-S", "-E", str(SUPPORT / "raw_mcp_server.py"), "stubborn", str(number)]}
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"stubborn": server}}))
    with stage(tmp_path / "stage", "omp", [calls(bash(BEGAN))], flags=["--mcp-config", str(config)]) as host:
        host.send({"type": "prompt", "message": "Go."})
        host.began.wait()
        host.request("get_state")
        host.signal(signal.SIGKILL)
        wait_for_exit(int(number.read_text()))
