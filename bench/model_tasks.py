"""Give a small real model small coding tasks, through `fairlead -p` and through pi, and count what is solved.

    python -m bench.model_tasks [--only NAME,NAME] [--seconds N] [--agents fairlead,pi]

The tasks are data: tests/model/tasks.json has files, a prompt and a command that checks the result. The model is
Qwen2.5-Coder-1.5B-Instruct, run by llama.cpp on this machine. It needs up to an hour on two cores, so no other target runs it.
"""

from __future__ import annotations

import argparse
import json
import os
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
WINDOW = 16_384
MODEL = "qwen2.5-coder-1.5b"


@dataclass(frozen=True)
class Task:
    """A task: files to begin with, what to do, and a shell command that succeeds if it was done."""

    name: str
    prompt: str
    files: dict[str, str]
    check: str


def main() -> None:
    arguments = _arguments()
    tasks = [Task(**fields) for fields in json.loads(TASKS.read_text())]
    if arguments.only:
        tasks = [task for task in tasks if task.name in arguments.only.split(",")]
    agents = arguments.agents.split(",")
    server = LlamaServer(MODEL, Path(peers.QWEN.command()[0]), WINDOW)
    solved = dict.fromkeys(agents, 0)
    try:
        address = server.address()
        print(f"{'task':20}" + "".join(f"{agent:>24}" for agent in agents), flush=True)
        for task in tasks:
            cells: list[str] = []
            for agent in agents:
                done, seconds = _attempt(task, agent, address, arguments.seconds)
                solved[agent] += done
                cells.append(f"{'solved' if done else '-'} {seconds:5.0f} s")
            print(f"{task.name:20}" + "".join(f"{cell:>24}" for cell in cells), flush=True)
    finally:
        server.stop()
    print(f"{f'solved of {len(tasks)}':20}" + "".join(f"{solved[agent]:>24}" for agent in agents))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Count the small coding tasks that a small model solves.")
    parser.add_argument("--only", default="", help="names of tasks, separated by commas")
    parser.add_argument("--seconds", type=float, default=120, help="for one task")
    parser.add_argument("--agents", default="fairlead,pi")
    return parser.parse_args()


def _attempt(task: Task, agent: str, address: Address, seconds: float) -> tuple[bool, float]:
    """Let an agent try a task once. Returns whether it is solved, and how long that took."""
    with tempfile.TemporaryDirectory(prefix="fairlead-task-") as temporary:
        home, work = Path(temporary) / "home", Path(temporary) / "work"
        home.mkdir()
        work.mkdir()
        for name, content in task.files.items():
            (work / name).write_text(content)
        (home / "models.json").write_text(json.dumps(_models(agent, address)))
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "FAIRLEAD_HOME": str(home), "PI_CODING_AGENT_DIR": str(home)}
        began = time.monotonic()
        command = [*_command(agent), "-p", "--no-session", "--model", f"test/{MODEL}", task.prompt]
        with suppress(subprocess.TimeoutExpired):  # what it has done by then counts
            subprocess.run(
                command, cwd=work, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False
            )
        took = time.monotonic() - began
        env["PYTHONDONTWRITEBYTECODE"] = "1"
        checked = subprocess.run(["bash", "-c", task.check], cwd=work, env=env, capture_output=True, timeout=30, check=False)
        return checked.returncode == 0, took


def _command(agent: str) -> list[str]:
    if agent == "fairlead":
        return [sys.executable, "-m", "fairlead", "--max-turns", "8"]
    return peers.PI_087.command()


def _models(agent: str, address: Address) -> dict[str, Any]:
    model: dict[str, Any] = {"id": MODEL, "contextWindow": WINDOW, "maxTokens": 2048}
    if agent == "fairlead":
        model["compat"] = {"toolCallsAsText": True}
    provider = {"baseUrl": address.url, "api": "openai-completions", "apiKey": address.key, "models": [model]}
    return {"providers": {"test": provider}}


if __name__ == "__main__":
    main()
