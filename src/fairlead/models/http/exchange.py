"""One request and its response on one connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Protocol, TypeAlias
from urllib.parse import quote, urlsplit

from msgspec import Struct

import fairlead
from fairlead.core.runtime import CancelToken
from fairlead.core.secrets import learn_headers, learn_url
from fairlead.errors import ProviderError
from fairlead.models.http.framing import (
    IN_NAMES,
    IN_VALUES,
    LONGEST_HEAD,
    Body,
    BodyUntilClose,
    ChunkedBody,
    FixedBody,
    Head,
    MalformedBody,
    NotHttp,
    head_end,
    plain_head,
    receive_head,
)
from fairlead.models.http.http_connection import ConnectionLost, HttpConnection, IdleTimeout
from fairlead.models.http.proxy import Proxy

if TYPE_CHECKING:
    import h11

#: Bytes of a body that is not joined with the head of its request.
_LARGE_BODY = 1 << 20
#: Headers that say where a request ends. A configured value would break the connection.
_RESERVED_HEADERS = frozenset({"content-length", "transfer-encoding", "connection", "upgrade", "expect", "te", "trailer"})
#: The most digits of a length in bytes.
_MOST_DIGITS = 18
_SAFE_IN_PATH = "/%:@!$&'()*+,;=~-._"


class HttpRequest(Struct):
    """A request as adapters build it. `host`, `content-length` and the like are added when it is sent."""

    method: str
    url: str
    headers: list[tuple[str, str]]
    body: bytes
    #: Whether it belongs to a login, so that the request and its answer are full of secrets. A tap does not see it.
    is_private: bool = False


class ExchangeTap(Protocol):
    """Sees the response to one request. It must neither block nor raise."""

    def head_received(self, status: int, headers: Mapping[str, str]) -> None: ...

    def body_received(self, data: bytes) -> None:
        """Called with each piece of the body, without its framing."""
        ...

    def exchange_ended(self, error: BaseException | None) -> None:
        """Called once, when the body was read, or with the error that ended the exchange before."""
        ...


#: Called with every request that is not private. It must neither block nor raise.
HttpTap: TypeAlias = Callable[[HttpRequest], ExchangeTap]


class RequestAborted(Exception):
    """The `CancelToken` of a request fired."""


class HttpRoute(Struct, frozen=True):
    """Where a request goes. Kept connections are grouped by route."""

    scheme: str
    host: str
    port: int
    proxy: Proxy | None

    @property
    def authority(self) -> str:
        """The host and port, as a Host header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.scheme == "https" else 80) else f"{host}:{self.port}"


class HttpResponse:
    """A response whose head has arrived. Its body can be read once, with `read` or `chunks`."""

    def __init__(self, status: int, headers: dict[str, str], body: Body, exchange: Exchange) -> None:
        self.status = status
        #: Names are in lower case. The values of repeated headers are joined by commas.
        self.headers = headers
        #: Set it when the rest of the body does not matter: the connection is then kept if the response ends soon.
        self.rest_is_noise = False
        self.body = body
        self.tap: ExchangeTap | None = None
        self._exchange = exchange

    async def read(self, limit: int = 1 << 20, patience: float | None = None) -> bytes:
        """Return the body, or its first `limit` bytes, or what has arrived of it after `patience` seconds.

        Raises ProviderError if the connection breaks, and RequestAborted if the request is aborted.
        """
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
            if not timer.expired():  # a timeout of the network, which is a failure
                raise
        return b"".join(parts)[:limit]

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body, in one piece per network read. Raises the same as `read`."""
        exchange, body = self._exchange, self.body
        framing_since: float | None = None
        while not body.complete:
            # Without a coroutine for each piece: a slow answer costs little more than waking up for it.
            if (arrival := exchange.arrival()) is not None:
                await arrival
            payload = exchange.take(body)
            if payload:
                framing_since = None
                if self.tap is not None:
                    self.tap.body_received(payload)
                yield payload
            elif framing_since is None:
                framing_since = monotonic()
            elif monotonic() - framing_since > exchange.idle_timeout:
                raise exchange.idle("only the framing of chunks")


class Exchange:
    """Sends a request and reads the response, until `cancel` fires."""

    def __init__(self, connection: HttpConnection, route: HttpRoute, cancel: CancelToken, idle_timeout: float) -> None:
        self.connection = connection
        self.route = route
        #: Whether the server will serve another request on this connection.
        self.keep_alive = False
        self._cancel = cancel
        self.idle_timeout = idle_timeout
        #: The part of the body that arrived together with the head.
        self._ahead = b""

    async def ask(self, request: HttpRequest) -> HttpResponse | None:
        """Send a request and return its response once the head has arrived; None if the connection ended before a byte of it.

        Raises ProviderError if the request cannot be sent or the response is not HTTP, and RequestAborted.
        """
        target, headers = self._target(request), self._headers(request)
        lines = [f"{request.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
        head, body = "\r\n".join(lines).encode("latin1"), request.body
        if len(body) < _LARGE_BODY:
            self.connection.send(head + body)
        else:
            self.connection.send(head)
            self.connection.send(memoryview(body))  # what is not sent at once is copied once
        try:
            answer, self._ahead = await self._receive(request.method, target)
        except NotHttp as error:
            if not error.received:
                return None
            raise error.explain(self.route.authority) from None
        return self._response(request, answer)

    async def _receive(self, method: str, target: str) -> tuple[Head | h11.Response, bytes]:
        """Return the head of the response and what arrived after it. Raises NotHttp."""
        received = b""
        read = self._read_in_time()
        while not (end := head_end(received)) and len(received) <= LONGEST_HEAD:
            try:
                more = await read()
            except ConnectionLost:
                more = b""
            if not more:
                raise NotHttp(received)
            received += more
        plain = plain_head(received[:end]) if end else None
        if plain is not None:
            return plain, received[end:]
        import h11  # noqa: PLC0415  takes 5 ms

        wire = h11.Connection(our_role=h11.CLIENT)
        wire.send(h11.Request(method=method, target=target, headers=[("host", self.route.authority)]))
        wire.send(h11.EndOfMessage())
        return await receive_head(wire, read, received)

    def outlive_request(self) -> None:
        """Read on even if the request is cancelled: it has its answer, and only the connection still matters."""
        self._cancel = CancelToken()

    def arrival(self) -> asyncio.Future[None] | None:
        """Return a future that is done when there may be more of the body, or None if there is more now."""
        return None if self._ahead or self._cancel.fired else self.connection.arrival(self.idle_timeout)

    def take(self, body: Body) -> bytes:
        """Return the next piece of a body; empty if only framing arrived, or nothing. Raises ProviderError or RequestAborted."""
        if self._cancel.fired:
            raise RequestAborted
        try:
            data = self._ahead or self.connection.take()
            self._ahead = b""
            if data:
                return body.feed(data)
        except IdleTimeout:
            raise self.idle("no data") from None
        except ConnectionLost as error:
            raise ProviderError("terminated: the connection broke in the middle of the answer", transient=True) from error
        except MalformedBody as error:
            raise ProviderError(f"terminated: the answer breaks the rules of HTTP, {error}", transient=True) from error
        if data is None:
            return b""
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
        """Return a function that reads, for a head that must be complete one idle timeout after its first byte.

        Otherwise a server could send its head byte by byte, or interim responses (1xx), forever.
        """
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
        """Make the error for a server that has sent nothing useful for too long. `what` says what it sent."""
        what = what[:1].upper() + what[1:]
        return ProviderError(
            f"{what} for {self.idle_timeout:g} s from {self.route.authority} (idle timeout); the connection was closed.",
            transient=True,
        )

    def _target(self, request: HttpRequest) -> str:
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
            if not name or not _consists_of(name, IN_NAMES) or not _consists_of(value, IN_VALUES):
                # The text leaves out the value, which may be a key.
                raise ProviderError(f"The header {name!r} has characters that HTTP forbids; check the API key and headers.")
            if name.lower() in _RESERVED_HEADERS:
                raise ProviderError(
                    f"The header {name!r} cannot be configured: each request sets its own. Remove it from the headers."
                )
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

    def _response(self, request: HttpRequest, answer: Head | h11.Response) -> HttpResponse:
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
        return HttpResponse(answer.status_code, headers, body, self)

    def _length(self, announced: str) -> int:
        if len(announced) > _MOST_DIGITS:
            shown = f"{announced[:_MOST_DIGITS]}…"
            raise ProviderError(
                f"{self.route.authority} announced an answer of {shown} bytes, which is impossible.", transient=True
            )
        return int(announced)


def _consists_of(text: str, allowed: bytes) -> bool:
    """Whether all characters of a text are among those that are allowed, in Latin 1."""
    try:
        return not text.encode("latin1").translate(None, allowed)
    except UnicodeEncodeError:
        return False
