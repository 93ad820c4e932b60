"""The client side of a WebSocket (RFC 6455) whose messages are lines, with the methods of asyncio's streams."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from contextlib import suppress
from typing import NoReturn
from urllib.parse import urlencode

from fairlead.client.network import ConnectionBroke, Response, ServerAddress, open_request

#: What the server appends to the key, to show that it speaks the protocol.
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#: Bytes of the longest message that is accepted.
LONGEST_MESSAGE = 256 << 20
_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
_NORMAL = 1000
#: Close codes that need no explanation.
_EXPECTED = (_NORMAL, 1005)


class Dial:
    """How to reach a host protocol of a server: `await dial.open()` connects."""

    def __init__(self, address: ServerAddress, path: str, **query: str | None) -> None:
        given = {name: value for name, value in query.items() if value is not None}
        self._address = address
        self._path = f"{path}?{urlencode(given)}" if given else path

    async def open(self, timeout: float | None) -> WebSocketStream:
        """Connect. Raises AgentGone and CommandRefused."""
        key = base64.b64encode(os.urandom(16))
        headers = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": key.decode(),
        }
        try:
            async with asyncio.timeout(timeout):
                response = await open_request(self._address, "GET", self._path, headers=headers, timeout=None)
                try:
                    return await self._upgraded(response, key)
                except BaseException:
                    await response.close()
                    raise
        except TimeoutError:
            raise ConnectionBroke(f"The server at {self._address.url} did not answer in time.", was_sent=True) from None

    async def _upgraded(self, response: Response, key: bytes) -> WebSocketStream:
        if response.status >= 400:
            raise await response.refusal("connect")
        expected = base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest()).decode()
        if response.status != 101 or response.headers.get("sec-websocket-accept") != expected:
            raise self._address.not_fairlead(f"it does not open a WebSocket (status {response.status})")
        return WebSocketStream(self._address.url, response)


class WebSocketStream:
    """An open WebSocket. Reading returns each message with a line end; writing sends each line as a message."""

    def __init__(self, url: str, response: Response) -> None:
        self._url = url
        self._reader, self._writer, first = response.detach()
        self._buffer = bytearray(first)
        self._is_closing = False

    # As asyncio.StreamReader

    async def read(self, n: int = -1, /) -> bytes:
        """Return the next message and a line end, or nothing at the end. Raises OSError if the connection broke."""
        message = bytearray()
        while True:
            is_last, code, data = await self._frame()
            if code == _CLOSE:
                return self._closed(data)
            if code == _PING:
                self._send(_PONG, data)
            elif code in (_TEXT, _BINARY, _CONTINUATION):
                message += data
                if len(message) > LONGEST_MESSAGE:
                    raise ConnectionError(f"{self._url} sent a message that is longer than {LONGEST_MESSAGE} bytes.")
                if is_last:
                    return bytes(message) + b"\n"

    def _closed(self, data: bytes) -> bytes:
        code = int.from_bytes(data[:2], "big") if len(data) >= 2 else _NORMAL
        if not self._is_closing:
            self.close()
        if code in _EXPECTED:
            return b""
        reason = data[2:].decode("utf-8", "replace")
        why = f"code {code}: {reason}" if reason else f"code {code}"
        raise ConnectionError(f"The server at {self._url} closed the connection with {why}.")

    async def _frame(self) -> tuple[bool, int, bytes]:
        """Return whether a frame is the last of its message, its code and its content."""
        head = await self._take(2)
        size = head[1] & 0x7F
        if head[0] & 0x70 or head[1] & 0x80:
            raise ConnectionError(f"{self._url} sent a frame that is not valid.")
        if size >= 126:
            size = int.from_bytes(await self._take(2 if size == 126 else 8), "big")
        if size > LONGEST_MESSAGE:
            raise ConnectionError(f"{self._url} sent a message that is longer than {LONGEST_MESSAGE} bytes.")
        return bool(head[0] & 0x80), head[0] & 0x0F, await self._take(size)

    async def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            data = await self._reader.read(1 << 16)
            if not data:
                self._broke()
            self._buffer += data
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _broke(self) -> NoReturn:
        raise ConnectionError(f"The connection to {self._url} broke.")

    # As asyncio.StreamWriter

    def write(self, data: bytes, /) -> None:
        """Send a line, which ends with a line end, as one message."""
        if self._is_closing:
            raise ConnectionError("The connection is closed.")
        self._send(_TEXT, data[:-1])

    async def drain(self) -> None:
        await self._writer.drain()

    def close(self) -> None:
        """Send a close frame and close the connection."""
        if not self._is_closing:
            self._is_closing = True
            with suppress(OSError, RuntimeError):
                self._send(_CLOSE, _NORMAL.to_bytes(2, "big"))
            self._writer.close()

    async def wait_closed(self) -> None:
        await self._writer.wait_closed()

    @property
    def transport(self) -> asyncio.WriteTransport:
        return self._writer.transport

    def _send(self, code: int, data: bytes) -> None:
        if self._writer.is_closing():
            return
        size = len(data)
        if size < 126:
            length = bytes([0x80 | size])
        else:
            length = b"\xfe" + size.to_bytes(2, "big") if size < 1 << 16 else b"\xff" + size.to_bytes(8, "big")
        mask = os.urandom(4)
        self._writer.write(bytes([0x80 | code]) + length + mask + _masked(data, mask))


def _masked(data: bytes, mask: bytes) -> bytes:
    """Return data as a client must send it. One operation on long integers is much faster than a loop."""
    size = len(data)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "little") ^ int.from_bytes(key, "little")).to_bytes(size, "little")
