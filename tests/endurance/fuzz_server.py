"""Sends random requests to a real `fairlead serve` while a healthy client uses one session."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from tests.endurance.entries import Figures, Options
from tests.system.serve_fuzz import fuzz

NAME = "server"
TITLE = "Random HTTP requests and WebSocket frames to `fairlead serve`, while a healthy client uses a session"
STARTS_PROCESSES = True


def run(options: Options) -> Figures:
    with tempfile.TemporaryDirectory(prefix="fairlead-fuzz-") as folder:
        report = asyncio.run(fuzz(options.choose(2_000, 100_000), options.seed, Path(folder)))
    done: dict[str, int | float | str] = {
        "requests": report.statuses.total(),
        "prompts of the healthy client": report.healthy,
        "MiB of memory at half the requests": report.memory[0],
        "MiB at the end": report.memory[-1],
    }
    return Figures(done, report.problems)
