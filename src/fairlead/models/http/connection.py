"""One connection to a server: how it is opened, encrypted, read and cut."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fairlead.config.threads import run_in_thread
from fairlead.errors import ProviderError

if TYPE_CHECKING:
    from ssl import SSLContext

#: Past this much unread data the server is made to wait.
_HIGH_WATER = 65536
#: An answer in drops: more than so many reads of fewer than so many bytes. From then on, so many seconds between two reads.
_MANY, _DROP, _REST = 16, 4096, 0.008
#: How long an address may keep silent before the next one is tried beside it (RFC 8305).
_NEXT_ADDRESS_AFTER = 0.25


class ConnectionLost(Exception):
    """The connection broke, or was cut by `HttpConnection.abort`."""


class IdleTimeout(Exception):
    """The server sent nothing for too long."""


class HttpConnection(asyncio.Protocol):
    """Bytes to and from one server.

    A protocol of our own rather than asyncio's streams: it hands over what the network brought without
    another copy, and knows what streams hide, namely that a pooled connection got data or was closed.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._received: list[bytes] = []
        self._size = 0
        #: Whether more is unread than should be, and whether the socket is left alone, for that reason or another.
        self._full = False
        self._paused = False
        self._ended = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._waiting_since = 0.0
        self._unsent = 0
        self._idle_timeout = 0.0
        self._idle_timer: asyncio.TimerHandle | None = None
        self._timed_out = False
        self._small_reads = 0
        #: Ends the rest between two reads; None: there is none.
        self._rest_timer: asyncio.TimerHandle | None = None
        self.closed: asyncio.Future[None] = self._loop.create_future()
        #: When it was put aside for reuse, on the loop's clock.
        self.idle_since = 0.0

    # what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received.append(data)
        self._size += len(data)
        self._wake()
        if self._size >= _HIGH_WATER:
            self._full = True
            self._read_on_or_pause()
        elif len(data) < _DROP:
            self._small_reads += 1
            if self._small_reads > _MANY and self._rest_timer is None:
                self._rest()

    def eof_received(self) -> bool:
        self._ended = True
        self._wake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        self._error = self._error or exc
        self._wake()
        self._stop_idle_timer()
        if not self.closed.done():
            self.closed.set_result(None)

    # what we call

    @property
    def reusable(self) -> bool:
        """Open, and nothing came that nobody asked for (such as a 408 before an idle connection is closed)."""
        return not self._ended and not self._received and self._transport is not None and not self._transport.is_closing()

    def send(self, data: bytes) -> None:
        """Send without waiting: a server may answer, even refuse, before it has read everything."""
        self._small_reads = 0
        if self._rest_timer is not None:
            self._rest_timer.cancel()
            self._rested()
        if self._transport is not None and not self._ended:
            self._transport.write(data)

    async def read(self, idle_timeout: float) -> bytes:
        """All that has arrived, or what arrives next; b"" when the server closed the connection in good order.

        Raises ConnectionLost, or IdleTimeout when nothing moved in either direction for that many seconds.
        """
        # Again and again: a late call for what has been read meanwhile is no end of the answer.
        while not self._received and not self._ended:
            await self._wait(idle_timeout)
        if self._received:
            data = self._received[0] if len(self._received) == 1 else b"".join(self._received)
            self._received.clear()
            self._size = 0
            if self._full:
                self._full = False
                self._read_on_or_pause()
            return data
        if self._timed_out:
            raise IdleTimeout
        if self._error is not None:
            raise ConnectionLost(str(self._error)) from self._error
        return b""

    def abort(self) -> None:
        """Cut the connection now, whatever it is doing."""
        self._error = self._error or ConnectionLost("aborted")
        self._received.clear()
        self._ended = True
        self._stop_idle_timer()
        self._wake()
        if self._transport is not None:
            self._transport.abort()

    async def start_tls(self, context: SSLContext, host: str) -> None:
        """Go on encrypted, inside a tunnel."""
        assert self._transport is not None
        transport = await self._loop.start_tls(self._transport, self, context, server_hostname=host)
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    # waiting: one future while there is nothing to read, and one timer that outlives many waits

    async def _wait(self, idle_timeout: float) -> None:
        self._waiter = self._loop.create_future()
        self._waiting_since = self._loop.time()
        self._unsent = self._transport.get_write_buffer_size() if self._transport is not None else 0
        self._idle_timeout = idle_timeout
        if self._idle_timer is None:
            self._idle_timer = self._loop.call_later(idle_timeout, self._check_idle)
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _rest(self) -> None:
        """Leave the socket alone for a moment: the answer comes in drops.

        A model's pieces arrive one by one, and waking up for each costs more than reading them. Whoever passes them on paces
        them at longer intervals still.
        """
        self._rest_timer = self._loop.call_later(_REST, self._rested)
        self._read_on_or_pause()

    def _rested(self) -> None:
        self._rest_timer = None
        self._read_on_or_pause()

    def _read_on_or_pause(self) -> None:
        """Read from the socket unless there is a reason not to."""
        wanted = not self._full and self._rest_timer is None
        if wanted == self._paused and self._transport is not None and not self._ended:
            self._paused = not wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _check_idle(self) -> None:
        self._idle_timer = None
        if self._waiter is None or self._transport is None:
            return
        now = self._loop.time()
        unsent = self._transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent = unsent
            self._waiting_since = now
        left = self._waiting_since + self._idle_timeout - now
        if left > 0:
            self._idle_timer = self._loop.call_later(left, self._check_idle)
        else:
            self._timed_out = True
            self.abort()

    def _stop_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None


async def open_connection(host: str, port: int) -> HttpConnection:
    """A plain connection to the first of the host's addresses that answers. Raises OSError, and gaierror among them."""
    loop = asyncio.get_running_loop()
    sock = await _first_to_connect(await _resolve(host, port))
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _, connection = await loop.create_connection(HttpConnection, sock=sock)
    except BaseException:
        sock.close()
        raise
    return connection


async def _resolve(host: str, port: int) -> list[Any]:
    # It is ASCII by now. A str would go through Python's codec for other names, which takes a while to load, and checks this:
    name = host.encode()
    if not all(0 < len(label) < 64 for label in name.removesuffix(b".").split(b".")):
        raise UnicodeError("label empty or too long")
    try:
        return socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await run_in_thread(lambda: socket.getaddrinfo(name, port, type=socket.SOCK_STREAM))


async def _first_to_connect(addresses: list[Any]) -> socket.socket:
    """Try the addresses in order, each a little after the one before it or as soon as that one has failed."""
    attempts: dict[asyncio.Task[socket.socket], None] = {}
    waiting = list(reversed(addresses))
    problem: OSError | None = None
    try:
        while waiting or attempts:
            if waiting:
                attempts[asyncio.ensure_future(_connect_socket(waiting.pop()))] = None
            patience = _NEXT_ADDRESS_AFTER if waiting else None
            done, _ = await asyncio.wait(attempts, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            for attempt in done:
                del attempts[attempt]
                error = attempt.exception()
                if error is None:
                    return attempt.result()
                if not isinstance(error, OSError):
                    raise error
                problem = problem or error
    finally:
        for attempt in attempts:
            attempt.cancel()
            attempt.add_done_callback(_close_late_socket)
    raise problem or OSError("the host name has no address")


async def _connect_socket(address: Any) -> socket.socket:
    family, kind, protocol, _, where = address
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, where)
    except BaseException:
        sock.close()
        raise
    return sock


def _close_late_socket(attempt: asyncio.Task[socket.socket]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()


def explain(error: Exception, host: str, port: int) -> ProviderError:
    """Why a connection could not be opened, in words a user can act on."""
    import ssl

    where = f"{host}:{port}"
    if isinstance(error, socket.gaierror):
        # A machine that is offline for a moment reports an unknown name too, so this may pass.
        return ProviderError(
            f"Connection error: the host {host} could not be found ({error.strerror}). Check the name and the network.",
            transient=True,
        )
    if isinstance(error, UnicodeError):
        return ProviderError(f"{host!r} is not a host name; check the provider's base URL.")
    if isinstance(error, ssl.SSLCertVerificationError):
        return ProviderError(
            f"The TLS certificate of {where} could not be verified: {error.verify_message or error.reason}. "
            "If its authority is your own, name a file with the authority's certificate in SSL_CERT_FILE."
        )
    if isinstance(error, ssl.SSLError):
        return ProviderError(
            f"The TLS handshake with {where} failed: {error.reason or error}. Does the server speak https? "
            "If it speaks http, write http:// in the provider's base URL."
        )
    if isinstance(error, ConnectionRefusedError):
        return ProviderError(f"Connection error: connection refused by {where}. Is the server running?", transient=True)
    if isinstance(error, (ConnectionError, ConnectionLost)):
        return ProviderError(f"Connection error: {where} closed the connection while it was being opened.", transient=True)
    return ProviderError(f"Connection error: {where} cannot be reached ({error}).", transient=True)


class TlsContext:
    """Trusts the system's certificate store, or what SSL_CERT_FILE and SSL_CERT_DIR name instead."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._lock = threading.Lock()
        #: The context, once it is built.
        self.ready: SSLContext | None = None

    def get(self) -> SSLContext:
        """The context; builds it, or waits for another thread that is building it. Raises ProviderError."""
        with self._lock:
            if self.ready is None:
                self.ready = self._build()
            return self.ready

    def _build(self) -> SSLContext:
        import ssl

        file = self._env.get("SSL_CERT_FILE") or None
        folder = self._env.get("SSL_CERT_DIR") or None
        try:
            context = ssl.create_default_context(cafile=file, capath=folder)
        except (OSError, ssl.SSLError) as error:
            raise ProviderError(
                f"The certificates named by SSL_CERT_FILE ({file}) and SSL_CERT_DIR ({folder}) cannot be read: {error}."
            ) from error
        context.set_alpn_protocols(["http/1.1"])
        return context
