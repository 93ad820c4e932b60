"""Sends what the user wrote: a prompt, a command of the chat, or a shell command."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from fairlead.errors import FairleadError, RunAborted
from fairlead.messages import ImageContent

if TYPE_CHECKING:
    from fairlead.chat.app import Chat

_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
#: The largest image that is read, in bytes, and how many go with one prompt.
_MOST_BYTES = 32 << 20
_MOST_IMAGES = 20
_MENTION = re.compile(r"(?:^|(?<=\s))@(?:\"([^\"\n]+)\"|(\S+))")


class Sender:
    """Sends texts to the session of a chat."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._commands = 0

    @property
    def is_running_command(self) -> bool:
        """Whether a shell command of the user runs."""
        return self._commands > 0

    async def send(self, text: str, images: Sequence[ImageContent] = (), *, queued: bool = False) -> None:
        """Send a text. While the agent works, it goes into the current run, or with `queued` after it.

        `!command` runs a shell command whose output the model sees; with `!!` it does not. `/name` runs a command.
        """
        chat = self._chat
        if text.startswith("!") and text.strip("! "):
            await self._run_command(text.removeprefix("!"))
            return
        if chat.commands.knows(text):
            await chat.commands.run(text)
            return
        try:
            if (remark := await chat.commands.unknown(text)) is not None:
                chat.note(remark, "warning")
                self._give_back(text)
                return
            for name in self._missing(text):
                chat.note(f"There is no image {name}, so the prompt goes without it.", "warning")
            attached = [*images, *await asyncio.to_thread(self.images_in, text)]
            await chat.session.prompt(text, attached or None, behavior="followUp" if queued else "steer")
        except RunAborted:
            chat.note("Stopped before it began.")
        except FairleadError as error:
            if chat.session.model is None:
                # The text would be in the way of the command that helps.
                chat.note("There is no model yet. /login stores a key or logs in. Up brings your text back.", "error")
            else:
                chat.note(str(error), "error")
                self._give_back(text)
        finally:
            chat.touch()

    def _give_back(self, text: str) -> None:
        """Put a text that was not sent into the editor, unless the user has written another: they need not type it again."""
        if not self._chat.editor.text:
            self._chat.editor.set_text(text)

    async def _run_command(self, command: str) -> None:
        chat = self._chat
        private = command.startswith("!")
        command = command.removeprefix("!").strip()
        self._commands += 1
        chat.status.command_began(command)
        chat.touch()
        try:
            done = await chat.session.host.bash(command, exclude_from_context=private, on_output=self._said)
            chat.transcript.message(done.message)
        finally:
            self._commands -= 1
            chat.status.command_ended()
            chat.touch()

    def _said(self, text: str) -> None:
        self._chat.status.command_said(text)
        self._chat.touch()

    # Images

    def images_in(self, text: str) -> list[ImageContent]:
        """Return the images that a text names: after `@`, or as a path that was dragged into the terminal."""
        images: list[ImageContent] = []
        for path in dict.fromkeys(self._named(text)):
            with suppress(OSError, ValueError):
                if os.path.isfile(path) and path.stat().st_size <= _MOST_BYTES:
                    images.append(ImageContent.from_file(path))
            if len(images) == _MOST_IMAGES:
                break
        return images

    def _missing(self, text: str) -> list[str]:
        """Return the images that a text names after `@` and that do not exist."""
        cwd = self._chat.session.host.workspace.cwd
        names = [quoted or bare for quoted, bare in _MENTION.findall(text)]
        with suppress(OSError, RuntimeError, ValueError):
            return [
                name for name in names if name.lower().endswith(_IMAGES) and not os.path.exists(cwd / Path(name).expanduser())
            ]
        return []

    def _named(self, text: str) -> Iterator[Path]:
        cwd = self._chat.session.host.workspace.cwd
        names = [quoted or bare for quoted, bare in _MENTION.findall(text)]
        names += [name for name in _words(text) if name.startswith(("/", "~/", "file://", "./", "../"))]
        for name in names:
            if name.startswith("file://"):
                name = unquote(name.removeprefix("file://"))
            if name.lower().endswith(_IMAGES):
                with suppress(RuntimeError):
                    yield cwd / Path(name).expanduser()


def _words(text: str) -> list[str]:
    """Return the words as a shell would read them: terminals quote the paths of dragged files like that."""
    words: list[str] = []
    for line in text.split("\n"):
        try:
            words += shlex.split(line)
        except ValueError:
            words += line.split()
    return words
