"""Requests to `fairlead serve` over HTTP/1.1, with TLS: one connection per request, and WebSockets (RFC 6455) for lines."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import ipaddress
import os
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import NoReturn
from urllib.parse import quote, urlencode, urlsplit

import h11
import msgspec

from fairlead.errors import AgentGone, ClientError, CommandRefused
from fairlead.protocol.http.http_objects import ErrorBody

#: Bytes that are read at a time.
READ_SIZE = 1 << 16
#: Bytes of the longest body that is read as a whole.
LONGEST_BODY = 256 << 20
#: Bytes of an error page that are read.
LONGEST_ERROR = 1 << 16
#: Seconds that a TLS connection has to close.
CLOSE_PATIENCE = 1.0


class ConnectionBroke(AgentGone):
    """The server could not be reached, or the connection broke. Another attempt may succeed.

    `was_sent` is false if the server cannot have seen the request.
    """

    def __init__(self, text: str, *, was_sent: bool) -> None:
        super().__init__(text)
        self.was_sent = was_sent


class ServerRefused(CommandRefused):
    """The server refused a request. `status` is the HTTP status, `retry_after` the seconds after which to try again."""

    def __init__(self, text: str, *, command: str, code: str, status: int, retry_after: float | None) -> None:
        super().__init__(text, command=command, code=code)
        self.status = status
        self.retry_after = retry_after


class ServerAddress:
    """Where a server is, and the token for it. The token is sent in a header only, and never shown."""

    def __init__(self, url: str, token: str, *, tls: ssl.SSLContext | None = None, insecure: bool = False) -> None:
        """Take an address such as `https://host:8787`.

        `tls` replaces the default TLS settings, which trust what the system trusts. `insecure` allows http to other machines.
        Raises ClientError if the address or the token cannot be used.
        """
        try:
            parsed = urlsplit(url)
            port = parsed.port
        except ValueError:
            raise ClientError("The address of the server is malformed. Expected https://HOST:PORT.") from None
        if parsed.username is not None or parsed.password is not None or parsed.query or parsed.fragment:
            raise ClientError("The address of the server must not have a user, a query or a fragment. Give the token as `token`.")
        if parsed.scheme not in ("http", "https") or not parsed.hostname:
            raise ClientError(f"Expected an address such as https://HOST:PORT, found {url!r}.")
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ClientError("The token must be printable ASCII without spaces. It is in the file serve.token of the server.")
        self.is_tls = parsed.scheme == "https"
        if not self.is_tls and not insecure and not _is_loopback(parsed.hostname):
            raise ClientError(
                f"http would send the token to {parsed.hostname} unencrypted. "
                "Use https, or pass insecure=True if the network is safe."
            )
        self.url = f"{parsed.scheme}://{parsed.netloc}{parsed.path.rstrip('/')}"
        self.host = parsed.hostname
        self.port = port or (443 if self.is_tls else 80)
        self._netloc = parsed.netloc
        self._prefix = parsed.path.rstrip("/")
        self._token = token
        self._tls = tls
        if self.is_tls and tls is None:
            self._tls = ssl.create_default_context()

    def __repr__(self) -> str:
        return f"ServerAddress({self.url!r})"

    def request(self, method: str, path: str, headers: Mapping[str, str]) -> h11.Request:
        """Return the head of a request."""
        common = {"Host": self._netloc, "Authorization": f"Bearer {self._token}"}
        return h11.Request(method=method, target=self._prefix + path, headers=list({**common, **headers}.items()))

    async def connect(self, timeout: float | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection. Raises ConnectionBroke, and AgentGone if another attempt cannot help."""
        try:
            async with asyncio.timeout(timeout):
                if not self.is_tls:
                    return await asyncio.open_connection(self.host, self.port, limit=READ_SIZE)
                return await asyncio.open_connection(
                    self.host, self.port, ssl=self._tls, limit=READ_SIZE, ssl_shutdown_timeout=CLOSE_PATIENCE
                )
        except ssl.SSLCertVerificationError as error:
            raise AgentGone(
                f"The certificate of {self.url} cannot be trusted: {error.verify_message}. "
                "Pass an SSLContext that trusts it as `tls`."
            ) from None
        except ssl.SSLError as error:
            if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
                raise AgentGone(f"The server at {self.url} does not speak TLS. Is its address http://?") from None
            raise ConnectionBroke(f"No TLS connection to {self.url}: {error}.", was_sent=False) from None
        except TimeoutError:
            raise ConnectionBroke(f"The server at {self.url} did not answer in time.", was_sent=False) from None
        except (OSError, UnicodeError) as error:
            raise ConnectionBroke(f"The server at {self.url} cannot be reached: {error}.", was_sent=False) from None

    def make_not_fairlead_error(self, found: str) -> AgentGone:
        """Return the error for a server that answers, but not as fairlead does."""
        return AgentGone(f"{self.url} is not the address of a fairlead server: {found}.")


class Response:
    """A response whose head has arrived. Close it."""

    def __init__(
        self, address: ServerAddress, parser: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._address = address
        self._parser = parser
        self._reader = reader
        self._writer = writer
        self.status = 0
        self.headers: dict[str, str] = {}

    async def read_head(self) -> None:
        while True:
            event = await self.next_event()
            if isinstance(event, h11.Response | h11.InformationalResponse):
                if isinstance(event, h11.InformationalResponse) and event.status_code != 101:
                    continue
                self.status = event.status_code
                self.headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in event.headers}
                return
            if not isinstance(event, h11.Data):
                self._broke()

    async def pieces(self, silence: float | None = None) -> AsyncGenerator[bytes]:
        """Yield the pieces of the body. Raises ConnectionBroke if it breaks off, or nothing comes for `silence` seconds."""
        while True:
            try:
                async with asyncio.timeout(silence):
                    event = await self.next_event()
            except TimeoutError:
                self._broke()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return
            else:
                self._broke()

    async def read(self, limit: int = LONGEST_BODY) -> bytes:
        """Return the body, or its first `limit` bytes."""
        taken: list[bytes] = []
        size = 0
        async for piece in self.pieces():
            taken.append(piece)
            size += len(piece)
            if size >= limit:
                break
        return b"".join(taken)[:limit]

    async def next_event(self) -> object:
        """Return the next event of the parser, which is not NEED_DATA. Raises ConnectionBroke and AgentGone."""
        while True:
            try:
                event = self._parser.next_event()
                if event is not h11.NEED_DATA:
                    return event
                self._parser.receive_data(await self._reader.read(READ_SIZE))
            except h11.RemoteProtocolError as error:
                if self.status or self._reader.at_eof():
                    self._broke()
                raise self._address.make_not_fairlead_error(f"its answer is not HTTP ({error})") from None
            except OSError:
                self._broke()

    def detach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
        """Return the streams of a connection that speaks another protocol now, and what has arrived already."""
        return self._reader, self._writer, self._parser.trailing_data[0]

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_PATIENCE):
                await self._writer.wait_closed()

    def _broke(self) -> NoReturn:
        advice = "" if self.status or self._address.is_tls else " Is its address https://?"
        raise ConnectionBroke(f"The connection to {self._address.url} broke.{advice}", was_sent=True)

    async def refusal(self, command: str) -> ClientError:
        """Return the error that a response with a status of 400 or more reports."""
        body = await self.read(LONGEST_ERROR)
        try:
            error = msgspec.json.decode(body, type=ErrorBody).error
        except (msgspec.DecodeError, UnicodeError):
            if self.status in (502, 503, 504):  # a proxy whose server is away
                text = f"The server at {self._address.url} is away (status {self.status})."
                return ConnectionBroke(text, was_sent=True)
            return self._address.make_not_fairlead_error(f"it answers {command} with status {self.status}")
        retry = self.headers.get("retry-after", "")
        text = error.message
        if self.status in (401, 403):
            text = f"The server at {self._address.url} refuses the request: {text}"
        after = float(retry) if retry.isascii() and retry.isdigit() else None
        return ServerRefused(text, command=command, code=error.code, status=self.status, retry_after=after)


async def open_request(
    address: ServerAddress,
    method: str,
    path: str,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float | None,
) -> Response:
    """Send a request and read the head of the response. `timeout` bounds the connection; the caller bounds the rest.

    Raises ConnectionBroke and AgentGone.
    """
    given = {"Connection": "close", **(headers or {})}
    if body is not None:
        given |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    elif method != "GET":
        given["Content-Length"] = "0"
    reader, writer = await address.connect(timeout)
    parser = h11.Connection(h11.CLIENT)
    response = Response(address, parser, reader, writer)
    try:
        data = parser.send(address.request(method, path, given)) or b""
        data += (parser.send(h11.Data(data=body)) or b"") if body else b""
        data += parser.send(h11.EndOfMessage()) or b""
        with suppress(OSError):  # the answer may say why
            writer.write(data)
            await writer.drain()
        await response.read_head()
    except BaseException:
        writer.close()
        raise
    return response


def path_part(text: str) -> str:
    """Return a text as one part of a path."""
    return quote(text, safe="")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
                    return await self._upgrade(response, key)
                except BaseException:
                    await response.close()
                    raise
        except TimeoutError:
            raise ConnectionBroke(f"The server at {self._address.url} did not answer in time.", was_sent=True) from None

    async def _upgrade(self, response: Response, key: bytes) -> WebSocketStream:
        if response.status >= 400:
            raise await response.refusal("connect")
        expected = base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest()).decode()
        if response.status != 101 or response.headers.get("sec-websocket-accept") != expected:
            raise self._address.make_not_fairlead_error(f"it does not open a WebSocket (status {response.status})")
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
                return self._read_close(data)
            if code == _PING:
                self._send(_PONG, data)
            elif code in (_TEXT, _BINARY, _CONTINUATION):
                message += data
                if len(message) > LONGEST_MESSAGE:
                    raise ConnectionError(f"{self._url} sent a message that is longer than {LONGEST_MESSAGE} bytes.")
                if is_last:
                    return bytes(message) + b"\n"

    def _read_close(self, data: bytes) -> bytes:
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
        self._writer.write(bytes([0x80 | code]) + length + mask + _mask(data, mask))


def _mask(data: bytes, mask: bytes) -> bytes:
    """Return data as a client must send it. One operation on long integers is much faster than a loop."""
    size = len(data)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "little") ^ int.from_bytes(key, "little")).to_bytes(size, "little")
