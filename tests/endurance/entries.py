"""What every endurance test has in common: its options, the figures it returns, and the list of all of them.

An endurance test ("entry") is a module of this folder with three names:

    NAME = "lines"                           # what the command line calls it
    TITLE = "Lines of JSON from a host"      # its row in docs/reliability.md
    def run(options: Options) -> Figures     # does the work; a problem goes into `Figures.problems`

A module that starts processes also has `STARTS_PROCESSES = True`. Its short form is then a system test.

`run` must depend on `options.seed` alone, as far as that is possible, so that a failure can be repeated. It may raise: an
exception is a failure of the entry, and the other entries still run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol, cast

#: The modules of all entries, in the order in which they run and appear in the table.
MODULES = (
    "fuzz_lines",
    "fuzz_streams",
    "fuzz_sessions",
    "aborts_rounds",
    "faults_matrix",
    "kills_processes",
    "soak_sessions",
    "fuzz_documents",
    "fuzz_shell",
    "slow_hosts",
    "claude_hosts",
    "slow_providers",
    "secrets_planted",
    "fuzz_server",
    "soak_server",
    "fleet_jobs",
)


@dataclass(frozen=True)
class Options:
    """How an entry runs.

    Attributes:
        seed: What random choices depend on.
        short: Whether to do a small part of the work, in a few seconds.
        minutes: How long each entry works that repeats its work; None for its usual amount of work.
    """

    seed: int = 1
    short: bool = False
    minutes: float | None = None

    def choose(self, short: int, long: int) -> int:
        """Return one of two amounts of work."""
        return short if self.short else long

    def enough(self, short: int, long: int) -> Callable[[int], bool]:
        """Return a function that says whether so much work is enough: one of two amounts, or what fits into the minutes."""
        if self.short or self.minutes is None:
            amount = self.choose(short, long)
            return lambda done: done >= amount
        end = time.monotonic() + 60 * self.minutes
        return lambda _: time.monotonic() > end


@dataclass
class Figures:
    """What an entry did and found.

    Attributes:
        done: The amounts, in the order in which they are printed: `{"lines": 2_000_000, "memory, MiB": 31.5}`.
        problems: What went wrong, each with what is needed to repeat it. Empty if all is well.
    """

    done: dict[str, int | float | str] = field(default_factory=dict[str, int | float | str])
    problems: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        return ", ".join(_amount(name, value) for name, value in self.done.items())


class Entry(Protocol):
    """An endurance test."""

    NAME: str
    TITLE: str

    def run(self, options: Options) -> Figures: ...


def entries() -> dict[str, Entry]:
    """Return all entries by their names."""
    found = [cast("Entry", import_module(f"tests.endurance.{module}")) for module in MODULES]
    return {entry.NAME: entry for entry in found}


def starts_processes(entry: Entry) -> bool:
    """Whether an entry starts processes, so that its short form is not part of `make test`."""
    return getattr(entry, "STARTS_PROCESSES", False)


def _amount(name: str, value: float | str) -> str:
    """Return one figure as text: `2,000,000 lines`, `31.5 MiB of memory`."""
    if isinstance(value, str):
        return f"{name}: {value}"
    return f"{value:,} {name}" if isinstance(value, int) else f"{value:,.1f} {name}"
