"""Sends HTTP/1.1 requests to model servers and streams the responses, over connections that are kept alive.

The client is small on purpose. It follows no redirects and retries nothing, with one exception that never repeats a request
the server has answered: if a kept connection turns out to be closed before a byte of the response, the request is sent once
more on a new connection.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fairlead.core.runtime import CancelToken
from fairlead.core.secrets import learn_headers, redacted
from fairlead.errors import ProviderError
from fairlead.models.http import pool
from fairlead.models.http.exchange import Exchange, HttpRequest, HttpResponse, HttpRoute, HttpTap, RequestAborted
from fairlead.models.http.framing import NotHttp, receive_head
from fairlead.models.http.http_connection import (
    READ_INTERVAL,
    ConnectionLost,
    HttpConnection,
    IdleTimeout,
    explain,
    open_connection,
)
from fairlead.models.http.proxy import proxy_for
from fairlead.platform.process import run_in_thread

if TYPE_CHECKING:
    from ssl import SSLContext

    from fairlead.models.http.http_connection import TlsContext
    from fairlead.models.http.pool import ConnectionPool

__all__ = ["Http", "HttpRequest", "HttpResponse", "RequestAborted"]

#: Idle connections kept per server, and for how many seconds.
_KEPT = 8
_KEPT_FOR = 90.0
#: How long, and how much, to read of a response whose rest does not matter, so that its connection can be kept.
_LINGER_SECONDS = 2.0
_LINGER_BYTES = 65536
#: Seconds of a TLS handshake after which to check whether the server speaks plain HTTP, and how long the check may take.
_SLOW_HANDSHAKE = 4.0
_CHECK_SECONDS = 3.0


class Http:
    """The connections to model servers.

    All `Http` objects that are used on one event loop and trust the same certificates share their connections: see `pool`.
    """

    def __init__(
        self,
        *,
        connect_timeout: float = 30,
        idle_timeout: float = 300,
        read_interval: float = READ_INTERVAL,
        env: Mapping[str, str] | None = None,
        tap: HttpTap | None = None,
    ) -> None:
        """Make a client. It opens connections when they are needed.

        Args:
            connect_timeout: seconds for everything before a request is sent: name lookup, proxy, TLS.
            idle_timeout: seconds that a server may be silent.
            read_interval: seconds between two reads of a response that arrives in small pieces.
            env: the variables that name proxies and certificates; by default the environment of the process.
            tap: sees the requests and their responses.
        """
        self._connect_timeout = connect_timeout
        self._idle_timeout = idle_timeout
        self._read_interval = read_interval
        self._env = os.environ if env is None else env
        self._joined: ConnectionPool | None = None
        self._tap = tap

    def load(self, url: str) -> None:
        """Load what the first request to `url` needs. This takes a while, so call it from another thread."""
        import h11  # noqa: F401, PLC0415  takes 5 ms  # pyright: ignore[reportUnusedImport]

        ssl.SSLSocket  # noqa: B018  # pyright: ignore[reportUnusedExpression]  # asyncio reads it for every connection

        if url.startswith("https:"):
            with suppress(ProviderError):  # the request that needs the certificates reports the error
                self._tls.get()

    @asynccontextmanager
    async def stream(self, request: HttpRequest, cancel: CancelToken) -> AsyncGenerator[HttpResponse]:
        """Send a request. Inside the block, the head of the response has arrived.

        A connection is used again only if the response was read to its end.

        Args:
            request: what to send.
            cancel: aborts the request when it fires.

        Raises:
            ProviderError: there is no response, or one that cannot be used.
            RequestAborted: `cancel` fired.
        """
        tap = None if self._tap is None or request.is_private else self._tap(request)
        try:
            route = self._route(request.url)
            exchange, response, forget = await self._answer(request, route, cancel)
            del request  # its body may be large, and the response may take minutes
            if tap is not None:
                tap.head_received(response.status, response.headers)
                response.tap = tap
            try:
                _check(response)
                yield response
            except BaseException:
                exchange.connection.abort()
                raise
            finally:
                forget()
        except BaseException as error:
            if tap is not None:
                tap.exchange_ended(error)
            raise
        if tap is not None:
            tap.exchange_ended(None)
        self._part_with(exchange, response)

    async def close(self) -> None:
        """Stop using the connections. If no other `Http` uses them, close those that are kept, and wait until they are closed."""
        pool, self._joined = self._joined, None
        if pool is not None:
            await pool.leave(self)

    @cached_property
    def _tls(self) -> TlsContext:
        """The TLS context. Not made with the object, because a start needs neither."""
        return pool.get_shared_tls(self._env)

    @property
    def _pool(self) -> ConnectionPool:
        """The connections of the running event loop. This joins them on the first use, and again on another loop."""
        if self._joined is not None and self._joined.loop is not asyncio.get_running_loop():
            self._joined.desert(self)
            self._joined = None
        if self._joined is None:
            self._joined = pool.join_pool(self, self._tls)
        return self._joined

    def _route(self, url: str) -> HttpRoute:
        try:
            parts = urlsplit(url)
            scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
            host = host if host is None or host.isascii() else host.encode("idna").decode()
        except ValueError:
            scheme, host, port = "", None, None
        if scheme not in ("http", "https") or not host:
            raise ProviderError(f"{url!r} is not an http:// or https:// URL; check the provider's base URL.")
        port = port or (443 if scheme == "https" else 80)
        return HttpRoute(scheme, host, port, proxy_for(scheme, host, port, self._env))

    # a request and the head of its response

    async def _answer(
        self, request: HttpRequest, route: HttpRoute, cancel: CancelToken
    ) -> tuple[Exchange, HttpResponse, Callable[[], object]]:
        """Send the request and wait for the head of the response. The returned function unregisters from `cancel`."""
        if cancel.fired:
            raise RequestAborted
        kept = self._take(route)
        while True:
            connection = kept or await self._connect(route, cancel)
            connection.read_interval = self._read_interval
            forget = cancel.on_fire(connection.abort)
            exchange = Exchange(connection, route, cancel, self._idle_timeout)
            try:
                response = await exchange.ask(request)
                if cancel.fired:
                    raise RequestAborted
                if response is not None:
                    return exchange, response, forget
                if kept is None:
                    text = f"Connection error: {route.authority} closed the connection without an answer."
                    raise ProviderError(text, transient=True)
            except BaseException:
                forget()
                connection.abort()
                raise
            forget()
            connection.abort()
            kept = None
            _log_closed(route)

    async def _connect(self, route: HttpRoute, cancel: CancelToken) -> HttpConnection:
        """Open a new connection. This runs as a task, since only cancelling a task can end a name lookup."""
        opening = asyncio.get_running_loop().create_task(self._open(route))
        forget = cancel.on_fire(opening.cancel)
        try:
            async with asyncio.timeout(self._connect_timeout):
                connection = await opening
        except BaseException as error:
            opening.add_done_callback(_abort_late_connection)
            if cancel.fired:
                raise RequestAborted from None
            if isinstance(error, TimeoutError):
                where = route.proxy or route
                text = f"Connection error: timeout, {where.host}:{where.port} did not answer within {self._connect_timeout:g} s."
                raise ProviderError(text, transient=True) from None
            raise
        finally:
            forget()
        if cancel.fired:
            connection.abort()
            raise RequestAborted
        return connection

    async def _open(self, route: HttpRoute) -> HttpConnection:
        context = (self._tls.ready or await run_in_thread(self._tls.get)) if route.scheme == "https" else None
        connection = await self._dial(route)
        if context is None:
            return connection
        try:
            await self._start_tls(connection, context, route)
        except BaseException as error:
            connection.abort()
            if isinstance(error, (OSError, UnicodeError, ConnectionLost)) and not isinstance(error, TimeoutError):
                raise explain(error, route.host, route.port) from error
            raise
        return connection

    async def _dial(self, route: HttpRoute) -> HttpConnection:
        """Open a connection without encryption. For https through a proxy, the proxy has connected it to the target."""
        where = route.proxy or route
        connection: HttpConnection | None = None
        try:
            connection = await open_connection(where.host, where.port)
            if route.proxy is not None and route.scheme == "https":
                await self._tunnel(connection, route)
            return connection
        except BaseException as error:
            if connection is not None:
                connection.abort()
            if isinstance(error, ConnectionRefusedError) and route.proxy is not None:
                text = (
                    f"Connection error: connection refused by the proxy {where.host}:{where.port}, which the environment names."
                    f" Is it running? NO_PROXY={route.host} does without it."
                )
                raise ProviderError(text, transient=True) from error
            if isinstance(error, (OSError, UnicodeError, ConnectionLost)) and not isinstance(error, TimeoutError):
                raise explain(error, where.host, where.port) from error
            raise

    async def _start_tls(self, connection: HttpConnection, context: SSLContext, route: HttpRoute) -> None:
        """Encrypt the connection. If the handshake fails or takes long, check whether the server speaks plain HTTP.

        Such a server may wait for more data instead of refusing the handshake.

        Raises:
            OSError, ConnectionLost: the handshake failed.
            ProviderError: the server speaks plain HTTP.
        """
        handshake = asyncio.ensure_future(connection.start_tls(context, route.host))
        try:
            await asyncio.wait([handshake], timeout=_SLOW_HANDSHAKE)
            failed = handshake.done() and handshake.exception()
            is_tls = isinstance(failed, ssl.SSLCertVerificationError) or (handshake.done() and not failed)
            if not is_tls and await self._speaks_plain_http(route):
                raise ProviderError(
                    f"{route.authority} speaks http, not https. Write http://{route.authority} in the provider's base URL."
                )
            await handshake
        finally:
            handshake.cancel()
            handshake.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    async def _speaks_plain_http(self, route: HttpRoute) -> bool:
        """Tell whether the server answers a plain HTTP request. The request has no key and no path."""
        connection: HttpConnection | None = None
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                connection = await self._dial(route)
                connection.send(f"GET / HTTP/1.1\r\nhost: {route.authority}\r\nconnection: close\r\n\r\n".encode("latin1"))
                head = await connection.read(_CHECK_SECONDS)
        except (OSError, ProviderError, ConnectionLost, IdleTimeout):  # a TimeoutError is an OSError
            return False
        finally:
            if connection is not None:
                connection.abort()
        # A TLS server may answer as well: that it wants https, or that the request is bad.
        return head.startswith(b"HTTP/1") and head[8:12] != b" 400" and b"HTTPS" not in head.upper()

    async def _tunnel(self, connection: HttpConnection, route: HttpRoute) -> None:
        """Ask the proxy to connect us to the target. Raises ProviderError if it refuses or does not answer in HTTP."""
        import h11  # noqa: PLC0415  takes 5 ms

        assert route.proxy is not None
        target = f"[{route.host}]:{route.port}" if ":" in route.host else f"{route.host}:{route.port}"
        headers = [("host", target)]
        if route.proxy.authorization is not None:
            headers.append(("proxy-authorization", route.proxy.authorization))
        learn_headers(headers)
        wire = h11.Connection(our_role=h11.CLIENT)
        connection.send(wire.send(h11.Request(method="CONNECT", target=target, headers=headers)) or b"")
        connection.send(wire.send(h11.EndOfMessage()) or b"")
        proxy = f"The proxy {route.proxy.host}:{route.proxy.port}"
        try:
            answer, _ = await receive_head(wire, lambda: connection.read(self._connect_timeout))
        except (NotHttp, IdleTimeout) as error:
            if isinstance(error, NotHttp) and error.received:
                raise error.explain(proxy) from None
            raise ProviderError(f"{proxy} ended the connection to {target} without an answer.", transient=True) from None
        if answer.status_code == 407:
            raise ProviderError(
                f"{proxy} requires a user and a password. Put them into its URL, as in http://user:password@host."
            )
        if not 200 <= answer.status_code < 300:
            reason = answer.reason.decode("latin1")
            raise ProviderError(
                f"{proxy} refused to connect to {target}: {answer.status_code} {reason}", transient=answer.status_code >= 500
            )

    # connections between requests

    def _take(self, route: HttpRoute) -> HttpConnection | None:
        kept = self._pool.kept.get(route)
        now = asyncio.get_running_loop().time()
        while kept:
            connection = kept.pop()
            if connection.reusable and now - connection.idle_since < _KEPT_FOR:
                return connection
            connection.abort()
        return None

    def _part_with(self, exchange: Exchange, response: HttpResponse) -> None:
        if response.rest_is_noise and not response.body.complete and exchange.keep_alive:
            exchange.outlive_request()
            task = asyncio.get_running_loop().create_task(self._linger(exchange, response))
            lingering = self._pool.lingering
            lingering.add(task)
            task.add_done_callback(lingering.discard)
        else:
            self._keep_or_close(exchange, response)

    async def _linger(self, exchange: Exchange, response: HttpResponse) -> None:
        try:
            async with asyncio.timeout(_LINGER_SECONDS):
                await response.read(_LINGER_BYTES)
        except (TimeoutError, ProviderError, RequestAborted):
            pass
        finally:
            self._keep_or_close(exchange, response)

    def _keep_or_close(self, exchange: Exchange, response: HttpResponse) -> None:
        connection, body = exchange.connection, response.body
        kept = self._pool.kept.setdefault(exchange.route, [])
        if body.complete and not body.surplus and exchange.keep_alive and connection.reusable and len(kept) < _KEPT:
            connection.idle_since = asyncio.get_running_loop().time()
            kept.append(connection)
        else:
            connection.abort()


def _check(response: HttpResponse) -> None:
    status = response.status
    if 300 <= status < 400:
        location = redacted(response.headers.get("location", "nowhere"))
        raise ProviderError(
            f"{status}: the server redirects to {location}. Redirects are not followed: set the base URL to the new place.",
            status=status,
        )
    encoding = response.headers.get("content-encoding", "identity").lower()
    if encoding not in ("", "identity"):
        raise ProviderError(f"The answer is compressed ({encoding}) although that was not asked for.", status=status)


def _log_closed(route: HttpRoute) -> None:
    logging.getLogger("fairlead.models").debug("%s had closed a kept connection; a new one is opened", route.authority)


def _abort_late_connection(opening: asyncio.Task[HttpConnection]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().abort()
