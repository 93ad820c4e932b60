"""Agents without a model: `fairlead replay` is the agent of a recording, or its provider, and `fairlead demo` shows the chat.

The demo has a scripted model, for people who have no model yet. Everything else in it is real.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from fairlead.cli.chat import run_chat
from fairlead.cli.console import complain, print_exact
from fairlead.cli.flags import UsageError, parse
from fairlead.cli.subcommands.table import command_named
from fairlead.config.home import expand_user
from fairlead.core.messages import ToolCall, ToolResultMessage, Usage, UserMessage
from fairlead.errors import ConfigError
from fairlead.platform.open_files import open_private
from fairlead.replay.player import ReplayOptions, serve_recording
from fairlead.replay.recording import Recording, provider_turns, read_recording
from fairlead.testing import SCRIPTED_MODEL, ProviderServer, Scripted, Turn
from fairlead.wire.dialects import DEFAULT_DIALECT, DIALECTS, Dialect, Program
from fairlead.wire.pi.profile import profile_named
from fairlead.wire.stdio import take_over

if TYPE_CHECKING:
    from fairlead.agent.options import AgentOptions
    from fairlead.core.model import ModelRequest, StreamEvent
    from fairlead.core.runtime import CancelToken


class _Words(Struct):
    """The parsed command line."""

    file: Path
    speed: float | None = 1.0
    lenient: bool = False
    report: Path | None = None
    is_provider: bool = False
    port: int = 0


def replay(words: Sequence[str], program: Program) -> int:
    """Play a recording. Returns the exit code. Raises UsageError, and ConfigError if the recording cannot be read."""
    options = _parse(words)
    recording = _read(options.file)
    if options.is_provider:
        return _serve_provider(recording, options)
    _play(recording, options)


def replay_to_host(file: str, speed: str | None, dialect: Dialect) -> NoReturn:
    """Play the recording that `FAIRLEAD_REPLAY` names to a host that expects `dialect`. Raises ConfigError."""
    recording = _read(expand_user(file))
    if recording.header.dialect != dialect.name:
        raise ConfigError(f"{file} was recorded in the dialect {recording.header.dialect}, and the host expects {dialect.name}.")
    _play(recording, _Words(recording.path, _speed("FAIRLEAD_REPLAY_SPEED", speed) if speed else 1.0))


def _parse(words: Sequence[str]) -> _Words:
    options = _Words(Path())
    names: list[str] = []
    left = list(reversed(words))
    while left:
        word, has_value, value = left.pop().partition("=")
        if word in ("--speed", "--report", "--port"):
            if not has_value and not left:
                raise command_named("replay").usage_error(f"{word} needs a value.")
            value = value if has_value else left.pop()
            if word == "--speed":
                options.speed = _speed(word, value)
            elif word == "--report":
                options.report = Path(value)
            else:
                options.port = _port(value)
        elif word in ("--fast", "--lenient", "--provider") and not has_value:
            options.speed = None if word == "--fast" else options.speed
            options.lenient |= word == "--lenient"
            options.is_provider |= word == "--provider"
        else:
            names.append(f"{word}{'=' if has_value else ''}{value}")
    if len(names) != 1 or names[0].startswith("-"):
        raise command_named("replay").usage_error()
    options.file = expand_user(names[0])
    return options


def _speed(flag: str, text: str) -> float | None:
    """Return how many times faster to play; None for `fast`. Raises UsageError."""
    if text == "fast":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise UsageError(f"{flag}: expected a number above 0, such as 10, got {text!r}.")
    return speed


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text[:6]) < 1 << 16):
        raise UsageError(f"--port: expected a port, got {text!r}.")
    return int(text)


def _read(path: Path) -> Recording:
    recording = read_recording(path)
    if recording.header.dialect not in DIALECTS:
        raise ConfigError(f"{path} was recorded in the dialect {recording.header.dialect!r}, which this fairlead does not know.")
    if recording.is_cut_off:
        complain(f"fairlead replay: the last line of {path} is incomplete and is left out.")
    return recording


def _play(recording: Recording, words: _Words) -> NoReturn:
    def report(text: str) -> None:
        complain(f"fairlead replay: {text}")
        if words.report is not None:
            with open_private(words.report, "ab") as file:
                file.write(f"{text}\n".encode())

    options = ReplayOptions(
        speed=words.speed, lenient=words.lenient, report=report, remark=lambda text: complain(f"fairlead replay: {text}")
    )
    stdin, stdout = take_over()
    loop = asyncio.new_event_loop()
    code = loop.run_until_complete(serve_recording(recording, stdin, stdout, options))
    sys.stderr.flush()
    os._exit(code)


def _serve_provider(recording: Recording, words: _Words) -> int:
    turns = provider_turns(recording, speed=words.speed)
    if not turns:
        raise ConfigError(f"{recording.path} has no requests to a provider.")

    async def serve() -> None:
        async with ProviderServer(turns, port=words.port) as server:
            print_exact(server.url)
            sys.stdout.flush()
            await server.serve_forever()

    asyncio.run(serve())
    return 0


MODEL = replace(SCRIPTED_MODEL, id="demo", name="Demonstration", provider="script", reasoning=False)
TASK = "mean.py crashes. Find out why and fix it."
PROGRAM = """\
def mean(numbers):
    return sum(numbers) / len(numbers)


print("mean of 2, 4, 9:", mean([2, 4, 9]))
print("mean of nothing:", mean([]))
"""
#: What the script does before it answers. The last call needs the approval of the person.
CALLS = (
    ("I will look at the program first.", ToolCall("1", "read", {"path": "mean.py"})),
    (
        "The mean of an empty list divides by zero. I will make it 0.",
        ToolCall(
            "2",
            "edit",
            {
                "path": "mean.py",
                "edits": [
                    {
                        "oldText": "return sum(numbers) / len(numbers)",
                        "newText": "return sum(numbers) / len(numbers) if numbers else 0",
                    }
                ],
            },
        ),
    ),
    ("Does it work now? Running a command needs your approval here.", ToolCall("3", "bash", {"command": "python3 mean.py"})),
)
WORKS = "Fixed: both lines print now."
NOT_RUN = "The program is changed, but I have not run it, because you did not allow that."
NEXT = """\
**This was a demonstration.** A script played the model; the tools, the approval and the shell were real.

To work with a real model, leave with Ctrl+D and choose one:

- a provider: set its key, such as `ANTHROPIC_API_KEY`, or run `{fairlead} login`
- a model server on this machine, such as Ollama or llama.cpp: start it, and fairlead finds it
- a small model that runs here: `{fairlead} local`

Then start `{fairlead}` in the directory of your project.
"""
#: How fast the script writes: characters at a time, and the seconds before each piece and before each answer.
_PIECE, _PACE, _THOUGHT = 3, 0.02, 0.7


class ScriptedRepair:
    """Plays the model of the demonstration. What it does next depends on the conversation alone."""

    def __init__(self, pace: float = 1.0) -> None:
        self._pace = pace
        self._next = NEXT.format(fairlead=find_command())

    async def __call__(self, request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
        await asyncio.sleep(_THOUGHT * self._pace)
        async for events in Scripted([self._turn(request)], model=MODEL)(request, cancel):
            yield events

    def _turn(self, request: ModelRequest) -> Turn:
        prompts = sum(isinstance(message, UserMessage) for message in request.messages)
        results = [message for message in request.messages if isinstance(message, ToolResultMessage)]
        if prompts == 1 and len(results) < len(CALLS):
            text, call = CALLS[len(results)]
            return self._write(text, call)
        if prompts == 1:
            return self._write(f"{NOT_RUN if results[-1].is_error else WORKS}\n\n{self._next}")
        return self._write(f"I cannot answer that, because I am a script.\n\n{self._next}")

    def _write(self, text: str, *calls: ToolCall) -> Turn:
        return Turn(text=text, tool_calls=[*calls], usage=Usage(), chunk=_PIECE, pause=self._wait)

    async def _wait(self) -> None:
        await asyncio.sleep(_PACE * self._pace)


def find_command() -> str:
    """Return what people can type to start fairlead: its path, if the PATH has none, as in a checkout after `make run`."""
    beside = Path(sys.executable).with_name("fairlead")
    return str(beside) if shutil.which("fairlead") is None and beside.exists() else "fairlead"


def demo(words: Sequence[str], program: Program) -> int:
    """Show the agent at work in the chat, in a temporary directory. Returns the exit code. Raises UsageError and ConfigError."""
    if words:
        raise UsageError("fairlead demo takes no arguments.")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("The demonstration is a chat, which needs a terminal.")
    with tempfile.TemporaryDirectory(prefix="fairlead-demo-") as folder:
        (Path(folder) / "mean.py").write_text(PROGRAM)
        flags = ["--isolated", "--no-session", "--approval", "write", "--sandbox", "off", TASK]

        def change(options: AgentOptions) -> None:
            options.model, options.stream, options.cwd = MODEL, ScriptedRepair(), folder

        return run_chat(flags, parse(flags), profile_named(DEFAULT_DIALECT), program, change)
