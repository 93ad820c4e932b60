"""Ends processes that outlived the worker whose job started them, also those that have left its process groups.

All that a worker process starts, directly or not, inherits a variable with its id. Only Linux lets one look for that.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

#: The variable that a worker process and all that it starts have in their environment.
MARKER = "FAIRLEAD_WORKER"
#: The module that a worker process runs.
WORKER_MODULE = "fairlead.jobs.worker"


def end_processes_of(worker: str) -> None:
    """Kill what a worker process that ended has left behind."""
    for pid, found in _marked():
        if found == worker:
            _kill(pid)


def end_orphans() -> None:
    """Kill what workers of this user have left behind that ended together with their supervisor.

    A worker process has the variable itself, so its id belongs to no running worker if no process that has it is one.
    """
    marked = list(_marked())
    alive = {worker for pid, worker in marked if _is_worker(pid)}
    for pid, worker in marked:
        if worker not in alive and worker == _marker_of(pid):  # else the number belongs to another process by now
            _kill(pid)


def _marked() -> Iterator[tuple[int, str]]:
    """Yield the processes that have the variable, and the ids in it."""
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        worker = _marker_of(pid)
        if worker is not None and pid != os.getpid():
            yield pid, worker


def _marker_of(pid: int) -> str | None:
    start = f"{MARKER}=".encode()
    with suppress(OSError):  # it has ended, or belongs to another user
        for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if variable.startswith(start):
                return variable.removeprefix(start).decode(errors="replace")
    return None


def _is_worker(pid: int) -> bool:
    try:
        return WORKER_MODULE.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def _kill(pid: int) -> None:
    with suppress(OSError):
        os.kill(pid, signal.SIGKILL)
