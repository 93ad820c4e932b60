"""The first answer over ACP comes before an agent is loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.acp import acp

PROGRAM = """
import sys
from fairlead.cli.start import postpone_imports
postpone_imports()
from fairlead.cli import main
from fairlead.wire.acp import acp_server
from fairlead.wire.acp.initialize import Client
from fairlead.wire.acp.initialize import answer_initialize

answer_initialize(Client())
loaded = {name for name, module in sys.modules.items() if type(module).__name__ != "_PostponedModule"}
heavy = loaded & {"fairlead.agent.agent", "fairlead.session.session", "fairlead.models.registry"}
assert not heavy, heavy
"""


def test_no_agent_is_loaded_for_the_first_answer() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


def test_bad_lines_get_errors_and_change_nothing(tmp_path: Path) -> None:
    with acp(tmp_path) as client:
        session = client.new()
        for line in (b"{", b"[]", b"5", b'{"jsonrpc":"1.0","id":900,"method":"x"}', b'{"jsonrpc":"2.0","id":901,"method":5}'):
            client.host.write(line + b"\n")
        assert client.refusal("session/new", cwd=5)["code"] == -32602
        assert client.refusal("session/nope")["code"] == -32601
        assert client.prompt(session) == "end_turn"
        errors = [frame["error"]["code"] for frame in client.host.frames if "error" in frame]
        assert errors[:5] == [-32700, -32600, -32600, -32600, -32601]
