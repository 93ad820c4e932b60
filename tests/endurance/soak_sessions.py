"""Uses 100 sessions in one process for 20 minutes: prompts with tools, aborts, compactions, sessions closed and opened again.

Memory, descriptors, threads and tasks of that process must stay flat, and what its sessions held must be free when all of them
have been closed. The first half warms the process up: caches fill, and the
allocator keeps what it once needed. The straight line through the samples of the second half shows whether anything grows.
"""

from __future__ import annotations

import json
import logging
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.endurance.entries import Figures, Options

from fairlead.testing import ProviderServer
from fairlead.testing.formats import last_user_text

NAME = "soak"
TITLE = "100 sessions in one process for 20 minutes: prompts with tools, aborts, compactions, sessions closed and opened again"
STARTS_PROCESSES = True

ROOT = Path(__file__).resolve().parent.parent.parent
#: How much each amount may grow in the second half, along the straight line through its samples.
MOST_GROWTH = {"memory": 6.0, "descriptors": 3.0, "threads": 1.0, "tasks": 1.0}
#: The same for a short run, whose sessions are still becoming longer.
MOST_GROWTH_AT_FIRST = {"memory": 16.0, "descriptors": 8.0, "threads": 4.0, "tasks": 4.0}
#: How much more there may be after all sessions have been closed than before the first one was opened. Threads wait for work.
MOST_LEFT = {"descriptors": 6, "tasks": 0}
#: The settings of the user: little is kept in a compaction, and retries do not wait.
SETTINGS = {"compaction": {"keepRecentTokens": 100}, "retry": {"baseDelayMs": 1}}

Sample = dict[str, Any]


def run(options: Options) -> Figures:
    seconds = 20.0 if options.short else 60 * (20 if options.minutes is None else options.minutes)
    before, *samples, after = soak(options.choose(10, 100), seconds, options.choose(16, 120), options.seed)
    later = samples[len(samples) // 2 :]
    growth = {name: slope(later, name) * len(later) for name in MOST_GROWTH}
    work = samples[-1]["work"]
    done: dict[str, int | float | str] = {
        "sessions": options.choose(10, 100),
        "prompts": work["ask"] + work["abort"] + work["steer"],
        "aborts": work["abort"],
        "compactions": work["compact"],
        "times opened": work["opened"],
        "MiB at half time": later[0]["memory"],
        "MiB at the end": later[-1]["memory"],
        "descriptors": later[-1]["descriptors"],
        "threads": later[-1]["threads"],
        "growth in the second half": ", ".join(f"{name} {value:+.1f}" for name, value in growth.items()),
    }
    allowed = MOST_GROWTH_AT_FIRST if options.short else MOST_GROWTH
    problems = [
        f"{name} grew by {growth[name]:.1f}: {values(later, name)}" for name, most in allowed.items() if growth[name] > most
    ]
    for name, most in MOST_LEFT.items():
        if after[name] - before[name] > most:
            problems.append(f"{name} of closed sessions are left: {before[name]} before them, {after[name]} after them")
    return Figures(done, problems)


def soak(sessions: int, seconds: float, samples: int, seed: int) -> list[Sample]:
    """Run the worker at a low priority and return its samples: without any session, of sessions in use, and after all are closed.

    Raises AssertionError if it fails.
    """
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of each client that leaves in the middle of an answer
    with tempfile.TemporaryDirectory(prefix="fairlead-soak-") as folder:
        root = Path(folder)
        (root / "home").mkdir()
        (root / "home" / "settings.json").write_text(json.dumps(SETTINGS))
        with ProviderServer(lambda body: model.answer(body)) as provider:
            model = Model(provider, random.Random(seed))
            command = [sys.executable, "-m", "tests.endurance.soak_worker", folder, provider.url]
            command += [str(sessions), str(seconds), str(samples), str(seed)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, preexec_fn=_be_nice)
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


class Model:
    """A model that works with tools for a few turns, fails now and then, and answers."""

    def __init__(self, provider: ProviderServer, chance: random.Random) -> None:
        self._provider = provider
        self._chance = chance

    def answer(self, body: Any) -> dict[str, Any]:
        self._provider.requests.clear()  # they would fill the memory
        if "<conversation>" in last_user_text(body):
            return {"text": "What happened so far. " * 5}
        words = "so it goes, " * self._chance.randrange(1, 30)
        name = f"{self._chance.randrange(20)}.txt"
        turns: Sequence[dict[str, Any]] = (
            {"text": words},
            {"thinking": words, "text": words, "delayMs": 1},
            {"toolCalls": [{"name": "bash", "arguments": {"command": f"echo {self._chance.random()}; seq 200"}}]},
            {"toolCalls": [{"name": "write", "arguments": {"path": name, "content": words}}]},
            {"text": words, "toolCalls": [{"name": "read", "arguments": {"path": name}}]},
            {"status": 503, "error": "Unavailable"},
        )
        return self._chance.choices(turns, (16, 8, 6, 2, 2, 1))[0]


def slope(samples: Sequence[Sample], name: str) -> float:
    """Return how much an amount grows from one sample to the next, along the straight line that fits best."""
    return statistics.linear_regression(range(len(samples)), values(samples, name)).slope


def values(samples: Sequence[Sample], name: str) -> list[float]:
    return [round(sample[name], 1) for sample in samples]


def _be_nice() -> None:
    os.nice(10)
