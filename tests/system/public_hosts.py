"""Public programs that embed pi, each in a home of its own that has pi, or this program instead of it, on its PATH."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, Self

from bench import peers
from bench.contestants import Turn, scripted_provider
from bench.peers import PI_15, Peer

#: Seconds after which a host that still runs is killed, so that its test fails.
LIMIT = 50

#: A pi, or the name of a launcher that `fairlead shim` writes.
Agent = Peer | str

BASH: Turn = {"toolCalls": [{"name": "bash", "arguments": {"command": "echo from the shell"}}]}
WRITE: Turn = {"toolCalls": [{"name": "write", "arguments": {"path": "a.txt", "content": "one\ntwo\n"}}]}
EDIT: Turn = {"toolCalls": [{"name": "edit", "arguments": {"path": "a.txt", "edits": [{"oldText": "two", "newText": "three"}]}}]}
READ: Turn = {"toolCalls": [{"name": "read", "arguments": {"path": "a.txt"}}]}
MISSING: Turn = {"toolCalls": [{"name": "read", "arguments": {"path": "missing.txt"}}]}
REFUSED: Turn = {"status": 400, "error": "The request is malformed."}

#: What a user has added to pi, by path in its home.
ADDITIONS = {
    "prompts/greet.md": "---\ndescription: Greet a person\nargument-hint: <name>\n---\nSay hello to $1.\n",
    "skills/tidy/SKILL.md": "---\nname: tidy\ndescription: How to tidy up\n---\nPut everything in its place.\n",
}


@dataclass(frozen=True)
class Home:
    """What a host finds on its machine: a home with pi's configuration, a working directory, and `pi` on the PATH."""

    root: Path
    environment: dict[str, str]
    agent: Agent

    @property
    def directory(self) -> Path:
        return self.root / "work"

    def run(self, *command: str) -> str:
        """Return what a command prints, with the code that it exits with."""
        result = subprocess.run(
            command,
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        return f"{result.stdout}exit {result.returncode}\n"

    def sdk(self) -> Path:
        """Return the folder of the agent's packages, which programs import as pi's SDK."""
        if isinstance(self.agent, Peer):
            return self.agent.package_directory.parent
        run_shim(self.agent, "--package", str(self.root / "sdk"))
        return self.root / "sdk" / "node_modules" / "@earendil-works"

    def python(self, script: str) -> str:
        """Return what a script prints that has the hosts from PyPI as modules."""
        return self.run(*peers.PYTHON_HOSTS.command(), "-c", script)


class Compare(Protocol):
    """Drives a host with a pi and with this program, asserts that it prints the same, and returns what it printed.

    Each time the model plays the turns from the first on.
    """

    def __call__(self, drive: Callable[[Home], str], *turns: Turn, pi: Peer = PI_15, launcher: str = "pi") -> str: ...


def what_is_printed(drive: Callable[[Home], str], turns: Sequence[Turn], agent: Agent, root: Path) -> str:
    """Return what a host prints, without what differs from run to run."""
    with scripted_provider(turns) as port:
        return without_chance(drive(_furnished(root, agent, port)), root)


def _furnished(root: Path, agent: Agent, port: int) -> Home:
    """Create a home that has nothing but what a user of pi has: no file and no variable of this program's own."""
    home, programs = root / ".pi" / "agent", root / "bin"
    for folder in (home, programs, root / "work"):
        folder.mkdir(parents=True)
    size = {"contextWindow": 200_000, "maxTokens": 8192, "cost": {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75}}
    one = {"id": "one", "name": "one", "reasoning": False, "input": ["text"], **size}
    two = {"id": "two", "name": "two", "reasoning": True, "input": ["text", "image"], **size}
    provider = {
        "baseUrl": f"http://127.0.0.1:{port}",
        "api": "anthropic-messages",
        "apiKey": "no-secret",
        "models": [one, two],
    }
    (home / "models.json").write_text(json.dumps({"providers": {"scripted": provider}}))
    (home / "settings.json").write_text(json.dumps({"defaultProvider": "scripted", "defaultModel": "one"}))
    for path, text in ADDITIONS.items():
        (home / path).parent.mkdir(parents=True)
        (home / path).write_text(text)
    if isinstance(agent, Peer):
        _write_program(programs / "pi", f'exec {shlex.join(agent.command())} "$@"')
    else:
        run_shim(agent, str(programs))
    # Hosts ask registries for newer versions. Here npm fails, and no proxy answers.
    _write_program(programs / "npm", "exit 1")
    environment = {
        "PATH": os.pathsep.join([str(programs), str(peers.node().parent), "/usr/bin", "/bin"]),
        "HOME": str(root),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "https_proxy": "http://127.0.0.1:1",
        "PI_OFFLINE": "1",
        "PI_TELEMETRY": "0",
        "PI_SKIP_VERSION_CHECK": "1",
    }
    return Home(root, environment, agent)


def run_shim(*words: str) -> None:
    """Let `fairlead shim` write launchers."""
    subprocess.run([str(Path(sys.executable).with_name("fairlead")), "shim", *words], check=True, capture_output=True)


def _write_program(path: Path, command: str) -> None:
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o755)


def without_chance(text: str, root: Path) -> str:
    """Return a text with the folder, times and ids in it replaced. Equal ids stay equal."""
    text = text.replace(str(root), "ROOT").replace(str(root)[1:].replace("/", "-"), "ROOT")
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.-]+Z", "TIME", text)
    text = re.sub(r"\b1[789]\d{11}\b", "MILLISECONDS", text)
    text = re.sub(r'("durationMs": )\d+', r"\1N", text)
    numbers: dict[str, str] = {}
    identifier = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    return re.sub(identifier, lambda found: numbers.setdefault(found[0], f"ID{len(numbers) + 1}"), text)


class Conversation:
    """A host that runs, which a test writes lines to and reads from. It is killed after `LIMIT` seconds."""

    def __init__(self, home: Home, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=home.directory,
            env=home.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._watchdog = threading.Timer(LIMIT, self._process.kill)
        self._complaints = b""
        self._listener = threading.Thread(target=self._listen)

    def __enter__(self) -> Self:
        self._watchdog.start()
        self._listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._watchdog.cancel()
        self._process.kill()
        self._process.wait()
        self._listener.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe
            pipe.close()

    @property
    def input(self) -> IO[bytes]:
        assert self._process.stdin
        return self._process.stdin

    def write(self, line: str) -> None:
        self.input.write(f"{line}\n".encode())
        self.input.flush()

    def read_line(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline().decode()
        assert line, f"the host ended: {self._complaints.decode()}"
        return line

    def read_until(self, mark: str) -> str:
        """Return what the host prints up to a mark, and the mark."""
        assert self._process.stdout
        seen = bytearray()
        while not seen.endswith(mark.encode()):
            piece = self._process.stdout.read(1)
            assert piece, f"the host ended: {seen.decode()}{self._complaints.decode()}"
            seen += piece
        return seen.decode()

    def end(self) -> int:
        """Close the input of the host, and return the code that it exits with."""
        self.input.close()
        return self._process.wait()

    def terminate(self) -> int:
        """Ask the host to end, and return the code that it exits with."""
        self._process.terminate()
        return self._process.wait()

    def _listen(self) -> None:
        assert self._process.stderr
        self._complaints = self._process.stderr.read()


class AcpConversation:
    """A host that speaks ACP: what it answers and announces, as lines."""

    def __init__(self, host: Conversation) -> None:
        self._host = host
        self._requests = 0
        self.lines: list[str] = []

    def open_session(self, home: Home) -> str:
        """Open a session in the working directory and return its id."""
        answer = self.request("session/new", cwd=str(home.directory), mcpServers=[])
        assert "sessionId" in answer, answer
        return answer["sessionId"]

    def prompt(self, session: str, text: str, *, cancel_at: str | None = None) -> None:
        """Send a prompt and wait for its end; cancel it when the first update with a text comes."""
        prompt = [{"type": "text", "text": text}]
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
        self.request("session/prompt", sessionId=session, prompt=prompt, answers={cancel_at: cancel} if cancel_at else {})

    def request(self, method: str, *, answers: dict[str, Any] | None = None, **params: Any) -> Any:
        """Send a request, add what comes until it is answered to the lines, and return the answer.

        `answers` are messages to send, once each, when an update contains their key.
        """
        self._requests += 1
        self._host.write(json.dumps({"jsonrpc": "2.0", "id": self._requests, "method": method, "params": params}))
        updates: list[dict[str, Any]] = []
        pending = dict(answers or {})
        while True:
            line = self._host.read_line()
            message = json.loads(line)
            if message.get("id") == self._requests:
                break
            updates.append(message["params"]["update"])
            for text in [text for text in pending if text in line]:
                self._host.write(json.dumps(pending.pop(text)))
        self.lines += [json.dumps(update, sort_keys=True) for update in _joined(updates)]
        answer = message.get("result", message.get("error"))
        self.lines.append(f"{method}: {json.dumps(answer, sort_keys=True)}")
        return answer


#: Updates of which a client shows the last. They are sent by timers of their own, so that their order is chance.
_STATES = ("usage_update", "available_commands_update", "session_info_update", "current_mode_update", "config_option_update")


def _joined(updates: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what a client shows in the end: texts, each of them whole, the tool calls and the last states.

    This program merges pieces that arrive together, and announces a tool call before its arguments are complete.
    """
    shown: list[dict[str, Any]] = []
    calls: dict[str, dict[str, Any]] = {}
    states: dict[str, dict[str, Any]] = {}
    for update in updates:
        kind, last = update["sessionUpdate"], shown[-1] if shown else {}
        if kind in _STATES:
            states[kind] = update
        elif kind in ("tool_call", "tool_call_update"):
            if update["toolCallId"] not in calls:
                shown.append(calls.setdefault(update["toolCallId"], {"_meta": {}}))
            call = calls[update["toolCallId"]]
            call.update(update, sessionUpdate="tool_call", _meta={**call["_meta"], **update.get("_meta", {})})
        elif kind == last.get("sessionUpdate") and "text" in update["content"] and "text" in last["content"]:
            last["content"] = {"type": "text", "text": last["content"]["text"] + update["content"]["text"]}
        else:
            shown.append(update)
    return [*shown, *(states[kind] for kind in _STATES if kind in states)]
