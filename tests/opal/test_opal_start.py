"""How a server for clients of Opal is started."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import Command

PING = '{"jsonrpc":"2.0","id":1,"method":"opal/ping"}\n'
PONG: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "result": {}}


def answers(done: subprocess.CompletedProcess[str]) -> list[object]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("flags", [["--mode", "opal"], ["--mode", "rpc", "--dialect", "opal"], ["--dialect", "opal"]])
def test_the_mode_or_the_dialect_asks_for_it(fairlead: Command, flags: list[str]) -> None:
    assert answers(fairlead(*flags, input=PING)) == [PONG]


def test_so_does_the_name_that_it_is_started_by(fairlead: Command, tmp_path: Path) -> None:
    link = tmp_path / "opal-server"
    link.symlink_to(Path(sys.executable).with_name("fairlead"))
    assert answers(fairlead(argv=[str(link)], input=PING)) == [PONG]


def test_a_launcher_can_be_made(fairlead: Command, tmp_path: Path) -> None:
    made = fairlead("shim", "opal", str(tmp_path / "bin"))
    assert made.stdout == f"{tmp_path / 'bin' / 'opal-server'}\n"
    assert [path.name for path in (tmp_path / "bin").iterdir()] == ["opal-server"]
    assert answers(fairlead("--model", "fake/fake-1", argv=[str(tmp_path / "bin" / "opal-server")], input=PING)) == [PONG]


def test_flags_that_mean_nothing_here_are_reported(fairlead: Command) -> None:
    done = fairlead("--mode", "opal", "--updates", "delta", "--max-frame-bytes", "4096", "word", "--verbose", input=PING)
    assert answers(done) == [PONG]
    for flag in ("--updates", "--max-frame-bytes"):
        assert f"{flag} has no effect in opal mode" in done.stderr
    assert "arguments that are not flags are ignored" in done.stderr


def test_files_are_refused(fairlead: Command) -> None:
    done = fairlead("--mode", "opal", "@notes.txt", input=PING)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: @file arguments are not supported in RPC mode\n"
