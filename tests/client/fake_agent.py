"""Agents for the tests of clients: one that a test plays by hand over a socket, and programs that misbehave."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fairlead.client import Client

Frame = dict[str, Any]
#: Seconds after which something that has not happened will not happen.
PATIENCE = 30.0


class FakeAgent:
    """The agent's end of a connection. The test says what the agent says."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        #: Commands that came while the test waited for another one.
        self.others: list[Frame] = []

    async def command(self, name: str) -> Frame:
        """Wait for a command of that name."""
        while True:
            line = await asyncio.wait_for(self._reader.readline(), PATIENCE)
            assert line, f"the client left before {name}"
            frame = json.loads(line)
            if frame["type"] == name:
                return frame
            self.others.append(frame)

    async def next_line(self) -> Frame | None:
        """Wait for the next line of the client, whatever it is. None at the end."""
        line = await self._reader.readline()
        return json.loads(line) if line else None

    def say(self, *frames: Frame) -> None:
        """Send frames in one write."""
        self._writer.write(b"".join(json.dumps(frame).encode() + b"\n" for frame in frames))

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def drain(self) -> None:
        await self._writer.drain()

    def answer(self, command: Frame, **fields: Any) -> None:
        """Answer a command with success, unless the fields say otherwise."""
        self.say({"id": command["id"], "type": "response", "command": command["type"], "success": True, **fields})

    def refuse(self, command: Frame, error: str, **fields: Any) -> None:
        self.answer(command, success=False, error=error, **fields)

    async def answer_states(self, **state: Any) -> None:
        """Answer `get_state` for as long as the client asks."""
        while True:
            self.answer(await self.command("get_state"), data=state)

    def leave(self) -> None:
        self._writer.close()


@asynccontextmanager
async def fake_agent(**options: Any) -> AsyncGenerator[tuple[Client, FakeAgent]]:
    """A client, and the agent at the other end of a socket pair."""
    ours, theirs = socket.socketpair()
    async with Client(*await asyncio.open_connection(sock=ours), **options) as client:
        agent = FakeAgent(*await asyncio.open_connection(sock=theirs, limit=1 << 26))
        try:
            yield client, agent
        finally:
            agent.leave()


def program(folder: Path, text: str) -> list[str]:
    """The command line of a Python program that plays an agent. It has `say(**frame)` and `commands()`."""
    path = folder / "agent.py"
    path.write_text(_PRELUDE + text)
    return [sys.executable, str(path)]


_PRELUDE = """
import json, os, signal, subprocess, sys, time

def say(**frame):
    sys.stdout.write(json.dumps(frame) + "\\n")
    sys.stdout.flush()

def answer(command, **fields):
    say(**{"id": command["id"], "type": "response", "command": command["type"], "success": True, **fields})

def commands():
    for line in sys.stdin:
        yield json.loads(line)

"""


def assistant(text: str, **fields: Any) -> Frame:
    """An assistant message as pi sends it."""
    zero = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
    usage = {"input": 10, "output": 5, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 15, "cost": zero}
    content = [{"type": "text", "text": text}] if text else []
    return {
        "role": "assistant",
        "content": content,
        "api": "a",
        "provider": "p",
        "model": "m",
        "usage": usage,
        "stopReason": "stop",
        "timestamp": 1,
        **fields,
    }


def run_frames(text: str, **fields: Any) -> list[Frame]:
    """The frames of a run without updates, up to its `agent_end`."""
    message = assistant(text, **fields)
    return [
        {"type": "agent_start"},
        {"type": "message_end", "message": {"role": "user", "content": "hi", "timestamp": 1}},
        {"type": "message_end", "message": message},
        {"type": "agent_end", "messages": [message]},
    ]


SETTLED: Frame = {"type": "agent_settled"}
