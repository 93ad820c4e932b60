"""The prompts that the user has sent, in a file that outlasts the chat."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

#: How many prompts are kept, how long one may be, and how many bytes of the file are read.
MOST_PROMPTS = 1000
LONGEST_PROMPT = 20_000
_MOST_BYTES = 8 << 20


class PromptHistory:
    """The prompts of earlier chats and of this one. The file is read when it is first needed.

    Several chats may use the file at the same time: each adds its lines at the end.

    Args:
        path: The file; None keeps the prompts in memory.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._prompts: list[str] | None = None
        #: Where the user is in the history, and what the editor held before.
        self._position: int | None = None
        self._draft = ""

    @property
    def prompts(self) -> Sequence[str]:
        """All prompts, the oldest first."""
        if self._prompts is None:
            self._prompts = self._load()
        return self._prompts

    def add(self, text: str) -> None:
        """Remember a prompt, unless it is empty or repeats the last one. A file that cannot be written changes nothing."""
        self._position = None
        prompts = list(self.prompts)
        if not text.strip() or len(text) > LONGEST_PROMPT or (prompts and prompts[-1] == text):
            return
        self._prompts = [*prompts, text][-MOST_PROMPTS:]
        if self._path is None:
            return
        with suppress(OSError):
            for folder in reversed((self._path.parent, *self._path.parent.parents)):  # the umask decides about other parents
                folder.mkdir(exist_ok=True, mode=0o700)
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(handle, _line(text))
            finally:
                os.close(handle)

    def older(self, present: str) -> str | None:
        """Return the prompt before the one that is shown; None if there is none. `present` is what the editor holds."""
        prompts = self.prompts
        if not self._is_shown(present):
            self._position, self._draft = len(prompts), present
        assert self._position is not None
        for position in range(self._position - 1, -1, -1):
            if prompts[position] != present:
                self._position = position
                return prompts[position]
        return None

    def newer(self, present: str) -> str | None:
        """Return the prompt after the one that is shown, at the end what the editor held before; None if there is none."""
        if not self._is_shown(present):
            return None
        assert self._position is not None
        self._position += 1
        if self._position < len(self.prompts):
            return self.prompts[self._position]
        self._position = None
        return self._draft

    def _is_shown(self, present: str) -> bool:
        """Whether the editor holds the prompt of the history that was shown last, unchanged."""
        position = self._position
        return position is not None and position < len(self.prompts) and self.prompts[position] == present

    def _load(self) -> list[str]:
        if self._path is None:
            return []
        try:
            with self._path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size - _MOST_BYTES))
                lines = file.read().split(b"\n")
        except OSError:
            return []
        prompts = [text for text in map(_prompt, lines) if text is not None]
        if len(prompts) > 2 * MOST_PROMPTS or size > _MOST_BYTES:
            self._shorten(prompts[-MOST_PROMPTS:])
        return prompts[-MOST_PROMPTS:]

    def _shorten(self, prompts: list[str]) -> None:
        """Replace the file by one with these prompts. Prompts that another chat adds in this moment may be lost."""
        assert self._path is not None
        temporary = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        with suppress(OSError):
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.writelines(map(_line, prompts))
            temporary.replace(self._path)


def _line(text: str) -> bytes:
    return json.dumps(text).encode() + b"\n"


def _prompt(line: bytes) -> str | None:
    with suppress(ValueError):
        text = json.loads(line)
        return text if isinstance(text, str) and text else None
    return None
