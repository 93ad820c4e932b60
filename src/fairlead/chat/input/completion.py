"""Completion in the editor: files after `@`, commands after `/`, and the arguments of commands."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

#: How many files are listed, how long that may take, and how old a list may be, in seconds.
_MOST_FILES = 200_000
_LONGEST_LISTING = 10.0
_FRESH = 5.0
#: How many suggestions are offered.
MOST_ITEMS = 50
_MENTION = re.compile(r"(?:^|(?<=\s))@(\"[^\"\n]*|[^\s\"]*)$")
_COMMAND = re.compile(r"/([^\s/]*)$")
_ARGUMENT = re.compile(r"/(\S+)[ ]([^\n]*)$")
_SKIPPED = {"node_modules", "__pycache__", ".git", ".venv", ".hg", ".svn"}


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

    kind: str
    typed: str
    replaces: int
    command: str = ""


def wanted(before: str) -> Wanted | None:
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


def ranked(typed: str, texts: Iterable[str], limit: int = MOST_ITEMS) -> list[str]:
    """Return the texts that contain the typed characters in order, the best matches first."""
    if not typed:
        return [text for text, _ in zip(texts, range(limit), strict=False)]
    lower = typed.lower()
    pattern = re.compile(".*?".join(map(re.escape, lower)), re.DOTALL)
    scored = sorted((_score(lower, text), text) for text in texts if pattern.search(text.lower()))
    return [text for _, text in scored[:limit]]


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


@dataclass(slots=True)
class FileIndex:
    """The files of a directory that `@` offers. The methods may block: call them on a thread.

    In a git repository, ignored files are left out. Elsewhere, ripgrep leaves out what `.gitignore` names, if it is installed.
    """

    folder: Path
    find_program: Callable[[str], str | None]
    _paths: list[str] = field(default_factory=list[str])
    _read_at: float = -1e9

    def search(self, typed: str) -> list[str]:
        """Return the files and directories that match what the user typed, relative to the folder where possible."""
        if typed.startswith(("/", "~", "../", "./")):
            return self._beside(typed)
        if monotonic() - self._read_at > _FRESH:
            files = self._listed()
            folders = {parent for file in files for parent in _parents(file)}
            self._paths = sorted(folders, key=lambda path: (path.count("/"), path)) + sorted(files)
            self._read_at = monotonic()
        return ranked(typed, self._paths)

    def _beside(self, typed: str) -> list[str]:
        """Return the entries of the directory that the typed path is in."""
        lead, _, start = typed.rpartition("/")
        place = Path(os.path.expanduser(f"{lead}/"))  # noqa: PTH111  # Path.expanduser raises for unknown users
        found: list[str] = []
        with suppress(OSError), os.scandir(self.folder / place) as entries:
            for entry in entries:
                if entry.name.startswith(".") and not start.startswith("."):
                    continue
                found.append(f"{lead}/{entry.name}{'/' if entry.is_dir() else ''}")
        return ranked(typed, sorted(found)) if start else sorted(found)[:MOST_ITEMS]

    def _listed(self) -> list[str]:
        git, rg = self.find_program("git"), self.find_program("rg")
        if git is not None:
            # A repository must not run a program of its own here.
            command = [git, "-c", "core.fsmonitor=false", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
            listed = self._output([*command, "--deduplicate"])
            if listed is not None:
                return listed
        if rg is not None:
            listed = self._output([rg, "--files", "--null", "--no-messages", "--no-config", "--no-require-git"])
            if listed is not None:
                return listed
        return list(_walked(self.folder))

    def _output(self, command: Sequence[str]) -> list[str] | None:
        try:
            done = subprocess.run(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=_LONGEST_LISTING,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        if done.returncode not in (0, 1) or (done.returncode == 1 and not done.stdout):
            return None
        names = done.stdout.decode("utf-8", "replace").split("\0")
        return [name for name in names[:_MOST_FILES] if name and name.isprintable()]


def _walked(folder: Path) -> Iterator[str]:
    """The files below a folder, without hidden ones, until there are too many or it takes too long."""
    end, count = monotonic() + _LONGEST_LISTING / 5, 0
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        for name in files:
            if not name.startswith(".") and name.isprintable():
                yield os.path.relpath(Path(place, name), folder)
                count += 1
        if count > _MOST_FILES or monotonic() > end:
            return


def _parents(file: str) -> Iterator[str]:
    at = file.find("/")
    while at >= 0:
        yield file[: at + 1]
        at = file.find("/", at + 1)
