"""The workloads over the protocol of claude-agent-sdk: fairlead beside Claude Code, which comes with the Python SDK."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path

import msgspec

from bench import peers
from bench.contestants import Contestant, Turn, own, scripted_provider, surroundings
from bench.driver import AgentProcess, Frame

MODEL = "claude-sonnet-4-5"
_FLAGS = ("--output-format", "stream-json", "--verbose", "--input-format", "stream-json", "--model", MODEL)


def contestants() -> tuple[Contestant, ...]:
    """Return fairlead and Claude Code. Installs the SDK if needed."""
    program, *_ = own()
    sdk = Path(peers.CLAUDE_PYTHON.command()[0]).parent.parent
    [real] = sdk.glob("lib/python*/site-packages/claude_agent_sdk/_bundled/claude")
    return (
        Contestant("fairlead claude", (program, "--dialect", "claude"), protocol="claude"),
        Contestant("Claude Code", (str(real),), protocol="claude"),
    )


class _Line(msgspec.Struct):
    type: str
    subtype: str | None = None
    is_error: bool = False


_decode = msgspec.json.Decoder(_Line).decode


class ClaudeProcess(AgentProcess):
    """Drives an agent over its lines."""

    def _take(self, now: float, line: bytes) -> None:
        try:
            found = _decode(line)
        except msgspec.DecodeError as error:
            raise self._failure(f"a line that is not a frame ({error})") from None
        if found.type == "result" and found.is_error:
            raise self._failure("the result is an error")
        self._unseen.append((now, Frame(type=found.type)))

    def greet(self) -> float:
        """Send `initialize`. Returns when the answer was read."""
        self.send(type="control_request", request_id="greet", request={"subtype": "initialize", "hooks": None})
        return self.wait_for(lambda frame: frame.type == "control_response", "answer to initialize", 60)

    def prompt(self) -> tuple[float, float]:
        """Send a prompt. Returns when it was sent, and when its result was read."""
        sent = self.send(type="user", message={"role": "user", "content": "go"}, parent_tool_use_id=None, session_id="")
        return sent, self.wait_for(lambda frame: frame.type == "result", "result", 300)


@contextlib.contextmanager
def running(contestant: Contestant, turns: Sequence[Turn], *flags: str) -> Generator[ClaudeProcess]:
    """Start a contestant against a provider that plays `turns`."""
    with scripted_provider(turns) as port, tempfile.TemporaryDirectory(prefix="fairlead-bench-") as root:
        environment, directory = surroundings(Path(root), port)
        environment |= {
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
            "ANTHROPIC_API_KEY": "no-secret",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
        agent = ClaudeProcess([*contestant.command, *_FLAGS, *flags], environment, directory)
        try:
            yield agent
        finally:
            agent.kill()


def start(contestant: Contestant) -> dict[str, float]:
    """Measure from the start of the process to its answer to `initialize`."""
    with running(contestant, [{"text": "ok"}]) as agent:
        wall = agent.greet() - agent.started
        cpu = agent.cpu_seconds()
        return {"wall": wall, "cpu": cpu, "memory": agent.finish()}


def stream(contestant: Contestant, text: str, piece: int) -> dict[str, float]:
    """Measure one prompt that is answered with pieces of so many characters, for a host that wants them."""
    with running(contestant, [{"text": text, "chunk": piece}], "--include-partial-messages") as agent:
        agent.greet()
        before, written = agent.cpu_seconds(), agent.bytes_out
        sent, ended = agent.prompt()
        figures = {"wall": ended - sent, "cpu": agent.cpu_seconds() - before, "bytes": float(agent.bytes_out - written)}
        return {**figures, "memory": agent.finish()}


def turns(contestant: Contestant, count: int) -> dict[str, float]:
    """Measure one prompt for which the model runs a number of commands that do nothing, one per turn."""
    call = {"toolCalls": [{"name": "Bash", "arguments": {"command": "true", "description": "Do nothing"}}]}
    with running(contestant, [*[call] * count, {"text": "done"}], "--allowedTools", "Bash") as agent:
        agent.greet()
        before = agent.cpu_seconds()
        sent, ended = agent.prompt()
        return {"wall": ended - sent, "cpu": agent.cpu_seconds() - before, "memory": agent.finish()}
