"""Give a small real model small coding tasks, through `fairlead -p` and through pi, and count what is solved.

    python -m bench.model_tasks [--only NAME,NAME] [--agents fairlead,pi] [--seconds N] [--minutes N]

The tasks are data: tests/model/tasks.json has files, a prompt and a command that checks the result. The model is
Qwen2.5-Coder-1.5B-Instruct, run by llama.cpp on this machine with a chat template (tests/model) with which its calls are real
calls. All agents get the same server, so that none has to read calls from text; `fairlead-text` does so nevertheless, as
`fairlead local` does. It needs up to 25 minutes and 1.1 GB to download, so no other target runs it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import peers
from fairlead.models.local.llama import Address, LlamaServer

TASKS = peers.ROOT / "tests" / "model" / "tasks.json"
TEMPLATE = peers.ROOT / "tests" / "model" / "qwen2.5-coder.jinja"
WINDOW = 16_384
MODEL = "qwen2.5-coder-1.5b"
AGENTS = ("fairlead", "fairlead-text", "pi")


@dataclass(frozen=True)
class Task:
    """A task: files to begin with, what to do, and a shell command that succeeds if it was done."""

    name: str
    prompt: str
    files: dict[str, str]
    check: str


#: Fills the server's cache with the instructions and tools of an agent, so that they do not count against its first task.
WARM_UP = Task("(warm-up)", "Say OK.", {}, "true")


@dataclass(frozen=True)
class Limits:
    """How long an agent may take for a task, in seconds, how many model calls fairlead may make for it, and when all ends."""

    seconds: float
    turns: int
    deadline: float

    def seconds_left(self) -> float:
        """The seconds until all ends."""
        return self.deadline - time.monotonic()


def main() -> None:
    arguments = _arguments()
    tasks = [Task(**fields) for fields in json.loads(TASKS.read_text())]
    if arguments.only:
        wanted = arguments.only.split(",")
        if unknown := [name for name in wanted if name not in (task.name for task in tasks)]:
            raise SystemExit(f"There is no task {', '.join(unknown)}. The tasks are: {', '.join(task.name for task in tasks)}.")
        tasks = [task for task in tasks if task.name in wanted]
    agents: list[str] = arguments.agents.split(",")
    weights = Path(peers.QWEN.command()[0])
    for agent in agents:
        _command(agent, 1)  # installs it
    limits = Limits(arguments.seconds, arguments.turns, time.monotonic() + 60 * arguments.minutes)
    server = LlamaServer(MODEL, weights, WINDOW, TEMPLATE.read_text())
    try:
        _compare(tasks, agents, server.address(), limits)
    finally:
        server.stop()


def _compare(tasks: list[Task], agents: list[str], address: Address, limits: Limits) -> None:
    """Let each agent try each task, and print a line for each task and the sums."""
    _print("task", agents)
    for agent in agents:
        patience = limits.seconds_left() / 5
        _, seconds = _attempt(WARM_UP, agent, address, patience, limits.turns)
        print(f"{WARM_UP.name:20}{agent:>24} {seconds:5.0f} s", flush=True)
        if seconds >= patience:
            print(
                f"This machine is too slow or too busy: {agent} has not answered one word. Its figure will say little.",
                flush=True,
            )
    solved = dict.fromkeys(agents, 0)
    tried = 0
    for task in tasks:
        if limits.seconds_left() < limits.seconds * len(agents) / 2:
            print(f"The time is over: {len(tasks) - tried} tasks were not tried. --minutes gives more.")
            break
        cells: list[str] = []
        for agent in agents:
            done, seconds = _attempt(task, agent, address, limits.seconds, limits.turns)
            solved[agent] += done
            cells.append(f"{'solved' if done else '-'} {seconds:5.0f} s {solved[agent]:6}")
        tried += 1
        _print(task.name, cells)
    _print(f"solved of {tried}", [str(solved[agent]) for agent in agents])


def _print(name: str, cells: list[str]) -> None:
    print(f"{name:20}" + "".join(f"{cell:>24}" for cell in cells), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Count the small coding tasks that a small model solves.")
    parser.add_argument("--only", default="", help="names of tasks, separated by commas")
    parser.add_argument("--agents", default="fairlead,pi", help=f"of {', '.join(AGENTS)}")
    parser.add_argument("--seconds", type=float, default=45, help="for one task of one agent")
    parser.add_argument("--minutes", type=float, default=25, help="altogether; the remaining tasks are not tried")
    parser.add_argument("--turns", type=int, default=8, help="model calls of fairlead for one task; pi has no such limit")
    return parser.parse_args()


def _attempt(task: Task, agent: str, address: Address, seconds: float, turns: int) -> tuple[bool, float]:
    """Let an agent try a task once. Returns whether it is solved, and how long that took."""
    with tempfile.TemporaryDirectory(prefix="fairlead-task-", ignore_cleanup_errors=True) as temporary:
        home, work = Path(temporary) / "home", Path(temporary) / "work"
        home.mkdir()
        work.mkdir()
        for name, content in task.files.items():
            (work / name).write_text(content)
        (home / "models.json").write_text(json.dumps(_models(agent, address)))
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "FAIRLEAD_HOME": str(home), "PI_CODING_AGENT_DIR": str(home)}
        command = [*_command(agent, turns), "-p", "--no-session", "--model", f"test/{MODEL}", task.prompt]
        began = time.monotonic()
        _run(command, work, env, seconds)
        took = time.monotonic() - began
        check = ["bash", "-c", task.check]
        return _run(check, work, {**env, "PYTHONDONTWRITEBYTECODE": "1"}, 30) == 0, took


def _run(command: list[str], work: Path, env: dict[str, str], seconds: float) -> int | None:
    """Run a command with all that it starts for at most `seconds`. Returns its exit code; None if the time was over."""
    process = subprocess.Popen(
        command,
        cwd=work,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:  # what it has done by then counts
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _command(agent: str, turns: int) -> list[str]:
    if agent == "pi":
        return peers.PI_087.command()
    if agent in AGENTS:
        return [sys.executable, "-m", "fairlead", "--max-turns", str(turns)]
    raise SystemExit(f"There is no agent {agent}. The agents are: {', '.join(AGENTS)}.")


def _models(agent: str, address: Address) -> dict[str, Any]:
    model: dict[str, Any] = {"id": MODEL, "contextWindow": WINDOW, "maxTokens": 2048}
    if agent == "fairlead-text":
        model["compat"] = {"toolCallsAsText": True}
    provider = {"baseUrl": address.url, "api": "openai-completions", "apiKey": address.key, "models": [model]}
    return {"providers": {"test": provider}}


if __name__ == "__main__":
    main()
