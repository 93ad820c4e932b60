"""A session and its host in one process, with real pipes between them: for what only the session's side can begin."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.session.scene import PATIENCE, a_session
from tests.support import published

from fairlead.config.settings import OutputSettings
from fairlead.core.events import Event
from fairlead.core.runtime import Ui
from fairlead.session.session import Session
from fairlead.testing import Scripted, Turn
from fairlead.wire.host_connection import Connection
from fairlead.wire.pi.paced_updates import Pacing
from fairlead.wire.pi.pi_server import PiServer
from fairlead.wire.pi.pi_stdio import server_type
from fairlead.wire.pi.profile import profile_named
from fairlead.wire.stdio import StdioTransport

Frame = dict[str, Any]


class Desk:
    """The host's side of the pipes, and the session behind the other side."""

    def __init__(self, session: Session, server: PiServer, reader: asyncio.StreamReader, stdin: int) -> None:
        self.session = session
        self.server = server
        self.frames: list[Frame] = []
        self.events: list[Event] = []
        session.subscribe(self.events.append)
        self._reader = reader
        self._stdin = stdin
        #: What went over the pipes in either direction.
        self.written: list[bytes] = []
        self.heard: list[bytes] = []

    @property
    def ui(self) -> Ui:
        return self.session.host.ui

    def send(self, *frames: Frame) -> None:
        """Write lines, all in one go."""
        self.written += [json.dumps(frame).encode() + b"\n" for frame in frames]
        os.write(self._stdin, b"".join(self.written[-len(frames) :]))

    def answer(self, asked: Frame, **fields: Any) -> None:
        self.send({"type": "extension_ui_response", "id": asked["id"], **fields})

    async def read(self, is_wanted: Callable[[Frame], bool] = lambda frame: True) -> Frame:
        """The next frame of that kind."""
        async with asyncio.timeout(PATIENCE):
            while True:
                line = await self._reader.readline()
                assert line, "the output ended"
                self.heard.append(line)
                self.frames.append(json.loads(line))
                if is_wanted(self.frames[-1]):
                    return self.frames[-1]

    async def asked(self, method: str) -> Frame:
        """The next request for that."""
        return await self.read(lambda frame: frame.get("method") == method)

    async def response(self, **fields: Any) -> Frame:
        """The response to a command that gets one: all that was sent before it has been read then."""
        self.send({"id": "sync", "type": "get_state", **fields})
        return await self.read(lambda frame: frame["type"] == "response" and frame.get("id") == "sync")

    def leave(self) -> None:
        """Close the input, as a host does that is done."""
        os.close(self._stdin)
        self._stdin = -1

    def hang_up(self) -> None:
        if self._stdin >= 0:
            self.leave()


@asynccontextmanager
async def desk(tmp_path: Path, dialect: str = "omp", *turns: Turn, **changes: Any) -> AsyncGenerator[Desk]:
    """A session that serves a host of that dialect. Its model plays the turns."""
    stdin, to_agent = os.pipe()
    from_agent, stdout = os.pipe()
    session = a_session(Scripted(turns or [Turn(text="ok")]), tmp_path, **changes)
    connection = Connection(StdioTransport(stdin, stdout, line_bytes=1 << 20), queue_bytes=1 << 23)
    pacing = Pacing.of(OutputSettings())
    profile = profile_named(dialect)
    make = server_type(profile)
    server = make(connection, session, profile, pacing=pacing, updates="full", persist=lambda key, value: None)
    connection.on_end = server.questions.host_left
    reader = asyncio.StreamReader(limit=1 << 24)
    loop = asyncio.get_running_loop()
    reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(from_agent, "rb"))
    connection.start()
    serving = asyncio.create_task(server.serve())
    host = Desk(session, server, reader, to_agent)
    try:
        yield host
        published.check(dialect, b"".join(host.written), host.heard)
    finally:
        await session.close()
        host.hang_up()
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([serving])
            await connection.output.wait_flushed(PATIENCE)
        reading.close()
        os.close(stdin)
        os.close(stdout)
