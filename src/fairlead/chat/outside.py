"""Gives the terminal to another program: the user's editor, or the shell after Ctrl+Z."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairlead.chat.app import Chat
    from fairlead.chat.input.editor import Editor

_EDITORS = ("VISUAL", "EDITOR")
#: Some editors choose their mode by the suffix.
_FILE = "prompt.md"


async def edit_text(chat: Chat, editor: Editor) -> None:
    """Edit the text in the program that `$VISUAL` or `$EDITOR` names. The text stays as it was if the program fails."""
    env = chat.options.env
    command = next((env[name] for name in _EDITORS if env.get(name, "").strip()), "vi")
    with tempfile.TemporaryDirectory(prefix="fairlead-", ignore_cleanup_errors=True) as folder:
        path = Path(folder, _FILE)
        _write(path, editor.expanded())
        try:
            code = await _run([*shlex.split(command), str(path)], chat, folder)
        except (OSError, ValueError) as error:
            chat.note(f"Cannot start the editor {command!r}: {error}. Set VISUAL or EDITOR to another one.", "error")
            return
        text = _read(path)
    if code:
        chat.note(f"The editor {command!r} failed with status {code}. The text has not changed.", "warning")
    elif text is not None:
        editor.take()
        editor.set_text(text)


async def _run(words: list[str], chat: Chat, folder: str) -> int:
    """Run an editor in a directory of ours: some read configuration where they start, and the project may not be trusted."""
    terminal, workspace = chat.terminal, chat.session.host.workspace
    program = words[0] if Path(words[0]).is_absolute() else workspace.which(words[0])
    if program is None:
        raise FileNotFoundError(f"there is no such program outside {workspace.cwd}")
    environment = {**os.environ, "PATH": workspace.search_path()}
    process = await asyncio.create_subprocess_exec(
        program, *words[1:], stdin=terminal.input, stdout=terminal.output, stderr=terminal.output, cwd=folder, env=environment
    )
    try:
        return await process.wait()
    finally:
        if process.returncode is None:  # the chat ends, and must not leave a program behind that reads the shell's keys
            with suppress(ProcessLookupError):
                process.terminate()


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="replace")


def _read(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", "replace").removesuffix("\n")
    except OSError:
        return None


async def suspend() -> None:
    """Stop this process and its job until the user continues it."""
    os.kill(0, signal.SIGTSTP)
