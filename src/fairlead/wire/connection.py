"""The connection to a host, as the event loop sees it: lines in, and an ordered output that knows when the host stops reading."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from fairlead.core.runtime import Cancel
from fairlead.wire.stdio import Reader, Writer

#: With more than this unwritten, the host is behind: streaming updates are merged instead of sent.
BEHIND = 1 << 16


class Outlet(Protocol):
    """Where frames go, as those who make them see it."""

    @property
    def behind(self) -> bool:
        """Whether the host does not keep up, so that what can be merged should be."""
        ...

    def when_caught_up(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when the host is no longer behind."""
        ...

    def send(self, frame: bytes) -> None:
        """Send one frame, which ends with its LF."""
        ...


class Output:
    """Frames on their way to the host.

    `put` hands bytes to the writer; `written` is told how many of them left. With more than `limit` bytes
    on the way the output is `paused`: it takes every frame still, but whoever makes many should `wait`.
    """

    def __init__(self, put: Callable[[bytes], None], *, limit: int) -> None:
        self.backlog = 0
        #: Bytes that left, in all.
        self.total = 0
        self._put = put
        self._limit = limit
        self._waiters: set[asyncio.Future[None]] = set()
        self._on_caught_up: list[Callable[[], None]] = []
        self._moved = asyncio.Event()

    def send(self, frame: bytes) -> None:
        """Send one frame, which ends with its LF."""
        self.backlog += len(frame)
        self._put(frame)

    @property
    def behind(self) -> bool:
        return self.backlog > BEHIND

    @property
    def paused(self) -> bool:
        return self.backlog > self._limit

    def when_caught_up(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when the host is no longer behind."""
        self._on_caught_up.append(callback)

    async def wait(self, cancel: Cancel) -> None:
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

    async def flushed(self, patience: float) -> bool:
        """Wait until everything left, as long as the host reads: True if it did."""
        while self.backlog:
            self._moved.clear()
            try:
                async with asyncio.timeout(patience):
                    await self._moved.wait()
            except TimeoutError:
                return False
        return True

    def written(self, count: int) -> None:
        self.backlog -= count
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


#: Bytes of undispatched lines at which reading stops, and goes on again.
HOLD_ABOVE, RESUME_BELOW = 1 << 20, 1 << 18


class Connection:
    """Lines in, frames out.

    `on_arrival` is called with each line as it comes (None for one that was too long), and returns the message to keep for its
    turn, or None if nothing is left to do. `next` gives the messages in order, then raises EOFError.
    """

    def __init__(self, stdin: int, stdout: int, *, queue_bytes: int, line_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = Reader(stdin, line_bytes, self._lines_read, self._input_ended)
        self._writer = Writer(stdout, self._bytes_written, self._output_broke)
        self.output = Output(self._writer.put, limit=queue_bytes)
        self.on_arrival: Callable[[bytes | None], Any] = lambda line: line
        self.on_end: Callable[[], None] = lambda: None
        #: Called on the reader's thread, when the loop may be blocked.
        self.on_end_seen: Callable[[], None] = lambda: None
        self.on_broken: Callable[[], None] = lambda: None
        #: The messages that wait for their turn, each with the bytes that it counts for.
        self._messages: deque[tuple[Any, int]] = deque()
        self._ended = False
        self._arrived = asyncio.Event()
        self._lock = threading.Lock()
        self._held_bytes = 0

    def start(self) -> None:
        self._writer.start()
        self._reader.start()

    async def next(self) -> Any:
        """The next message. Raises EOFError after the last."""
        while not self._messages:
            if self._ended:
                raise EOFError
            self._arrived.clear()
            await self._arrived.wait()
        message, size = self._messages.popleft()
        self._release(size)
        return message

    def waiting(self) -> Iterator[Any]:
        """The messages whose turn has not come."""
        return (message for message, _ in self._messages)

    def remove(self, message: Any) -> None:
        """Take a message out of the line: it has been dealt with."""
        for entry in self._messages:
            if entry[0] is message:
                self._messages.remove(entry)
                self._release(entry[1])
                return

    def _release(self, size: int) -> None:
        """Some input is held no longer."""
        with self._lock:
            self._held_bytes -= size
            if self._held_bytes <= RESUME_BELOW:
                self._reader.resume()

    # On the reader's and the writer's threads

    def _lines_read(self, lines: Sequence[bytes | None]) -> None:
        with self._lock:
            self._held_bytes += sum(map(_size, lines))
            if self._held_bytes > HOLD_ABOVE:
                self._reader.hold()
        self._call(self._arrive, lines)

    def _input_ended(self) -> None:
        self.on_end_seen()
        self._call(self._end)

    def _bytes_written(self, count: int) -> None:
        self._call(self.output.written, count)

    def _output_broke(self) -> None:
        self._call(self._broken)

    def _call(self, function: Callable[..., None], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:  # the loop is closed: the process is about to exit
            return

    # On the loop

    def _arrive(self, lines: Sequence[bytes | None]) -> None:
        for line in lines:
            message = self.on_arrival(line)
            if message is None:
                self._release(_size(line))
            else:
                self._messages.append((message, _size(line)))
        self._arrived.set()

    def _end(self) -> None:
        self._ended = True
        self._arrived.set()
        self.on_end()

    def _broken(self) -> None:
        self.on_broken()


def _size(line: bytes | None) -> int:
    return 64 if line is None else len(line) + 64
