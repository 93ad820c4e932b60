"""Agents for tests: commands that start one in a temporary folder, and one in this process whose model plays given turns."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

import fairlead
from fairlead.client import Client, SyncClient
from fairlead.client.opal import OpalClient
from fairlead.core.messages import StopReason, ToolCall, Usage
from fairlead.core.model import Model, ModelRequest, Price, StreamEvent
from fairlead.core.partial_message import PartialMessage
from fairlead.core.runtime import CancelToken

if TYPE_CHECKING:
    from fairlead.agent import Agent
    from fairlead.testing.formats import ScriptTurn

#: The model that `agent_command` uses.
TEST_MODEL = "test/test-model"
#: Variables that an agent under test gets from the environment. Keys are not among them.
_KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH", "COVERAGE_PROCESS_START")


class AgentCommand(Struct, frozen=True):
    """How to start an agent: give `argv`, `cwd` and `env` to the host under test, or use one of the clients."""

    argv: list[str]
    cwd: Path
    env: dict[str, str]

    def client(self, **options: Any) -> Client:
        """Return a client that starts the agent on entry to `async with`. It takes the options of `Client.start`."""
        return Client.start(self.argv, cwd=self.cwd, env=self.env, **options)

    def sync_client(self, **options: Any) -> SyncClient:
        """Return a blocking client that starts the agent on entry to `with`."""
        return SyncClient.start(self.argv, cwd=self.cwd, env=self.env, **options)

    def opal_client(self, **options: Any) -> OpalClient:
        """Return a client that starts an agent of the dialect `opal` on entry to `async with`."""
        return OpalClient.start(self.argv, cwd=self.cwd, env=self.env, **options)


def agent_command(
    root: Path,
    provider_url: str,
    *,
    dialect: str = "pi",
    flags: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> AgentCommand:
    """Return the command of a real agent whose model is a `ProviderServer`.

    Args:
        root: a folder for the agent: `home` in it becomes its home, and `project` its working directory.
        provider_url: the URL of the server.
        dialect: the dialect that the host speaks.
        flags: more flags, such as `--approval ask`.
        env: more variables.
    """
    home, project = root / "home", root / "project"
    home.mkdir(parents=True, exist_ok=True)
    project.mkdir(parents=True, exist_ok=True)
    name, _, model = TEST_MODEL.partition("/")
    described = {"id": model, "contextWindow": 200_000, "maxTokens": 16_384, "reasoning": True, "input": ["text", "image"]}
    provider = {"baseUrl": provider_url, "api": "anthropic-messages", "apiKey": "no-key", "models": [described]}
    (home / "models.json").write_text(json.dumps({"providers": {name: provider}}), encoding="utf-8")
    mode = ["--mode", "opal"] if dialect == "opal" else ["--mode", "rpc", "--dialect", dialect]
    argv = [*_fairlead(), *mode, "--model", TEST_MODEL, *flags]
    return AgentCommand(argv, project, {**_environment(home), **(env or {})})


def replay_command(
    recording: str | os.PathLike[str],
    cwd: Path,
    *,
    speed: float | None = None,
    lenient: bool = False,
    report: Path | None = None,
) -> AgentCommand:
    """Return the command of an agent that plays a recording.

    Args:
        recording: the file that `fairlead --record` wrote.
        cwd: the working directory.
        speed: how many times faster than recorded it plays; None for no delays.
        lenient: whether it continues when the host departs from the recording.
        report: a file that gets a line for each departure.
    """
    argv = [
        *_fairlead(),
        "replay",
        os.fspath(Path(recording).absolute()),
        *(["--fast"] if speed is None else ["--speed", str(speed)]),
    ]
    if lenient:
        argv.append("--lenient")
    if report is not None:
        argv += ["--report", str(report)]
    return AgentCommand(argv, cwd, _environment(cwd))


def scripted_agent(*turns: str | Turn, **options: Any) -> Agent:
    """Return an agent in this process whose model plays turns. It reads no configuration and saves nothing.

    A turn that is a string is a text. `options` are those of `Agent`.
    """
    script = Scripted([Turn(text=turn) if isinstance(turn, str) else turn for turn in turns or ("ok",)])
    chosen: dict[str, Any] = {"isolated": True, "keep": False, "model": SCRIPTED_MODEL, "stream": script, **options}
    return fairlead.Agent(**chosen)


def script(turns: Sequence[str | ScriptTurn]) -> list[ScriptTurn]:
    """Return turns for a `ProviderServer`. A turn that is a string is a text."""
    return [{"text": turn} if isinstance(turn, str) else turn for turn in turns or ("ok",)]


def _fairlead() -> list[str]:
    # -P: a file in the working directory must not shadow a module of the standard library.
    return [sys.executable, "-P", "-m", "fairlead"]


def _environment(home: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return {**kept, "HOME": str(home), "FAIRLEAD_HOME": str(home)}


SCRIPTED_MODEL = Model(
    id="scripted-1",
    name="Scripted",
    api="scripted",
    provider="scripted",
    base_url="",
    reasoning=True,
    input=["text", "image"],
    cost=Price(input=3, output=15, cache_read=0.3, cache_write=3.75),
    context_window=200_000,
    max_tokens=16_384,
)


class Turn(Struct, frozen=True, kw_only=True):
    """One answer: thinking, then text, then tool calls, in pieces of `chunk` characters."""

    thinking: str = ""
    text: str = ""
    tool_calls: list[ToolCall] = []
    #: By default "toolUse" if there are tool calls, else "stop".
    stop_reason: StopReason | None = None
    usage: Usage = msgspec.field(default_factory=lambda: Usage(input=100, output=50))
    #: Fail with this text after everything else has been sent.
    error: str | None = None
    status: int | None = None
    retry_after: float | None = None
    transient: bool = False
    chunk: int = 8
    #: Awaited before each piece, for example a sleep or a wait for a test's signal. An abort cuts it short.
    pause: Callable[[], Awaitable[object]] | None = None


class Scripted:
    """Answers request k with turn k, and repeats the last turn after that. `requests` holds the requests it got."""

    def __init__(self, turns: Sequence[Turn], *, model: Model = SCRIPTED_MODEL, now_ms: Callable[[], int] | None = None) -> None:
        if not turns:
            raise ValueError("a script needs at least one turn")
        self.requests: list[ModelRequest] = []
        self._turns = turns
        self._model = model
        self._now_ms = now_ms or _now_ms

    async def __call__(self, request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
        turn = self._turns[min(len(self.requests), len(self._turns) - 1)]
        # A copy, since the caller's list grows with the conversation.
        self.requests.append(msgspec.structs.replace(request, messages=list(request.messages)))
        partial = PartialMessage(self._model, self._now_ms())
        partial.usage = msgspec.structs.replace(turn.usage)
        partial.response_id = f"scripted-{len(self.requests)}"
        for piece in _pieces(turn):
            if turn.pause is not None:
                await _wait_until_done_or_cancelled(turn.pause(), cancel)
            if cancel.fired:
                break
            piece.add_to(partial)
            yield partial.take()
        if cancel.fired:
            partial.abort()
        elif turn.error is not None:
            partial.fail(turn.error, status=turn.status, retry_after=turn.retry_after, transient=turn.transient)
        else:
            partial.finish(turn.stop_reason or ("toolUse" if turn.tool_calls else "stop"))
        yield partial.take()


class _BlockPiece(Struct):
    """A piece of one block. The first piece starts the block and the last one ends it."""

    key: int
    block: str | ToolCall
    text: str
    is_first: bool
    is_last: bool

    def add_to(self, partial: PartialMessage) -> None:
        if self.is_first:
            if isinstance(self.block, ToolCall):
                partial.start_tool_call(self.key, self.block.id, self.block.name)
            elif self.block == "thinking":
                partial.start_thinking(self.key)
            else:
                partial.start_text(self.key)
        partial.add(self.key, self.text)
        if self.is_last:
            if self.block == "thinking":
                partial.sign(self.key, "scripted")
            partial.end(self.key)


def _pieces(turn: Turn) -> Iterator[_BlockPiece]:
    blocks: list[tuple[str | ToolCall, str]] = [("thinking", turn.thinking), ("text", turn.text)]
    blocks += [(call, msgspec.json.encode(call.arguments).decode()) for call in turn.tool_calls]
    for key, (block, text) in enumerate(blocks):
        for start in range(0, len(text), turn.chunk):
            end = start + turn.chunk
            yield _BlockPiece(key, block, text[start:end], start == 0, end >= len(text))


async def _wait_until_done_or_cancelled(pause: Awaitable[object], cancel: CancelToken) -> None:
    pausing = asyncio.ensure_future(pause)
    forget = cancel.on_fire(pausing.cancel)
    try:
        await pausing
    except asyncio.CancelledError:
        if not cancel.fired:
            raise
    finally:
        forget()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
