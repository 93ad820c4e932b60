"""A sandbox that takes as long to get ready as a test wants."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support.host import PATIENCE


class SlowSandbox:
    """Confines nothing. `entering` is set once a command waits for it, and `ready` lets that command go on."""

    def __init__(self) -> None:
        self.entering = threading.Event()
        self.ready = threading.Event()
        self.left = threading.Event()
        self.wrapped_commands = 0

    def wrap(self, command: Sequence[str], cwd: Path, calls: int) -> list[str]:
        return list(command)

    def part_of_installation(self, path: Path, found: os.stat_result | None) -> Path | None:
        return None

    def open_filter(self) -> int:
        return os.open(os.devnull, os.O_RDONLY)

    def enter(self, cwd: Path) -> SlowConfined:
        self.entering.set()
        assert self.ready.wait(PATIENCE)
        return SlowConfined(self)


class SlowConfined:
    def __init__(self, sandbox: SlowSandbox) -> None:
        self._sandbox = sandbox

    @property
    def is_exposed(self) -> bool:
        return False

    def arm(self, kill: Callable[[], None]) -> None:
        return

    def disarm(self) -> None:
        return

    def wrap(self, command: Sequence[str], info: int, calls: int) -> list[str]:
        self._sandbox.wrapped_commands += 1
        return list(command)

    def ending(self, process: int) -> None:
        return

    def check(self, said: str, *, ended: bool) -> list[str]:
        if ended:
            self._sandbox.left.set()
        return []
