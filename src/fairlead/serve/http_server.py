"""The server: one port for HTTP and WebSocket, from the socket to an orderly end."""

from __future__ import annotations

import asyncio
import gc
import gzip
import ipaddress
import logging
import os
import signal
import socket
import ssl
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import uvicorn
from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route, WebSocketRoute

from fairlead.errors import ConfigError
from fairlead.platform.process import trim_heap
from fairlead.protocol.http.operations import Operation
from fairlead.serve.access import Access
from fairlead.serve.connections import Crowd, HttpConnection, ServerConfig, WebSocketConnection, allow_connections
from fairlead.serve.guard import Guard, Hosts, Receive, Scope, Send, host_name, refuse
from fairlead.serve.http_api import Api, Metrics, Refused
from fairlead.serve.refusals import Refusal
from fairlead.serve.sessions.hub import Hub
from fairlead.serve.sessions.hub_sessions import HubLimits
from fairlead.serve.sessions.spaces import Space
from fairlead.serve.sockets import SocketHosts

#: How many allocations cause a collection of young objects, and how many of those one of older objects, and so on.
THRESHOLDS = (10_000, 20, 20)
#: Seconds between two looks, and seconds after which an idle server is collected in full.
INTERVAL, FULL_SECONDS = 1.0, 600.0
#: How many sessions are opened before their objects are skipped.
ENOUGH_OPENED = 20
#: How many sessions are closed before the server is collected in full. While it works, also this part of the open ones.
ENOUGH_CLOSED, ENOUGH_PART = 50, 0.25


class Collector:
    """Decides when to collect what. `hub` has the sessions."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._opened = hub.opened
        self._closed = self._closed_by_now
        self._full_at = time.monotonic()

    @property
    def _closed_by_now(self) -> int:
        return self._hub.opened - len(self._hub.sessions) + self._hub.hosts_closed

    def tidy(self) -> None:
        """Collect or skip objects if it is time to."""
        opened, closed = self._hub.opened - self._opened, self._closed_by_now - self._closed
        sessions = self._hub.sessions
        is_worth_a_pause = closed >= max(ENOUGH_CLOSED, len(sessions) * ENOUGH_PART)
        is_due = time.monotonic() - self._full_at > FULL_SECONDS or closed >= ENOUGH_CLOSED
        if is_worth_a_pause or (is_due and not any(each.is_working for each in sessions)):
            gc.unfreeze()
            gc.collect()
            trim_heap()
            self._full_at, self._closed = time.monotonic(), self._closed_by_now
        elif opened >= ENOUGH_OPENED:
            gc.collect(1)
        else:
            return
        gc.freeze()
        self._opened = self._hub.opened


async def keep_pauses_short(hub: Hub) -> None:
    """Look after the garbage collector of the process until the task is cancelled. Then it works as before."""
    before = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)
    collector = Collector(hub)
    try:
        while True:
            await asyncio.sleep(INTERVAL)
            collector.tidy()
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


_KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@cache
def _contents() -> dict[str, tuple[bytes, bytes]]:
    """Return the files by name, each as it is and compressed."""
    folder = files("fairlead.serve").joinpath("page")
    found = {file.name: file.read_bytes() for file in folder.iterdir() if file.name.rpartition(".")[2] in _KINDS}
    return {name: (content, gzip.compress(content, mtime=0)) for name, content in found.items()}


def page_routes() -> list[BaseRoute]:
    """Return the routes of the page."""

    def make_fixed_route(path: str, name: str) -> Route:
        async def serve(request: Request) -> Response:
            plain, compressed = _contents()[name]
            is_compressed = "gzip" in (each.strip() for each in request.headers.get("accept-encoding", "").split(","))
            headers = {"vary": "accept-encoding", **({"content-encoding": "gzip"} if is_compressed else {})}
            return Response(compressed if is_compressed else plain, headers=headers, media_type=_KINDS[name.rpartition(".")[2]])

        return Route(path, serve, methods=["GET"])

    special = {"/": "index.html", "/login": "login.html", "/login.js": "login.mjs", "/login.css": "login.css"}
    others = {f"/page/{name}": name for name in _contents() if name not in special.values()}
    return [make_fixed_route(path, name) for path, name in (special | others).items()]


_log = logging.getLogger("fairlead.serve")

#: Seconds that requests may take to end after all sessions are closed.
DRAIN_SECONDS = 3
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
#: The exit codes after signals that end the process. SIGINT is the usual way to stop a server.
_EXIT_CODES = {"SIGINT": 0, "SIGTERM": 143, "SIGHUP": 129}


class ServerOptions(Struct, frozen=True, kw_only=True):
    """How to listen."""

    host: str = "127.0.0.1"
    port: int = 8787
    tls_cert: Path | None = None
    tls_key: Path | None = None
    #: Whether to listen on other addresses than loopback without TLS.
    insecure: bool = False
    #: More names under which the server may be reached, as behind a proxy.
    allow_hosts: tuple[str, ...] = ()
    limits: HubLimits = HubLimits()
    #: The most bytes of a request, and of a message over a WebSocket.
    request_bytes: int = 32 << 20
    connections: int = 2000


class Binding(Struct, frozen=True, kw_only=True):
    """A socket to listen on, and what is safe on it."""

    socket: socket.socket
    is_loopback: bool
    is_tls: bool

    @property
    def port(self) -> int:
        return self.socket.getsockname()[1]

    @property
    def has_loopback(self) -> bool:
        """Whether clients on this machine reach the server under the name localhost."""
        return self.is_loopback or self.socket.getsockname()[0] in ("0.0.0.0", "::")

    def url(self, host: str) -> str:
        """Return the address for a browser on this machine, or on another one if it can be reached from there."""
        name = "127.0.0.1" if host in ("0.0.0.0", "::", "") else f"[{host}]" if ":" in host else host
        return f"{'https' if self.is_tls else 'http'}://{name}:{self.port}"


def bind(options: ServerOptions) -> Binding:
    """Open the socket. Nothing is accepted yet.

    Raises ConfigError if the address cannot be used, or if it is not loopback and there is neither TLS nor `insecure`.
    """
    if (options.tls_cert is None) != (options.tls_key is None):
        raise ConfigError("--tls-cert and --tls-key are needed together.")
    is_tls = options.tls_cert is not None
    try:
        found = socket.getaddrinfo(options.host or None, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"--host {options.host}: {error}.") from None
    is_loopback = all(_is_loopback(address[4][0]) for address in found)
    if not is_loopback and not is_tls and not options.insecure:
        raise ConfigError(
            f"--host {options.host} can be reached from other machines. Give --tls-cert and --tls-key, or --insecure if"
            " something else encrypts the connection."
        )
    family, kind, protocol, _, address = found[0]
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.bind(address)
        opened.listen(512)
        opened.setblocking(False)
    except OSError as error:
        opened.close()
        raise ConfigError(f"Cannot listen on {options.host}:{options.port}: {error.strerror or error}.") from None
    return Binding(socket=opened, is_loopback=is_loopback, is_tls=is_tls)


def _is_loopback(address: str | int) -> bool:
    try:
        return ipaddress.ip_address(str(address).partition("%")[0]).is_loopback
    except ValueError:
        return False


def allowed_hosts(options: ServerOptions, binding: Binding) -> Hosts:
    """Return the names under which the server may be reached. Raises ConfigError if one is malformed."""
    names = {*LOOPBACK_NAMES} if binding.has_loopback else set[str]()
    for given in (options.host, *options.allow_hosts):
        name = host_name(f"[{given}]" if given.count(":") > 1 and not given.startswith("[") else given)
        if name is None and given in options.allow_hosts:
            raise ConfigError(f"--allow-host {given}: expected a name such as agent.example.org.")
        if name is not None:
            names.add(name)
    return Hosts(names=frozenset(names), addresses=not binding.is_loopback)


class _Uvicorn(uvicorn.Server):
    """Leaves signals alone."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class Server:
    """Serves clients on a bound socket. `spaces` has what each user of `access` can reach; `more` are routes besides its own, and
    `operations` what they do, for the OpenAPI document.
    """

    def __init__(
        self,
        options: ServerOptions,
        binding: Binding,
        access: Access,
        spaces: Mapping[str, Space],
        more: Sequence[BaseRoute] = (),
        operations: Sequence[Operation] = (),
    ) -> None:
        self.hub = Hub(spaces, options.limits)
        metrics = Metrics(self.hub, access)
        cookie = f"{'__Host-' if binding.is_tls else ''}fairlead-{binding.port}"
        api = Api(
            self.hub,
            access,
            metrics,
            cookie=cookie,
            secure=binding.is_tls,
            request_bytes=options.request_bytes,
            more=operations,
        )
        self._sockets = SocketHosts(self.hub, metrics, line_bytes=options.request_bytes)
        routes = [
            *api.routes(),
            *page_routes(),
            WebSocketRoute("/ws", self._sockets.serve_dialect),
            WebSocketRoute("/acp", self._sockets.serve_acp),
            *more,
        ]
        app = Starlette(routes=routes, exception_handlers={405: _wrong_method})
        app.router.redirect_slashes = False
        app.router.default = _refuse_unknown_address
        guarded = Guard(app, access, allowed_hosts(options, binding), cookie=cookie, on_response=metrics.count_response)
        self._binding = binding
        self._connections = options.connections
        self._uvicorn = _Uvicorn(_config(options, guarded))
        self._over: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self, on_ready: Callable[[], None] = lambda: None, on_stop: Callable[[], None] | None = None) -> int:
        """Serve until a signal or `stop`. Returns the exit code. `on_stop` ends what the additional routes still send."""
        restore = self._handle_signals()
        allow_connections(self._connections)
        endless = self.hub.keep_tidy(), self.hub.watched.keep_up_to_date(), keep_pauses_short(self.hub)
        background = [asyncio.create_task(each) for each in endless]
        serving = asyncio.create_task(self._uvicorn.serve(sockets=[self._binding.socket]))
        serving.add_done_callback(lambda _: self.stop(1))
        on_ready()
        try:
            code = await self._over
        finally:
            for task in background:
                task.cancel()
            if on_stop is not None:
                on_stop()
            await asyncio.gather(self.hub.close(), self._sockets.close(), return_exceptions=True)
            self._uvicorn.should_exit = True
            with suppress(asyncio.CancelledError):
                await serving
            for space in {id(each.common.shared): each for each in self.hub.spaces.values()}.values():
                await space.common.shared.http.close()
            restore()
        return code

    def stop(self, code: int = 0) -> None:
        """End in order, with this exit code."""
        if not self._over.done():
            self._over.set_result(code)

    def _handle_signals(self) -> Callable[[], None]:
        loop = asyncio.get_running_loop()
        handled: list[int] = []
        for name, code in _EXIT_CODES.items():
            number = getattr(signal, name, None)
            with suppress(NotImplementedError, ValueError, RuntimeError):  # Windows; not the main thread
                if number is not None:
                    loop.add_signal_handler(number, self._on_signal, name, code)
                    handled.append(number)

        def restore() -> None:
            for number in handled:
                loop.remove_signal_handler(number)

        return restore

    def _on_signal(self, name: str, code: int) -> None:
        if self._over.done() and name == "SIGINT":  # a second one: the user does not want to wait
            for session in self.hub.sessions:
                session.agent.kill_children()
            os._exit(130)
        self.stop(code)


def _config(options: ServerOptions, app: Any) -> uvicorn.Config:
    tls: dict[str, Any] = {}
    if options.tls_cert is not None:
        _check_certificate(options)
        tls = {"ssl_certfile": str(options.tls_cert), "ssl_keyfile": str(options.tls_key)}
    config = ServerConfig(
        app,
        http=HttpConnection,
        ws=WebSocketConnection,
        ws_max_size=2 * options.request_bytes,
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
        log_level="error",  # mistakes of clients do not belong in the log
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
        **tls,
    )
    config.crowd = Crowd(options.connections)
    return config


def _check_certificate(options: ServerOptions) -> None:
    """Raise ConfigError if the certificate and the key cannot be used."""
    try:
        assert options.tls_cert is not None
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(options.tls_cert, options.tls_key, password="")
    except (OSError, ValueError) as error:
        raise ConfigError(f"The certificate {options.tls_cert} with the key {options.tls_key} cannot be used: {error}.") from None


async def _refuse_unknown_address(scope: Scope, receive: Receive, send: Send) -> None:
    await refuse(scope, send, Refusal(404, "not_found", "There is nothing at this address."))


async def _wrong_method(request: Request, error: Exception) -> Response:
    """Say which methods the address has. Each has its own route."""
    here = [each for each in request.app.routes if isinstance(each, Route) and each.matches(request.scope)[0] is not Match.NONE]
    allow = ", ".join(sorted({method for route in here for method in route.methods or ()}))
    text = f"This address has the methods {allow}. {request.method} is not among them."
    return Refused(Refusal(405, "wrong_method", text, allow=allow))
