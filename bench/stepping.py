"""A provider that sends what it is told, when it is told, so that the work of an agent does not depend on time.

The caller drives both ends: it sends the agent a command, waits for the agent's request, sends a part of the answer, and waits
until the agent has handled it. How often the agent wakes up is then the same on every machine.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import tempfile
import time
from collections.abc import Generator, Sequence
from pathlib import Path

from bench.contestants import Contestant, Turn, surroundings
from bench.driver import AgentProcess, BenchError
from bench.works import is_end, is_text_delta
from fairlead.testing.formats import ServerSentEvent, anthropic_events

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class StepProvider:
    """Answers one request at a time, over the connections that the agent opens."""

    def __init__(self, seconds: float) -> None:
        """`seconds` is how long it waits for a request."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._seconds = seconds
        self._connections: list[socket.socket] = []
        self._present: socket.socket | None = None

    def next_request(self) -> None:
        """Wait for the next request of the agent, and read it. Raises TimeoutError if none comes."""
        deadline = time.monotonic() + self._seconds
        while True:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._listener, *self._connections], [], [], max(left, 0))
            if not ready:
                raise TimeoutError
            for each in ready:
                if each is self._listener:
                    self._connections.append(self._listener.accept()[0])
                elif self._read_request(each):
                    self._present = each
                    each.sendall(_HEAD)
                    return

    def send(self, events: Sequence[ServerSentEvent], *, last: bool = False) -> None:
        """Send events, in one write."""
        body = b"".join(f"event: {each.name}\ndata: {json.dumps(each.data)}\n\n".encode() for each in events)
        assert self._present is not None, "there was no request"
        self._present.sendall(b"%x\r\n%b\r\n" % (len(body), body) + (b"0\r\n\r\n" if last else b""))

    def close(self) -> None:
        for each in (self._listener, *self._connections):
            each.close()

    def _read_request(self, connection: socket.socket) -> bool:
        """Read a whole request. Returns False if the agent has closed the connection."""
        data = b""
        while b"\r\n\r\n" not in data:
            read = connection.recv(1 << 20)
            if not read:
                self._connections.remove(connection)
                connection.close()
                return False
            data += read
        head, _, body = data.partition(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        while len(body) < length:
            body += connection.recv(1 << 20)
        return True


class Stepper:
    """An agent and its provider, driven step by step."""

    def __init__(self, agent: AgentProcess, provider: StepProvider, seconds: float) -> None:
        """`seconds` is how long a step may take."""
        self.agent = agent
        self._provider = provider
        self._seconds = seconds

    def start(self) -> None:
        """Wait for the first answer, and until everything that is loaded after it is there."""
        self.agent.ask("get_state", self._seconds)
        self.agent.wait_until_idle()

    def prompt(self, turns: Sequence[Turn], batch: int | None = None) -> None:
        """Send a prompt that the model answers with `turns`, until the run has ended.

        With `batch`, so many pieces of the answer are sent at a time. The next ones follow when the agent has nothing to do.
        """
        self.agent.send(id="prompt", type="prompt", message="go")
        for turn in turns:
            self._await_request()
            self.agent.wait_until_idle()
            self._answer(turn, batch)
        self.agent.wait_for(is_end, "agent_end", self._seconds)
        self.agent.wait_until_idle()

    def _await_request(self) -> None:
        try:
            self._provider.next_request()
        except TimeoutError:
            self.agent.wait_for(is_end, "request to the provider", 1)  # raises, and shows why there is none
            raise BenchError("the run ended before the model was asked") from None

    def _answer(self, turn: Turn, batch: int | None) -> None:
        events = list(anthropic_events(turn, {"model": "one"}))
        if batch is None:
            self._provider.send(events, last=True)
            return
        places = [number for number, event in enumerate(events) if event.is_piece]
        first, end = places[0], places[-1] + 1
        self._provider.send(events[:first])
        for place in range(first, end, batch):
            self.agent.wait_until_idle()
            self._provider.send(events[place : min(place + batch, end)])
            self.agent.wait_for(is_text_delta, "delta", self._seconds)
        self.agent.wait_until_idle()
        self._provider.send(events[end:], last=True)


@contextlib.contextmanager
def stepping(command: Sequence[str], seconds: float) -> Generator[Stepper]:
    """Start an agent in RPC mode with a provider that is driven step by step. Each step may take `seconds`."""
    provider = StepProvider(seconds)
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as root:
        environment, directory = surroundings(Path(root), provider.port)
        contestant = Contestant("fairlead", tuple(command))
        agent = AgentProcess([*command, "--mode", "rpc", *contestant.model], {**environment, "PYTHONHASHSEED": "0"}, directory)
        try:
            yield Stepper(agent, provider, seconds)
        finally:
            agent.kill()
            provider.close()
