"""Creates, deletes, evicts and reopens sessions of a real `fairlead serve`, and compares its memory."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from tests.endurance.entries import Figures, Options
from tests.system.serve_churn import churn

NAME = "churn"
TITLE = "Sessions of `fairlead serve` that are created and deleted, or evicted and opened again"
STARTS_PROCESSES = True


def run(options: Options) -> Figures:
    with tempfile.TemporaryDirectory(prefix="fairlead-churn-") as folder:
        done = asyncio.run(churn(options.choose(500, 20_000), options.choose(200, 2_000), Path(folder)))
    figures: dict[str, int | float | str] = {}
    for each in done:
        figures[f"sessions {each.name}"] = each.done
        figures[f"MiB after a quarter of those {each.name}"] = each.memory[0]
        figures[f"MiB after all {each.name}"] = each.memory[-1]
    return Figures(figures, [str(each) for each in done if not each.is_flat])
