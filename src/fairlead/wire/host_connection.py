"""The connection to a host on the event loop: lines in, and an ordered output that notices when the host stops reading."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from fairlead.core.runtime import CancelToken

#: With more unwritten bytes than this, the host is behind: streaming updates are merged instead of sent.
BEHIND = 1 << 16


class Outlet(Protocol):
    """Where code that makes frames sends them."""

    @property
    def behind(self) -> bool:
        """Whether the host is not keeping up. Callers should then merge the frames that can be merged."""
        ...

    def call_when_caught_up(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when the host is no longer behind."""
        ...

    def send(self, frame: bytes) -> None:
        """Send one frame. It must end with LF."""
        ...


class FrameTap(Protocol):
    """Sees every line of a connection in both directions, on the event loop, in the order in which they take effect.

    It must neither block nor raise.
    """

    def line_received(self, line: bytes | None) -> None:
        """Called with each line from the host before it is handled, without its LF; None for a line that was too long."""
        ...

    def input_ended(self) -> None:
        """Called when the host has closed its end."""
        ...

    def frame_sent(self, frame: bytes) -> None:
        """Called with each frame as it is queued, with its LF."""
        ...


class HostOutput:
    """Counts the bytes that the host has not read yet.

    `put` passes bytes to the writer and returns how many were written at once. The writer calls `written` with the number of
    bytes that it has written since. With more than `limit` unwritten bytes the output is `paused`: it still accepts every frame,
    but code that sends many should `wait`.
    """

    def __init__(self, put: Callable[[bytes], int], *, limit: int) -> None:
        self.backlog = 0
        #: Whether the host reads more slowly than frames are sent.
        self.behind = False
        #: Whether so much is unwritten that runs have to wait.
        self.paused = False
        #: Bytes written in total.
        self.total = 0
        self._put = put
        #: With more unwritten bytes than this, the output is paused.
        self.limit = limit
        self._waiters: set[asyncio.Future[None]] = set()
        self._on_caught_up: list[Callable[[], None]] = []
        self._moved = asyncio.Event()

    def send(self, frame: bytes) -> None:
        """Send one frame. It must end with LF."""
        written = self._put(frame)
        self.total += written
        if written < len(frame):
            self._count_backlog(len(frame) - written)

    def _count_backlog(self, count: int) -> None:
        self.backlog += count
        self.behind = self.backlog > BEHIND
        self.paused = self.backlog > self.limit

    def call_when_caught_up(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when the host is no longer behind."""
        self._on_caught_up.append(callback)

    async def wait(self, cancel: CancelToken) -> None:
        """Return when the output is no longer paused, or when `cancel` fires."""
        while self.paused and not cancel.fired:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            forget = cancel.on_fire(lambda w=waiter: _wake(w))
            try:
                await waiter
            finally:
                forget()
                self._waiters.discard(waiter)

    async def wait_flushed(self, patience: float) -> bool:
        """Wait until everything is written.

        Returns False if the host reads nothing for `patience` seconds.
        """
        while self.backlog:
            self._moved.clear()
            try:
                async with asyncio.timeout(patience):
                    await self._moved.wait()
            except TimeoutError:
                return False
        return True

    def count_written(self, count: int) -> None:
        """Record that `count` bytes were written, and wake the code that waits for it."""
        self._count_backlog(-count)
        self.total += count
        self._moved.set()
        if not self.behind and self._on_caught_up:
            callbacks, self._on_caught_up = self._on_caught_up, []
            for callback in callbacks:
                callback()
        if not self.paused:
            for waiter in self._waiters:
                _wake(waiter)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


#: Reading stops with more bytes of undispatched lines than the first, and resumes at the second.
PAUSE_ABOVE, RESUME_BELOW = 1 << 20, 1 << 18


class Listener(Protocol):
    """What a transport calls, on any thread."""

    def lines_read(self, lines: Sequence[bytes | None]) -> None:
        """Take lines that arrived, without their LF; None for a line that was too long."""
        ...

    def input_ended(self) -> None:
        """Take the end of the input."""
        ...

    def bytes_written(self, count: int) -> None:
        """Count bytes that the host can read now."""
        ...

    def output_broke(self) -> None:
        """Note that the host can no longer be reached."""
        ...


class Transport(Protocol):
    """Carries lines between this process and a host: standard input and output, or a socket."""

    def start(self, listener: Listener) -> None:
        """Begin to read and write. Nothing is read before."""
        ...

    def put(self, frame: bytes) -> int:
        """Write a frame after those before it. It never blocks. Returns how many bytes were written at once.

        The listener gets the number of those that are written later.
        """
        ...

    def pause(self) -> None:
        """Read nothing until `resume`. The end of the input is still noticed."""
        ...

    def resume(self) -> None: ...


class Connection:
    """Lines in, frames out, over any transport.

    `on_arrival` is called with each line as it arrives (None for a line that was too long). It returns the message to queue, or
    None if the line needs no more work. `next` returns the queued messages in order, then raises EOFError.
    """

    def __init__(self, transport: Transport, *, queue_bytes: int, tap: FrameTap | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._transport = transport
        self.output = HostOutput(transport.put if tap is None else _add_tap(transport.put, tap), limit=queue_bytes)
        self._tap = tap
        self.on_arrival: Callable[[bytes | None], Any] = lambda line: line
        self.on_end: Callable[[], None] = lambda: None
        #: Called at the end of the input on the reader's thread, even if the loop is blocked.
        self.on_end_seen: Callable[[], None] = lambda: None
        self.on_broken: Callable[[], None] = lambda: None
        #: The queued messages, each with the number of bytes it counts for.
        self._messages: deque[tuple[Any, int]] = deque()
        self._ended = False
        self._arrived = asyncio.Event()
        self._lock = threading.Lock()
        self._queued_bytes = 0

    def start(self) -> None:
        self._transport.start(self)

    async def next(self) -> Any:
        """Wait for the next message and return it. Raises EOFError after the last one."""
        while not self._messages:
            if self._ended:
                raise EOFError
            self._arrived.clear()
            await self._arrived.wait()
        message, size = self._messages.popleft()
        self._release(size)
        return message

    async def wait_queued(self, is_wanted: Callable[[Any], bool]) -> None:
        """Wait until a message is queued for which `is_wanted` returns true."""
        while not any(map(is_wanted, self.list_queued())):
            self._arrived.clear()
            await self._arrived.wait()

    def list_queued(self) -> Iterator[Any]:
        """Return the queued messages."""
        return (message for message, _ in self._messages)

    def remove(self, message: Any) -> None:
        """Remove a message from the queue because it has been handled."""
        for entry in self._messages:
            if entry[0] is message:
                self._messages.remove(entry)
                self._release(entry[1])
                return

    def _release(self, size: int) -> None:
        """Count `size` bytes of input as handled, and resume reading if that leaves few enough."""
        with self._lock:
            self._queued_bytes -= size
            if self._queued_bytes <= RESUME_BELOW:
                self._transport.resume()

    # On the threads of the transport; `bytes_written` also on the loop

    def lines_read(self, lines: Sequence[bytes | None]) -> None:
        with self._lock:
            self._queued_bytes += sum(map(_size, lines))
            if self._queued_bytes > PAUSE_ABOVE:
                self._transport.pause()
        self._call(self._arrive, lines)

    def input_ended(self) -> None:
        self.on_end_seen()
        self._call(self._end)

    def bytes_written(self, count: int) -> None:
        if threading.get_ident() == self._thread:
            self.output.count_written(count)  # without waking the loop
        else:
            self._call(self.output.count_written, count)

    def output_broke(self) -> None:
        self._call(self._handle_broken_output)

    def _call(self, function: Callable[..., None], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:  # the loop is closed: the process is about to exit
            return

    # On the loop

    def _arrive(self, lines: Sequence[bytes | None]) -> None:
        for line in lines:
            if self._tap is not None:
                self._tap.line_received(line)
            message = self.on_arrival(line)
            if message is None:
                self._release(_size(line))
            else:
                self._messages.append((message, _size(line)))
        self._arrived.set()

    def _end(self) -> None:
        self._ended = True
        if self._tap is not None:
            self._tap.input_ended()
        self._arrived.set()
        self.on_end()

    def _handle_broken_output(self) -> None:
        self.on_broken()


def _add_tap(put: Callable[[bytes], int], tap: FrameTap) -> Callable[[bytes], int]:
    def put_tapped(frame: bytes) -> int:
        tap.frame_sent(frame)
        return put(frame)

    return put_tapped


def _size(line: bytes | None) -> int:
    return 64 if line is None else len(line) + 64
