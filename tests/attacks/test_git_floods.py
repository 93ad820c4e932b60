"""A server of a repository floods the git of a job: the beginning and the end are kept, and the job can be cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import repeat
from pathlib import Path

import pytest

from fairlead.jobs.workspaces.git import call_git

MIB = 1 << 20
COMMIT = b"1" * 40


def packet(data: bytes) -> bytes:
    return b"%04x" % (len(data) + 4) + data


class Flood(BaseHTTPRequestHandler):
    """Advertises a commit, and sends messages for the user in its place."""

    #: How many mebibytes of messages there are; None: no end.
    size: int | None = None
    asked = threading.Event()

    def do_GET(self) -> None:
        refs = packet(COMMIT + b" HEAD\0side-band-64k no-done\n") + packet(COMMIT + b" refs/heads/main\n")
        self._answer("advertisement", packet(b"# service=git-upload-pack\n") + b"0000" + refs + b"0000")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer("result", packet(b"NAK\n") + packet(b"\2the beginning\n"))
        pieces = [packet(b"\2" + b"x" * 32_000 + b"\n") * 32]
        try:
            for piece in repeat(pieces[0]) if self.size is None else pieces * self.size:
                self.wfile.write(piece)
                type(self).asked.set()
            self.wfile.write(packet(b"\3the end\n"))
        except OSError:
            pass  # git has gone

    def _answer(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", f"application/x-git-upload-pack-{kind}")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def flooding(size: int | None) -> Generator[tuple[str, threading.Event]]:
    """The address of a server on loopback, and whether it has begun."""
    handler = type("Sized", (Flood,), {"size": size, "asked": threading.Event()})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/x.git", handler.asked
        server.shutdown()


async def test_of_the_messages_of_a_server_the_beginning_and_the_end_are_kept(tmp_path: Path) -> None:
    with flooding(16) as (address, _):
        code, _, errors = await call_git("clone", "--bare", address, str(tmp_path / "made"), data=tmp_path, address=address)
    assert code and len(errors) <= 128 * 1024
    assert b"remote: the beginning" in errors and b"the end" in errors


async def test_a_job_that_a_server_floods_can_be_cancelled(tmp_path: Path) -> None:
    with flooding(None) as (address, asked):
        task = asyncio.create_task(call_git("clone", "--bare", address, str(tmp_path / "made"), data=tmp_path, address=address))
        assert await asyncio.to_thread(asked.wait, 30)
        task.cancel()
        async with asyncio.timeout(20):
            with pytest.raises(asyncio.CancelledError):
                await task
