"""Runs git for the workspaces of jobs, without the settings of the user that could change what it does."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from weakref import WeakValueDictionary

from fairlead.errors import WorkspaceError

#: How long git may take to remove its locks and temporary files when it has to stop, in seconds.
_STOP_SECONDS = 0.5
#: How often to try to get a lock that another process holds, in seconds.
_LOCK_SECONDS = 0.02
#: The locks of this process, by file. Jobs of one process take their turns here, and only the next one tries to lock the file.
_turns: WeakValueDictionary[tuple[asyncio.AbstractEventLoop, Path], asyncio.Lock] = WeakValueDictionary()


async def call_git(*words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> tuple[int, bytes, bytes]:
    """Run git. Returns its exit code, its output and its errors. Raises WorkspaceError if git is missing.

    If the caller is cancelled, git stops, with the programs that it started.
    """
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
        **(env or {}),
    }
    try:
        process = await asyncio.create_subprocess_exec(
            *("git", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", *words),
            cwd=cwd,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        if error.filename != "git":
            raise WorkspaceError(f"The directory {cwd} of the job is gone.") from None
        raise WorkspaceError("Jobs with a repository need git, which is not installed on this worker.") from None
    try:
        output, errors = await process.communicate()
    except asyncio.CancelledError:
        await _stop(process)
        raise
    return process.returncode or 0, output, errors


async def _stop(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _STOP_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


@asynccontextmanager
async def locked(file: Path) -> AsyncGenerator[None]:
    """Keep the other jobs, of this process and of others, out until the end.

    It waits in no thread: those who hold the lock need threads too.
    """
    key = asyncio.get_running_loop(), file
    turn = _turns.setdefault(key, asyncio.Lock())
    async with turn:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not _try_to_lock(lock):  # noqa: ASYNC110  # the other process tells nothing
                await asyncio.sleep(_LOCK_SECONDS)
            yield
        finally:
            os.close(lock)


def _try_to_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def reason_of(errors: bytes) -> str:
    """Return what git says is wrong, as a sentence: its first line that names an error, else its last line."""
    lines = [line.strip() for line in errors.decode("utf-8", "replace").splitlines() if line.strip()]
    named = [line for line in lines if line.startswith(("fatal:", "error:"))]
    reason = (named or lines[-1:] or ["it gave no reason"])[0]
    return reason if reason.endswith((".", "!", "?")) else f"{reason}."
