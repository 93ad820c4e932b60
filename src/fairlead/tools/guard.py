"""What tools ask before they open a file or start a command. `fairlead.policy` has the answers; tools do not know it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from fairlead.config.files import Check, opened_path
from fairlead.errors import ConfigError, ToolError


class Guard(Protocol):
    """Refuses files by raising ToolError, with a text for the model.

    It judges the file that was opened, not the path that led there: `path` is the real path of that file, and `found` its status.
    """

    def check_reading(self, path: Path, found: os.stat_result) -> None: ...

    def check_writing(self, path: Path, found: os.stat_result | None) -> None:
        """Refuse a file for writing. `found` is None for a file that does not exist yet."""
        ...


class LateGuard:
    """Makes a guard when it is first asked."""

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
    """Turn a guard into a check for files that reach the model without a tool."""
    if guard is None:
        return None

    def check(file: int, path: Path) -> None:
        try:
            guard.check_reading(opened_path(file, path), os.fstat(file))
        except ToolError as error:
            raise ConfigError(f"{path}: {error}") from error

    return check


class Sandbox(Protocol):
    """Restricts what commands can see and change."""

    def wrapped(self, command: Sequence[str], cwd: Path) -> list[str]:
        """Return the command that runs `command` in the sandbox, where it can only read."""
        ...

    def enter(self, cwd: Path) -> Confined:
        """Prepare the sandbox for a command that may change files. This takes time, so call it off the event loop.

        Raises ToolError if the sandbox cannot be set up.
        """
        ...


class Confined(Protocol):
    """A command that is about to run in a sandbox, runs, or has ended."""

    def wrapped(self, command: Sequence[str], info: int) -> list[str]:
        """Return the command that runs `command` in the sandbox. It writes a JSON object to the file descriptor `info`, in
        which `child-pid` is the number of the process group of the command."""
        ...

    def ending(self, process: int) -> None:
        """Note that the command has ended or will be killed, with that number: its children may live for a moment."""
        ...

    def check(self, said: str, *, ended: bool) -> list[str]:
        """Remove what the command made and must not leave behind.

        Called once when it has `ended`, and before that whenever its caller gets output of the running command. `said` is the
        end of its output. Returns remarks for the caller. This takes time, so call it off the event loop.
        """
        ...
