"""What acts at once although an Opal client does not read, or an earlier request takes long."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support import published
from tests.support.opal import batch, request
from tests.support.stage import Turn, says
from tests.support.surroundings import surroundings

from fairlead.agent.options import AgentOptions
from fairlead.testing import ProviderServer
from fairlead.wire.host_connection import Connection
from fairlead.wire.opal import opal_server
from fairlead.wire.opal.opal_server import OpalServer
from fairlead.wire.stdio import StdioTransport

FLOOD = {"match": "flood", **says("0123456789abcdef" * 64, repeat=65536, chunk=4096)}
HANG = {"match": "hang", **says("word " * 60, hangAfter=1)}


class Unread:
    """A server whose output nobody reads until `frames` does."""

    def __init__(self, root: Path, provider: ProviderServer) -> None:
        around = surroundings(root, provider.url)
        there, self._input = os.pipe()
        self._output, here = os.pipe()
        fcntl.fcntl(here, fcntl.F_SETPIPE_SZ, 4096)  # the next longer write blocks: an output that is full stays so
        self.connection = Connection(StdioTransport(there, here, line_bytes=1 << 20), queue_bytes=1 << 16)
        options = AgentOptions(model="fake/fake-1", env=around.env, cwd=around.cwd)
        self.server = OpalServer(self.connection, opal_server.session_defaults(options))
        self.connection.start()
        self.serving = asyncio.create_task(self.server.serve())
        #: What went over the pipes in either direction.
        self.written: list[bytes] = []
        self.heard: list[bytes] = []

    def say(self, *lines: Any) -> None:
        self.written.append(batch(*lines))
        os.write(self._input, self.written[-1])

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110  # whether an output is full, no event tells
                await asyncio.sleep(0)

    async def frames(self, last: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        """Read, as a client does at last, up to a frame."""
        found: list[dict[str, Any]] = []
        rest = b""
        async with asyncio.timeout(20):
            while not any(map(last, found)):
                *lines, rest = (rest + await asyncio.to_thread(os.read, self._output, 1 << 16)).split(b"\n")
                self.heard += lines
                found += map(json.loads, lines)
        return found

    async def close(self) -> None:
        self.server.cancel()
        await self.server.close()
        self.serving.cancel()
        os.close(self._input)
        os.close(self._output)


@asynccontextmanager
async def unread(root: Path, turns: Sequence[Turn]) -> AsyncGenerator[tuple[Unread, ProviderServer]]:
    async with ProviderServer(turns) as provider:
        host = Unread(root, provider)
        try:
            yield host, provider
            published.check("opal", b"".join(host.written), host.heard)
        finally:
            await host.close()


def start(name: str) -> list[dict[str, Any]]:
    """Start a session, and prompt it with its own name."""
    return [
        request(f"start {name}", "session/start", session_id=name),
        request(f"prompt {name}", "agent/prompt", session_id=name, text=name),
    ]


async def test_an_abort_works_while_output_is_not_read(tmp_path: Path) -> None:
    async with unread(tmp_path, [FLOOD, HANG]) as (host, provider):
        host.say(*start("hang"))
        await provider.until(lambda server: len(server.requests) == 1)
        host.say(*start("flood"))
        await host.until(lambda: host.connection.output.paused)
        # The first one has its turn still; what comes behind it waits for a reader.
        host.say(request("first", "session/list"), request("list", "session/list"))
        host.say(request("abort", "agent/abort", session_id="hang"))
        await provider.until(lambda server: server.disconnections == 1)
        assert host.connection.output.paused
        host.say(request("stop", "agent/abort", session_id="flood"))
        frames = await host.frames(lambda frame: frame.get("id") == "list")
        ids = [frame["id"] for frame in frames if "id" in frame]
        assert ids.index("abort") < ids.index("list"), "it did not wait for its turn"


@pytest.mark.parametrize("name", ["hang", "hang é"], ids=["plain", "escaped"])
async def test_an_abort_right_behind_its_prompt_ends_the_run(tmp_path: Path, name: str) -> None:
    async with unread(tmp_path, [FLOOD, HANG]) as (host, _):
        host.say(*start("flood"))
        await host.until(lambda: host.connection.output.paused)
        host.say(*start(name), request("abort", "agent/abort", session_id=name))
        await host.until(lambda: len(list(host.connection.list_queued())) >= 2)
        host.say(request("stop", "agent/abort", session_id="flood"))
        frames = await host.frames(
            lambda frame: frame.get("params", {}).get("session_id") == name and frame["params"]["type"] == "agent_abort"
        )
        answered = {frame["id"]: frame for frame in frames if "id" in frame}
        assert "result" in answered[f"prompt {name}"] and "result" in answered["abort"]


async def test_a_ping_is_answered_at_once(tmp_path: Path) -> None:
    async with unread(tmp_path, [FLOOD]) as (host, _):
        host.say(*start("flood"))
        await host.until(lambda: host.connection.output.paused)
        host.say(request("first", "session/list"), request("list", "session/list"), request("ping", "opal/ping"))
        await host.until(lambda: len(list(host.connection.list_queued())) == 1)
        host.say(request("stop", "agent/abort", session_id="flood"))
        frames = await host.frames(lambda frame: frame.get("id") == "list")
        ids = [frame["id"] for frame in frames if "id" in frame]
        assert ids.index("ping") < ids.index("list")
