"""Render figures and verdicts, as text for people and as JSON for programs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from bench.budgets import Medians, Verdict
from bench.works import WORKS

_UNITS = {
    **dict.fromkeys(("wall", "plain", "each", "first", "switch", "cpu", "server_cpu"), "s"),
    **dict.fromkeys(("memory", "early", "server_memory", "server_early"), "MiB"),
    "agent": "KiB",
    **dict.fromkeys(("bytes", "updates"), "MB"),
}


def circumstances(runs: int, load_before: float) -> str:
    """Describe the machine and its load. A load far above that of one contestant means noise."""
    load = f"load average {load_before:.2f} before and {os.getloadavg()[0]:.2f} after"
    return f"{os.cpu_count()} cores, {load}, medians of {runs} alternating runs"


def text(circumstances: str, medians: Medians, verdicts: list[Verdict], failures: Mapping[str, str]) -> str:
    lines = [circumstances]
    for work, by_contestant in medians.items():
        lines += ["", WORKS[work].title]
        for name, figures in by_contestant.items():
            shown = "  ".join(f"{key} {_figure(key, value)}" for key, value in figures.items())
            lines.append(f"  {name:16} {shown}")
    lines += [f"FAILED {what}: {why}" for what, why in failures.items()]
    width = max((len(verdict.promise) for verdict in verdicts), default=0)
    lines += ["", f"{'budget':{width}} {'fairlead':>11} {'best pi':>11} {'ratio':>7} {'limit':>7}"]
    for verdict in verdicts:
        peer = "" if verdict.peer is None else _short(verdict.peer)
        value = "" if verdict.unit else f"{verdict.value:.2f}"
        lines.append(
            f"{verdict.promise:{width}} {_short(verdict.own):>11} {peer:>11} {value:>7} {verdict.limit:>7g}  {verdict.outcome}"
        )
    return "\n".join(lines)


def as_json(circumstances: str, medians: Medians, verdicts: list[Verdict], failures: Mapping[str, str]) -> str:
    rows = [
        {"promise": row.promise, "own": row.own, "peer": row.peer, "value": row.value, "limit": row.limit, "met": row.met}
        for row in verdicts
    ]
    return json.dumps({"circumstances": circumstances, "medians": medians, "budgets": rows, "failures": failures}, indent=2)


def _figure(key: str, value: float) -> str:
    unit = _UNITS[key]
    if unit == "MB":
        return f"{value / 1e6:.2f} {unit}"
    return f"{value:.1f} {unit}" if unit in ("MiB", "KiB") else f"{value:.3f} {unit}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.3f}"
