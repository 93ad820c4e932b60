"""Other programs that the chat uses: the user's editor, the shell after Ctrl+Z, and the clipboard.

Texts and images of the clipboard go through the programs of the desktop, else texts go through the terminal."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import tempfile
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.messages import ImageContent

if TYPE_CHECKING:
    from fairlead.chat.app import Chat
    from fairlead.chat.input.editor import Editor


_EDITORS = ("VISUAL", "EDITOR")
#: Some editors choose their mode by the suffix.
_FILE = "prompt.md"


async def edit_text(chat: Chat, editor: Editor) -> None:
    """Edit the text in the program that `$VISUAL` or `$EDITOR` names. The text stays as it was if the program fails."""
    command = _editor_command(chat)
    with tempfile.TemporaryDirectory(prefix="fairlead-", ignore_cleanup_errors=True) as folder:
        path = Path(folder, _FILE)
        _write(path, editor.expand())
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


async def edit_file(chat: Chat, path: Path, content: str) -> bool:
    """Let the user edit a file in their editor. A missing one begins with `content`. Returns whether the editor succeeded."""
    await asyncio.to_thread(_create, path, content)
    done = False

    async def edit() -> None:
        nonlocal done
        command = _editor_command(chat)
        try:
            code = await _run([*shlex.split(command), str(path)], chat, str(path.parent))
        except (OSError, ValueError) as error:
            chat.note(f"Cannot start the editor {command!r}: {error}. Set VISUAL or EDITOR to another one.", "error")
        else:
            done = code == 0

    await chat.lend_terminal(edit)
    return done


def _editor_command(chat: Chat) -> str:
    env = chat.options.env
    return next((env[name] for name in _EDITORS if env.get(name, "").strip()), "vi")


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


def _create(path: Path, content: str) -> None:
    """Write a file that only its owner can read, unless it exists."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError), open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:  # noqa: PTH123
        file.write(content)


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


#: Programs, each with the variable that says that its desktop is there. None: the program exists on that system alone.
_Programs = Sequence[tuple[str | None, Sequence[str]]]
_COPY: _Programs = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-in")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
    (None, ("pbcopy",)),
    ("TMUX", ("tmux", "load-buffer", "-w", "-")),
)
_PASTE_IMAGE: _Programs = (
    ("WAYLAND_DISPLAY", ("wl-paste", "--no-newline", "--type", "image/png")),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-target", "image/png", "-out")),
    (None, ("osascript", "-e", "get the clipboard as «class PNGf»")),  # pbpaste knows only texts
)
_PASTE_TEXT: _Programs = (
    ("WAYLAND_DISPLAY", ("wl-paste", "--no-newline", "--type", "text")),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-out")),
    ("DISPLAY", ("xsel", "--clipboard", "--output")),
    (None, ("pbpaste",)),
)
#: How osascript writes bytes.
_HEX = re.compile(rb"\xc2\xabdata PNGf([0-9A-F]+)\xc2\xbb\s*")
#: Seconds that a program may take, and the most bytes that are read.
_PATIENCE = 5.0
_MOST_BYTES = 32 << 20


async def copy_text(chat: Chat, text: str) -> bool:
    """Put a text into the clipboard. Returns False if only the terminal was asked to do it, which does not answer."""
    for words in _find_programs(chat, _COPY):
        if await _run_piped(chat, words, text.encode("utf-8", "replace")) is not None:
            return True
    chat.terminal.write(f"\x1b]52;c;{b64encode(text.encode('utf-8', 'replace')).decode()}\x07")
    return False


async def paste_image(chat: Chat) -> ImageContent | None:
    """Return the image in the clipboard; None if there is none, or no program to read it."""
    for words in _find_programs(chat, _PASTE_IMAGE):
        data = await _run_piped(chat, words)
        if data and (found := _HEX.fullmatch(data)):
            data = bytes.fromhex(found[1].decode())
        if data and data.startswith(b"\x89PNG"):
            return ImageContent(b64encode(data).decode(), "image/png")
    return None


async def paste_text(chat: Chat) -> str:
    """Return the text in the clipboard; an empty one if there is none, or no program to read it."""
    for words in _find_programs(chat, _PASTE_TEXT):
        if data := await _run_piped(chat, words):
            return data.decode("utf-8", "replace")
    return ""


def can_paste(chat: Chat) -> bool:
    """Whether there is a program that reads images from the clipboard."""
    return bool(_find_programs(chat, _PASTE_IMAGE))


def _find_programs(chat: Chat, programs: _Programs) -> list[list[str]]:
    """Return the commands whose desktop is there, with the paths of their programs."""
    env: Mapping[str, str] = chat.options.env
    which = chat.session.host.workspace.which
    present = (words for variable, words in programs if variable is None or env.get(variable))
    return [[path, *words[1:]] for words in present if (path := which(words[0])) is not None]


async def _run_piped(chat: Chat, words: Sequence[str], data: bytes | None = None) -> bytes | None:
    """Run a program with this input, and return its output; None if it fails, takes too long, or writes too much.

    One that gets input may go on in the background, as xclip does, and its output is not read.
    """
    pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    stdin, stdout = (null, pipe) if data is None else (pipe, null)
    environment = {**os.environ, "PATH": chat.session.host.workspace.search_path()}
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=stdin,
            stdout=stdout,
            stderr=null,
            cwd=str(Path(words[0]).parent),
            env=environment,
            limit=_MOST_BYTES,
        )
    except OSError:
        return None
    try:
        async with asyncio.timeout(_PATIENCE):
            if process.stdin is not None and data is not None:
                process.stdin.write(data)
                with suppress(BrokenPipeError, ConnectionResetError):
                    await process.stdin.drain()
                process.stdin.close()
            output = b""
            while process.stdout is not None and (part := await process.stdout.read(1 << 16)):
                output += part
                if len(output) > _MOST_BYTES:
                    return None
            return output if await process.wait() == 0 else None
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
