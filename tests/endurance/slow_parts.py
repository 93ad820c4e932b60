"""What the tests of slow peers share: an agent process whose memory is watched, and a provider that sends exact bytes."""

from __future__ import annotations

import json
import os
import re
import select
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support.surroundings import rpc, surroundings

#: Seconds after which something that has not happened will not happen.
PATIENCE = 120.0

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


class Agent:
    """An agent process. It is read from only when a method says so."""

    def __init__(self, argv: Sequence[str], cwd: Path, env: dict[str, str], sessions: Path) -> None:
        self.process = subprocess.Popen(
            list(argv), cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        self.sessions = sessions
        self.bytes_read = 0
        self._rest = b""

    @property
    def peak(self) -> float:
        """The most memory that it has had, in MiB."""
        return int(re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text())[0]) / 1024

    def send(self, **command: Any) -> None:
        self.write(json.dumps(command).encode() + b"\n")

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def read(self, most: int) -> bytes:
        """Read what is there, at most that many bytes; nothing if nothing comes within a second."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], 1.0)[0]:
            return b""
        data = os.read(self.process.stdout.fileno(), most)
        self.bytes_read += len(data)
        return data

    def until(self, marker: bytes, seconds: float = PATIENCE) -> bytes:
        """Read until a line has this text, and return the line."""
        end = time.monotonic() + seconds
        parts = [self._rest]
        while time.monotonic() < end:
            data = self.read(1 << 16)
            parts.append(data)
            if b"\n" in data:
                *lines, rest = b"".join(parts).split(b"\n")
                parts = [rest]
                for number, line in enumerate(lines):
                    if marker in line:
                        self._rest = b"\n".join([*lines[number + 1 :], rest])
                        return line
            if self.process.poll() is not None:
                break
        raise AssertionError(f"{marker!r} did not come; exit code {self.process.poll()}; {self._complaint()}")

    def leave(self, seconds: float = 10.0) -> float:
        """Close both pipes, as a host does that is gone. Returns the seconds until the process has ended, with exit code 0."""
        began = time.monotonic()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        code = self.process.wait(seconds)
        assert code == 0, f"exit code {code}: {self._complaint()}"
        return time.monotonic() - began

    def saved(self) -> list[Any]:
        """Return the entries of its session files. A line that has no end yet is still being written."""
        found = sorted(self.sessions.rglob("*.jsonl"))
        return [json.loads(line) for path in found for line in path.read_bytes().split(b"\n")[:-1] if line]

    def _complaint(self) -> str:
        if self.process.poll() is None or self.process.stderr is None:
            return ""
        return self.process.stderr.read().decode("utf-8", "replace")[-2_000:]


@contextmanager
def agent(root: Path, url: str, *flags: str, dialect: str = "pi", settings: dict[str, Any] | None = None) -> Generator[Agent]:
    """Start an agent whose models are at `url`. What is left of it is killed at the end."""
    around = surroundings(root, url, settings=settings)
    started = Agent(rpc(dialect, *flags), around.cwd, dict(around.env), around.home / "sessions")
    try:
        yield started
    finally:
        started.process.kill()
        started.process.wait()
        for pipe in (started.process.stdin, started.process.stdout, started.process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


@contextmanager
def provider(body: Callable[[int], Iterable[bytes]]) -> Generator[str]:
    """Serve HTTP on loopback: the answer to the request with a number, from 0, is what `body` yields, in just those pieces."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        numbers = iter(range(1_000_000))
        open_connections: list[socket.socket] = []

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    open_connections.append(connection)
                    threading.Thread(target=answer, args=(connection,), daemon=True).start()

        def answer(connection: socket.socket) -> None:
            with suppress(OSError), connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _read_request(connection)
                connection.sendall(_HEAD)
                for piece in body(next(numbers)):
                    connection.sendall(piece)

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        for connection in open_connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)


def _read_request(connection: socket.socket) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(1 << 16) or _gone()
    head, _, body = data.partition(b"\r\n\r\n")
    found = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    missing = (int(found[1]) if found else 0) - len(body)
    while missing > 0:
        missing -= len(connection.recv(1 << 16) or _gone())


def _gone() -> bytes:
    raise ConnectionError


# Anthropic's events, which the model of the tests speaks


def event(kind: str, **fields: Any) -> bytes:
    """Return one event as it goes over the wire."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), json.dumps({"type": kind, **fields}).encode())


def beginning(block: dict[str, Any]) -> bytes:
    """Return the events with which a message and its only block begin."""
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": "fake-1",
        "usage": {"input_tokens": 1},
    }
    return event("message_start", message=message) + event("content_block_start", index=0, content_block=block)


def ending(reason: str) -> bytes:
    """Return the events with which the block and the message end."""
    delta = event("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": 5})
    return event("content_block_stop", index=0) + delta + event("message_stop")


def text_delta(text: str) -> bytes:
    return event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})


def arguments_delta(text: str) -> bytes:
    return event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": text})


def an_answer(text: str, size: int = 64) -> Iterator[bytes]:
    """Yield an answer with this text, in deltas of `size` characters."""
    yield beginning({"type": "text", "text": ""})
    for at in range(0, len(text), size):
        yield text_delta(text[at : at + size])
    yield ending("end_turn")
