"""Runs programs for extensions: `fl.exec`."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from fairlead.core.runtime import Cancel

if TYPE_CHECKING:
    from subprocess import Popen

#: Seconds between terminating a program with its children and killing them.
_GRACE = 0.2


class ExecResult(Struct, frozen=True):
    """How a program ended.

    `code` is its exit code, or 128 + n if signal n killed it. `killed` says whether it was killed because of a timeout or a
    cancellation.
    """

    stdout: str
    stderr: str
    code: int
    killed: bool


async def run_program(
    command: str, args: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float | None, cancel: Cancel | None
) -> ExecResult:
    """Run a program, without a shell, until it ends, `timeout` seconds have passed or `cancel` fires.

    Its output goes to unnamed files, so that a background child that keeps them open does not keep the caller waiting. Raises
    OSError if the program cannot be started.
    """
    import subprocess
    import tempfile

    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(  # noqa: ASYNC220 (only a thread waits for it)
            [command, *args], stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, cwd=cwd, env=env, start_new_session=True
        )
        killed = await _wait_for_exit(process, timeout, cancel)
        stdout.seek(0)
        stderr.seek(0)
        texts = [file.read().decode("utf-8", "replace") for file in (stdout, stderr)]
    code = process.returncode
    return ExecResult(texts[0], texts[1], code if code >= 0 else 128 - code, killed)


async def _wait_for_exit(process: Popen[bytes], timeout: float | None, cancel: Cancel | None) -> bool:
    """Wait for a program to exit. Returns whether it had to be killed."""
    from fairlead.config.threads import run_in_thread

    ended = asyncio.ensure_future(run_in_thread(process.wait))
    fired = asyncio.Event()
    forget = cancel.on_fire(fired.set) if cancel is not None else (lambda: None)
    cancelled = asyncio.ensure_future(fired.wait())
    try:
        await asyncio.wait({ended, cancelled}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            return False
        _signal(process, signal.SIGTERM)
        await asyncio.wait({ended}, timeout=_GRACE)
        _signal(process, None)  # even if it has exited: its children may still run
        return True
    finally:
        forget()
        cancelled.cancel()
        if not ended.done():
            _signal(process, None)
            await asyncio.shield(ended)


def _signal(process: Popen[bytes], number: signal.Signals | None) -> None:
    """Send a signal to a program and its children. None kills them."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL if number is None else number)
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):
        return
