"""Completion where a user writes to a session: files after `@`, commands after `/`, and the arguments of commands."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Literal, Protocol

#: How many files are listed, how long that may take, and how old a list may be, in seconds. A list that took long may be older.
_MOST_FILES = 200_000
_LONGEST_LISTING = 5.0
_FRESH = 5.0
_REST = 10
#: How many suggestions are offered.
MOST_ITEMS = 50
_MENTION = re.compile(r"(?:^|(?<=\s))@(\"[^\"\n]*|[^\s\"]*)$")
_COMMAND = re.compile(r"/([^\s/]*)$")
_ARGUMENT = re.compile(r"/(\S+)[ ]([^\n]*)$")


@dataclass(frozen=True, slots=True)
class Item:
    """A suggestion: what is inserted, what is shown beside it, and what is shown instead of it, if anything."""

    text: str
    detail: str = ""
    label: str = ""


@dataclass(slots=True)
class Menu:
    """The suggestions for the text before the cursor."""

    kind: str
    #: How many characters before the cursor a suggestion replaces.
    replaces: int
    items: list[Item]
    selected: int = 0
    #: Whether the first suggestion has the typed characters only scattered.
    is_guess: bool = False

    @property
    def chosen(self) -> Item:
        return self.items[self.selected]

    @property
    def is_unasked(self) -> bool:
        """Whether the user has neither typed a part of the argument nor moved to a suggestion: Enter must not choose for them."""
        return self.kind == "argument" and not self.selected and (not self.replaces or self.is_guess)

    def move(self, by: int) -> None:
        self.selected = (self.selected + by) % len(self.items)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the text before the cursor asks for: a `file`, a `command`, or the `argument` of a command."""

    kind: Literal["file", "command", "argument"]
    typed: str
    replaces: int
    command: str = ""


def find_wanted(before: str) -> Wanted | None:
    """Return what could be completed at the end of a text; None if nothing could."""
    if (found := _MENTION.search(before)) is not None:
        typed = found[1]
        return Wanted("file", typed.removeprefix('"'), len(typed) + 1)
    if (found := _COMMAND.fullmatch(before)) is not None:
        return Wanted("command", found[1], len(found[0]))
    if (found := _ARGUMENT.fullmatch(before)) is not None:
        return Wanted("argument", found[2], len(found[2]), found[1])
    return None


def mention(path: str) -> str:
    """Return how a prompt names a file."""
    return f'@"{path}"' if re.search(r"\s", path) else f"@{path}"


def rank(typed: str, texts: Iterable[str], limit: int = MOST_ITEMS) -> list[str]:
    """Return the texts that contain the typed characters in order, the best matches first."""
    if not typed:
        return [text for text, _ in zip(texts, range(limit), strict=False)]
    lower = typed.lower()
    scored = sorted((_score(lower, text), text) for text in texts if _has_in_order(text.lower(), lower))
    return [text for _, text in scored[:limit]]


def _has_in_order(text: str, characters: str) -> bool:
    rest = iter(text)
    return all(character in rest for character in characters)


def _score(lower: str, text: str) -> tuple[int, int]:
    """Lower is better: the name begins with it, the name has it, the path has it, its characters are scattered."""
    whole = text.lower()
    name = whole.rstrip("/").rpartition("/")[2]
    if whole.startswith(lower) or name == lower:
        return 0, len(text)
    if name.startswith(lower):
        return 1, len(text)
    if lower in name:
        return 2, len(text)
    return (3 if lower in whole else 4), len(text)


class FileLister(Protocol):
    """Lists the files of a directory that are not ignored: a workspace does. It starts no program."""

    @property
    def cwd(self) -> Path: ...

    def list_files(self, most: int, seconds: float) -> list[str]: ...


@dataclass(slots=True)
class FileIndex:
    """The files of the working directory that `@` offers. The methods may block: call them on a thread."""

    workspace: FileLister
    _paths: list[str] = field(default_factory=list[str])
    _folder: Path | None = None
    #: When the list is read again.
    _stale_at: float = 0.0

    def search(self, typed: str) -> list[str]:
        """Return the files and directories that match what the user typed, relative to the folder where possible."""
        if typed.startswith(("/", "~", "../", "./")):
            return self._beside(typed)
        if monotonic() >= self._stale_at or self._folder != self.workspace.cwd:
            self._read()
        return rank(typed, self._paths)

    def _read(self) -> None:
        began, self._folder = monotonic(), self.workspace.cwd
        files = self.workspace.list_files(_MOST_FILES, _LONGEST_LISTING)
        folders = {parent for file in files for parent in _parents(file)}
        self._paths = sorted(folders, key=lambda path: (path.count("/"), path)) + sorted(files)
        now = monotonic()
        self._stale_at = now + max(_FRESH, _REST * (now - began))

    def _beside(self, typed: str) -> list[str]:
        """Return the entries of the directory that the typed path is in."""
        lead, _, start = typed.rpartition("/")
        place = Path(os.path.expanduser(f"{lead}/"))  # noqa: PTH111  # Path.expanduser raises for unknown users
        found: list[str] = []
        with suppress(OSError, ValueError), os.scandir(self.workspace.cwd / place) as entries:
            for entry in islice(entries, _MOST_FILES):
                if (entry.name.startswith(".") and not start.startswith(".")) or not entry.name.isprintable():
                    continue
                found.append(f"{lead}/{entry.name}{'/' if _is_folder(entry) else ''}")
        return rank(typed, sorted(found)) if start else sorted(found)[:MOST_ITEMS]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a directory or a link to one. A link to itself is not."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _parents(file: str) -> Iterator[str]:
    at = file.find("/")
    while at >= 0:
        yield file[: at + 1]
        at = file.find("/", at + 1)
