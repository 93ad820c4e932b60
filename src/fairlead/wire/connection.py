"""A host's end of standard input and output, as the event loop sees it."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from fairlead.wire.output import Output
from fairlead.wire.stdio import Reader, Writer

#: Bytes of undispatched lines at which reading stops, and goes on again.
HOLD, GO_ON = 1 << 20, 1 << 18


class Connection:
    """Lines in, frames out. `next_line` gives the lines in order, then raises EOFError.

    `on_arrival` is called with each line as it comes, before it is its turn: some lines must act even while others wait. If it
    returns True, the line has been dealt with, and has no turn any more. `is_urgent` says of a line, once, whether it may have to
    act while others wait: only such lines are looked at again.
    """

    def __init__(self, stdin: int, stdout: int, *, queue_bytes: int, line_bytes: int, max_frame: int | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = Reader(stdin, line_bytes, self._lines_read, self._input_ended)
        self._writer = Writer(stdout, self._bytes_written, self._output_broke)
        self.output = Output(self._writer.put, limit=queue_bytes, max_frame=max_frame)
        self.on_arrival: Callable[[bytes], bool] = lambda line: False
        self.is_urgent: Callable[[bytes], bool] = lambda line: False
        self.on_end: Callable[[], None] = lambda: None
        #: Called on the reader's thread, when the loop may be blocked.
        self.on_end_seen: Callable[[], None] = lambda: None
        self.on_broken: Callable[[], None] = lambda: None
        self._lines: deque[bytes | None] = deque()
        self._urgent: deque[bytes] = deque()
        self._ended = False
        self._arrived = asyncio.Event()
        self._lock = threading.Lock()
        self._held_bytes = 0

    def start(self) -> None:
        self._writer.start()
        self._reader.start()

    async def next_line(self) -> bytes | None:
        """The next line without its LF; None stands for one that was too long. Raises EOFError after the last."""
        while not self._lines:
            if self._ended:
                raise EOFError
            self._arrived.clear()
            await self._arrived.wait()
        line = self._lines.popleft()
        if self._urgent and self._urgent[0] is line:
            self._urgent.popleft()
        self._let_go(line)
        return line

    def waiting(self) -> list[bytes]:
        """The lines whose turn has not come."""
        return [line for line in self._lines if line is not None]

    def before(self, line: bytes) -> Iterator[bytes]:
        """Those of them whose turn comes before that of `line`."""
        return (other for other in takewhile(lambda other: other is not line, self._lines) if other is not None)

    def urgent(self) -> list[bytes]:
        """Those of them that are urgent."""
        return list(self._urgent)

    def reconsider(self) -> None:
        """Show the urgent lines whose turn has not come to `on_arrival` once more."""
        for line in self.urgent():
            if self.on_arrival(line):
                self._lines.remove(line)
                self._urgent.remove(line)
                self._let_go(line)

    def _let_go(self, line: bytes | None) -> None:
        """A line is held no longer."""
        with self._lock:
            self._held_bytes -= _size(line)
            if self._held_bytes <= GO_ON:
                self._reader.go_on()

    # On the reader's and the writer's threads

    def _lines_read(self, lines: Sequence[bytes | None]) -> None:
        with self._lock:
            self._held_bytes += sum(map(_size, lines))
            if self._held_bytes > HOLD:
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
            self._lines.append(line)
            if line is None:
                continue
            if self.on_arrival(line):
                self._let_go(self._lines.pop())
            elif self.is_urgent(line):
                self._urgent.append(line)
        self._arrived.set()

    def _end(self) -> None:
        self._ended = True
        self._arrived.set()
        self.on_end()

    def _broken(self) -> None:
        self.on_broken()


def _size(line: bytes | None) -> int:
    return 64 if line is None else len(line) + 64
