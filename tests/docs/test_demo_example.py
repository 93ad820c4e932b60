"""The demo of the README, as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo.py"


def test_the_demo_ends_without_a_message_when_its_reader_has_ended(tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "FAIRLEAD_HOME": str(tmp_path / "home")}
    with subprocess.Popen(
        [sys.executable, DEMO], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=tmp_path
    ) as demo:
        assert demo.stdout and demo.stderr
        demo.stdout.close()
        said = demo.stderr.read().decode()
    assert (demo.returncode, said) == (141, "")
