"""Running a program for an extension."""

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

#: Seconds between asking a program and its children to end and killing them.
_GRACE = 0.2


class ExecResult(Struct, frozen=True):
    """How a program ended. `code` is its exit code, or 128 + n if signal n killed it; `killed`: it was stopped by us."""

    stdout: str
    stderr: str
    code: int
    killed: bool


async def run_program(
    command: str, args: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float | None, cancel: Cancel | None
) -> ExecResult:
    """Run a program, without a shell, until it ends, `timeout` seconds have passed or `cancel` fires.

    Both streams go into unnamed files: a background child that holds on to them keeps nobody waiting. Raises OSError if it
    cannot be started.
    """
    import subprocess
    import tempfile

    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(  # noqa: ASYNC220 (nothing waits for it but a thread)
            [command, *args], stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, cwd=cwd, env=env, start_new_session=True
        )
        killed = await _wait_for_exit(process, timeout, cancel)
        stdout.seek(0)
        stderr.seek(0)
        texts = [file.read().decode("utf-8", "replace") for file in (stdout, stderr)]
    code = process.returncode
    return ExecResult(texts[0], texts[1], code if code >= 0 else 128 - code, killed)


async def _wait_for_exit(process: Popen[bytes], timeout: float | None, cancel: Cancel | None) -> bool:
    """Wait for a program to end; True if it had to be stopped."""
    from fairlead.config.threads import run_in_thread

    ended = asyncio.ensure_future(run_in_thread(process.wait))
    called_off = asyncio.Event()
    forget = cancel.on_fire(called_off.set) if cancel is not None else (lambda: None)
    cancelled = asyncio.ensure_future(called_off.wait())
    try:
        await asyncio.wait({ended, cancelled}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            return False
        _signal(process, signal.SIGTERM)
        await asyncio.wait({ended}, timeout=_GRACE)
        _signal(process, None)  # also if it has ended itself: its children may not have
        return True
    finally:
        forget()
        cancelled.cancel()
        if not ended.done():
            _signal(process, None)
            await asyncio.shield(ended)


def _signal(process: Popen[bytes], number: signal.Signals | None) -> None:
    """Send a signal to a program and its children; None kills them."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL if number is None else number)
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):
        return
