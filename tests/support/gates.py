"""Ways in which a test and a shell command that the agent runs wait for each other, without looking at the clock."""

from __future__ import annotations

import os
import select
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.host import PATIENCE


class Gate:
    """A point that a shell command reaches, or at which it waits.

    With `echo > PATH` a command says that it came there, and `wait` returns. With `read _ < PATH` it waits for `open`.
    """

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        # Open for both directions, so that neither side ever waits for the other to open it.
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._descriptor)

    def wait(self) -> None:
        ready, _, _ = select.select([self._descriptor], [], [], PATIENCE)
        assert ready, "the command did not get there"
        os.read(self._descriptor, 1)

    def open(self) -> None:
        os.write(self._descriptor, b"\n")


def wait_for_exit(process_number: int) -> None:
    """Wait until a process that is not ours has ended."""
    try:
        process = os.pidfd_open(process_number)
    except ProcessLookupError:
        return
    ended, _, _ = select.select([process], [], [], PATIENCE)
    os.close(process)
    assert ended, f"process {process_number} is still running"
