"""Runs git for the workspaces of jobs, without the settings of the user that could change what it does."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from fairlead.errors import WorkspaceError


async def call_git(*words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> tuple[int, bytes, bytes]:
    """Run git. Returns its exit code, its output and its errors. Raises WorkspaceError if git is missing."""
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
        )
    except FileNotFoundError as error:
        if error.filename != "git":
            raise WorkspaceError(f"The directory {cwd} of the job is gone.") from None
        raise WorkspaceError("Jobs with a repository need git, which is not installed on this worker.") from None
    output, errors = await process.communicate()
    return process.returncode or 0, output, errors


def reason_of(errors: bytes) -> str:
    """Return what git says is wrong, as a sentence: its first line that names an error, else its last line."""
    lines = [line.strip() for line in errors.decode("utf-8", "replace").splitlines() if line.strip()]
    named = [line for line in lines if line.startswith(("fatal:", "error:"))]
    reason = (named or lines[-1:] or ["it gave no reason"])[0]
    return reason if reason.endswith((".", "!", "?")) else f"{reason}."
