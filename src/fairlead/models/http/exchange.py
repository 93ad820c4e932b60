"""One request and its answer on one connection."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct

import fairlead
from fairlead.core.runtime import Cancel
from fairlead.core.secrets import learn_headers, learn_url, redacted
from fairlead.errors import ProviderError
from fairlead.models.http.connection import ConnectionLost, HttpConnection, IdleTimeout
from fairlead.models.http.framing import Body, BodyUntilClose, ChunkedBody, FixedBody, MalformedBody
from fairlead.models.http.proxy import Proxy

if TYPE_CHECKING:
    import h11

_LONGEST_HEAD = 65536
#: Interim answers (1xx) before the final one.
_MOST_INTERIM = 100
_HEAD_END = re.compile(rb"\r?\n\r?\n")
#: A final answer of HTTP/1.1, whose lines end and look as they should.
_PLAIN_HEAD = re.compile(
    rb"HTTP/1\.1 ([2-5]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?\r\n"
    rb"((?:[-!#$%&'*+.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n)*)\r\n"
)
_SWITCH = re.compile(rb"HTTP/1\.\d 101\b")
_HEADER_NAME = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
#: What says where a request ends. Another program's idea of it would break the connection.
_NOT_TO_BE_CONFIGURED = frozenset({"content-length", "transfer-encoding", "connection", "upgrade", "expect", "te", "trailer"})
#: Of a number of bytes.
_MOST_DIGITS = 18
_SAFE_IN_PATH = "/%:@!$&'()*+,;=~-._"


class HttpRequest(Struct):
    """A request as adapters make it; `host`, `content-length` and the like are added on the way."""

    method: str
    url: str
    headers: list[tuple[str, str]]
    body: bytes


class RequestAborted(Exception):
    """The `Cancel` given with a request fired."""


class Route(Struct, frozen=True):
    """Where a request goes; connections are kept by it."""

    scheme: str
    host: str
    port: int
    proxy: Proxy | None

    @property
    def authority(self) -> str:
        """As in a Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.scheme == "https" else 80) else f"{host}:{self.port}"


class Head(Struct, frozen=True):
    """The head of an answer, with the names that h11 has for its parts."""

    status_code: int
    #: Names in lower case.
    headers: list[tuple[bytes, bytes]]
    http_version: bytes = b"1.1"


class NotHttp(Exception):
    """What came is no head of an HTTP answer; carries what came, and what is wrong with it unless it just ends."""

    def __init__(self, received: bytes, problem: str | None = None) -> None:
        super().__init__(received, problem)
        self.received = received
        self.problem = problem

    def explained(self, sender: str) -> ProviderError:
        """In words a user can act on."""
        if not self.received.startswith(b"HTTP/1"):
            shown = redacted(self.received[:4096].decode("utf-8", "replace"))[:80]
            return ProviderError(f"{sender} did not answer in HTTP. Its answer begins: {shown!r}")
        if self.problem is not None:
            return ProviderError(f"{sender} gave an answer whose head breaks the rules of HTTP: {self.problem}.")
        return ProviderError(f"Connection error: {sender} closed the connection in the head of its answer.", transient=True)


class Response:
    """An answer whose head has arrived. Its body can be read once, with `read` or `chunks`."""

    def __init__(self, status: int, headers: dict[str, str], body: Body, exchange: Exchange) -> None:
        self.status = status
        #: Names in lower case; values of repeated headers joined by commas.
        self.headers = headers
        #: Set by a reader who has seen all that matters: the connection is kept if the answer ends soon.
        self.rest_is_noise = False
        self.body = body
        self._exchange = exchange

    async def read(self, limit: int = 1 << 20, patience: float | None = None) -> bytes:
        """The body, or its first `limit` bytes, or what has come of it after `patience` seconds."""
        parts: list[bytes] = []
        size = 0
        timer = asyncio.timeout(patience)
        try:
            async with timer:
                async for chunk in self.chunks():
                    parts.append(chunk)
                    size += len(chunk)
                    if size >= limit:
                        break
        except TimeoutError:
            if not timer.expired():  # the network's own, which is a failure
                raise
        return b"".join(parts)[:limit]

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body, in one piece per network read."""
        loop = asyncio.get_running_loop()
        last = loop.time()
        while not self.body.complete:
            payload = await self._exchange.read_body(self.body)
            if payload:
                yield payload
                last = loop.time()
            elif loop.time() - last > self._exchange.idle_timeout:
                raise self._exchange.idle("only the framing of chunks")


class Exchange:
    """Sends a request and reads the answer, until `cancel` fires."""

    def __init__(self, connection: HttpConnection, route: Route, cancel: Cancel, idle_timeout: float) -> None:
        self.connection = connection
        self.route = route
        #: Whether the server is willing to serve another request on this connection.
        self.keep_alive = False
        self._cancel = cancel
        self.idle_timeout = idle_timeout
        #: Part of the body that came together with the head.
        self._ahead = b""

    async def ask(self, request: HttpRequest) -> Response | None:
        """The head of the answer; None if the connection ended without a byte of one."""
        target, headers = self._target(request), self._headers(request)
        lines = [f"{request.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
        self.connection.send("\r\n".join(lines).encode("latin1") + request.body)
        try:
            answer, self._ahead = await self._receive(request.method, target)
        except NotHttp as error:
            if not error.received:
                return None
            raise error.explained(self.route.authority) from None
        return self._response(request, answer)

    async def _receive(self, method: str, target: str) -> tuple[Head | h11.Response, bytes]:
        """The head of the answer and what came after it. Raises NotHttp."""
        received = b""
        read = self._read_in_time()
        while (end := _HEAD_END.search(received)) is None and len(received) <= _LONGEST_HEAD:
            try:
                more = await read()
            except ConnectionLost:
                more = b""
            if not more:
                raise NotHttp(received)
            received += more
        plain = plain_head(received[: end.end()]) if end is not None else None
        if plain is not None and end is not None:
            return plain, received[end.end() :]
        import h11

        wire = h11.Connection(our_role=h11.CLIENT)
        wire.send(h11.Request(method=method, target=target, headers=[("host", self.route.authority)]))
        wire.send(h11.EndOfMessage())
        return await receive_head(wire, read, received)

    async def read_body(self, body: Body) -> bytes:
        """The next piece of a body; empty if only framing came."""
        if self._cancel.fired:
            raise RequestAborted
        try:
            data = self._ahead or await self._read()
            self._ahead = b""
            if data:
                return body.feed(data)
        except ConnectionLost as error:
            raise ProviderError("terminated: the connection broke in the middle of the answer", transient=True) from error
        except MalformedBody as error:
            raise ProviderError(f"terminated: the answer breaks the rules of HTTP, {error}", transient=True) from error
        body.end()
        if not body.complete:
            raise ProviderError("terminated: the server closed the connection in the middle of the answer", transient=True)
        return b""

    async def _read(self) -> bytes:
        try:
            return await self.connection.read(self.idle_timeout)
        except IdleTimeout:
            raise self.idle("no data") from None
        except ConnectionLost:
            if self._cancel.fired:
                raise RequestAborted from None
            raise

    def _read_in_time(self) -> Callable[[], Awaitable[bytes]]:
        """Reads a head, which has to be complete an idle timeout after it began. A server that sends it in drops, or
        interim answers (1xx) without end, would else never be given up."""
        loop = asyncio.get_running_loop()
        began: float | None = None

        async def read() -> bytes:
            nonlocal began
            left = None if began is None else began + self.idle_timeout - loop.time()
            try:
                async with asyncio.timeout(left):
                    data = await self._read()
            except TimeoutError:
                raise self.idle("no complete head") from None
            began = loop.time() if began is None else began
            return data

        return read

    def idle(self, what: str) -> ProviderError:
        """What to raise when the server has sent nothing of use for too long."""
        what = what[:1].upper() + what[1:]
        return ProviderError(
            f"{what} for {self.idle_timeout:g} s from {self.route.authority} (idle timeout); the connection was closed.",
            transient=True,
        )

    def _target(self, request: HttpRequest) -> str:
        from urllib.parse import quote, urlsplit

        url = urlsplit(request.url)
        learn_url(request.url)
        target = quote(url.path or "/", safe=_SAFE_IN_PATH)
        if url.query:
            target += "?" + quote(url.query, safe=_SAFE_IN_PATH + "?")
        if self.route.proxy is not None and self.route.scheme == "http":
            return f"http://{self.route.authority}{target}"
        return target

    def _headers(self, request: HttpRequest) -> list[tuple[str, str]]:
        headers: list[tuple[str, str]] = []
        for name, value in request.headers:
            value = value.strip()
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                # Without the value, which may be a key.
                raise ProviderError(f"The header {name!r} has characters that HTTP forbids; check the API key and headers.")
            if name.lower() in _NOT_TO_BE_CONFIGURED:
                raise ProviderError(f"The header {name!r} belongs to each request by itself; take it out of the configured ones.")
            headers.append((name, value))
        ours = [
            ("host", self.route.authority),
            ("user-agent", f"fairlead/{fairlead.__version__}"),
            ("accept-encoding", "identity"),
        ]
        if request.body or request.method != "GET":
            ours.append(("content-length", str(len(request.body))))
        proxy = self.route.proxy
        if proxy is not None and proxy.authorization is not None and self.route.scheme == "http":
            ours.append(("proxy-authorization", proxy.authorization))
        given = {name.lower() for name, _ in headers}
        sent = [(name, value) for name, value in ours if name not in given] + headers
        learn_headers(sent)
        return sent

    def _response(self, request: HttpRequest, answer: Head | h11.Response) -> Response:
        headers: dict[str, str] = {}
        for raw_name, raw_value in answer.headers:
            name, value = raw_name.decode("latin1"), raw_value.decode("latin1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        body: Body
        if request.method == "HEAD" or answer.status_code in (204, 304):
            body = FixedBody(0)
        elif "transfer-encoding" in headers:
            body = ChunkedBody()
        elif "content-length" in headers:
            body = FixedBody(self._length(headers["content-length"]))
        else:
            body = BodyUntilClose()
        self.keep_alive = answer.http_version == b"1.1" and "close" not in headers.get("connection", "").lower()
        return Response(answer.status_code, headers, body, self)

    def _length(self, announced: str) -> int:
        if len(announced) > _MOST_DIGITS:
            shown = f"{announced[:_MOST_DIGITS]}…"
            raise ProviderError(f"{self.route.authority} announced an answer of {shown} bytes, which cannot be.", transient=True)
        return int(announced)


def plain_head(head: bytes) -> Head | None:
    """The head of an answer in which nothing is out of the ordinary; None if h11 has to look at it.

    Nearly every answer is of this kind, and to load h11 takes longer than to ask a model on the same machine.
    """
    match = _PLAIN_HEAD.fullmatch(head)
    if match is None:
        return None
    headers = [
        (name.lower(), value.strip()) for name, _, value in (line.partition(b":") for line in match[2].split(b"\r\n")[:-1])
    ]
    lengths = [value for name, value in headers if name == b"content-length"]
    codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    if len(lengths) + len(codings) > 1 or not all(map(bytes.isdigit, lengths)) or any(c != b"chunked" for c in codings):
        return None
    return Head(int(match[1]), headers)


async def receive_head(
    wire: h11.Connection, read: Callable[[], Awaitable[bytes]], received: bytes = b""
) -> tuple[h11.Response, bytes]:
    """The head of the answer to what was sent over `wire`, and what came after it. Raises NotHttp.

    h11 gets the head only; `framing` says why. `received` is what has been read already.
    """
    import h11

    interim = 0
    while True:
        match = _HEAD_END.search(received)
        if match is None:
            try:
                more = await read()
            except ConnectionLost:
                more = b""
            # Before it is added: a first read may bring the head and a great deal of the body with it.
            if len(received) > _LONGEST_HEAD:
                raise NotHttp(received, f"it is longer than {_LONGEST_HEAD >> 10} KiB")
            if not more:
                raise NotHttp(received)
            received += more
            continue
        try:
            wire.receive_data(received[: match.end()])
            answer = wire.next_event()
        except h11.RemoteProtocolError as error:
            problem = "101, a change of protocol that nobody asked for" if _SWITCH.match(received) else redacted(str(error))[:200]
            raise NotHttp(received, problem) from None
        received = received[match.end() :]
        # Anything else is an interim answer (1xx), which the final one follows.
        if isinstance(answer, h11.Response):
            return answer, received
        interim += 1
        if interim > _MOST_INTERIM:
            raise NotHttp(b"HTTP/1", f"more than {_MOST_INTERIM} interim answers (1xx) came before it")
