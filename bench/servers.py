"""Measure a server with many sessions: `fairlead serve`, and `opencode serve` from npm.

A server gets 1,000 sessions. 200 of them are prompted at the same moment, and answer at the same time, each with pieces at the
pace of a fast model. A client reads all events: of fairlead over one connection for each of the 200 sessions, of opencode over
one connection, because its stream of events has those of all sessions.

idle           KiB that one more session takes
active         KiB that a session takes while it answers, without what it takes anyway
piece          microseconds of CPU in the server for each piece
first, worst   seconds from the moment of the prompts to the first piece, in the middle and in the worst session

The driver and the scripted provider need about as much CPU as the server. On two busy cores, `worst` says more about the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import peers
from bench.contestants import Contestant, scripted_provider, surroundings
from bench.driver import BenchError, cpu_seconds

SESSIONS, STREAMING = 1000, 200
#: How many pieces a session gets, and the milliseconds between them.
PIECES, PACE = 100, 50
#: Seconds that a step may take.
PATIENCE = 240
_PIECE = "12345678"


def contestants() -> tuple[Contestant, ...]:
    """Return the servers. Installs opencode if needed."""
    own = (
        str(Path(sys.executable).with_name("fairlead")),
        "serve",
        "--port",
        "0",
        "--max-sessions",
        "2000",
        "--model",
        "scripted/one",
    )
    others = (*peers.OPENCODE.command(), "serve", "--pure", "--port", "0")
    return Contestant("fairlead serve", own, "http"), Contestant("opencode serve", others, "http")


def many_sessions(contestant: Contestant) -> dict[str, float]:
    """Return the figures of a server with many sessions."""
    turn = {"text": _PIECE * PIECES, "chunk": len(_PIECE), "delayMs": PACE, "match": "measured"}
    kind = _Opencode if "opencode" in contestant.name else _Fairlead
    with (
        scripted_provider([{"text": "ok"}, turn]) as port,
        tempfile.TemporaryDirectory(prefix="fairlead-bench-") as root,
        _running(contestant, kind, Path(root), port) as server,
    ):
        return asyncio.run(_measure(server))


async def _measure(server: _Server) -> dict[str, float]:
    first = await server.create()
    await server.follow([first])
    await server.prompt(first, "warm up")  # what all sessions share is not counted
    await server.until_settled({first})
    before = server.memory()
    sessions = [each async for each in _create_sessions(server, SESSIONS)]
    idle = server.memory()
    figures = await _stream(server, sessions[:STREAMING])
    server.leave()
    return {"idle": (idle - before) / SESSIONS, "active": (figures.pop("peak") - idle) / STREAMING, **figures}


async def _create_sessions(server: _Server, count: int) -> AsyncIterator[str]:
    for _ in range(count // 10):
        for each in await asyncio.gather(*(server.create() for _ in range(10))):
            yield each


async def _stream(server: _Server, sessions: list[str]) -> dict[str, float]:
    """Prompt sessions at the same moment, and return figures about their answers."""
    await server.follow(sessions)
    cpu = server.cpu()
    began = time.perf_counter()
    watching = asyncio.create_task(server.peak())
    await asyncio.gather(*(server.prompt(each, "measured") for each in sessions))
    await server.until_settled(set(sessions))
    wall = time.perf_counter() - began
    watching.cancel()
    for each in sessions:
        if server.heard[each].characters != len(_PIECE) * PIECES:
            raise BenchError(f"a session got {server.heard[each].characters} characters")
    waits = [server.heard[each].first - began for each in sessions]
    piece = (server.cpu() - cpu) / len(sessions) / PIECES * 1e6
    return {
        "piece": piece,
        "first": statistics.median(waits),
        "worst": max(waits),
        "wall": wall,
        "peak": max(server.highest, server.memory()),
    }


@dataclass
class _Heard:
    """What has arrived from a session."""

    first: float = 0.0
    characters: int = 0
    settled: bool = False


@dataclass
class _Server(ABC):
    """A running server and the events that have arrived from it."""

    port: int
    pid: int
    headers: Mapping[str, str]
    heard: dict[str, _Heard] = field(default_factory=dict[str, _Heard])
    highest: float = 0.0
    _tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def memory(self) -> float:
        """Return the KiB that belong to the server alone."""
        return float(re.findall(r"RssAnon:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())[0])

    def cpu(self) -> float:
        return cpu_seconds(self.pid)

    async def peak(self) -> None:
        while True:
            self.highest = max(self.highest, self.memory())
            await asyncio.sleep(0.1)

    @abstractmethod
    async def create(self) -> str:
        """Begin a session and return its id."""

    @abstractmethod
    async def prompt(self, session: str, text: str) -> None:
        """Send a prompt to a session."""

    @abstractmethod
    async def follow(self, sessions: list[str]) -> None:
        """Read the events of sessions from now on."""

    async def call(self, path: str, body: Any) -> Any:
        """Send a POST request and return the decoded response."""
        reader, writer = await self._request("POST", path, json.dumps(body).encode())
        with contextlib.closing(writer):
            response = await asyncio.wait_for(reader.read(), PATIENCE)
        head, _, content = response.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 2"):
            raise BenchError(f"{path}: {response[:300]!r}")
        return json.loads(content) if content else None

    async def listen(self, path: str, take: Callable[[bytes], None]) -> None:
        """Connect to a stream of events, and call `take` with every line of them from now on."""
        reader, writer = await self._request("GET", path, b"")
        if not (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200"):
            raise BenchError(f"{path}: no events")

        async def read() -> None:
            with contextlib.closing(writer):
                while line := await reader.readline():
                    if line.startswith(b"data:"):
                        take(line)

        self._tasks.append(asyncio.create_task(read()))

    async def until_settled(self, sessions: set[str]) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not all(self.heard[each].settled for each in sessions):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            late = sum(not self.heard[each].settled for each in sessions)
            raise BenchError(f"{late} sessions did not end within {PATIENCE} s") from None

    def on_settled(self, session: str) -> None:
        self.heard[session].settled = True
        self._changed.set()

    def piece(self, session: str, characters: int) -> None:
        heard = self.heard[session]
        heard.first = heard.first or time.perf_counter()
        heard.characters += characters

    def leave(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _request(self, method: str, path: str, body: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24)
        fields = {
            "Host": f"127.0.0.1:{self.port}",
            "Content-Type": "application/json",
            "Content-Length": len(body),
            "Connection": "close",
            **self.headers,
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        return reader, writer


class _Fairlead(_Server):
    async def create(self) -> str:
        return (await self.call("/v1/sessions", {}))["id"]

    async def prompt(self, session: str, text: str) -> None:
        await self.call(f"/v1/sessions/{session}/prompt", {"text": text})

    async def follow(self, sessions: list[str]) -> None:
        for session in sessions:
            self.heard[session] = _Heard()
            await self.listen(f"/v1/sessions/{session}/events", lambda line, session=session: self._take(session, line))

    def _take(self, session: str, line: bytes) -> None:
        if b'"text_delta"' in line:
            self.piece(session, len(re.findall(rb'"delta":"([^"]*)"', line)[0]))
        elif b'"agent_settled"' in line:
            self.on_settled(session)


class _Opencode(_Server):
    async def create(self) -> str:
        # Without a title it would ask the model for one.
        return (await self.call("/session", {"title": "bench"}))["id"]

    async def prompt(self, session: str, text: str) -> None:
        model = {"providerID": "scripted", "modelID": "one"}
        await self.call(f"/session/{session}/prompt_async", {"model": model, "parts": [{"type": "text", "text": text}]})

    async def follow(self, sessions: list[str]) -> None:
        self.heard |= {session: _Heard() for session in sessions}
        if not self._tasks:
            await self.listen("/event", self._take)

    def _take(self, line: bytes) -> None:
        if b'"message.part.delta"' in line or b'"session.idle"' in line:
            event = json.loads(line[5:])
            about = event["properties"]
            if about["sessionID"] not in self.heard:
                return
            if event["type"] == "session.idle":
                self.on_settled(about["sessionID"])
            elif about["field"] == "text":
                self.piece(about["sessionID"], len(about["delta"]))


@contextlib.contextmanager
def _running(contestant: Contestant, kind: type[_Server], root: Path, provider: int) -> Generator[_Server]:
    """Start a server and wait until it listens."""
    environment, directory = surroundings(root, provider)
    environment |= _opencode_settings(provider)
    errors = root / "stderr"
    with errors.open("wb") as log:
        process = subprocess.Popen(
            contestant.command, env=environment, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
        )
    assert process.stdout is not None
    try:
        port = _port_of(process)
        token = Path(environment["FAIRLEAD_HOME"], "serve.token")
        headers = {"Authorization": f"Bearer {token.read_text().strip()}"} if token.exists() else {}
        yield kind(port, process.pid, headers)
    except (OSError, TimeoutError, EOFError) as error:
        raise BenchError(f"{error!r}; stderr: {errors.read_text(errors='replace')[-600:] or 'empty'}") from None
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _port_of(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(rb"http://127\.0\.0\.1:(\d+)", line):
            return int(found[1])
    raise EOFError("the server ended before it listened")


def _opencode_settings(provider: int) -> dict[str, str]:
    """Return variables with which opencode uses the scripted provider and nothing from the network."""
    model = {"name": "one", "limit": {"context": 20_000_000, "output": 8192}}
    options = {"baseURL": f"http://127.0.0.1:{provider}/v1", "apiKey": "no-secret"}
    config = {
        "autoupdate": False,
        "share": "disabled",
        "model": "scripted/one",
        "small_model": "scripted/one",
        "provider": {"scripted": {"npm": "@ai-sdk/anthropic", "options": options, "models": {"one": model}}},
    }
    names = ("MODELS_FETCH", "AUTOUPDATE", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    return {"OPENCODE_CONFIG_CONTENT": json.dumps(config), **{f"OPENCODE_DISABLE_{name}": "1" for name in names}}
