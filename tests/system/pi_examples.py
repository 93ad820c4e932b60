"""Plays pi's own example extensions to an agent in RPC mode, and notes what a host sees."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from bench import peers
from bench.contestants import Turn, scripted_provider, surroundings
from bench.peers import PI_15

Frame = dict[str, Any]

#: Seconds without a frame after which nothing more comes of a step, and seconds after which a step has failed.
QUIET, PATIENCE = 0.4, 25.0

EXAMPLES = PI_15.package_directory / "examples" / "extensions"


#: The examples that need packages from npm.
WITH_DEPENDENCIES = ("custom-provider-anthropic", "with-deps")


def examples() -> list[str]:
    """The names of all examples."""
    PI_15.command()
    found = [path for path in EXAMPLES.iterdir() if path.suffix == ".ts" or (path / "index.ts").is_file()]
    return sorted(path.name.removesuffix(".ts") for path in found)


def example_file(name: str) -> Path:
    """The file of an example, with its packages beside it if it needs any."""
    if name in WITH_DEPENDENCIES:
        folder = peers.provide(peers.CACHE / f"pi-examples-{PI_15.version}", "the packages of pi's examples", _add_packages)
        return folder / name / "index.ts"
    return EXAMPLES / name / "index.ts" if (EXAMPLES / name).is_dir() else EXAMPLES / f"{name}.ts"


def _add_packages(folder: Path) -> None:
    for name in WITH_DEPENDENCIES:
        shutil.copytree(EXAMPLES / name, folder / name)
        peers.npm_install(folder / name, "--omit=dev", "--ignore-scripts")


def bash(command: str) -> Turn:
    return tool("bash", command=command)


def tool(tool_name: str, **arguments: Any) -> Turn:
    return {"toolCalls": [{"name": tool_name, "arguments": arguments}]}


def says(text: str) -> Turn:
    return {"text": text}


@dataclass(frozen=True)
class Example:
    """What a host does with an extension, and what the model answers.

    A step is a prompt, or a command with its fields. `answers` are those to the questions of the extension, in order; other
    questions get a yes, the first choice or a text.
    """

    steps: Sequence[str | Frame] = ("hello",)
    turns: Sequence[Turn] = (bash("echo one"), says("done"), says("more"), says("more"), says("more"))
    answers: Sequence[Frame | None] = ()
    files: dict[str, str] = field(default_factory=dict[str, str])
    flags: Sequence[str] = ()
    #: Whether the working directory is a git repository with an uncommitted file.
    git: bool = False
    #: Whether the extension works in the background, so that the order of its frames and the others is not fixed in pi either.
    any_order: bool = False
    #: Seconds after which a step has failed.
    patience: float = PATIENCE


def play(command: Sequence[str], path: Path, example: Example) -> list[str]:
    """Play an example to the program that `command` starts. Returns what the host saw, a line for each frame that matters."""
    with scripted_provider(example.turns) as port, tempfile.TemporaryDirectory(prefix="fairlead-example-") as root:
        environment, directory = surroundings(Path(root), port)
        del environment["FAIRLEAD_HOME"]  # so that both use pi's folders
        Path(root, ".profile").write_text("")
        for name, text in example.files.items():
            Path(directory, name).parent.mkdir(parents=True, exist_ok=True)
            Path(directory, name).write_text(text)
        if example.git:
            _make_repository(directory)
        flags = ["--mode", "rpc", "--model", "scripted/one", "-e", str(path), *example.flags]
        player = _Player([*command, *flags], environment, directory, example)
        try:
            for step in ({"type": "get_commands"}, *example.steps):
                player.take({"type": "prompt", "message": step} if isinstance(step, str) else step)
        finally:
            player.leave()
        return _normalised([line for frame in player.frames if (line := described(frame)) is not None], root)


class _Player:
    """A host that reads everything, and answers the extension's questions."""

    def __init__(self, argv: Sequence[str], env: dict[str, str], cwd: str, example: Example) -> None:
        self.frames: list[Frame] = []
        self._answers, self._patience = list(example.answers), example.patience
        self._changed = threading.Condition()
        self._last = time.monotonic()
        self._process = subprocess.Popen(
            list(argv), env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._number = 0
        self._ask({"type": "get_state"})

    def take(self, command: Frame) -> None:
        """Send a command, and wait until nothing more comes of it."""
        self._ask(command)
        deadline = time.monotonic() + self._patience
        while time.monotonic() < deadline and self._process.poll() is None:
            if time.monotonic() - self._last > QUIET and not self._is_running():
                return
            time.sleep(0.02)

    def leave(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
        self._reader.join(10)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _ask(self, command: Frame) -> None:
        self._number += 1
        id = f"step-{self._number}"
        self._send({"id": id, **command})
        with self._changed:
            self._changed.wait_for(
                lambda: self._process.poll() is not None or any(f.get("id") == id for f in self.frames), self._patience
            )

    def _is_running(self) -> bool:
        """Whether a run has started that has not settled."""
        kinds = [frame["type"] for frame in self.frames]
        started = max((i for i, kind in enumerate(kinds) if kind == "agent_start"), default=-1)
        settled = max((i for i, kind in enumerate(kinds) if kind == "agent_settled"), default=-1)
        return started > settled

    def _send(self, frame: Frame) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(frame).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:  # it has ended
            return

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            frame = json.loads(line)
            with self._changed:
                self.frames.append(frame)
                self._last = time.monotonic()
                self._changed.notify_all()
            if frame.get("type") == "extension_ui_request":
                self._answer(frame)
        with self._changed:
            self._changed.notify_all()

    def _answer(self, question: Frame) -> None:
        usual: dict[str, Frame] = {
            "select": {"value": (question.get("options") or [""])[0]},
            "confirm": {"confirmed": True},
            "input": {"value": "typed"},
            "editor": {"value": "edited"},
        }
        if question["method"] in usual:
            answer = self._answers.pop(0) if self._answers else usual[question["method"]]
            if answer is not None:
                self._send({"type": "extension_ui_response", "id": question["id"], **answer})


#: Frames that say nothing more than the others, or how fast something was.
_UNIMPORTANT = ("message_update", "message_start", "tool_execution_update", "turn_start", "turn_end", "agent_end", "queue_update")
#: Commands of pi itself, which fairlead does not have.
_BUILTIN = "builtin"


def described(frame: Frame) -> str | None:
    """A line for a frame; None if it does not matter here."""
    kind = frame["type"]
    match kind:
        case "response":
            return _response(frame)
        case "extension_ui_request":
            fields = {key: value for key, value in frame.items() if key not in ("id", "type")}
            return f"ui {json.dumps(fields, sort_keys=True, ensure_ascii=False)}"
        case "extension_error":
            return f"error {frame.get('extensionPath')} {frame.get('event')}: {frame.get('error')}"
        case "tool_execution_end":
            return f"tool {frame['toolName']} {'failed' if frame['isError'] else 'ran'}: {_text(frame['result'].get('content'))}"
        case "message_end":
            return _message(frame["message"])
        case "entry_appended":
            entry = frame["entry"]
            return f"entry {entry.get('type')} {entry.get('customType')} {json.dumps(entry.get('data'), sort_keys=True)}"
        case _:
            return None if kind in _UNIMPORTANT else str(kind)


def _response(frame: Frame) -> str | None:
    if frame["command"] == "get_state":
        return None
    if frame["command"] == "get_commands":
        commands = frame["data"]["commands"]
        return "commands " + json.dumps(
            [
                [each["name"], each.get("description"), each["source"], each["sourceInfo"]["scope"]]
                for each in commands
                if each["sourceInfo"]["source"] != _BUILTIN
            ]
        )
    given: Any = frame.get("data")
    data = cast("Frame", given) if isinstance(given, dict) else {}
    outcome = data.get("disposition") or data.get("output") or data.get("cancelled") or ""
    return f"response {frame['command']} {'ok' if frame['success'] else frame.get('error')} {outcome}".rstrip()


def _message(message: Frame) -> str | None:
    if message["role"] == "system":
        return None
    more = (
        f" {message.get('customType')} {json.dumps(message.get('details'), sort_keys=True)}"
        if message["role"] == "custom"
        else ""
    )
    blocks = cast("list[Frame]", message["content"]) if isinstance(message["content"], list) else []
    calls = [block["name"] for block in blocks if block.get("type") == "toolCall"]
    return f"{message['role']}{more}: {_text(message['content'])}{' calls ' + ' '.join(calls) if calls else ''}"


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(block.get("text", "") for block in content or ())


_CODES = re.compile(r"\\u001b\[[0-9;]*m|\x1b\[[0-9;]*m")
_SPINNER = re.compile("[\u2800-\u28ff]")
_CHANGING = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"\b[0-9a-f]{8}\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.-]+Z"), "TIME"),
    (re.compile(r"\b1[789]\d{11}\b"), "MS"),
    (re.compile(r"\d+:\d\d:\d\d(?: [AP]M)?"), "CLOCK"),
    (re.compile(r"\b\d+ms\b"), "MS"),
)


def _normalised(lines: list[str], root: str) -> list[str]:
    """The lines without colours, and without what is different each time. A spinner turns at any time: its lines come last."""
    result: list[str] = []
    spinning: set[str] = set()
    for line in lines:
        line = _SPINNER.sub("\u280b", _CODES.sub("", line)).replace(root, "ROOT")
        for pattern, name in _CHANGING:
            line = pattern.sub(name, line)
        if _SPINNER.search(line):
            spinning.add(line)
        else:
            result.append(line)
    return [*result, *sorted(spinning)]


def _make_repository(directory: str) -> None:
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@x"]
    Path(directory, "committed.txt").write_text("one\n")
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *arguments], cwd=directory, check=True, capture_output=True)
    Path(directory, "dirty.txt").write_text("two\n")
