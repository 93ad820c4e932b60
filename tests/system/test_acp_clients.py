"""Real ACP clients: those of the Python and the TypeScript SDK, and acpx."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from bench import peers
from tests.support.stage import ENDLESS, calls, says
from tests.support.surroundings import Surroundings, surroundings

from fairlead.testing import ProviderServer

pytestmark = pytest.mark.system

LIMIT = 120
FAIRLEAD = str(Path(sys.executable).with_name("fairlead"))
HERE = Path(__file__).parent
WRITE = calls(("write", {"path": "made.txt", "content": "by the agent\n"}), text="I write it.")


@contextmanager
def around(tmp_path: Path, turns: Sequence[Any]) -> Generator[tuple[Surroundings, list[str]]]:
    """A home, a project and a model, and the command of the agent."""
    with ProviderServer(turns) as provider:
        found = surroundings(tmp_path, provider.url)
        yield found, [FAIRLEAD, "acp", "--model", "fake/fake-1", "--approval", "ask"]


def run(command: Sequence[str], place: Surroundings, **env: str) -> str:
    environment = {**place.env, **env, "PATH": os.environ["PATH"]}
    done = subprocess.run(command, cwd=place.cwd, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def python_client(place: Surroundings, agent: Sequence[str]) -> str:
    return run([*peers.ACP_PYTHON.command(), str(HERE / "acp_python_client.py"), str(place.cwd), *agent], place)


def typescript_client(place: Surroundings, agent: Sequence[str]) -> str:
    module = peers.ACP_TYPESCRIPT.module()
    return run([str(peers.node()), str(HERE / "acp_client.mjs"), str(module), str(place.cwd), *agent], place)


@pytest.mark.parametrize("client", [python_client, typescript_client])
def test_the_clients_of_the_sdks_prompt_permit_cancel_list_and_load(tmp_path: Path, client: Any) -> None:
    with around(tmp_path, [WRITE, says("written"), ENDLESS, says("more")]) as (place, agent):
        check_flow(place, json.loads(client(place, agent).splitlines()[-1]))


def check_flow(place: Surroundings, found: Any) -> None:
    """Check what a client did and saw."""
    assert found["initialized"]["agentInfo"]["name"] == "fairlead"
    assert found["first"]["stopReason"] == "end_turn" and found["second"]["stopReason"] == "cancelled"
    assert (place.cwd / "made.txt").read_text() == "by the agent\n"
    (asked,) = found["permissions"]
    call = asked.get("toolCall", asked)
    assert call["kind"] == "edit" and call["content"][0]["newText"] == "by the agent\n"
    assert [each["sessionId"] for each in found["listed"]["sessions"]] == [found["sessionId"]]
    assert found["replayed"][:3] == ["user_message_chunk", "agent_message_chunk", "tool_call"]
    said = "".join(each["content"]["text"] for each in found["updates"] if each["sessionUpdate"] == "agent_message_chunk")
    assert "written" in said


@contextmanager
def serving(place: Surroundings) -> Generator[tuple[str, str]]:
    """Serve the agent over the network, and yield the address for ACP clients, and their token."""
    command = [FAIRLEAD, "serve", "--port", "0", "--model", "fake/fake-1", "--approval", "ask"]
    environment = {**place.env, "PATH": os.environ["PATH"]}
    with subprocess.Popen(command, cwd=place.cwd, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = re.search(r"http://(\S+)", process.stdout.readline())
            assert address is not None
            [token] = place.cwd.parent.rglob("serve.token")
            yield f"ws://{address[1]}/acp", token.read_text().strip()
        finally:
            process.terminate()


@pytest.mark.parametrize("client", [python_client, typescript_client])
def test_the_clients_of_the_sdks_work_over_a_websocket(tmp_path: Path, client: Any) -> None:
    with around(tmp_path, [WRITE, says("written"), ENDLESS, says("more")]) as (place, _), serving(place) as (address, token):
        # The Python SDK has no WebSocket.
        agent = [address] if client is typescript_client else [sys.executable, str(HERE / "acp_bridge.py"), address]
        with_token = Surroundings(place.root, {**place.env, "TOKEN": token})
        check_flow(place, json.loads(client(with_token, agent).splitlines()[-1]))


def test_acpx_prompts_and_approves(tmp_path: Path) -> None:
    with around(tmp_path, [WRITE, says("all written")]) as (place, agent):
        command = [*peers.ACPX.command(), "--agent", " ".join(agent), "--format", "json", "--approve-all", "exec", "write a file"]
        lines = [json.loads(line) for line in run(command, place).splitlines() if line.startswith("{")]
        assert (place.cwd / "made.txt").read_text() == "by the agent\n"
        assert "all written" in json.dumps(lines)
        assert any("session/request_permission" in json.dumps(line) for line in lines)


def test_acpx_keeps_a_session(tmp_path: Path) -> None:
    with around(tmp_path, [says("first answer"), says("second answer")]) as (place, agent):
        acpx = [*peers.ACPX.command(), "--agent", " ".join(agent), "--approve-all"]
        run([*acpx, "sessions", "new"], place)
        assert "first answer" in run([*acpx, "prompt", "one"], place)
        assert "second answer" in run([*acpx, "prompt", "two"], place)
        run([*acpx, "sessions", "close"], place)
