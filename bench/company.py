"""Measure how many sessions one process can stream: 300 agents in one event loop, each with 50 pieces a second.

Every piece has the time at which it was sent, on the clock of the machine, so that the agent's process can measure its delay.
The provider is a separate process. It writes each piece with one call, spread evenly over time, as 300 models would.

piece          microseconds of CPU for each piece
share          the share of a core that the sessions take
late, latest   milliseconds from the sending of a piece to its event, for 99 of 100 pieces, and for all
active         KiB that a session takes while it answers

The agents run in a separate process: `python -m bench.company SESSIONS SECONDS` prints the figures as JSON.
"""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import socket
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.driver import BenchError
from bench.lasting import resident

if TYPE_CHECKING:
    from fairlead import Agent

SESSIONS, SECONDS = 300, 20
#: Pieces a second in each session.
PACE = 50
_ROUND = 10_000_000

_PROVIDER = {"api": "anthropic-messages", "apiKey": "no-secret", "models": [{"id": "one"}]}
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_BEGIN: tuple[Mapping[str, Any], ...] = (
    {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "one"}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
)
_END: tuple[Mapping[str, Any], ...] = (
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
)


def company(sessions: int = SESSIONS, seconds: int = SECONDS) -> dict[str, float]:
    """Return the figures of a number of sessions that answer at the same time in one process."""
    command = [sys.executable, "-m", "bench.company", str(sessions), str(seconds)]
    done = subprocess.run(command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"the sessions did not answer: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


async def measure(sessions: int, seconds: int) -> dict[str, float]:
    with socket.create_server(("127.0.0.1", 0), backlog=sessions) as listener, tempfile.TemporaryDirectory() as folder:
        provider = multiprocessing.get_context("fork").Process(target=_provide, args=(listener, sessions, seconds * PACE))
        provider.start()
        try:
            _write_models(folder, listener.getsockname()[1])
            agents = [_agent(folder) for _ in range(sessions)]
            gc.collect()
            idle, before = resident(), time.process_time()
            lates = await asyncio.gather(*map(_delays, agents))
            cpu = time.process_time() - before
            active = (resident("VmHWM") - idle) / sessions * 1024
            for agent in agents:
                await agent.close()
        finally:
            provider.terminate()
            provider.join()
    delays = sorted(delay for each in lates for delay in each)
    if len(delays) < sessions * (seconds - 1) * PACE:
        raise SystemExit(f"only {len(delays)} pieces came")
    return {
        "piece": cpu / (sessions * seconds * PACE) * 1e6,
        "share": cpu / seconds,
        "late": delays[len(delays) * 99 // 100] * 1000,
        "latest": delays[-1] * 1000,
        "active": active,
    }


def _write_models(folder: str, port: int) -> None:
    provider = {**_PROVIDER, "baseUrl": f"http://127.0.0.1:{port}"}
    Path(folder, "models.json").write_text(json.dumps({"providers": {"scripted": provider}}))


def _agent(folder: str) -> Agent:
    from fairlead import Agent

    return Agent(model="scripted/one", cwd=folder, env={"FAIRLEAD_HOME": folder, "HOME": folder})


async def _delays(agent: Agent) -> array[float]:
    """Prompt an agent, and return how many seconds late each event was. The first second is left out: all sessions begin then."""
    from fairlead.events import TextDelta

    delays = array("f")  # small, because it is part of the measured memory
    async for event in agent.run("go"):
        if isinstance(event, TextDelta):
            now = _microseconds()
            delays.extend((now - int(stamp)) % _ROUND / 1e6 for stamp in event.text.split())
    return delays[PACE:]


def _provide(listener: socket.socket, sessions: int, pieces: int) -> None:
    """Accept one request of each session, and then write the pieces of all in turn."""
    streams: list[socket.socket] = []

    def accept(stream: socket.socket) -> None:
        received = b""
        while b"\r\n\r\n" not in received:
            received += stream.recv(65536)
        head, _, body = received.partition(b"\r\n\r\n")
        missing = int(head.lower().split(b"content-length:")[1].split()[0]) - len(body)
        while missing > 0:
            missing -= len(stream.recv(missing))
        stream.sendall(_HEAD + _chunk(*_BEGIN))
        streams.append(stream)

    acceptors = [threading.Thread(target=accept, args=(listener.accept()[0],)) for _ in range(sessions)]
    for acceptor in acceptors:
        acceptor.start()
    for acceptor in acceptors:
        acceptor.join()
    begin, step = time.monotonic(), 1 / PACE / sessions
    for number in range(pieces * sessions):
        ahead = begin + number * step - time.monotonic()
        if ahead > 0.001:
            time.sleep(ahead)
        streams[number % sessions].sendall(_piece())
    for stream in streams:
        stream.sendall(_chunk(*_END) + b"0\r\n\r\n")


def _piece() -> bytes:
    data = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%07d "}}' % _microseconds()
    return _encode_chunk(b"event: content_block_delta\ndata: %b\n\n" % data)


def _microseconds() -> int:
    """Return the time within a round of ten seconds, so that a piece has eight characters."""
    return time.monotonic_ns() // 1000 % _ROUND


def _chunk(*events: Mapping[str, Any]) -> bytes:
    return _encode_chunk("".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events).encode())


def _encode_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(int(sys.argv[1]), int(sys.argv[2])))))
