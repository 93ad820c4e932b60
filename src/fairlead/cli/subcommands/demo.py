"""`fairlead demo`: the chat with a scripted model, for people who have no model yet. Everything else in it is real."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fairlead.cli.chat import run_chat
from fairlead.cli.flags import UsageError, parse
from fairlead.core.messages import ToolCall, ToolResultMessage, Usage, UserMessage
from fairlead.errors import ConfigError
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn
from fairlead.wire.dialects import DEFAULT_DIALECT
from fairlead.wire.pi.profile import profile_named

if TYPE_CHECKING:
    from fairlead.agent.options import AgentOptions
    from fairlead.core.model import ModelRequest, StreamEvent
    from fairlead.core.runtime import CancelToken
    from fairlead.wire.dialects import Program

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
