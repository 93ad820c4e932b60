"""A made-up tree of source files, to search in."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

#: How many files a folder has, and how many lines a file.
_FILES, _LINES = 50, 60
_WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon".split()


def write_tree(root: Path, files: int) -> None:
    """Write so many files of 60 lines, 50 in a folder. One line of every tenth file has the word `needle`."""
    chance = random.Random(11)
    for number in range(files):
        path = root / f"part{number // _FILES:03}" / f"module{number:05}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [" ".join(chance.choices(_WORDS, k=8)) for _ in range(_LINES)]
        if number % 10 == 0:
            lines[chance.randrange(_LINES)] += " needle"
        path.write_text("\n".join(lines) + "\n")


def searches(count: int, tool: str = "grep") -> list[dict[str, Any]]:
    """Return turns that search the tree, each with another pattern, because an agent may stop a model that repeats itself."""
    arguments = [{"pattern": f"needle|absent{number}", "path": "tree"} for number in range(count)]
    if tool == "find":
        arguments = [{"pattern": f"*{number:04}*.py", "path": "tree"} for number in range(count)]
    return [{"toolCalls": [{"name": tool, "arguments": each}]} for each in arguments]
