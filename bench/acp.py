"""The workloads over ACP: fairlead beside pi-acp, an adapter that starts the real pi."""

from __future__ import annotations

import contextlib
import shlex
import tempfile
import time
from collections.abc import Generator, Sequence
from pathlib import Path

import msgspec

from bench import peers
from bench.contestants import Contestant, Turn, own, scripted_provider, surroundings
from bench.driver import AgentProcess, Frame

#: The lines of output of a command. An editor must not drown in them.
LINES = 35_000


def contestants() -> tuple[Contestant, ...]:
    """Return fairlead and pi-acp. Installs pi-acp and pi if needed."""
    program, *_ = own()
    return (
        Contestant("fairlead acp", (program, "acp", "--model", "scripted/one"), protocol="acp"),
        Contestant("pi-acp", tuple(peers.PI_ACP.command()), protocol="acp"),
    )


class _Line(msgspec.Struct):
    id: int | str | None = None
    method: str | None = None
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_decode = msgspec.json.Decoder(_Line).decode


class AcpProcess(AgentProcess):
    """Drives an agent over ACP. A frame has the method of a line as its type, or `answer`."""

    def _take(self, now: float, line: bytes) -> None:
        try:
            found = _decode(line)
        except msgspec.DecodeError as error:
            raise self._failure(f"a line that is not JSON-RPC ({error})") from None
        if found.error is not msgspec.UNSET and found.method is None:
            raise self._failure("a request was refused")
        self._unseen.append((now, Frame(type=found.method or "answer", id=str(found.id), data=msgspec.Raw(line))))

    def request(self, method: str, timeout: float, **params: object) -> tuple[float, bytes]:
        """Send a request and wait for its answer. Return the time it was read, and its line."""
        self.send(jsonrpc="2.0", id=method, method=method, params=params)
        when, frame = self._next(lambda each: each.type == "answer" and each.id == method, f"answer to {method}", timeout)
        assert not isinstance(frame.data, msgspec.UnsetType)
        return when, bytes(frame.data)


@contextlib.contextmanager
def running(contestant: Contestant, turns: Sequence[Turn]) -> Generator[tuple[AcpProcess, str]]:
    """Start a contestant against a provider that plays `turns`. Yields it, and its working directory."""
    with scripted_provider(turns) as port, tempfile.TemporaryDirectory(prefix="fairlead-bench-") as root:
        environment, directory = surroundings(Path(root), port)
        pi = Path(root, "pi")
        pi.write_text(f'#!/bin/sh\nexec {shlex.join(peers.PI_15.command())} --model scripted/one "$@"\n')
        pi.chmod(0o755)
        environment |= {"PI_ACP_PI_COMMAND": str(pi), "PATH": f"{root}:{environment['PATH']}"}
        agent = AcpProcess(contestant.command, environment, directory)
        try:
            yield agent, directory
        finally:
            agent.kill()


def start(contestant: Contestant) -> dict[str, float]:
    """Measure from the start of the process to its answer to `initialize`."""
    with running(contestant, [{"text": "ok"}]) as (agent, _):
        read, _ = agent.request("initialize", 60, protocolVersion=1, clientCapabilities={})
        wall, cpu = read - agent.started, agent.cpu_seconds()
        return {"wall": wall, "cpu": cpu, "memory": agent.finish()}


def output(contestant: Contestant) -> dict[str, float]:
    """Measure one prompt for which the model runs a command with many lines of output."""
    command = f"seq -f 'line %.0f of the output of a command' {LINES}"
    call = {"toolCalls": [{"name": "bash", "arguments": {"command": command}}]}
    with running(contestant, [call, {"text": "done"}]) as (agent, directory):
        agent.request("initialize", 60, protocolVersion=1, clientCapabilities={})
        _, line = agent.request("session/new", 60, cwd=directory, mcpServers=[])
        session = msgspec.json.decode(line)["result"]["sessionId"]
        before, written = agent.cpu_seconds(), agent.bytes_out
        sent = time.perf_counter()
        prompt = [{"type": "text", "text": "go"}]
        read, _ = agent.request("session/prompt", 180, sessionId=session, prompt=prompt)
        figures = {"wall": read - sent, "cpu": agent.cpu_seconds() - before, "bytes": float(agent.bytes_out - written)}
        return {**figures, "memory": agent.finish()}
