"""Reads and writes lines on standard input and output, for every kind of file that a host may pass.

Two daemon threads do blocking reads and writes on private duplicates of fd 0 and 1. That works for pipes, sockets (which Node
uses), files, terminals and /dev/null, and a host that stops reading blocks only the writer thread. A single frame is written
without the thread if a pipe or a socket has room for it. After `take_over`, fd 0 is
/dev/null and fd 1 is stderr, so stray prints and child processes cannot disturb the protocol.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairlead.wire.host_connection import Listener

READ_SIZE = 1 << 16
#: The first size of a write, the largest one, and the seconds that a prompt write takes. A blocked write returns only when the
#: host has read all of it, so small writes show early that a slow host reads at all. Each prompt write doubles the size of the
#: next, up to the capacity of a pipe. A slower one resets the size.
WRITE_SIZE, MOST_WRITTEN, PROMPTLY = 1 << 13, 1 << 16, 0.005
#: A frame that comes this many seconds after the one before is written at once.
ALONE = 0.005
#: Milliseconds between two checks for the end of the input while reading is paused.
POLL_MS = 200


def take_over() -> tuple[int, int]:
    """Return private duplicates of standard input and output. A closed one becomes /dev/null."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            # `open` uses the lowest free number, which is this one.
            os.open(os.devnull, os.O_RDWR)
    stdin, stdout = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    return stdin, stdout


class LineSplitter:
    """Splits a stream of bytes into lines, at LF only. It scans each byte once.

    A line longer than `limit` is dropped as it arrives, and None is returned instead of it.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._dropping = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """Add data, and return the lines that are complete now, without their LF."""
        lines: list[bytes | None] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._keep(data[start:end])
            lines.append(self._take())
            start = end + 1
        if start < len(data):
            self._keep(data[start:])
        return lines

    def take_rest(self) -> list[bytes | None]:
        """Return the last line if the input ended without LF."""
        return [self._take()] if self._size or self._dropping else []

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit:
            self._dropping = True
            self._parts.clear()
        elif part:
            self._parts.append(part)

    def _take(self) -> bytes | None:
        line = None if self._dropping else self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        self._dropping = False
        return line


class Reader:
    """Reads lines on a thread. `on_lines` and `on_end` are called there, not on the event loop.

    `pause` stops reading until `resume`. The end of the input is noticed even while reading is paused.
    """

    def __init__(
        self, fd: int, limit: int, on_lines: Callable[[Sequence[bytes | None]], None], on_end: Callable[[], None]
    ) -> None:
        self._fd = fd
        self._splitter = LineSplitter(limit)
        self._on_lines = on_lines
        self._on_end = on_end
        self._may_read = threading.Event()
        self._may_read.set()

    def start(self) -> None:
        threading.Thread(target=self._work, name="fairlead-stdin", daemon=True).start()

    def pause(self) -> None:
        self._may_read.clear()

    def resume(self) -> None:
        self._may_read.set()

    def _work(self) -> None:
        ended = False
        while True:
            # After the host has left, the pipe holds only a limited rest, which is always read.
            ended = ended or (not self._may_read.is_set() and self._wait_while_held())
            try:
                data = os.read(self._fd, READ_SIZE)
            except InterruptedError:
                continue
            except BlockingIOError:  # the host shares the file description and made it non-blocking
                select.select([self._fd], [], [])
                continue
            except OSError:  # a terminal that hung up, a socket that was reset
                break
            if not data:
                break
            if lines := self._splitter.feed(data):
                self._on_lines(lines)
        if rest := self._splitter.take_rest():
            self._on_lines(rest)
        self._on_end()

    def _wait_while_held(self) -> bool:
        """Wait until reading is allowed again. Returns True if the host closed its end meanwhile."""
        poll = select.poll()
        poll.register(self._fd, getattr(select, "POLLRDHUP", 0))
        while not self._may_read.wait(POLL_MS / 1000):
            if any(flags & (select.POLLHUP | getattr(select, "POLLRDHUP", 0)) for _, flags in poll.poll(0)):
                return True
        return False


class Writer:
    """Writes frames in order. The callbacks that `start` gets are called on the writer's own thread.

    A frame that comes alone is written at once if the host's pipe has room, without blocking: waking the writer's thread would
    cost more than the write. Frames that come together are left to the thread, which joins them into larger writes, so that the
    host wakes up less often.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._frames: deque[bytes | memoryview] = deque()
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._size = WRITE_SIZE
        self._put_at = 0.0
        #: Whether the thread is writing, so that a new frame has to wait for its turn.
        self._is_busy = False
        self._can_write_at_once = hasattr(os, "pwritev") and hasattr(os, "RWF_NOWAIT")

    def start(self, on_progress: Callable[[int], None], on_broken: Callable[[], None]) -> None:
        """Write from now on, and pass on how many bytes were written, or that the host is gone."""
        threading.Thread(target=self._work, args=(on_progress, on_broken), name="fairlead-stdout", daemon=True).start()

    def put(self, frame: bytes) -> int:
        """Write a frame. Returns how many of its bytes were written at once; `on_progress` of `start` gets the others."""
        now = time.monotonic()
        is_alone, self._put_at = now - self._put_at >= ALONE, now
        with self._lock:
            written = 0
            if is_alone and self._can_write_at_once and not self._frames and not self._is_busy:
                written = self._write_at_once(frame)
            if written < len(frame):
                self._frames.append(memoryview(frame)[written:] if written else frame)
                self._wake.notify()
        return written

    def _write_at_once(self, frame: bytes) -> int:
        """Write as much as fits without blocking, and return how much that is. Only Linux can do that, with pipes and sockets.

        `O_NONBLOCK` would not serve: it would also apply to the processes that share the pipe with this one.
        """
        try:
            return os.pwritev(self._fd, (frame,), -1, os.RWF_NOWAIT)
        except BlockingIOError:
            return 0
        except OSError:  # a file, a terminal, an old kernel; or the host is gone, which the thread will notice
            self._can_write_at_once = False
            return 0

    def _work(self, on_progress: Callable[[int], None], on_broken: Callable[[], None]) -> None:
        while True:
            with self._wake:
                self._is_busy = False
                while not self._frames:
                    self._wake.wait()
                self._is_busy = True
                batch = self._next_batch()
            try:
                self._write(batch, on_progress)
            except OSError:
                on_broken()
                return

    def _next_batch(self) -> bytes | memoryview:
        frames = [self._frames.popleft()]
        size = len(frames[0])
        while self._frames and size + len(self._frames[0]) <= READ_SIZE:
            frames.append(self._frames.popleft())
            size += len(frames[-1])
        return frames[0] if len(frames) == 1 else b"".join(frames)

    def _write(self, data: bytes | memoryview, on_progress: Callable[[int], None]) -> None:
        view = memoryview(data)
        while view:
            started = time.monotonic()
            try:
                written = os.write(self._fd, view[: self._size])
            except InterruptedError:
                continue
            except BlockingIOError:  # the host shares the file description and made it non-blocking
                select.select([], [self._fd], [])
                continue
            view = view[written:]
            self._size = min(self._size * 2, MOST_WRITTEN) if time.monotonic() - started < PROMPTLY else WRITE_SIZE
            on_progress(written)


class StdioTransport:
    """Implements `fairlead.wire.host_connection.Transport` with two file descriptors. Lines over `line_bytes` are dropped."""

    def __init__(self, stdin: int, stdout: int, *, line_bytes: int) -> None:
        self._stdin = stdin
        self._line_bytes = line_bytes
        self._writer = Writer(stdout)
        self._reader: Reader | None = None
        self.put = self._writer.put

    def start(self, listener: Listener) -> None:
        self._reader = Reader(self._stdin, self._line_bytes, listener.lines_read, listener.input_ended)
        self._writer.start(listener.bytes_written, listener.output_broke)
        self._reader.start()

    def pause(self) -> None:
        if self._reader is not None:
            self._reader.pause()

    def resume(self) -> None:
        if self._reader is not None:
            self._reader.resume()
