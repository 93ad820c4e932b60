"""A real server on loopback, and a small HTTP client for it."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace
from tests.serve.scene import PATIENCE, nothing, options
from websockets.asyncio.client import ClientConnection, connect

from fairlead.serve.access import OWNER, Access, digest
from fairlead.serve.http_server import Binding, Server, ServerOptions, bind
from fairlead.serve.sessions.spaces import make_spaces
from fairlead.testing import ProviderServer

TOKEN = "a-token-for-the-tests-0123456789abcdef"


class Reply(Struct):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return self.json["error"]["code"]


class Web(Struct, kw_only=True):
    """A client of a running server."""

    server: Server
    provider: ProviderServer
    access: Access
    binding: Binding
    project: Path
    token: str | None = TOKEN
    tls: ssl.SSLContext | None = None

    @property
    def port(self) -> int:
        return self.binding.port

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        raw: bytes | None = None,
    ) -> Reply:
        """Send a request and read the whole response."""
        async with asyncio.timeout(PATIENCE), await self.open(method, path, body, headers=headers, raw=raw) as stream:
            return Reply(stream.status, stream.headers, await stream.rest())

    async def open(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        raw: bytes | None = None,
    ) -> Stream:
        """Send a request and read the head of the response."""
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        given = {"Host": f"127.0.0.1:{self.port}", "Connection": "close", "Content-Length": str(len(data))}
        if self.token is not None:
            given["Authorization"] = f"Bearer {self.token}"
        if data:
            given["Content-Type"] = "application/json"
        given |= headers or {}
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls)
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items() if value)]
        writer.write("\r\n".join([*lines, "", ""]).encode() + data)
        stream = Stream(reader, writer)
        try:
            await stream.read_head()
        except BaseException:
            writer.close()
            raise
        return stream

    def socket(self, path: str, *, more_headers: Mapping[str, str] | None = None, **more: Any) -> connect:
        """Return a WebSocket, to be used with `async with`."""
        headers = dict(more_headers or {})
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        scheme = "ws" if self.tls is None else "wss"
        url = f"{scheme}://127.0.0.1:{self.port}{path}"
        return connect(url, additional_headers=headers, ssl=self.tls, **more)

    async def session(self, **body: Any) -> str:
        """Begin a session and return its path."""
        reply = await self.call("POST", "/v1/sessions", body)
        assert reply.status == 201, reply
        return f"/v1/sessions/{reply.json['id']}"


class Stream:
    """A response that may not end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self.status = 0
        self.headers: dict[str, str] = {}
        self._pieces = self._chunks()
        #: What has arrived and was not looked at.
        self._buffer = b""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def read_head(self) -> None:
        async with asyncio.timeout(PATIENCE):
            lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        self.status = int(lines[0].split()[1])
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}

    async def rest(self) -> bytes:
        if self.headers.get("transfer-encoding") == "chunked":
            return b"".join([piece async for piece in self._chunks()])
        return await self._reader.read()

    async def _chunks(self) -> AsyncGenerator[bytes]:
        while True:
            size = int(await self._reader.readline(), 16)
            piece = await self._reader.readexactly(size)
            await self._reader.readexactly(2)
            if not size:
                return
            yield piece

    async def events(self) -> AsyncGenerator[Any]:
        """Yield the server-sent events, each with its number."""
        while True:
            while b"\n\n" in self._buffer:
                block, _, self._buffer = self._buffer.partition(b"\n\n")
                fields = dict(line.split(": ", 1) for line in block.decode().split("\n") if ": " in line)
                if "data" in fields:
                    yield {**json.loads(fields["data"]), "number": int(fields["id"])}
            piece = await anext(self._pieces, None)
            if piece is None:
                return
            self._buffer += piece

    async def until(self, kind: str) -> list[Any]:
        """Return the events up to one of a type."""
        seen: list[Any] = []
        async with asyncio.timeout(PATIENCE):
            async for event in self.events():
                seen.append(event)
                if event["type"] == kind:
                    return seen
        raise AssertionError(f"no {kind} in {seen}")


@asynccontextmanager
async def web(
    tmp_path: Path,
    turns: Sequence[Any] = ({"text": "ok"},),
    *,
    tokens: Mapping[str, str] | None = None,
    root: Path | None = None,
    asks: bool = False,
    agent: Mapping[str, Any] | None = None,
    **listening: Any,
) -> AsyncGenerator[Web]:
    """Run a server on a free port of loopback, with a scripted provider."""
    async with ProviderServer(list(turns)) as provider, asyncio.timeout(PATIENCE * 3):
        base = options(tmp_path, provider.url, **(agent or {}))
        access = Access({user: digest(token) for user, token in (tokens or {OWNER: TOKEN}).items()})
        how = ServerOptions(port=0, **listening)
        binding = bind(how)
        spaces = make_spaces(tokens or {OWNER: TOKEN}, lambda profile: replace(base), nothing, root=root, asks=asks)
        server = Server(how, binding, access, spaces)
        running = asyncio.create_task(server.run())
        try:
            yield Web(server=server, provider=provider, access=access, binding=binding, project=Path(base.cwd))
        finally:
            server.stop()
            assert await running == 0


async def next_message(socket: ClientConnection) -> Any:
    async with asyncio.timeout(PATIENCE):
        return json.loads(await socket.recv())


async def until_message(socket: ClientConnection, **fields: Any) -> Any:
    """Return the first message with these fields."""
    while True:
        message = await next_message(socket)
        if all(message.get(name) == value for name, value in fields.items()):
            return message
