"""Drive an agent that speaks one JSON object per line over pipes, and measure it. Linux only.

One thread, no decoding beyond a few fields: the driver shares two cores with what it measures.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec


class BenchError(Exception):
    """An agent did not do the work. The text shows its last output."""


class _StreamEvent(msgspec.Struct):
    type: str


class _Message(msgspec.Struct):
    stop_reason: str | None = msgspec.field(default=None, name="stopReason")
    error: str | None = msgspec.field(default=None, name="errorMessage")


class Frame(msgspec.Struct):
    """What the driver reads from a line of output."""

    type: str
    id: str | None = None
    success: bool = True
    will_retry: bool = msgspec.field(default=False, name="willRetry")
    event: _StreamEvent | None = msgspec.field(default=None, name="assistantMessageEvent")
    message: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    #: The data of a response. It is decoded after timing.
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    is_error: bool = msgspec.field(default=False, name="isError")


_decode = msgspec.json.Decoder(Frame).decode


def _problem(frame: Frame) -> str | None:
    """Return why the figures are meaningless, if they are. No workload should fail."""
    if frame.type == "response" and not frame.success:
        return "a command was refused"
    if frame.type == "tool_execution_end" and frame.is_error:
        return "a tool failed"
    if frame.type == "message_end" and frame.message is not msgspec.UNSET:
        message = msgspec.json.decode(frame.message, type=_Message)
        if message.stop_reason in ("error", "aborted"):
            return f"the model's answer failed ({message.error})"
    return None


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far: all threads, without children."""
    return time.clock_gettime((~pid << 3) | 2)  # the kernel's number for another process's CPU clock


def peak_memory(pid: int) -> float:
    """Return the largest memory of a process so far, in MiB."""
    return int(Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0]) / 1024


class AgentProcess:
    """A running agent.

    `bytes_out` counts everything it has written. `update_bytes` counts `message_update` frames except the last one: each delays
    the next, so the last one costs no measured time.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], directory: str) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed by finish or kill)
        self.directory = directory
        self.started = time.perf_counter()
        self._process = subprocess.Popen(
            command,
            env=dict(environment),
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            bufsize=0,
        )
        assert self._process.stdin and self._process.stdout
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self.bytes_out = 0
        self.update_bytes = 0
        self._last_update = 0
        #: The pieces of an incomplete line: an answer of many megabytes arrives in small pieces.
        self._pieces: list[bytes] = []
        self._last_line = b""
        self._unseen: deque[tuple[float, Frame]] = deque()

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def send(self, **frame: object) -> float:
        """Send a command and return the time."""
        with contextlib.suppress(BrokenPipeError):  # waiting for the answer reports that the agent has ended, and why
            self._stdin.write(json.dumps(frame).encode() + b"\n")
        return time.perf_counter()

    def wait_for(self, test: Callable[[Frame], bool], what: str, timeout: float) -> float:
        """Wait for the next frame that passes `test`, drop the ones before it, and return the time it arrived."""
        return self._next(test, what, timeout)[0]

    def ask(self, type: str, timeout: float, **fields: object) -> tuple[float, Frame]:
        """Send a command and wait for its response, which must be a success. Return the time it was read, and the response."""
        self.send(id=type, type=type, **fields)
        return self._next(lambda frame: frame.type == "response" and frame.id == type, f"{type} answer", timeout)

    def cpu_seconds(self) -> float:
        """Return the CPU time of the process so far: all threads, without children."""
        return cpu_seconds(self._process.pid)

    def children_cpu_seconds(self) -> float:
        """Return the CPU time of the programs that the process has started and that have ended."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")

    def wait_until_idle(self) -> None:
        """Wait until the agent has slept for a while, so that background work after its first answers is over."""
        asleep = 0
        while asleep < 25:  # half a second: after a fifth of one, fairlead looks for what killed processes left behind
            time.sleep(0.02)
            # Not from the CPU time: on a busy machine, an agent that wants to work may get none.
            try:
                threads = [path.read_text() for path in Path(f"/proc/{self._process.pid}/task").glob("*/stat")]
            except (FileNotFoundError, ProcessLookupError):  # a thread ended meanwhile
                asleep = 0
            else:
                asleep = asleep + 1 if all(thread.rpartition(")")[2].split()[0] == "S" for thread in threads) else 0

    def finish(self, timeout: float = 10) -> float:
        """Close the agent's input, wait for its end, and return its peak memory in MiB.

        Not from `wait4`: that also counts what this process held when it started the agent.
        """
        peak = peak_memory(self._process.pid)
        with contextlib.suppress(OSError):
            self._stdin.close()
        deadline = time.perf_counter() + timeout
        while self._read(deadline - time.perf_counter()):
            pass
        handle = os.pidfd_open(self._process.pid)
        ended, _, _ = select.select([handle], [], [], max(0, deadline - time.perf_counter()))
        os.close(handle)
        if not ended:
            self._process.send_signal(signal.SIGKILL)
        _, status, _ = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._stdout.close()
        self._stderr.close()
        if not ended:
            raise BenchError(f"did not end within {timeout:g} s after its input did")
        return peak

    def kill(self) -> None:
        """End the agent without measuring. Does nothing after `finish`."""
        if self._process.returncode is None:
            self._process.kill()
            self._process.wait()
            for file in (self._stdin, self._stdout, self._stderr):
                file.close()

    def _next(self, test: Callable[[Frame], bool], what: str, timeout: float) -> tuple[float, Frame]:
        deadline = time.perf_counter() + timeout
        while True:
            while self._unseen:
                when, frame = self._unseen.popleft()
                if test(frame):
                    return when, frame
            if not self._read(deadline - time.perf_counter()):
                ended = time.perf_counter() < deadline
                raise self._failure(f"its output ended before the {what}" if ended else f"no {what} within {timeout:g} s")

    def _read(self, timeout: float) -> bool:
        """Read the agent's output. Return False at its end or on timeout."""
        ready, _, _ = select.select([self._stdout], [], [], max(0, timeout))
        data = os.read(self._stdout.fileno(), 1 << 20) if ready else b""
        now = time.perf_counter()
        self.bytes_out += len(data)
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = b"".join((*self._pieces, lines[0]))
            self._pieces.clear()
            self._last_line = lines[-1]
        self._pieces.append(rest)
        for line in lines:
            self._take(now, line)
        return bool(data)

    def _take(self, now: float, line: bytes) -> None:
        try:
            frame = _decode(line)
        except msgspec.DecodeError as error:
            raise self._failure(f"a line that is not a frame ({error})") from None
        if frame.type == "message_update":
            self.update_bytes += self._last_update
            self._last_update = len(line) + 1
        if problem := _problem(frame):
            raise self._failure(problem)
        self._unseen.append((now, frame))

    def _failure(self, what: str) -> BenchError:
        self._stderr.seek(0)
        said = self._stderr.read()[-600:].decode(errors="replace").strip()
        last = self._last_line[:300].decode(errors="replace")
        return BenchError(f"{what}; last line: {last or 'none'}; stderr: {said or 'empty'}")
