"""A terminal for the command under test."""

from __future__ import annotations

import os
import subprocess
import termios
from collections.abc import Callable, Mapping

from tests.cli.command import PATIENCE, Command


class Terminal:
    """`fairlead` on a terminal of its own. `shown` is everything that it has written there, with the escape sequences."""

    def __init__(
        self,
        fairlead: Command,
        *arguments: str,
        stdout: int | None = None,
        columns: int = 80,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._ours, theirs = os.openpty()
        termios.tcsetwinsize(theirs, (24, columns))
        self.process = subprocess.Popen(
            fairlead.argv(*arguments),
            cwd=fairlead.around.cwd,
            env=fairlead.env({"TERM": "xterm", **(env or {})}),
            stdin=theirs,
            stdout=theirs if stdout is None else stdout,
            stderr=theirs,
        )
        os.close(theirs)
        self.shown = ""

    def read_until(self, wanted: Callable[[str], bool]) -> str:
        """Read until `wanted` is true of what is shown, or the process has closed the terminal. Returns what is shown."""
        while not wanted(self.shown):
            try:
                data = os.read(self._ours, 65536)
            except OSError:  # the other side is closed
                break
            if not data:
                break
            self.shown += data.decode("utf-8", "replace")
        return self.shown

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self._ours, text.encode())

    def finish(self) -> tuple[int, str]:
        """Wait for the end. Returns the exit code and what is shown."""
        self.read_until(lambda shown: False)
        code = self.process.wait(PATIENCE)
        os.close(self._ours)
        return code, self.shown
