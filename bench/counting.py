"""Counts the work of a program, in total and between two moments: machine instructions, or lines of Python."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from bench.driver import BenchError

#: How long a program may take, and a mark.
_SECONDS = 300


class Counter(ABC):
    """Counts one run of a program, without its children."""

    def __init__(self, out: Path) -> None:
        """`out` is where it keeps its counts. No such file exists."""
        self._out = out

    @abstractmethod
    def command(self, program: Sequence[str]) -> list[str]:
        """Return the command that runs a Python program and counts it."""

    @abstractmethod
    def mark(self, pid: int) -> float:
        """Return what the running program has done since the last mark, or since it began."""

    @abstractmethod
    def total(self) -> float:
        """Return what the program has done, after it has ended. There must have been no marks."""

    def of_program(self, program: Sequence[str]) -> float:
        """Run a Python program to its end, and return what it has done."""
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        subprocess.run(self.command(program), check=True, timeout=_SECONDS, env=environment)
        return self.total()


class Callgrind(Counter):
    """Counts instructions with callgrind."""

    def __init__(self, out: Path) -> None:
        super().__init__(out)
        self._marks = 0

    def command(self, program: Sequence[str]) -> list[str]:
        options = [f"--callgrind-out-file={self._out}", f"--vgdb-prefix={self._out}-gdb", "--quiet"]
        return ["valgrind", "--tool=callgrind", *options, sys.executable, *program]

    def mark(self, pid: int) -> float:
        asked = ["vgdb", f"--vgdb-prefix={self._out}-gdb", f"--pid={pid}", "dump"]
        subprocess.run(asked, check=True, capture_output=True, timeout=_SECONDS)
        self._marks += 1
        return _summary(Path(f"{self._out}.{self._marks}"))

    def total(self) -> float:
        return _summary(self._out)


class Lines(Counter):
    """Counts lines of Python with `bench/line_counter.py`."""

    def __init__(self, out: Path) -> None:
        super().__init__(out)
        self._last = 0

    def command(self, program: Sequence[str]) -> list[str]:
        return [sys.executable, str(Path(__file__).with_name("line_counter.py")), str(self._out), *program]

    def mark(self, pid: int) -> float:
        before = self._counts()
        os.kill(pid, signal.SIGUSR2)
        deadline = time.monotonic() + _SECONDS
        while len(counts := self._counts()) == len(before):
            if time.monotonic() > deadline:
                raise BenchError("the program did not say how many lines it has executed")
            time.sleep(0.01)
        done, self._last = counts[-1] - self._last, counts[-1]
        return done

    def total(self) -> float:
        return self._counts()[-1]

    def _counts(self) -> list[int]:
        text = self._out.read_bytes() if self._out.exists() else b""
        return [int(line) for line in text.split(b"\n")[:-1]]


def has_valgrind() -> bool:
    """Return whether valgrind is there. The administrator of a Debian machine gets it installed."""
    install = ["apt-get", "install", "-y", "valgrind"]
    for command in ([], install, ["apt-get", "update"], install):  # the lists of packages may be old, or missing
        if command and os.geteuid() == 0 and shutil.which("apt-get"):
            try:
                subprocess.run(command, capture_output=True, check=False, timeout=60)
            except subprocess.TimeoutExpired:
                return False
        if shutil.which("valgrind") and shutil.which("vgdb"):
            return True
    return False


def _summary(path: Path) -> float:
    """Return the number of instructions in a file of callgrind."""
    found = re.search(rb"^(?:summary|totals): (\d+)", path.read_bytes(), re.MULTILINE)
    if found is None:
        raise BenchError("callgrind wrote no total")
    return float(found[1])
