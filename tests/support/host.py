"""A host: starts the agent, writes lines to it, and reads its frames on a thread.

Whoever waits, waits for a frame. A wait that lasts too long fails with everything that was said so far.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support import published

Frame = dict[str, Any]

#: Seconds after which something that has not happened will not happen. Generous: the machine may be busy.
PATIENCE = 30.0
#: Seconds in which the agent has left, though it promises one: beside its own work, a busy machine has to notice that the
#: host left, schedule three threads, and take down the process.
SOON = 2.0
#: Bytes to read at a time where no more may be read than needed.
SMALL_READ = 4096


class Host:
    """A running agent and its two pipes. Leaving the `with` block kills what is left of it, and compares what went over the
    pipes with what is published of the dialect."""

    def __init__(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], *, reading: bool = True, read_size: int = 1 << 20
    ) -> None:
        self.frames: list[Frame] = []
        self.bytes_read = 0
        #: Bytes of the longest line, its LF included.
        self.longest_line = 0
        self.at_end = False
        self._asked = 0
        self._read_size = read_size
        self._pause = 0.0
        self._unended: list[bytes] = []
        self._dialect = published.dialect_of(argv, env)
        self._written: list[bytes] = []
        #: The lines that `frames` were read from: tests take frames apart.
        self._heard: list[bytes] = []
        self._changed = threading.Condition()
        self._stderr_path = cwd.parent / "stderr.txt"
        with self._stderr_path.open("wb") as stderr:
            self.process = subprocess.Popen(
                list(argv), cwd=cwd, env=dict(env), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, bufsize=0
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        if reading:
            self.start_reading()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        if self._reader.ident is not None:
            self._reader.join(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        if kind is None and self._dialect is not None:
            published.check(self._dialect, b"".join(self._written), self._heard)

    # Saying

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self._written.append(data)
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view) :]

    def send(self, command: Frame) -> None:
        self.write(json.dumps(command, ensure_ascii=False).encode() + b"\n")

    def request(self, type: str, /, *, id: Any = None, **fields: Any) -> Frame:
        """Send a command and give its response."""
        self._asked += 1
        ident = f"r{self._asked}" if id is None else id
        since = self.mark()
        self.send({"id": ident, "type": type, **fields})
        return self.response(ident, since=since)

    def prompt(self, message: str, *, id: Any = "p", **fields: Any) -> list[Frame]:
        """Prompt and wait until the work is over; what was sent meanwhile."""
        since = self.mark()
        self.send({"id": id, "type": "prompt", "message": message, **fields})
        self.until("agent_settled", since=since)
        return self.frames[since:]

    # Hearing

    @property
    def rest(self) -> bytes:
        """What was read since the last line's end."""
        return b"".join(self._unended)

    def mark(self) -> int:
        """The place of the next frame, to wait `since`."""
        return len(self.frames)

    def until(self, type: str, *, since: int = 0, nth: int = 1, **fields: Any) -> Frame:
        """The first frame (or the nth) of that type, and with those fields."""
        wanted = " ".join([type, *(f"{name}={value!r}" for name, value in fields.items())])
        return self.wait_for(
            lambda frame: frame.get("type") == type and all(frame.get(name) == value for name, value in fields.items()),
            f"{wanted} (number {nth})",
            since=since,
            nth=nth,
        )

    def response(self, id: Any, *, since: int = 0) -> Frame:
        return self.until("response", since=since, id=id)

    def update(self, inner: str, *, since: int = 0) -> Frame:
        """The first `message_update` of that kind."""
        return self.wait_for(
            lambda frame: frame["type"] == "message_update" and frame["assistantMessageEvent"]["type"] == inner,
            f"message_update {inner}",
            since=since,
        )

    def wait_for(self, condition: Callable[[Frame], bool], wanted: str, *, since: int = 0, nth: int = 1) -> Frame:
        deadline = time.monotonic() + PATIENCE
        place = since
        with self._changed:
            while True:
                while place < len(self.frames):
                    nth -= condition(self.frames[place])
                    if not nth:
                        return self.frames[place]
                    place += 1
                left = deadline - time.monotonic()
                if self.at_end or left <= 0:
                    why = "the output ended" if self.at_end else f"{PATIENCE:g} seconds passed"
                    raise AssertionError(f"{why} before {wanted}\n{self._said()}")
                self._changed.wait(left)

    def start_reading(self) -> None:
        self._reader.start()

    def slow_down(self, pause: float, read_size: int | None = None) -> None:
        """From now on spend `pause` seconds on something else after each read, and read no more than `read_size` bytes."""
        self._pause = pause
        self._read_size = read_size or self._read_size

    def read_until(self, marker: bytes) -> None:
        """Read, as a host that does not do so by itself, until a line has begun that holds `marker` and has not ended."""
        while marker not in self.rest:
            self._read_a_little(marker)

    def read_frame(self, type: str) -> Frame:
        """Read, as a host that does not do so by itself, until a frame of that type has come; that frame."""
        while True:
            for frame in self.frames:
                if frame["type"] == type:
                    return frame
            self._read_a_little(type)

    # Ending

    def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def exit_code(self, patience: float = PATIENCE) -> int:
        """The exit code, once the process has ended and all of its output is read."""
        code = self.process.wait(patience)
        if self._reader.ident is not None:
            self._reader.join(patience)
        return code

    def leave(self) -> int:
        """Close the input, as a host does that is done. Returns the exit code."""
        self.close_input()
        return self.exit_code()

    def stderr(self) -> str:
        return self._stderr_path.read_text("utf-8", "replace")

    # Inside

    def _read_a_little(self, wanted: object) -> None:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        assert ready, f"{wanted!r} did not come\n{self._said()}"
        self._take(os.read(self.process.stdout.fileno(), SMALL_READ))

    def _read(self) -> None:
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        while data := os.read(descriptor, self._read_size):
            self._take(data)
            time.sleep(self._pause)
        with self._changed:
            self.at_end = True
            self._changed.notify_all()

    def _take(self, data: bytes) -> None:
        self._unended.append(data)
        lines: list[bytes] = []
        if b"\n" in data:
            *lines, rest = self.rest.split(b"\n")
            self._unended = [rest]
        with self._changed:
            self.bytes_read += len(data)
            self.longest_line = max([self.longest_line, *(len(line) + 1 for line in lines)])
            self._heard += lines
            self.frames.extend(json.loads(line.decode("utf-8", "strict")) for line in lines)
            self._changed.notify_all()

    def _said(self) -> str:
        shown = "\n".join(json.dumps(frame)[:300] for frame in self.frames[-40:])
        return f"the last frames:\n{shown}\nstderr:\n{self.stderr()[-2000:]}"
