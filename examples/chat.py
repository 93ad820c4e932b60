#!/usr/bin/env python3
"""Chat with an agent in the terminal. Ctrl-C stops the answer, and at the prompt it ends the chat.

    python examples/chat.py --model anthropic/claude-sonnet-4-5

AGENT names another agent of the family, or another way to start this one: AGENT="pi --mode rpc" python examples/chat.py
If that is a pi of 2025, which sends no responses, set RESPONSES=no too.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from fairlead.client import Approval, SyncClient, SyncRunStream, events
from fairlead.errors import AgentGone, ClientError
from fairlead.messages import readable_error

AGENT = os.environ.get("AGENT", "fairlead --mode rpc --dialect pi").split()


def main() -> None:
    argv = [*AGENT, *sys.argv[1:]]
    dialect = " ".join([*argv, os.environ.get("FAIRLEAD_DIALECT", "")])
    responds = os.environ.get("RESPONSES") != "no" and "pi-2025" not in dialect
    with SyncClient.start(argv, restart=responds, responses=responds) as client:
        client.on_approval(decide)
        while (prompt := read_line("> ")) is not None:
            if prompt.strip():
                answer(client, prompt)


def answer(client: SyncClient, prompt: str) -> None:
    """Show the answer to a prompt while it arrives. Ctrl-C stops it."""
    try:
        with client.run(prompt) as run:
            show(run)
        result = run.result()
        print(f"\n[{'aborted' if result.aborted else 'completed'}, {result.usage.total_tokens} tokens]", flush=True)
    except KeyboardInterrupt:
        print("\n[aborted]", flush=True)  # leaving the block aborted the run
    except AgentGone as error:
        if not error.restarted:
            raise
        print(f"\n[{error}]", flush=True)
    except ClientError as error:
        print(f"\n[Failed: {error}]", flush=True)


def show(run: SyncRunStream) -> None:
    calls: dict[str, dict[str, Any]] = {}
    for event in run:
        match event:
            case events.MessageUpdate(assistant_message_event=events.TextDelta(delta=text)):
                print(text, end="", flush=True)
            case events.ToolExecutionStart():
                calls[event.tool_call_id] = event.args
                print(f"\n[Tool: {event.tool_name}]", flush=True)
            case events.ToolExecutionEnd():
                print(describe(event, calls.pop(event.tool_call_id, {})), flush=True)
            case events.ExtensionUiRequest(method="notify"):
                print(f"[{event.message}]", flush=True)
            case events.AutoRetryStart():
                print(f"\n[Trying again: {readable_error(event.error_message)}]", flush=True)
            case _:
                pass


def describe(event: events.ToolExecutionEnd, arguments: dict[str, Any]) -> str:
    """Return a tool call and its result as one or a few lines."""
    result: Any = event.raw["result"]
    text = result if isinstance(result, str) else text_of(result["content"])
    if event.is_error:
        return f"{event.tool_name} failed: {text}"
    match event.tool_name:
        case "bash":
            return f"$ {arguments['command']}\n{text}"
        case "read":
            return f"{arguments['path']}:\n{text[:500]}"
        case "write" | "edit":
            return f"changed {arguments['path']}"
        case name:
            return f"{name}: {text[:200]}"


def text_of(blocks: list[dict[str, str]]) -> str:
    return "\n".join(block.get("text", "") for block in blocks)


def decide(approval: Approval) -> bool:
    if approval.diff:
        print(f"\n{approval.diff}")
    return read_line(f"\n{approval.title}\nAllow? [y/N] ") == "y"


def read_line(question: str) -> str | None:
    """Show a question and return the next line. None at the end of the input, or after Ctrl-C."""
    try:
        return input(question)
    except (EOFError, KeyboardInterrupt):
        return None


if __name__ == "__main__":
    main()
