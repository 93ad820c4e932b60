"""Kills 1,000 agents at random moments: in runs, compactions, forks, switches, queueing, extensions, and resumed runs."""

from __future__ import annotations

import logging
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from tests.endurance.entries import Figures, Options
from tests.endurance.kills_conversations import conversation
from tests.endurance.kills_guest import Phases
from tests.endurance.kills_runs import run_with_kills

NAME = "kills"
TITLE = "SIGKILL at 1,000 random moments of runs, compactions, forks, switches, queueing, extensions and resumed runs"
STARTS_PROCESSES = True

AT_ONCE = 3

T = TypeVar("T")


def run(options: Options) -> Figures:
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of each client that leaves in the middle of an answer
    kills, problems = kill_conversations(range(options.seed, options.seed + options.choose(2, 200)))
    runs = range(options.seed, options.seed + options.choose(2, 80))
    resumed, more = kill_runs(runs)
    counts = Counter(phase for phases in kills for phase in phases)
    done: dict[str, int | float | str] = {
        "kills": len(kills) + resumed,
        "of them in runs that were resumed": resumed,
        "what was going on": ", ".join(f"{count} {phase}" for phase, count in counts.most_common()),
    }
    return Figures(done, problems + more)


def kill_conversations(seeds: Sequence[int]) -> tuple[list[Phases], list[str]]:
    """Play conversations. Returns what each killed agent was doing, and what went wrong."""
    found, problems = _play(conversation, "conversation", seeds)
    return [phases for kills in found for phases in kills], problems


def kill_runs(seeds: Sequence[int]) -> tuple[int, list[str]]:
    """Play runs that are killed and resumed. Returns how many attempts were killed, and what went wrong."""
    found, problems = _play(run_with_kills, "run", seeds)
    return sum(found), problems


def _play(play: Callable[[Path, int], T], what: str, seeds: Sequence[int]) -> tuple[list[T], list[str]]:
    found: list[T] = []
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="fairlead-kills-") as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        playing = {seed: pool.submit(play, Path(folder, str(seed)), seed) for seed in seeds}
        for seed, played in playing.items():
            if error := played.exception():
                problems.append(f"{what} {seed}: {''.join(traceback.format_exception(error))}")
            else:
                found.append(played.result())
    return found, problems
