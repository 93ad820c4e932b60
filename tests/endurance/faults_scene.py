"""An agent, its host and its provider, as a cell of the fault matrix has them; and what is left of them in the end."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.endurance.faults_provider import FINAL, STAGES, FaultyProvider
from tests.support.gates import Gate
from tests.support.host import PATIENCE, Host
from tests.support.surroundings import Surroundings, rpc, surroundings

#: A variable that all processes of a scene inherit.
MARK = "FAIRLEAD_ENDURANCE_SCENE"
#: What a compaction may say if it fails without a fault: it waited and was aborted, or another one came before it.
COMPACTION_ERRORS = ("Compaction cancelled", "Nothing to compact", "Already compacted")
#: Frames that may name a log of a command. The agent leaves it to the host.
KEEPING = ("response", "tool_execution_end")
FLAGS = ("--tools", "read,write,edit,bash,task")


@dataclass
class Scene:
    """What a fault can act on."""

    dialect: str
    around: Surroundings
    provider: FaultyProvider
    host: Host
    #: A shell command reports at `began` that it runs, and waits at `go`.
    began: Gate
    go: Gate
    file: Path

    @property
    def root(self) -> Path:
        return self.around.root.parent

    def start(self, *flags: str) -> Host:
        """Start an agent with the same session."""
        argv = rpc(self.dialect, *FLAGS, "--session", str(self.file), *flags)
        return Host(argv, self.around.cwd, self.around.env)


@dataclass(frozen=True)
class SceneFault:
    """Something that goes wrong on the machine or that the host does.

    Attributes:
        name: What the table calls it.
        do: Makes it happen.
        stages: Where it can happen.
        undo: Puts it right, after the run has settled.
        exits: The exit code of the agent, if it ends.
        check: Looks at what is special about the fault, after the run.
        error: What the error of the run says. None: the run is not disturbed.
        fails_compaction: Whether a compaction can fail because of it.
        final: What the run says in the end.
        blocks_next: Whether the next prompt has to wait.
        is_lossy: Whether the file may lack what was written before the fault: it was changed by another program.
    """

    name: str
    do: Callable[[Scene], None]
    stages: tuple[str, ...] = STAGES
    undo: Callable[[Scene], None] | None = None
    exits: int | None = None
    check: Callable[[Scene], None] | None = None
    error: str | None = None
    fails_compaction: bool = False
    final: str = FINAL
    blocks_next: bool = False
    is_lossy: bool = False
    #: What the model's command does in the end.
    command: str = "echo done"
    #: Whether the session is on a small disk of its own, which has to be mounted.
    small_disk: bool = False
    #: Whether the fault aborts the run.
    is_abort: bool = False


@contextmanager
def scene(
    root: Path, dialect: str, provider: FaultyProvider, settings: Mapping[str, Any], *, small_disk: bool = False
) -> Generator[Scene]:
    """Start an agent in a home, a project and a temporary folder of its own."""
    disk = root / "disk"
    disk.mkdir()
    shell = root / "bash"
    around = surroundings(root / "around", provider.url, settings={**settings, "shellPath": str(shell)})
    shell.symlink_to("/bin/bash")
    temporary = root / "tmp"
    temporary.mkdir()
    around = Surroundings(around.root, {**around.env, "TMPDIR": str(temporary), MARK: str(root), "PYTHONDONTWRITEBYTECODE": "1"})
    file = disk / "session.jsonl"
    argv = rpc(dialect, *FLAGS, "--session", str(file))
    with (
        mounted("-t", "tmpfs", "-o", "size=256k", "none", str(disk)) if small_disk else nullcontext(),
        Gate(root / "began") as began,
        Gate(root / "go") as go,
        Host(argv, around.cwd, around.env) as host,
    ):
        yield Scene(dialect, around, provider, host, began, go, file)


@contextmanager
def mounted(*arguments: str) -> Generator[None]:
    """Mount something. The last argument says where."""
    mount(*arguments)
    try:
        yield
    finally:
        unmount(arguments[-1])


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def unmount(place: str) -> None:
    subprocess.run(["umount", "--lazy", place], check=True)


def can_mount() -> bool:
    """Whether this process may mount file systems."""
    with tempfile.TemporaryDirectory() as folder:
        tried = subprocess.run(["mount", "-t", "tmpfs", "none", folder], capture_output=True, check=False)
        if tried.returncode == 0:
            unmount(folder)
        return tried.returncode == 0


def check_nothing_is_left(scene: Scene) -> None:
    """Raise AssertionError if a process of a scene still runs, or if there are files that the host does not know."""
    deadline = time.monotonic() + PATIENCE
    while (alive := processes_of(scene)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive, f"still running: {alive}"
    told: list[Any] = [frame.get("data", frame.get("result")) for frame in scene.host.frames if frame["type"] in KEEPING]
    logs = [Path(path) for each in told for path in re.findall(r'"fullOutputPath": "(.*?)"', json.dumps(each))]
    kept = {path.resolve() for log in logs for path in (log, log.parent)}
    left = [str(path) for path in (scene.root / "tmp").rglob("*") if path.resolve() not in kept]
    assert not left, f"left in the temporary folder: {left}"


def processes_of(scene: Scene) -> dict[int, str]:
    """Return the numbers and command lines of the processes that inherited the mark of a scene."""
    mark = f"{MARK}={scene.root}\0".encode()
    found: dict[int, str] = {}
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in environment.read_bytes() + b"\0":
                line = (environment.parent / "cmdline").read_bytes().replace(b"\0", b" ")
                found[int(environment.parent.name)] = line.decode("utf-8", "replace")
        except OSError:  # it has ended, or is not ours
            continue
    return {number: line for number, line in found.items() if line}
