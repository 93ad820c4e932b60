"""A sandbox that takes as long to get ready as a test wants."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from tests.support.host import PATIENCE


class SlowSandbox:
    """Confines nothing. `entering` is set once a command waits for it, and `ready` lets that command go on."""

    def __init__(self) -> None:
        self.entering = threading.Event()
        self.ready = threading.Event()
        self.left = threading.Event()
        self.wrapped_commands = 0

    def wrapped(self, command: Sequence[str], cwd: Path) -> list[str]:
        return list(command)

    def enter(self, cwd: Path) -> SlowConfined:
        self.entering.set()
        assert self.ready.wait(PATIENCE)
        return SlowConfined(self)


class SlowConfined:
    def __init__(self, sandbox: SlowSandbox) -> None:
        self._sandbox = sandbox

    def wrapped(self, command: Sequence[str], info: int) -> list[str]:
        self._sandbox.wrapped_commands += 1
        return list(command)

    def ending(self, process: int) -> None:
        return

    def check(self, said: str, *, ended: bool) -> list[str]:
        if ended:
            self._sandbox.left.set()
        return []
