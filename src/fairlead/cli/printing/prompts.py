"""What `-p` sends to the model: prompts and files from the command line, and piped input."""

from __future__ import annotations

import base64
import stat
import sys
from typing import TYPE_CHECKING

from fairlead.config.home import expand_user
from fairlead.core import images as core_images
from fairlead.core.lenient import scrub_text
from fairlead.core.messages import ImageContent
from fairlead.errors import ConfigError

if TYPE_CHECKING:
    from fairlead.config.files import Check

#: The largest size of standard input, and of a file on the command line, in bytes.
MOST_INPUT = 64 * 1024 * 1024
_TOO_MUCH = f"more than {MOST_INPUT >> 20} MiB, which no model can read. Give part of it."


def read_input() -> str:
    """Read all of standard input. Raises ConfigError if it is too long for any model."""
    data = sys.stdin.buffer.read(MOST_INPUT + 1)
    if len(data) > MOST_INPUT:
        raise ConfigError(f"Standard input has {_TOO_MUCH}")
    return data.decode("utf-8", "replace").strip()


def one_prompt(words: list[str]) -> list[str]:
    """Join words that a person has written without quotes to one prompt. Files (`@name`) stay as they are.

    If one of the words contains a space, the user has used quotes. Then each word is a separate prompt.
    """
    prompts = [word for word in words if not word.startswith("@")]
    if len(prompts) < 2 or any(len(prompt.split()) != 1 for prompt in prompts):
        return words
    return [word for word in words if word.startswith("@")] + [" ".join(prompts)]


def read_prompts(piped: str, words: list[str], check: Check | None) -> tuple[str, list[str], list[ImageContent]]:
    """Return the text before the first prompt (piped input, then files), the prompts, and the images of the first one.

    Arguments and file names may contain bytes that are not text. Models and hosts get U+FFFD for them.
    """
    before = [piped]
    images: list[ImageContent] = []
    for word in words:
        if word.startswith("@"):
            text, image = _file(word[1:], check)
            before.append(text)
            images += [image] if image else []
    prompts = [word for word in words if not word.startswith("@")]
    return scrub_text("\n\n".join(part for part in before if part)), [scrub_text(text) for text in prompts], images


def _file(name: str, check: Check | None) -> tuple[str, ImageContent | None]:
    path = expand_user(name)
    try:
        mode = path.stat().st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):  # it might never end; a pipe ends when its writer closes it
            raise ConfigError(f"@{name}: expected a file, found a device.")
        with path.open("rb") as file:
            if check is not None:
                check(file.fileno(), path)
            data = file.read(MOST_INPUT + 1)
    except OSError as error:
        raise ConfigError(f"@{name}: {error.strerror}") from error
    if len(data) > MOST_INPUT:
        raise ConfigError(f"@{name} has {_TOO_MUCH}")
    kind = _image_type(data)
    if kind is not None:
        return f'<file name="{path.absolute()}"></file>', ImageContent(base64.b64encode(data).decode(), kind)
    return f'<file name="{path.absolute()}">\n{data.decode("utf-8", "replace")}\n</file>', None


def _image_type(data: bytes) -> str | None:
    return core_images.image_type(data)
