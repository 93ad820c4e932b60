#!/usr/bin/env python3
"""Watch fairlead work in your terminal.

If a provider's key is in the environment (ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY ...) or a model server runs on this
machine, this is a chat about the current directory. Otherwise it is a demo: a scripted model repairs a small program in a
temporary folder, with the real engine, the real tools and a real shell.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from contextlib import aclosing

from fairlead import Agent, events
from fairlead.errors import FairleadError
from fairlead.messages import TextContent, ToolCall, readable_error
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

TASK = "Write a program that prints two means, and make it work."

PROGRAM = """\
def mean(numbers):
    return sum(numbers) / len(numbers)

print("mean of 2, 4, 9:", mean([2, 4, 9]))
print("mean of nothing:", mean([]))
"""

REPAIR = [
    Turn(
        text="I will write the program and run it.\n",
        tool_calls=[ToolCall("1", "write", {"path": "mean.py", "content": PROGRAM})],
    ),
    Turn(tool_calls=[ToolCall("2", "bash", {"command": "python3 mean.py"})]),
    Turn(
        text="It divides by zero when there are no numbers. I will make that case 0.\n",
        tool_calls=[
            ToolCall(
                "3",
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
            )
        ],
    ),
    Turn(tool_calls=[ToolCall("4", "bash", {"command": "python3 mean.py"})]),
    Turn(text="Fixed: `mean.py` now prints both lines.\n"),
]


def main() -> int:
    with asyncio.Runner() as runner:
        agent = Agent()
        try:
            if runner.run(agent.choose_model()).model is not None:
                chat(agent, runner)
            else:
                runner.run(demonstrate())
            sys.stdout.flush()
        except BrokenPipeError:  # the reader, such as `head`, has ended: end too, without a message
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141  # as a program that SIGPIPE ended
        finally:
            runner.run(agent.close())
    return 0


async def demonstrate() -> None:
    print("There is no model to ask: here is a scripted one instead.\n")
    with tempfile.TemporaryDirectory(prefix="fairlead-demo-") as folder:
        async with Agent(model=SCRIPTED_MODEL, stream=Scripted(REPAIR), cwd=folder, isolated=True) as agent:
            print(f"> {TASK}\n")
            await show(agent, TASK)
        print("\nSet a key, such as ANTHROPIC_API_KEY, and run this again to chat with a real model.")


def chat(agent: Agent, runner: asyncio.Runner) -> None:
    """Ask for lines and answer them. Ctrl-C aborts an answer; at the prompt, it ends the chat."""
    model = agent.session.model
    assert model is not None
    print(f"Chatting with {model.provider}/{model.id} about {agent.session.host.workspace.cwd}. End with an empty line.")
    while True:
        # Outside the event loop, which could not be interrupted while it waits for a line.
        try:
            line = input("\n> ").strip()
        except (EOFError, KeyboardInterrupt):
            return
        if not line:
            return
        try:
            runner.run(show(agent, line))
        except KeyboardInterrupt:
            print("\n(aborted)")
        except FairleadError as error:
            print(error)


async def show(agent: Agent, prompt: str) -> None:
    """Run a prompt and show what happens, as it happens."""
    async with aclosing(agent.run(prompt)) as happenings:
        async for event in happenings:
            match event:
                case events.TextDelta(text=text):
                    print(text, end="", flush=True)
                case events.ToolStart():
                    print(f"  [{event.tool_name}] {event.arguments.get('command') or event.arguments.get('path', '')}")
                case events.ToolEnd():
                    for line in _lines(event):
                        print(f"    {line}")
                case events.MessageEnd(message=message) if getattr(message, "error_message", None):
                    print(f"  {readable_error(message.error_message)}")  # type: ignore[union-attr]
                case _:
                    pass
    print()


def _lines(event: events.ToolEnd) -> list[str]:
    text = event.result.detail("diff") or "".join(block.text for block in event.result.content if isinstance(block, TextContent))
    lines = text.strip("\n").splitlines()
    return lines if len(lines) <= 12 else [*lines[:4], "...", *lines[-8:]]


if __name__ == "__main__":
    raise SystemExit(main())
