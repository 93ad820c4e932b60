"""MCP servers that an ACP client hands over: connected for one session, without touching files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.acp import Client, acp
from tests.support.stage import calls, says

SERVER = str(Path(__file__).parent.parent / "support" / "mcp_server.py")


def stdio(name: str = "mine") -> dict[str, Any]:
    env = [{"name": "GREETING", "value": "hello"}]
    return {"name": name, "command": sys.executable, "args": ["-W", "ignore", SERVER], "env": env}


def tools(client: Client) -> list[str]:
    """The tools that the model was offered last."""
    return [tool["name"] for tool in client.host.provider.requests[-1].body["tools"]]


def test_a_server_of_the_client_brings_its_tools_to_one_session(tmp_path: Path) -> None:
    turns = [calls(("mcp__mine__echo", {"text": "hi"})), says("ok"), says("other")]
    with acp(tmp_path, turns) as client:
        session = client.new(mcpServers=[stdio()])
        assert client.prompt(session) == "end_turn"
        call = client.tool_call(client.updates(session, "tool_call")[0]["toolCallId"])
        assert call["status"] == "completed" and "echo: hi" in call["content"][0]["content"]["text"]
        other = client.new()
        client.prompt(other)
        assert not any(name.startswith("mcp__mine") for name in tools(client))
        assert not list(client.host.around.home.glob("**/mcp.json"))


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_a_server_on_the_network_is_connected(tmp_path: Path, kind: str) -> None:
    command = [sys.executable, "-W", "ignore", SERVER, kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            url = f"http://127.0.0.1:{port}/{'sse' if kind == 'sse' else 'mcp'}"
            with acp(tmp_path, [calls(("mcp__far__echo", {"text": "hi"})), says("ok")]) as client:
                headers = [{"name": "X-Token", "value": "t"}]
                session = client.new(mcpServers=[{"type": kind, "name": "far", "url": url, "headers": headers}])
                assert client.prompt(session) == "end_turn"
                assert "echo: hi" in json.dumps(client.updates(session, "tool_call_update"))
        finally:
            server.kill()


def test_a_loaded_session_gets_the_servers_that_come_with_it(tmp_path: Path) -> None:
    with acp(tmp_path, [says("one"), calls(("mcp__mine__echo", {"text": "hi"})), says("ok")]) as client:
        session = client.new()
        client.prompt(session)
        client.call("session/load", sessionId=session, cwd=client.cwd, mcpServers=[stdio()])
        client.prompt(session, "again")
        assert "echo: hi" in json.dumps(client.updates(session, "tool_call_update"))


WRONG: list[Any] = [{}, {"name": "x"}, {"type": "http", "name": "x"}, "x", {"name": "x", "command": "", "args": [], "env": []}]


@pytest.mark.parametrize("server", WRONG)
def test_a_server_that_cannot_be_used_is_refused(tmp_path: Path, server: Any) -> None:
    with acp(tmp_path) as client:
        error = client.refusal("session/new", cwd=client.cwd, mcpServers=[server])
        assert error["code"] == -32602
        assert client.new()


def test_two_servers_with_one_name_are_refused(tmp_path: Path) -> None:
    with acp(tmp_path) as client:
        error = client.refusal("session/new", cwd=client.cwd, mcpServers=[stdio(), stdio()])
        assert error["code"] == -32602 and "mine" in error["message"]


def test_a_client_without_notices_learns_that_a_server_failed_before_the_first_prompt(tmp_path: Path) -> None:
    with acp(tmp_path, able={}) as client:
        fails = f"echo > '{client.host.around.home}/began'; exit 1"
        session = client.new(mcpServers=[{"name": "gone", "command": "sh", "args": ["-c", fails], "env": []}])
        client.host.began.wait()
        client.prompt(client.new())  # meanwhile the agent sees the end of the server
        assert client.said(session) == ""
        assert client.prompt(session) == "end_turn"
        assert 'The MCP server "gone" could not be connected' in client.said(session)
