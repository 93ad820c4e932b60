"""Files that tools must leave alone, and commands that must be kept in. Who decides that is not known here."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from fairlead.config.files import Check, opened_path
from fairlead.errors import ConfigError, ToolError


class Guard(Protocol):
    """Says no to files. It is asked about the file that was opened, not about the path that led there: `path` is where that file
    really is, with all links followed, and `found` what it is. Both methods raise ToolError, worded for the model."""

    def check_reading(self, path: Path, found: os.stat_result) -> None: ...

    def check_writing(self, path: Path, found: os.stat_result | None) -> None:
        """`found` is None for a file that is about to be made."""
        ...


class LateGuard:
    """A guard that is made when it is first asked."""

    def __init__(self, make: Callable[[], Guard]) -> None:
        self._make = make
        self._made: Guard | None = None

    def check_reading(self, path: Path, found: os.stat_result) -> None:
        self._guard().check_reading(path, found)

    def check_writing(self, path: Path, found: os.stat_result | None) -> None:
        self._guard().check_writing(path, found)

    def _guard(self) -> Guard:
        if self._made is None:
            self._made = self._make()
        return self._made


def readable(guard: Guard | None) -> Check | None:
    """The same guard for what is read on its way to the model without a tool."""
    if guard is None:
        return None

    def check(file: int, path: Path) -> None:
        try:
            guard.check_reading(opened_path(file, path), os.fstat(file))
        except ToolError as error:
            raise ConfigError(f"{path}: {error}") from error

    return check


class Sandbox(Protocol):
    """Keeps commands in."""

    def wrapped(self, command: Sequence[str], cwd: Path) -> list[str]:
        """The command that runs `command` in the sandbox, where it can only read."""
        ...

    def enter(self, cwd: Path) -> Confined:
        """Make ready for a command that may change files. This takes a moment, so it should not hold up an event loop.

        Raises ToolError if the command cannot be kept in.
        """
        ...


class Confined(Protocol):
    """A command that is about to run in a sandbox, runs, or has ended."""

    def wrapped(self, command: Sequence[str], info: int) -> list[str]:
        """The command that runs `command` in the sandbox. It writes a JSON object to the file descriptor `info`, in which
        `child-pid` is the number of the process group that the command is in."""
        ...

    def ending(self, process: int) -> None:
        """Called when the command has ended or is about to be killed, with that number: what it started may live for a moment."""
        ...

    def check(self, said: str, *, ended: bool) -> list[str]:
        """Take away what the command made and must not leave behind. Called once when it has `ended`, and before that when its
        caller is told something while it goes on. `said` is the end of its output.

        Returns remarks for the caller. This takes a moment, so it should not hold up an event loop.
        """
        ...
