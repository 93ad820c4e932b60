"""`fairlead jobs watch`: how far the jobs of a fleet are, until all have ended."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from fairlead.cli.console import say
from fairlead.cli.subcommands.sessions import dollars
from fairlead.cli.subcommands.tables import clip, terminal_width
from fairlead.core.lenient import one_line
from fairlead.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairlead.jobs import JobResult, Jobs

#: How often the view is drawn, in seconds: on a terminal, and in a file.
_TERMINAL_SECONDS, _FILE_SECONDS = 0.5, 5.0
#: How many running jobs are shown, and the time over which the rate is measured.
_SHOWN, _RATE_SECONDS = 8, 60.0


async def watch(fleet: Jobs) -> int:
    """Show progress until all jobs have ended. Returns 0 if all are done, else 1."""
    view = WatchView(is_terminal=sys.stdout.isatty())
    results = await fleet.list()
    while True:
        view.show(results)
        if all(result.has_ended for result in results):
            return 0 if all(result.status == "done" for result in results) else 1
        await asyncio.sleep(_TERMINAL_SECONDS if sys.stdout.isatty() else _FILE_SECONDS)
        with suppress(DatabaseUnavailable):  # workers wait for the database too
            results = await fleet.list()


class WatchView:
    """Draws the state of all jobs: over itself on a terminal, else one line at a time."""

    def __init__(self, *, is_terminal: bool) -> None:
        self._is_terminal = is_terminal
        self._drawn = 0
        self._last = ""
        self._ends: list[tuple[float, int]] = []

    def show(self, results: Sequence[JobResult]) -> None:
        """Draw the jobs as they are now."""
        now = time.monotonic()
        ended = sum(result.has_ended for result in results)
        self._ends = [*(each for each in self._ends if now - each[0] < _RATE_SECONDS), (now, ended)]
        began, before = self._ends[0]
        rate = (ended - before) / (now - began) * 60 if now > began else 0.0
        lines = summary_lines(results, rate, terminal_width() if self._is_terminal else None)
        if not self._is_terminal:
            if lines[0] != self._last:
                say(lines[0])
                sys.stdout.flush()
            self._last = lines[0]
            return
        if self._drawn:
            sys.stdout.write(f"\x1b[{self._drawn}F\x1b[J")
        sys.stdout.write("".join(f"{clip(one_line(line), terminal_width() - 1)}\n" for line in lines))
        sys.stdout.flush()
        self._drawn = len(lines)


def summary_lines(results: Sequence[JobResult], rate: float, width: int | None) -> list[str]:
    """Return the view as lines: a bar with counts, cost and rate, then the jobs that run.

    On a terminal that is too narrow for the first line, it becomes two or three. `width` is None in a file.
    """
    counts = Counter(result.status for result in results)
    ended = sum(result.has_ended for result in results)
    cells = 10 if width is None else min(30, max(10, width - 90))
    full = round(cells * ended / len(results)) if results else cells
    bar = f"[{'#' * full}{'.' * (cells - full)}] {ended}/{len(results)}"
    parts = [f"{counts[status]} {status}" for status in ("running", "queued", "done", "failed", "cancelled", "parked")]
    kept = [part for part in parts if not part.startswith("0 ") or part.endswith((" running", " done", " failed"))]
    counted, used = ", ".join(kept), f"cost {dollars(sum(result.cost for result in results))}  {rate:.1f} jobs/min"
    head = [f"{bar}  {counted}  {used}"]
    if width is not None and len(head[0]) >= width:
        both = f"{bar}  {used}"
        head = [both, f"  {counted}"] if len(both) < width else [bar, f"  {counted}", f"  {used}"]
    running = [result for result in results if result.status == "running"]
    lines = [*head, *(_running_line(result) for result in running[:_SHOWN])]
    if len(running) > _SHOWN:
        lines.append(f"  and {len(running) - _SHOWN} more")
    return lines


def _running_line(result: JobResult) -> str:
    attempt = f", attempt {result.attempts}" if result.attempts > 1 else ""
    turns = "1 turn" if result.turns == 1 else f"{result.turns} turns"
    return f"  {result.id}  {turns}, {dollars(result.cost)}{attempt}"
