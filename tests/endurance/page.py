"""Writes the table of docs/reliability.md from the figures in tests/endurance/results.json.

python -m tests.endurance --write    run the entries, store their figures, and write the table
python -m tests.endurance.page       write the table again from the stored figures
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TypedDict

from tests.endurance.entries import entries

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "tests" / "endurance" / "results.json"
PAGE = ROOT / "docs" / "reliability.md"
#: The part of the page that is written here. The rest is written by hand.
_WRITTEN = re.compile(r"(<!-- figures: .*?-->\n).*?(<!-- end of figures -->)", re.DOTALL)


class Stored(TypedDict):
    """The figures of the last run of an entry that passed."""

    figures: str
    seconds: int


def store(name: str, figures: str, seconds: float) -> None:
    """Store the figures of an entry. Those of the others stay."""
    results = {**stored(), name: Stored(figures=figures, seconds=round(seconds))}
    in_order = {each: results[each] for each in entries() if each in results}
    RESULTS.write_text(json.dumps(in_order, indent=1) + "\n", "utf-8")


def stored() -> dict[str, Stored]:
    """Return the stored figures."""
    return json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}


def table() -> str:
    """Return the table: a row for each entry, with its figures if it has run."""
    rows = ["| test | what it does | figures | time |", "|---|---|---|--:|"]
    results = stored()
    for name, entry in entries().items():
        found = results.get(name)
        figures, seconds = (found["figures"], f"{found['seconds']:,} s") if found else ("", "")
        rows.append(f"| `{name}` | {entry.TITLE} | {figures} | {seconds} |")
    return "\n".join(rows)


def text() -> str:
    """Return the page with the table of the stored figures."""
    return _WRITTEN.sub(lambda found: f"{found[1]}\n{table()}\n\n{found[2]}", PAGE.read_text("utf-8"))


def write() -> None:
    """Write the table into the page."""
    PAGE.write_text(text(), "utf-8")


if __name__ == "__main__":
    write()
