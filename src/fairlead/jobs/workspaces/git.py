"""Runs git for the workspaces of jobs, and makes them take turns."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from weakref import WeakValueDictionary

from fairlead.core.secrets import redacted, without_credentials
from fairlead.errors import ConfigError, WorkspaceError
from fairlead.platform.programs import GitCall, current_folder, git_call

#: How long git may take to remove its locks and temporary files when it has to stop, in seconds.
_STOP_SECONDS = 0.5
#: How many bytes of git's errors are kept: half of them from the beginning. A server can send any number.
_MOST_ERRORS = 128 * 1024
#: How often to try to get a lock that another process holds, in seconds.
_LOCK_SECONDS = 0.02
#: The locks of this process, by file. Jobs of one process take their turns here, and only the next one tries to lock the file.
_turns: WeakValueDictionary[tuple[asyncio.AbstractEventLoop, Path], asyncio.Lock] = WeakValueDictionary()


async def call_git(
    *words: str,
    data: Path,
    repository: Path | None = None,
    address: str | None = None,
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
) -> tuple[int, bytes, bytes]:
    """Run git. Returns its exit code, its output, and the beginning and the end of its errors.

    Raises WorkspaceError if git is missing. If the caller is cancelled, git stops, with the programs that it started.

    Args:
        words: Its arguments.
        data: The directory of the worker. Jobs write there, and may write where the worker started, so no program there counts.
        repository: The repository to work in.
        address: What the call may reach, as in `git_call`.
        stdin: What git reads.
        env: Further variables.
    """
    call = prepare_git(*words, data=data, repository=repository, address=address)
    try:
        process = await asyncio.create_subprocess_exec(
            *call.command,
            cwd=call.cwd,
            env={**call.env, **(env or {})},
            stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except (FileNotFoundError, NotADirectoryError):
        raise WorkspaceError(f"The directory {call.cwd} of the worker is gone.") from None
    reading = asyncio.create_task(_communicate(process, stdin))
    try:
        output, errors = await asyncio.shield(reading)
    except asyncio.CancelledError:
        await _stop(process)
        await asyncio.wait((reading,), timeout=_STOP_SECONDS)  # nothing is left in its pipes
        reading.cancel()
        raise
    return process.returncode or 0, output, errors


def prepare_git(*words: str, data: Path, repository: Path | None = None, address: str | None = None) -> GitCall:
    """Return the call that `call_git` makes. Raises WorkspaceError if git is missing."""
    try:
        return git_call(*words, env=os.environ, outside=[*current_folder(), data], repository=repository, address=address)
    except ConfigError:
        raise WorkspaceError("Jobs with a repository need git, which is not installed on this worker.") from None


async def _communicate(process: asyncio.subprocess.Process, stdin: bytes | None) -> tuple[bytes, bytes]:
    """Return the output of a process that ends, and the beginning and the end of its errors."""
    assert process.stdout is not None and process.stderr is not None
    async with asyncio.TaskGroup() as group:
        output = group.create_task(process.stdout.read())
        errors = group.create_task(_read_ends(process.stderr))
        if process.stdin is not None:
            with suppress(BrokenPipeError, ConnectionResetError):  # it has ended before it read everything
                process.stdin.write(stdin or b"")
                await process.stdin.drain()
            process.stdin.close()
    await process.wait()
    return output.result(), errors.result()


async def _read_ends(stream: asyncio.StreamReader) -> bytes:
    """Read a stream to its end. Returns its first and its last bytes."""
    first, last = b"", b""
    while data := await stream.read(_MOST_ERRORS):
        room = _MOST_ERRORS // 2 - len(first)
        first += data[:room]
        last = (last + data[room:])[-_MOST_ERRORS // 2 :]
    return first + last


async def _stop(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _STOP_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


@asynccontextmanager
async def lock_file(file: Path) -> AsyncGenerator[None]:
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
    reason = redacted(without_credentials((named or lines[-1:] or ["it gave no reason"])[0]))
    return reason if reason.endswith((".", "!", "?")) else f"{reason}."
