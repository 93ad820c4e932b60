"""Render figures and verdicts, as text for people and as JSON for programs."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping, Sequence

from bench.budgets import Verdict
from bench.works import WORKS, Figures

#: The figures of each run, by workload and contestant.
Samples = Mapping[str, Mapping[str, Sequence[Figures]]]

_UNITS = {
    **dict.fromkeys(("wall", "plain", "each", "first", "switch", "cpu", "searchers", "server_cpu", "worst"), "s"),
    **dict.fromkeys(("memory", "early", "server_memory", "server_early"), "MiB"),
    **dict.fromkeys(("agent", "idle", "active"), "KiB"),
    **dict.fromkeys(("before", "opened", "kept"), "MiB"),
    **dict.fromkeys(("first_prompts", "last_prompts", "late", "latest"), "ms"),
    **dict.fromkeys(("piece", "lone"), "us"),
    "share": "cores",
    **dict.fromkeys(("bytes", "updates"), "MB"),
}


def circumstances(runs: int, load_before: float) -> str:
    """Describe the machine and its load. A load far above that of one contestant means noise."""
    load = f"load average {load_before:.2f} before and {os.getloadavg()[0]:.2f} after"
    return f"{os.cpu_count()} cores, {load}, medians of {runs} alternating runs"


def text(circumstances: str, samples: Samples, verdicts: list[Verdict], failures: Mapping[str, str]) -> str:
    lines = [circumstances, "Each figure is a median, with the smallest and the largest sample."]
    for work, by_contestant in samples.items():
        lines += ["", WORKS[work].title]
        for name, rows in by_contestant.items():
            shown = "  ".join(f"{key} {_with_spread(key, [row[key] for row in rows])}" for key in rows[0])
            lines.append(f"  {name:16} {shown}")
    lines += [f"FAILED {what}: {why}" for what, why in failures.items()]
    width = max((len(verdict.promise) for verdict in verdicts), default=0)
    lines += ["", f"{'budget':{width}} {'fairlead':>11} {'best peer':>11} {'ratio':>7} {'limit':>7}"]
    for verdict in verdicts:
        peer = "" if verdict.peer is None else _short(verdict.peer)
        value = "" if verdict.unit else f"{verdict.value:.2f}"
        lines.append(
            f"{verdict.promise:{width}} {_short(verdict.own):>11} {peer:>11} {value:>7} {verdict.limit:>7g}  {verdict.outcome}"
        )
    return "\n".join(lines)


def _with_spread(key: str, values: Sequence[float]) -> str:
    middle = figure(key, statistics.median(values))
    if len(values) == 1:
        return middle
    low, high = (figure(key, value).split()[0] for value in (min(values), max(values)))
    return f"{middle} ({low} to {high})"


def as_json(circumstances: str, samples: Samples, verdicts: list[Verdict], failures: Mapping[str, str]) -> str:
    rows = [
        {"promise": row.promise, "own": row.own, "peer": row.peer, "value": row.value, "limit": row.limit, "met": row.met}
        for row in verdicts
    ]
    return json.dumps({"circumstances": circumstances, "samples": samples, "budgets": rows, "failures": failures}, indent=2)


def unit_of(key: str) -> str:
    """Return the unit of a figure."""
    return _UNITS[key]


def figure(key: str, value: float) -> str:
    """Return a figure with its unit."""
    unit = _UNITS[key]
    if unit == "MB":
        return f"{value / 1e6:.2f} {unit}"
    return f"{value:.1f} {unit}" if unit in ("MiB", "KiB", "us") else f"{value:.3f} {unit}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.3f}"
