"""A fleet for tests: a database, a model that runs the commands in the prompt, and workers that can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fairlead.jobs import Job
from fairlead.testing import ProviderServer

MODEL = "test/test-model"


def commands_turn(body: Any) -> dict[str, Any]:
    """Answer with the next command of the prompt, which is a list of commands as JSON; then with "done".

    Commands that got any result count as run, so that a resumed run does not repeat one. The command "fail" makes the provider
    fail.
    """
    commands: list[str] = []
    results = 0
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            if block["type"] == "tool_result":
                results += 1
            elif block["type"] == "text" and message["role"] == "user" and block["text"].startswith("["):
                commands, results = json.loads(block["text"]), 0
    usage = {"input": 100, "output": 10}
    if commands[results : results + 1] == ["fail"]:
        return {"error": "out of order", "status": 400}
    if results < len(commands):
        return {"toolCalls": [{"name": "bash", "arguments": {"command": commands[results]}}], "usage": usage}
    return {"text": f"done after {results} commands", "usage": usage}


class WorkerProcess:
    """A running `fairlead worker`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    @property
    def pid(self) -> int:
        return self.process.pid

    def children(self) -> list[int]:
        """The process numbers of its worker processes."""
        return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]

    def kill(self) -> None:
        """Kill the supervisor and, with it, its worker processes."""
        for pid in [*self.children(), self.pid]:
            send_signal(pid, signal.SIGCONT)
            send_signal(pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """Ask the worker to stop, and return its exit code."""
        self.process.terminate()
        return self.process.wait(30)


def send_signal(pid: int, number: int) -> None:
    """Send a signal to a process that may have ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


class Fleet:
    """A database, a provider and a home for tests of jobs."""

    def __init__(self, root: Path, url: str, provider: ProviderServer) -> None:
        self.root = root
        self.url = url
        self.provider = provider
        self.home = root / "home"
        self.workdir = root / "work"
        self.extra_env: dict[str, str] = {}
        self._workers: list[WorkerProcess] = []
        self.home.mkdir()
        self.workdir.mkdir()
        described = {"id": "test-model", "contextWindow": 200_000, "maxTokens": 16_384, "cost": {"input": 10, "output": 10}}
        models = {"baseUrl": provider.url, "api": "anthropic-messages", "apiKey": "no-key", "models": [described]}
        (self.home / "models.json").write_text(json.dumps({"providers": {"test": models}}))

    @property
    def env(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH") if name in os.environ}
        return {**kept, "HOME": str(self.home), "FAIRLEAD_HOME": str(self.home), "FAIRLEAD_JOBS_DB": self.url, **self.extra_env}

    def job(self, id: str, *commands: str, **fields: Any) -> Job:
        """A job that runs commands in the working directory."""
        if not fields.keys() & {"workdir", "repo"}:
            fields["workdir"] = str(self.workdir)
        return Job(id=id, prompt=json.dumps(commands), model=MODEL, **fields)

    def run(self, *words: str, input: str = "", env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command of fairlead to its end."""
        return subprocess.run(
            [sys.executable, "-P", "-m", "fairlead", *words],
            input=input,
            env={**self.env, **(env or {})},
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=90,
        )

    def start_worker(self, *words: str, sessions: int = 4, processes: int = 1, home: Path | None = None) -> WorkerProcess:
        """Start a worker, and wait until it says that it runs."""
        argv = [sys.executable, "-P", "-m", "fairlead", "worker", "--sessions", str(sessions), "--processes", str(processes)]
        env = {**self.env, **({} if home is None else {"FAIRLEAD_HOME": str(home)})}
        with (self.root / "worker.log").open("ab") as log:
            process = subprocess.Popen([*argv, *words], env=env, cwd=self.root, stdout=subprocess.PIPE, stderr=log)
        worker = WorkerProcess(process)
        self._workers.append(worker)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(b"Running"), (self.root / "worker.log").read_text()
        return worker

    def close(self) -> None:
        for worker in self._workers:
            if worker.process.poll() is None:
                worker.kill()
            assert worker.process.stdout is not None
            worker.process.stdout.close()


@contextmanager
def fleet_in(root: Path, url: str | None = None, turns: Callable[[Any], Any] = commands_turn) -> Generator[Fleet]:
    """Make a fleet in a directory, on a SQLite file unless an address is given. Its workers are killed at the end."""
    with ProviderServer(turns) as provider:
        fleet = Fleet(root, url or f"sqlite:///{root / 'jobs.db'}", provider)
        try:
            yield fleet
        finally:
            fleet.close()


def wait_until(condition: Callable[[], object], seconds: float = 30.0, every: float = 0.02) -> float:
    """Wait until something holds, and return how long that took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, "it did not happen in time"
        time.sleep(every)
    return time.monotonic() - began


def git(folder: Path, *words: str, input: str = "") -> str:
    """Run git, and return what it prints."""
    identity = ["-c", "user.name=Test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"]
    argv = ["git", *identity, *words]
    return subprocess.run(argv, cwd=folder, check=True, capture_output=True, text=True, input=input).stdout.strip()


def make_repository(folder: Path, files: dict[str, str] | None = None) -> str:
    """Make a repository with one commit, and return its hash."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    for name, text in (files or {"readme.txt": "one\n"}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    return git(folder, "rev-parse", "HEAD")


def is_running(pid: int) -> bool:
    from fairlead.jobs.leases import process_identity

    return process_identity(pid) != ""


def lines_of(path: Path) -> Sequence[str]:
    """The lines of a file that may not exist yet."""
    return path.read_text().splitlines() if path.exists() else []
