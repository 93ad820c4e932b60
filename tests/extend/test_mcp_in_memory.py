"""MCP servers that a program hands to its agent, without a file."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.extend.mcp_scene import PATIENCE, SUPPORT, Scene, calls, real_server, text_of

from fairlead import Agent, Discovery, McpServer
from fairlead.core import events as e
from fairlead.errors import BadOption
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

STDIO = McpServer(**real_server())


async def said(folder: Path, server: McpServer, warnings: list[str] | None = None, **options: Any) -> str:
    """What the tool `echo` of a server answers. `warnings` gets those of the agent."""
    model = Scripted([calls("mcp__mine__echo", text="hi"), Turn(text="ok")])
    options = {"isolated": True, "cwd": folder, **options}
    async with (
        asyncio.timeout(PATIENCE),
        Agent(model=SCRIPTED_MODEL, stream=model, mcp_servers={"mine": server}, **options) as agent,
    ):
        scene = Scene(agent, model)
        await agent.ask("go")
        (end,) = [event for event in scene.events if isinstance(event, e.ToolEnd)]
        if warnings is not None:
            warnings += agent.warnings
        return text_of(end)


@contextmanager
def served(kind: str) -> Generator[int]:
    """The port of a running server."""
    program = [sys.executable, "-W", "ignore", str(SUPPORT / "mcp_server.py"), kind]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


async def test_a_program_hands_over_a_server_to_start(tmp_path: Path) -> None:
    assert await said(tmp_path, STDIO) == "echo: hi"
    assert list(tmp_path.iterdir()) == [], "no file is touched"


@pytest.mark.parametrize(("kind", "path"), [("http", "mcp"), ("sse", "sse")])
async def test_a_program_hands_over_the_url_of_a_server(tmp_path: Path, kind: Any, path: str) -> None:
    with served(kind) as port:
        server = McpServer(url=f"http://127.0.0.1:{port}/{path}", headers={"X-Who": "me"}, type=kind)
        assert await said(tmp_path, server) == "echo: hi"


async def test_the_server_of_the_program_replaces_one_of_the_same_name_in_a_file(tmp_path: Path) -> None:
    config = tmp_path / "servers.json"
    config.write_text(json.dumps({"mcpServers": {"mine": {"command": "false"}}, "disabledServers": ["mine"]}))
    warnings: list[str] = []
    assert await said(tmp_path, STDIO, warnings, discovery=Discovery(mcp_config=[config])) == "echo: hi"
    assert warnings == [], "a server that is disabled is not replaced"
    config.write_text(json.dumps({"mcpServers": {"mine": {"command": "false"}}}))
    assert await said(tmp_path, STDIO, warnings, discovery=Discovery(mcp_config=[config])) == "echo: hi"
    assert warnings == [f'{config}: the MCP server "mine" is left out: the program has handed over one with this name.']


@pytest.mark.parametrize(
    "server",
    [
        McpServer(),
        McpServer(command="x", url="http://x"),
        McpServer(url="ftp://x"),
        McpServer(command="x", type="sse"),
        McpServer(url="http://x", type="stdio"),
    ],
)
def test_a_server_without_a_program_or_a_url_is_an_error(tmp_path: Path, server: McpServer) -> None:
    with pytest.raises(BadOption, match="mcp_servers: mine: expected"):
        Agent(model=SCRIPTED_MODEL, stream=Scripted([Turn(text="ok")]), cwd=tmp_path, mcp_servers={"mine": server})
