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


async def edit_text(chat: Chat, editor: Editor) -> None:
    """Edit the text in the program that `$VISUAL` or `$EDITOR` names. The text stays as it was if the program fails."""
    env = chat.options.env
    command = next((env[name] for name in _EDITORS if env.get(name, "").strip()), "vi")
    path = _write(editor.expanded())
    try:
        code = await _run([*shlex.split(command), path], chat)
    except (OSError, ValueError) as error:
        chat.note(f"Cannot start the editor {command!r}: {error}. Set VISUAL or EDITOR to another one.", "error")
        return
    finally:
        text = _read_and_remove(path)
    if code:
        chat.note(f"The editor {command!r} failed with status {code}. The text has not changed.", "warning")
    elif text is not None:
        editor.take()
        editor.set_text(text)


async def _run(words: list[str], chat: Chat) -> int:
    terminal, folder = chat.terminal, chat.session.host.workspace.cwd
    process = await asyncio.create_subprocess_exec(
        *words, stdin=terminal.input, stdout=terminal.output, stderr=terminal.output, cwd=folder
    )
    try:
        return await process.wait()
    finally:
        if process.returncode is None:  # the chat ends, and must not leave a program behind that reads the shell's keys
            with suppress(ProcessLookupError):
                process.terminate()


def _write(text: str) -> str:
    # Some editors choose their mode by the suffix.
    handle, name = tempfile.mkstemp(prefix="fairlead-", suffix=".md")
    with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    return name


def _read_and_remove(name: str) -> str | None:
    path = Path(name)
    try:
        return path.read_text("utf-8", "replace").removesuffix("\n")
    except OSError:
        return None
    finally:
        path.unlink(missing_ok=True)


async def suspend() -> None:
    """Stop this process and its job until the user continues it."""
    os.kill(0, signal.SIGTSTP)
