"""The connections of the server: uvicorn's protocols, with limits that it lacks, and without remarks about what clients do.

Connections without a login never take the room of those with one. A connection is anonymous until a request on it has shown a
right token or cookie. Anonymous connections are limited as a class and by address. If one too many comes, the one that has waited
longest goes: first one whose head has not arrived, of the address that has the most. So a new connection always gets the moment
that it needs to log in."""

from __future__ import annotations

import asyncio
import ipaddress
from collections import OrderedDict
from contextlib import suppress
from functools import partial
from typing import Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import State

#: Anonymous connections besides half as many as there may be with a login.
MORE_CONNECTIONS = 100
#: The fewest that one address may have.
FEWEST_OF_ONE = 2


class Crowd:
    """Counts the connections of a server. `most` may have a login, and `anonymous` may have none."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.anonymous = anonymous_beside(most)
        #: The anonymous connections of each address: the one that goes first comes first.
        self._waiting: dict[str, OrderedDict[asyncio.BaseTransport, None]] = {}
        self._group_of: dict[asyncio.BaseTransport, str] = {}
        self._known: set[asyncio.BaseTransport] = set()

    @property
    def is_full(self) -> bool:
        """Whether as many connections have a login as may have one."""
        return len(self._known) >= self.most

    def admits(self, transport: asyncio.BaseTransport) -> bool:
        """Whether a connection may log in, or has done so."""
        return transport in self._known or not self.is_full

    def add(self, transport: asyncio.Transport, address: str) -> None:
        """Count a new connection, and close another one if it is one too many."""
        group = group_of(address)
        waiting = self._waiting.setdefault(group, OrderedDict())
        waiting[transport] = None
        self._group_of[transport] = group
        if len(waiting) > max(FEWEST_OF_ONE, self.anonymous // 2):
            self._drop(group)
        elif len(self._group_of) > self.anonymous:
            self._drop(max(self._waiting, key=lambda each: len(self._waiting[each])))

    def mark_asked(self, transport: asyncio.BaseTransport) -> None:
        """Note that the head of a request has arrived: those without one go first."""
        group = self._group_of.get(transport)
        if group is not None:
            self._waiting[group].move_to_end(transport)

    def mark_logged_in(self, transport: asyncio.BaseTransport) -> None:
        """Note that a request has shown a right token or cookie."""
        if transport in self._group_of:
            self._forget(transport)
            self._known.add(transport)

    def remove(self, transport: asyncio.BaseTransport) -> None:
        """Forget a connection."""
        self._forget(transport)
        self._known.discard(transport)

    def _drop(self, group: str) -> None:
        oldest: Any = next(iter(self._waiting[group]))
        self._forget(oldest)
        oldest.abort()

    def _forget(self, transport: asyncio.BaseTransport) -> None:
        group = self._group_of.pop(transport, None)
        if group is not None:
            del self._waiting[group][transport]
            if not self._waiting[group]:
                del self._waiting[group]


class ServerConfig(uvicorn.Config):
    """The configuration of uvicorn, with the connections of the server."""

    crowd: Crowd


def anonymous_beside(most: int) -> int:
    """Return how many connections without a login there may be, besides those with one."""
    return most // 2 + MORE_CONNECTIONS


def group_of(address: str) -> str:
    """Return what counts as one client: an address of IPv4, a network of IPv6."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


#: Seconds in which the head of a request must arrive, from the start of the connection or from its first byte.
HEAD_SECONDS = 20.0
#: The most bytes of the head of a request.
HEAD_BYTES = 64 * 1024
#: Seconds that a client with a longer head has to read why it is refused. What it sends meanwhile is ignored.
FAREWELL_SECONDS = 2.0
#: Descriptors that the server needs for other things, and those that a session needs: its file, and the connection to its model.
OTHER_DESCRIPTORS, DESCRIPTORS_OF_SESSION = 200, 3
#: The answer to what is not a request of HTTP.
_MALFORMED = b'{"error":{"code":"bad_request","message":"This is not a request of HTTP/1.1."}}'


class _BoundedHeads(h11.Connection):
    """Refuses every head that is too long. h11 itself checks only heads that are not complete when it looks at them."""

    is_too_long = False

    def __init__(self) -> None:
        super().__init__(h11.SERVER, HEAD_BYTES)

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        before = len(self.trailing_data[0]) if self.their_state is h11.IDLE else 0
        try:
            event = super().next_event()
        except h11.RemoteProtocolError as error:
            self.is_too_long = error.error_status_hint == 431
            raise
        if isinstance(event, h11.Request) and before - len(self.trailing_data[0]) > HEAD_BYTES:
            self.is_too_long = True
            raise h11.RemoteProtocolError("The head is too long.", error_status_hint=431)
        return event


class HttpConnection(H11Protocol):
    """HTTP/1.1, with limits on the head of a request and the time for it, and a way to drop a client that does not read."""

    _head_timer: asyncio.TimerHandle | None = None
    _crowd: Crowd

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self.conn = self._heads = _BoundedHeads()
        crowd = self._crowd = cast("ServerConfig", self.config).crowd
        self.app_state = {
            **self.app_state,
            "abort": transport.abort,
            "admits": partial(crowd.admits, transport),
            "logged_in": partial(crowd.mark_logged_in, transport),
        }
        crowd.add(transport, self.client[0] if self.client else "")
        self._head_timer = self.loop.call_later(HEAD_SECONDS, transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._heads.is_too_long:
            return
        super().data_received(data)
        if self._heads.is_too_long:
            return
        is_waiting = self.cycle is None or self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]
        if not is_waiting or self.transport.get_protocol() is not self:  # it has become a WebSocket
            self._forget_timer()
            self._crowd.mark_asked(self.transport)
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_timer()  # it would keep the connection in memory
        self._crowd.remove(self.transport)
        super().connection_lost(exc)

    def _forget_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def send_400_response(self, msg: str) -> None:
        if not self._heads.is_too_long:
            self._refuse_malformed()
            return
        headers = [("content-length", "0"), ("connection", "close")]
        refusal = h11.Response(status_code=431, headers=headers, reason="Request Header Fields Too Large")
        self.transport.write(self.conn.send(refusal) or b"")
        self.conn.send(h11.EndOfMessage())
        self._forget_timer()
        if self.transport.can_write_eof():
            # The rest of the head is still on its way. Closing now would reset the connection before the client can read.
            self.transport.write_eof()
            self._head_timer = self.loop.call_later(FAREWELL_SECONDS, self.transport.abort)
        else:
            self.transport.close()

    def _refuse_malformed(self) -> None:
        """Answer a request that is not HTTP in the shape of all errors."""
        headers = [("content-type", "application/json"), ("content-length", str(len(_MALFORMED))), ("connection", "close")]
        for event in (
            h11.Response(status_code=400, headers=headers, reason="Bad Request"),
            h11.Data(_MALFORMED),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class WebSocketConnection(WebSocketsSansIOProtocol):
    """A WebSocket. The log says nothing about a refused handshake or text that is not UTF-8: these are mistakes of the client."""

    def connection_lost(self, exc: Exception | None) -> None:
        cast("ServerConfig", self.config).crowd.remove(self.transport)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():  # answers to pings would go nowhere
            super().data_received(data)

    def handle_parser_exception(self) -> None:
        if self.conn.close_sent is None:  # before the handshake was over, so that no frame can say it
            self.transport.abort()
        else:
            super().handle_parser_exception()

    async def send(self, message: Any) -> None:
        if self.transport.is_closing():  # asyncio would complain about frames that go nowhere
            raise ClientDisconnected
        await super().send(message)

    async def run_asgi(self) -> None:
        try:
            await self.app(self.scope, self.receive, self.send)  # pyright: ignore[reportUnknownMemberType, reportArgumentType]
        except ClientDisconnected:
            pass
        except BaseException:
            self.logger.exception("A bug in fairlead: a WebSocket could not be served.")
            self.send_500_response()
        if self.close_timer is None:
            self.transport.close()

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text" and not self.close_sent:
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self.frames = []
                if self.conn.state is State.OPEN:  # else the handshake is not over, and no frame can say it
                    self.conn.send_close(1007)
                self.handle_parser_exception()
                return
        super().send_receive_event_to_app()


def allow_connections(count: int) -> None:
    """Let the process have as many descriptors as it needs for its connections and their sessions, if the system allows it."""
    try:
        import resource  # noqa: PLC0415  POSIX only
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count * (1 + DESCRIPTORS_OF_SESSION) + anonymous_beside(count) + OTHER_DESCRIPTORS
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
