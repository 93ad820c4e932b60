"""MCP servers that send without end: the connection is closed with the reason, and other servers stay usable."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.extend.mcp_scene import calls, raw_server, scene

from fairlead.testing import Turn

SERVER = str(Path(__file__).with_name("flooding_mcp_server.py"))
TURNS = [calls("mcp__bad__flood"), calls("mcp__good__ok"), Turn(text="done")]
MESSAGES, REQUESTS = "it keeps sending more than 100 messages a second", "it sent 64 requests and did not read the answers"

FLOODS = {
    "requests": REQUESTS,
    "requests with one id": REQUESTS,
    "unknown requests": REQUESTS,
    "changes": MESSAGES,
    "logs": MESSAGES,
    "progress": MESSAGES,
    "unknown notifications": MESSAGES,
    "answers": MESSAGES,
    "garbage": MESSAGES,
    "empty lines": "it wrote more than 100,000 empty lines",
    "a line": "it wrote a line of more than 32 MiB",
    "a deep line": "it wrote a line of more than 32 MiB",
}
HTTP_FLOODS = {
    "json": "it sent a message of more than 32 MiB",
    "an event": "it sent a message of more than 32 MiB",
    "zipped": "it compressed an answer although it was asked not to",
    "comments": MESSAGES,
    "logs": MESSAGES,
}


def megabytes() -> int:
    """The most memory that this process has used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


@pytest.mark.parametrize(("kind", "reason"), FLOODS.items(), ids=FLOODS)
async def test_a_server_that_floods_its_pipe_is_closed(tmp_path: Path, kind: str, reason: str) -> None:
    before = megabytes()
    bad = {"command": sys.executable, "args": ["-S", "-E", SERVER, kind]}
    async with scene(tmp_path, {"bad": bad, "good": raw_server("plain")}, TURNS) as told:
        await told.agent.ask("go")
        (first, failed), second = told.texts()
        assert failed and reason in first
        assert second == ("ok was called", False)
    assert megabytes() - before < 250


@contextmanager
def http_server(kind: str) -> Generator[str]:
    """The URL of a server on loopback."""
    with subprocess.Popen([sys.executable, "-S", "-E", SERVER, kind, "http"], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/mcp"
        finally:
            server.kill()


@pytest.mark.parametrize(("kind", "reason"), HTTP_FLOODS.items(), ids=HTTP_FLOODS)
async def test_a_server_that_floods_its_connection_is_closed(tmp_path: Path, kind: str, reason: str) -> None:
    before = megabytes()
    with http_server(kind) as url:
        async with scene(tmp_path, {"bad": {"url": url}, "good": raw_server("plain")}, TURNS) as told:
            await told.agent.ask("go")
            (first, failed), second = told.texts()
            assert failed and reason in first
            assert second == ("ok was called", False)
    assert megabytes() - before < 250


async def test_a_list_of_tools_without_end_is_not_read(tmp_path: Path) -> None:
    bad = {"command": sys.executable, "args": ["-S", "-E", SERVER, "pages"]}
    async with scene(tmp_path, {"bad": bad, "good": raw_server("plain")}, TURNS[1:]) as told:
        await told.agent.ask("go")
        assert told.texts() == [("ok was called", False)]
        assert "a list has more than 10,000 entries or 16 MiB" in told.errors()[0][2]
