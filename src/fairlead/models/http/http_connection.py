"""One connection to a server: opening, encrypting, reading and aborting it."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any

from fairlead.errors import ProviderError
from fairlead.platform.process import run_in_thread

if TYPE_CHECKING:
    from ssl import SSLContext

#: With this many unread bytes, reading pauses and the server has to wait.
_HIGH_WATER = 65536
#: After this many reads of fewer than this many bytes, the connection waits between two reads, by default for these seconds.
_MANY_SMALL_READS, _SMALL_READ, READ_INTERVAL = 16, 4096, 0.016
#: It does not wait if more than that has passed since the last read: then a pause would not bring two pieces together.
_NEARLY = 0.001
#: Seconds to wait for an address before the next one is tried in parallel (RFC 8305).
_NEXT_ADDRESS_AFTER = 0.25


class ConnectionLost(Exception):
    """The connection broke, or `HttpConnection.abort` ended it."""


class IdleTimeout(Exception):
    """The server sent nothing for too long."""


class HttpConnection(asyncio.Protocol):
    """Sends bytes to a server and receives bytes from it.

    It is an asyncio protocol and not a pair of streams, because it then needs no extra copy of the data, and can tell whether
    an idle connection has received data or was closed. Streams hide that.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._received: list[bytes] = []
        self._size = 0
        #: Whether too much is unread, and whether reading from the socket is paused, for that or another reason.
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
        #: Seconds between two reads of a response that arrives in small pieces.
        self.read_interval = READ_INTERVAL
        #: The time of the last small read.
        self._read_at = 0.0
        #: Ends the pause between two reads; None if there is no pause.
        self._pause_timer: asyncio.TimerHandle | None = None
        self.closed: asyncio.Future[None] = self._loop.create_future()
        #: When it became idle, on the loop's clock.
        self.idle_since = 0.0

    # called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received.append(data)
        self._size += len(data)
        self._wake()
        if self._size >= _HIGH_WATER:
            self._full = True
            self._resume_or_pause()
        elif len(data) < _SMALL_READ:
            self._small_reads += 1
            if self._small_reads > _MANY_SMALL_READS and self._pause_timer is None:
                now = monotonic()
                if now - self._read_at < self.read_interval + _NEARLY:
                    self._pause_after_small_reads()
                self._read_at = now

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

    # called by us

    @property
    def reusable(self) -> bool:
        """Whether it is open and has received nothing unexpected (such as a 408 before a server closes an idle connection)."""
        return not self._ended and not self._received and self._transport is not None and not self._transport.is_closing()

    def send(self, data: bytes | memoryview) -> None:
        """Send without waiting, since a server may answer or refuse before it has read everything."""
        self._small_reads = 0
        if self._pause_timer is not None:
            self._pause_timer.cancel()
            self._pause_over()
        if self._transport is not None and not self._ended:
            self._transport.write(data)
            self._unsent = self._transport.get_write_buffer_size()

    async def read(self, idle_timeout: float) -> bytes:
        """Return all that has arrived, or else wait for more; b"" if the server closed the connection properly.

        Raises:
            ConnectionLost: the connection broke.
            IdleTimeout: nothing was sent or received for `idle_timeout` seconds.
        """
        # In a loop, because a late wake-up for data that has been read meanwhile is not the end of the response.
        while (arrival := self.arrival(idle_timeout)) is not None:
            await arrival
        return self.take() or b""

    def arrival(self, idle_timeout: float) -> asyncio.Future[None] | None:
        """Return a future that is done when there may be something to take, or None if there is something now.

        At most one caller may wait. Until then, nothing may be sent or received for `idle_timeout` seconds.
        """
        if self._received or self._ended:
            return None
        self._waiter = asyncio.Future(loop=self._loop)
        self._waiting_since = monotonic()
        if self._unsent and self._transport is not None:
            self._unsent = self._transport.get_write_buffer_size()
        self._idle_timeout = idle_timeout
        if self._idle_timer is None:
            self._idle_timer = self._loop.call_later(idle_timeout, self._check_idle)
        return self._waiter

    def take(self) -> bytes | None:
        """Return all that has arrived, or else b"" if the server closed the connection properly, or else None.

        Raises the same as `read`.
        """
        if self._received:
            data = self._received[0] if len(self._received) == 1 else b"".join(self._received)
            self._received.clear()
            self._size = 0
            if self._full:
                self._full = False
                self._resume_or_pause()
            return data
        if self._timed_out:
            raise IdleTimeout
        if self._error is not None:
            raise ConnectionLost(str(self._error)) from self._error
        return b"" if self._ended else None

    def abort(self) -> None:
        """Close the connection immediately, whatever it is doing."""
        self._error = self._error or ConnectionLost("aborted")
        self._received.clear()
        self._ended = True
        self._stop_idle_timer()
        self._wake()
        if self._transport is not None:
            self._transport.abort()

    async def start_tls(self, context: SSLContext, host: str) -> None:
        """Encrypt the connection. Raises OSError if the handshake fails."""
        assert self._transport is not None
        transport = await self._loop.start_tls(self._transport, self, context, server_hostname=host)
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    # waiting: one future while there is nothing to read, and one timer that serves many waits

    def _pause_after_small_reads(self) -> None:
        """Stop reading for a moment, because the response arrives in small pieces.

        Waking up for each piece costs more than reading it. Updates to hosts are at least as far apart anyway.
        """
        self._pause_timer = self._loop.call_later(self.read_interval, self._pause_over)
        self._resume_or_pause()

    def _pause_over(self) -> None:
        self._pause_timer = None
        self._resume_or_pause()

    def _resume_or_pause(self) -> None:
        """Resume reading from the socket, or pause it if there is a reason to."""
        wanted = not self._full and self._pause_timer is None
        if wanted == self._paused and self._transport is not None and not self._ended:
            self._paused = not wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _check_idle(self) -> None:
        self._idle_timer = None
        if self._waiter is None or self._waiter.done() or self._transport is None:
            return
        now = monotonic()
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
    """Open a plain connection to the first address of the host that answers.

    Raises OSError if none does (`socket.gaierror` if the host has no address), and UnicodeError if it is not a host name.
    """
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
    # The name is ASCII by now. A str would load Python's codec for other names, which is slow and checks this:
    name = host.encode()
    if not all(0 < len(label) < 64 for label in name.removesuffix(b".").split(b".")):
        raise UnicodeError("label empty or too long")
    try:
        return socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await run_in_thread(lambda: socket.getaddrinfo(name, port, type=socket.SOCK_STREAM))


async def _first_to_connect(addresses: list[Any]) -> socket.socket:
    """Try the addresses in order, each a little after the previous one, or as soon as that has failed."""
    attempts: dict[asyncio.Task[socket.socket], None] = {}
    untried = list(reversed(addresses))
    problem: OSError | None = None
    try:
        while untried or attempts:
            if untried:
                attempts[asyncio.ensure_future(_connect_socket(untried.pop()))] = None
            patience = _NEXT_ADDRESS_AFTER if untried else None
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
    """Turn the reason why a connection could not be opened into an error that tells the user what to do."""
    where = f"{host}:{port}"
    if isinstance(error, socket.gaierror):
        # A machine that is briefly offline reports an unknown name as well, so a retry may succeed.
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
    """Builds the TLS context once, which takes 45 ms and is better done before it is needed.

    It trusts the system's certificates, or those of a file and of a directory instead.
    """

    def __init__(self, file: str | None, folder: str | None) -> None:
        self._file = file
        self._folder = folder
        self._lock = threading.Lock()
        #: The context, once it has been built.
        self.ready: SSLContext | None = None

    def get(self) -> SSLContext:
        """Return the context. Builds it, or waits for another thread that builds it.

        Raises ProviderError if the certificates cannot be read.
        """
        with self._lock:
            if self.ready is None:
                self.ready = self._build()
            return self.ready

    def _build(self) -> SSLContext:
        file, folder = self._file, self._folder
        try:
            context = ssl.create_default_context(cafile=file, capath=folder)
        except (OSError, ssl.SSLError) as error:
            raise ProviderError(
                f"The certificates named by SSL_CERT_FILE ({file}) and SSL_CERT_DIR ({folder}) cannot be read: {error}."
            ) from error
        context.set_alpn_protocols(["http/1.1"])
        return context
