#!/usr/bin/env python3
"""A host with its own tools: a small shop. It needs only the standard library.

    python examples/host_tools.py "How many lamps are there? Fetch two more, and ask the boss whether that is enough."

Every tool runs on its own thread, so several can run at once. `restock` reports progress. An exception becomes the tool's error.
`ask_boss` waits for a boss who never answers, and gives up when the agent cancels the call because of its time limit. Ctrl-C
aborts the run and its tools.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]

SHELVES = {"lamp": 3, "desk": 1}


class Call:
    """A tool call, as the tool sees it."""

    def __init__(self, host: Host, frame: Message) -> None:
        self.id: str = frame["id"]
        self.name: str = frame["toolName"]
        self.arguments: Message = frame["arguments"]
        #: Set when the agent no longer waits for the result.
        self.cancelled = threading.Event()
        self._host = host

    def progress(self, text: str) -> None:
        self._host.send({"type": "host_tool_update", "id": self.id, "partialResult": content(text)})


def stock(call: Call) -> str:
    item = call.arguments["item"]
    if item not in SHELVES:
        raise LookupError(f"There is no shelf for a {item}.")
    return f"{SHELVES[item]} of {item}"


def restock(call: Call) -> str:
    item, wanted = call.arguments["item"], call.arguments["count"]
    for number in range(1, wanted + 1):
        if call.cancelled.wait(0.05):  # a walk to the storeroom
            return "put down half-way"
        SHELVES[item] = SHELVES.get(item, 0) + 1
        call.progress(f"{number} of {wanted} fetched")
    return stock(call)


def ask_boss(call: Call) -> str:
    call.cancelled.wait()
    return "no answer"


def parameters(**properties: str) -> Message:
    """Return the JSON Schema of an object whose properties are all required."""
    described = {name: {"type": kind} for name, kind in properties.items()}
    return {"type": "object", "properties": described, "required": list(properties)}


TOOLS: list[tuple[Callable[[Call], str], Message]] = [
    (stock, {"description": "How many there are of something", "parameters": parameters(item="string")}),
    (restock, {"description": "Fetch some more", "parameters": parameters(item="string", count="integer")}),
    (ask_boss, {"description": "Ask the boss", "parameters": parameters(question="string"), "timeoutMs": 300}),
]


class Host:
    """Starts an agent and runs the tools it calls."""

    def __init__(self, command: list[str]) -> None:
        # A new session: Ctrl-C in the terminal reaches only this program, which sends an abort.
        self.agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self._writing = threading.Lock()
        self._tools = {tool.__name__: tool for tool, _ in TOOLS}
        self._running: dict[str, Call] = {}

    def send(self, message: Message) -> None:
        with self._writing:
            assert self.agent.stdin is not None
            self.agent.stdin.write(json.dumps(message).encode() + b"\n")
            self.agent.stdin.flush()

    def prompt(self, text: str) -> None:
        """Register the tools and send a prompt."""
        definitions = [{"name": tool.__name__, **definition} for tool, definition in TOOLS]
        self.send({"id": "tools", "type": "set_host_tools", "tools": definitions})
        self.send({"id": "prompt", "type": "prompt", "message": text})

    def serve(self) -> None:
        """Handle frames until the run is over."""
        assert self.agent.stdout is not None
        for line in self.agent.stdout:
            frame = json.loads(line)
            self.handle(frame)
            if frame["type"] == "agent_settled" or frame.get("success") is False:
                return

    def handle(self, frame: Message) -> None:
        match frame["type"]:
            case "host_tool_call":
                call = self._running[frame["id"]] = Call(self, frame)
                threading.Thread(target=self.work, args=[call], daemon=True).start()
            case "host_tool_cancel":
                if call := self._running.get(frame["targetId"]):
                    show(f"cancelled: {call.name}")
                    call.cancelled.set()
            case "tool_execution_update":
                show(f"progress: {text_of(frame['partialResult'])}")
            case "tool_execution_end":
                show(f"{'failed' if frame['isError'] else 'done'}: {frame['toolName']}: {text_of(frame['result'])}")
            case "message_end" if frame["message"]["role"] == "assistant":
                show(text_of(frame["message"]) or frame["message"].get("errorMessage", ""))
            case "response" if not frame["success"]:
                show(f"refused: {frame['error']}")
            case _:
                pass

    def work(self, call: Call) -> None:
        """Run a tool and answer, unless the call was cancelled."""
        try:
            result, failed = self._tools[call.name](call), False
        except Exception as error:
            result, failed = str(error), True
        del self._running[call.id]
        if not call.cancelled.is_set():
            self.send({"type": "host_tool_result", "id": call.id, "result": content(result), "isError": failed})


def content(text: str) -> Message:
    return {"content": [{"type": "text", "text": text}]}


def text_of(message: Message) -> str:
    return "".join(block.get("text", "") for block in message["content"])


def show(text: str) -> None:
    if text:
        print(text, flush=True)


def main() -> None:
    # AGENT names another agent of the family, or another way to start this one: AGENT="omp --mode rpc"
    host = Host(os.environ.get("AGENT", "fairlead --mode rpc").split())
    host.prompt(" ".join(sys.argv[1:]) or "How many lamps are there?")
    signal.signal(signal.SIGINT, lambda number, frame: host.send({"type": "abort"}))
    host.serve()
    host.agent.communicate()  # closes the agent's input, and that ends it


if __name__ == "__main__":
    main()
