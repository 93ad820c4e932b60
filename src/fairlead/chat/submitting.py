"""Sends what the user wrote: a prompt, a command of the chat, or a shell command."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from fairlead.chat.input.editor import IMAGE_MARK
from fairlead.errors import FairleadError, RunAborted, SessionError
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
            if (remark := await chat.commands.explain_unknown(text)) is not None:
                chat.note(remark, "warning")
                self._give_back(text)
                return
            named, remarks = await asyncio.to_thread(self.images_in, text)
            for remark in remarks:
                chat.note(remark, "warning")
            pasted = self._chat.pasted_images
            marks = dict.fromkeys(int(number) for number in IMAGE_MARK.findall(text))
            attached = [*images, *(pasted[number] for number in marks if number in pasted), *named]
            await chat.session.prompt(text, attached or None, behavior="followUp" if queued else "steer")
        except RunAborted:
            chat.note("Stopped before it began.")
        except FairleadError as error:
            if chat.session.model is None:
                # The text would be in the way of the command that helps.
                chat.note("There is no model yet. /login stores a key or logs in. Up brings your text back.", "error")
            else:
                chat.note(f"{error}{_advise(error)}", "error")
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
        chat.status.begin_command(command)
        chat.touch()
        try:
            done = await chat.session.host.bash(command, exclude_from_context=private, on_output=self._add_command_output)
            chat.transcript.message(done.message)
        finally:
            self._commands -= 1
            chat.status.end_command()
            chat.touch()

    def _add_command_output(self, text: str) -> None:
        self._chat.status.add_command_output(text)
        self._chat.touch()

    # Images

    def images_in(self, text: str) -> tuple[list[ImageContent], list[str]]:
        """Return the images that a text names, and remarks about those that cannot be sent."""
        images: list[ImageContent] = []
        remarks: list[str] = []
        for path, name in self._find_named_images(text).items():
            if len(images) == _MOST_IMAGES:
                remarks.append(f"Only {_MOST_IMAGES} images go with a prompt, so {name} and later ones do not.")
                break
            if not os.path.exists(path):
                # A path without `@` may be about something else.
                remarks += [f"There is no image {name}, so the prompt goes without it."] if name else []
                continue
            try:
                if not os.path.isfile(path) or path.stat().st_size > _MOST_BYTES:
                    raise ValueError(f"{path} is not an image of at most {_MOST_BYTES >> 20} MiB.")
                images.append(ImageContent.from_file(path))
            except (OSError, ValueError) as error:
                remarks.append(f"{str(error).removesuffix('.')}. The prompt goes without it.")
        return images, remarks

    def _find_named_images(self, text: str) -> dict[Path, str]:
        """Return the paths of images in a text, each with its name if that stands after `@`.

        Others are words like those that a terminal writes for a dragged file.
        """
        cwd = self._chat.session.host.workspace.cwd
        mentioned = [quoted or bare for quoted, bare in _MENTION.findall(text)]
        named = {name: name for name in mentioned}
        named |= {name: "" for name in _words(text) if name.startswith(("/", "~/", "file://", "./", "../"))}
        found: dict[Path, str] = {}
        for name, shown in named.items():
            if name.lower().endswith(_IMAGES):
                path = unquote(name.removeprefix("file://")) if name.startswith("file://") else name
                with suppress(RuntimeError):  # there is no such user
                    found.setdefault(cwd / Path(path).expanduser(), shown)
        return found


def _advise(error: FairleadError) -> str:
    """Return what to do about an error, after a space: a session file that cannot be written stops every prompt."""
    is_unwritable = isinstance(error, SessionError) and isinstance(error.__cause__, OSError)
    return " `fairlead --no-session` starts a chat that is not saved." if is_unwritable else ""


def _words(text: str) -> list[str]:
    """Return the words as a shell would read them: terminals quote the paths of dragged files like that."""
    words: list[str] = []
    for line in text.split("\n"):
        try:
            words += shlex.split(line)
        except ValueError:
            words += line.split()
    return words
