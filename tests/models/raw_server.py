"""Servers on loopback that say exactly the given bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class RawServer:
    """Hands each connection to `talk`, and counts."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self.connections = 0
        self.connected = asyncio.Event()
        #: Set when a client has left.
        self.left = asyncio.Event()
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        self.connected.set()
        try:
            await self._talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            self.left.set()
            writer.transport.abort()

    async def end(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def raw_server(talk: Talk, *, buffered: int = 65536) -> AsyncGenerator[RawServer]:
    raw = RawServer(talk)
    server = await asyncio.start_server(raw.handle, "127.0.0.1", 0, limit=buffered)
    raw.port = server.sockets[0].getsockname()[1]
    try:
        yield raw
    finally:
        server.close()
        await raw.end()
        await server.wait_closed()


async def read_request(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    """The head of a request, and its body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin1")
    length = next((int(line.split(":")[1]) for line in head.split("\r\n") if line.lower().startswith("content-length:")), 0)
    return head, await reader.readexactly(length)


def answering(*answers: bytes) -> Talk:
    """Answers requests in turn, per connection, then closes it."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await read_request(reader)
            writer.write(answer)
            await writer.drain()

    return talk


def saying_nothing() -> Talk:
    """Accepts connections and waits until the client leaves."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            pass

    return talk


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until a condition holds; the test's time limit bounds it."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.001)  # a server in another thread needs the interpreter too
