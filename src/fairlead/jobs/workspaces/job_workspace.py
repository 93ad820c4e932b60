"""What a job needs of the place that it works in, and a container per job: the agent runs beside it, its commands run inside.

The directory of the job is mounted under its own path, so that the tools for files, which run outside, and the commands see the
same names. A script takes the place of bash, and runs each command in the container.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from fairlead.errors import WorkspaceError
from fairlead.platform.open_files import make_private_folders, open_private
from fairlead.platform.programs import current_folder, find_program, own_environment


class Placement(Struct, frozen=True, kw_only=True):
    """A workspace that is ready to work in."""

    #: The directory of the agent, on this machine.
    cwd: Path
    #: The program that runs the agent's commands instead of the shell of this machine.
    shell: Path | None = None
    #: Whether an earlier attempt worked elsewhere, so that the files are only those of its last snapshot.
    is_restored: bool = False


class Workspace(Protocol):
    """The place that a job works in. Implement it to run jobs in sandboxes that live elsewhere.

    A worker calls `prepare` once, `snapshot` after each turn, and `release` at the end, on its event loop.
    """

    async def prepare(self, snapshot: str | None) -> Placement:
        """Make the place ready, with the files of a snapshot if the job comes from another worker. Raises WorkspaceError."""
        ...

    async def snapshot(self, turn: int) -> str | None:
        """Save the files where another worker finds them, and return the name of the snapshot. None: there is no need."""
        ...

    async def patch(self) -> str | None:
        """Return what the job changed, as a patch. None: the place has no history."""
        ...

    async def release(self, *, has_ended: bool) -> None:
        """Stop using the place. If the job has ended, its files on this machine can go."""
        ...


#: What the container does: nothing, but it must collect what commands leave behind. `--init` needs a program that may be missing.
_IDLE = "while :; do sleep 3600 & wait; done"
#: Programs that run containers, in the order of preference.
_RUNTIMES = ("podman", "docker")


class ContainerWorkspace:
    """A workspace whose commands run in a container.

    Args:
        inner: The workspace that has the files.
        image: The image of the container. It needs sh and sleep; commands use bash if it has one.
        name: What the container is called: the session of the job.
        data: The directory of the worker.
        fleet: The id of the database.
        workdir: The directory of the job, if it is not below `data`.
    """

    def __init__(self, inner: Workspace, image: str, name: str, data: Path, fleet: str = "", workdir: Path | None = None) -> None:
        self._inner = inner
        #: Commands write there, so no program in them counts.
        self._outside = [*current_folder(), data] if workdir is None else [*current_folder(), data, workdir]
        self._image = image
        self._container = f"fairlead-{fleet}-{name}" if fleet else f"fairlead-{name}"
        self._scripts = data / "containers" / fleet / name
        self._runtime: str | None = None

    async def prepare(self, snapshot: str | None) -> Placement:
        """Start the container. Raises WorkspaceError."""
        placement = await self._inner.prepare(snapshot)
        self._runtime = self._find_runtime()
        if self._runtime is None:
            raise WorkspaceError("Jobs with a container need podman or docker, and this worker has neither. Install one of them.")
        self._check_scripts(placement.cwd)
        make_private_folders(self._scripts)
        await self._run("rm", "--force", self._container)  # from a worker that died
        code, text = await self._run(
            *("run", "--detach", "--rm", "--name", self._container, "--workdir", str(placement.cwd)),
            # Removing it must not wait: the first process of a container ignores other signals.
            *("--stop-signal", "KILL", "--volume", f"{placement.cwd}:{placement.cwd}"),
            *("--entrypoint", "sh", self._image, "-c", _IDLE),
        )
        if code:
            raise WorkspaceError(f"A container of the image {self._image} cannot be started: {text.strip()}")
        shell = self._scripts / "bash"
        inside = 'if command -v bash >/dev/null; then exec bash "$@"; else exec sh "$@"; fi'
        words = [
            self._runtime,
            "exec",
            "--interactive",
            "--workdir",
            str(placement.cwd),
            self._container,
            "sh",
            "-c",
            inside,
            "sh",
        ]
        with open_private(shell, "wb") as file:
            file.write(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'.encode())
        shell.chmod(0o700)
        return replace(placement, shell=shell)

    async def snapshot(self, turn: int) -> str | None:
        return await self._inner.snapshot(turn)

    async def patch(self) -> str | None:
        return await self._inner.patch()

    async def release(self, *, has_ended: bool) -> None:
        """Remove the container, with everything that still runs in it."""
        if self._runtime is None and self._scripts.is_dir():  # another process has started it
            self._runtime = self._find_runtime()
        if self._runtime is not None:
            await self._run("rm", "--force", self._container)
        await asyncio.to_thread(shutil.rmtree, self._scripts, ignore_errors=True)
        await self._inner.release(has_ended=has_ended)

    async def _run(self, *words: str) -> tuple[int, str]:
        assert self._runtime is not None
        process = await asyncio.create_subprocess_exec(
            *(self._runtime, *words),
            cwd="/",
            env=own_environment(os.environ, outside=self._outside),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        return process.returncode or 0, output.decode("utf-8", "replace")

    def _check_scripts(self, cwd: Path) -> None:
        if Path(os.path.realpath(self._scripts)).is_relative_to(os.path.realpath(cwd)):
            raise WorkspaceError(
                f"The working directory {cwd} contains {self._scripts}, which commands in the container could change and the"
                " worker runs. Start the worker with another --data, or let the job work elsewhere."
            )

    def _find_runtime(self) -> str | None:
        """Return the program that runs containers on this machine."""
        return next(filter(None, (find_program(name, None, outside=self._outside) for name in _RUNTIMES)), None)


def path_with(shell: Path) -> str:
    """Return a PATH on which a script comes before the shell of this machine."""
    return os.pathsep.join([str(shell.parent), os.environ.get("PATH", os.defpath)])
