"""What the process does at its start, and takes back."""

from __future__ import annotations

from pathlib import Path

from tests.support.host import Host
from tests.support.surroundings import rpc, surroundings

HOOK = """
import gc, os
on, off = gc.enable, gc.disable
gc.enable = lambda: (os.write(2, b"collecting\\n"), on())
gc.disable = lambda: (os.write(2, b"not collecting\\n"), off())
"""


def test_garbage_is_collected_again_after_the_first_answer(tmp_path: Path) -> None:
    around = surroundings(tmp_path, "http://127.0.0.1:9")
    (tmp_path / "sitecustomize.py").write_text(HOOK)
    with Host(rpc("pi"), around.cwd, {**around.env, "PYTHONPATH": str(tmp_path)}) as host:
        host.request("get_state")
        host.request("bash", command="sleep 0.5")
        host.leave()
        assert host.stderr().splitlines() == ["not collecting", "collecting"]
