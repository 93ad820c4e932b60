"""The example of a host that uses the client does what it says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.support.stage import ENDLESS, Turn, bash, calls, says

from fairlead.testing import ProviderServer

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "first_host.py"
PATIENCE = 30


@contextmanager
def host(cwd: Path, *turns: Turn, flags: Sequence[str] = ()) -> Generator[tuple[subprocess.Popen[str], IO[str], IO[str]]]:
    with ProviderServer(turns) as provider:
        env = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "HOME": str(cwd),
            "LANG": "C.UTF-8",
            "ANTHROPIC_API_KEY": "no-secret",
            "ANTHROPIC_BASE_URL": provider.url,
        }
        command = [sys.executable, "-W", "error", str(EXAMPLE), *flags]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, cwd=cwd, env=env, text=True, bufsize=1, stdin=pipe, stdout=pipe) as process:
            assert process.stdin and process.stdout
            try:
                yield process, process.stdin, process.stdout
            finally:
                process.kill()


def test_it_answers_asks_before_a_tool_runs_fails_and_resumes(tmp_path: Path) -> None:
    failing: Turn = {"status": 400, "error": "bad request"}
    with host(tmp_path, calls(bash("touch made")), says("Made."), failing, says("Fine.")) as (process, _, _):
        said, _ = process.communicate("Make it.\ny\nFail.\nWell?\n", timeout=PATIENCE)
        assert process.returncode == 0
        assert (tmp_path / "made").exists()
        lines = [line for line in said.splitlines() if line]
        assert lines[0] == "[bash]"
        assert lines[-3].endswith("Made.")
        assert lines[-2].startswith("That did not work: ")
        assert "bad request" in lines[-2]
        assert lines[-1] == "Fine."
    with host(tmp_path, says("I remember."), flags=["--continue"]) as (process, _, _):
        assert "I remember." in process.communicate("Do you remember?\n", timeout=PATIENCE)[0]


def test_ctrl_c_aborts_the_run_and_not_the_program(tmp_path: Path) -> None:
    with host(tmp_path, ENDLESS, says("Still here.")) as (process, given, said):
        given.write("Go on.\n")
        assert said.read(4) == "word"
        process.send_signal(signal.SIGINT)
        while said.readline() != "(aborted)\n":
            pass
        assert process.communicate("Well?\n", timeout=PATIENCE)[0].strip() == "Still here."
    assert process.returncode == 0
