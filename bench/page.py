"""Write docs/performance.md and its pictures from the samples in bench/results.json.

python -m bench --write     measure, store the samples of the works that were measured, and write the page
python -m bench.page        write the page again from the stored samples
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import TypedDict

from bench import plots
from bench.budgets import OWN, OWN_DELTA, OWN_SERVER, RATIOS, Medians, medians_of, verdicts
from bench.plots import Point
from bench.report import figure, unit_of
from bench.works import WORKS, Figures

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results.json"
PAGE = ROOT / "docs" / "performance.md"
PICTURES = ROOT / "docs" / "pictures"
#: The part of the page that is written here. The rest is written by hand.
_WRITTEN = re.compile(r"(<!-- figures: .*?-->\n).*?(<!-- end of figures -->)", re.DOTALL)

#: What `bench.report.circumstances` writes.
_CIRCUMSTANCES = re.compile(
    r"(?P<cores>\d+) cores, load average (?P<before>[\d.]+) before and (?P<after>[\d.]+) after, medians of (?P<runs>\d+) .*"
)

#: The columns of the table, and its rows: a work and one of its figures.
_COLUMNS = (OWN, OWN_DELTA, "pi 1.5", "pi 0.87", "omp 18", "tau")
_ROWS = [
    *(("start", key) for key in ("wall", "cpu", "memory")),
    *(("stream", key) for key in ("first", "wall", "cpu", "memory", "bytes")),
    *(("long", key) for key in ("wall", "cpu", "memory", "bytes")),
    *(("paced", key) for key in ("cpu", "memory")),
    ("lone", "piece"),
    *(("turns-200", key) for key in ("wall", "cpu", "memory")),
    *(("search", key) for key in ("wall", "cpu", "searchers", "memory")),
    *(("open", key) for key in ("wall", "cpu", "memory")),
]
_NAMES = {
    "first": "to the first delta",
    "bytes": "output",
    "piece": "CPU for each piece",
    "cpu": "CPU",
    "searchers": "CPU of ripgrep",
}
#: Works by the number of pieces or turns.
_PIECES = {200: "stream-200", 2_000: "stream", 20_000: "long"}
_TURNS = {20: "turns-20", 100: "turns-100", 200: "turns-200"}
#: Pieces that a fast model sends in a second.
_PACE = 50
#: The name of agents that share a process.
_LIBRARY = "fairlead library"


class Stored(TypedDict):
    """The samples of one work, the circumstances, and why contestants are missing."""

    circumstances: str
    samples: dict[str, list[Figures]]
    missing: dict[str, str]


Results = dict[str, Stored]


def store(measured: Results) -> None:
    """Store the samples of the works that were measured. Those of the other works stay."""
    results = {**load_samples(), **measured}
    in_order = {name: results[name] for name in WORKS if name in results}
    RESULTS.write_text(json.dumps(in_order, indent=1, sort_keys=False) + "\n")


def load_samples() -> Results:
    """Return the stored samples."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def write() -> None:
    """Write the tables of the page, and its pictures."""
    for path, text in texts().items():
        path.write_text(text, "utf-8")


def texts() -> dict[Path, str]:
    """Return the text of the page and of each picture."""
    results = load_samples()
    page = _WRITTEN.sub(lambda found: f"{found[1]}\n{tables(results)}\n{found[2]}", PAGE.read_text("utf-8"))
    return {PAGE: page} | {PICTURES / f"performance-{name}.svg": text for name, text in pictures(results).items()}


def tables(results: Results) -> str:
    """Return the comparison, the other budgets, what is missing and the circumstances, as Markdown."""
    medians = medians_of({work: each["samples"] for work, each in results.items()})
    parts = [_comparison(results, medians), _budgets(medians), _missing(results)]
    parts += [_wrap(text) for text in _circumstances(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _comparison(results: Results, medians: Medians) -> str:
    rows: list[list[str]] = [["", *_COLUMNS, "ratio", "budget"]]
    limits = {(work, key): limit for work, key, form, limit in RATIOS if form == OWN}
    last = ""
    for work, key in _ROWS:
        samples = results[work]["samples"] if work in results else {}
        if OWN not in samples:
            continue
        if work != last:
            rows.append([f"**{WORKS[work].title}**", *[""] * (len(_COLUMNS) + 2)])
            last = work
        peers = [medians[work][name][key] for name in ("pi 1.5", "pi 0.87") if name in samples]
        cells = [_cell(key, [each[key] for each in samples.get(name, [])]) for name in _COLUMNS]
        limit = limits.get((work, key))
        ratio = _ratio(medians[work][OWN][key] / min(peers), limit) if peers else ""
        rows.append([f"{_NAMES.get(key, key)}, {unit_of(key)}", *cells, ratio, "" if limit is None else f"{limit:g}"])
    return _table(rows)


def _ratio(ratio: float, limit: float | None) -> str:
    """Return a ratio, in bold if it exceeds its budget."""
    return f"**{ratio:.2f}**" if limit is not None and ratio > limit else f"{ratio:.2f}"


def _cell(key: str, samples: Sequence[float]) -> str:
    """Return the median, and the smallest and the largest sample."""
    if not samples:
        return ""
    low, middle, high = (figure(key, value).split()[0] for value in _spread(samples))
    return middle if low == high else f"{middle} ({low} to {high})"


def _spread(samples: Sequence[float]) -> tuple[float, float, float]:
    ordered = sorted(samples)
    half = len(ordered) // 2
    return ordered[0], ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2, ordered[-1]


def _budgets(medians: Medians) -> str:
    shown = {f"{WORKS[work].title}: " for work, _ in _ROWS}
    rows = [["other budgets", "fairlead", "best peer", "ratio", "limit", ""]]
    for verdict in verdicts(medians):
        if verdict.peer is not None and any(verdict.promise.startswith(title) for title in shown):
            continue
        peer = "" if verdict.peer is None else plots.short(verdict.peer)
        value = "" if verdict.unit else f"{verdict.value:.2f}"
        limit = f"{verdict.limit:g} {verdict.unit}".strip()
        rows.append([verdict.promise, plots.short(verdict.own), peer, value, limit, verdict.outcome])
    return _table(rows) if len(rows) > 1 else ""


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    marks = ["---", *["--:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, marks, *body))


def _missing(results: Results) -> str:
    reasons: dict[tuple[str, str], list[str]] = {}
    for work, each in results.items():
        for who, why in each["missing"].items():
            reasons.setdefault((who, why), []).append(WORKS[work].title)
    return "\n".join(_wrap(f"- {who} is missing from {_join_names(works)}: {why}.") for (who, why), works in reasons.items())


def _circumstances(results: Results) -> list[str]:
    """Return a sentence for each machine and number of runs, with the lowest and the highest load average."""
    loads: dict[tuple[str, int], list[float]] = {}
    for each in results.values():
        found = _CIRCUMSTANCES.fullmatch(each["circumstances"])
        if found is None:
            raise ValueError(f"The circumstances in {RESULTS.name} are not as bench.report writes them: {each['circumstances']}")
        loads.setdefault((found["cores"], int(found["runs"])), []).extend((float(found["before"]), float(found["after"])))
    return [
        f"Measured on {cores} cores, {'one run' if runs == 1 else f'{runs} runs'} of each program, "
        f"at load averages from {min(seen):.1f} to {max(seen):.1f}."
        for (cores, runs), seen in sorted(loads.items())
    ]


def _wrap(text: str) -> str:
    return fill(text, 100, subsequent_indent="  " if text.startswith("- ") else "", break_long_words=False)


def _join_names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def pictures(results: Results) -> dict[str, str]:
    """Return the pictures by name, without those for which nothing was measured."""
    drawn: dict[str, str] = {}
    if rows := _points(results, "start", "wall", scale=1000):
        drawn["start"] = plots.bars("Process start to the first answer", "ms", rows)
    for name, title, key, works, x_name, y_name, scale in (
        ("cpu", "CPU for one answer, without the start of the process", "cpu", _PIECES, "pieces", "ms", 1000.0),
        ("memory", "Peak memory of the process", "memory", _PIECES, "pieces", "MiB", 1.0),
        ("turns", "Wall time of turns with one command each", "wall", _TURNS, "turns", "seconds", 1.0),
    ):
        if series := _series(results, works, key, scale):
            drawn[name] = plots.lines(title, x_name, y_name, series, logarithmic=works is _PIECES)
    if rows := _sessions_per_core(results):
        drawn["sessions"] = plots.bars(f"Sessions that one core can stream, at {_PACE} pieces a second each", "", rows)
    return drawn


def _points(results: Results, work: str, key: str, *, scale: float = 1, x: float = 0) -> list[tuple[str, Point]]:
    samples: Mapping[str, list[Figures]] = results[work]["samples"] if work in results else {}
    found: list[tuple[str, Point]] = []
    for name, rows in samples.items():
        if name != OWN_DELTA and rows:
            low, middle, high = _spread([row[key] * scale for row in rows])
            found.append((name, Point(middle, low, high, x)))
    return found


def _series(results: Results, works: Mapping[int, str], key: str, scale: float) -> list[tuple[str, list[Point]]]:
    series: dict[str, list[Point]] = {}
    for x, work in works.items():
        for name, point in _points(results, work, key, scale=scale, x=x):
            series.setdefault(name, []).append(point)
    return [(name, points) for name, points in series.items() if len(points) > 1]


def _sessions_per_core(results: Results) -> list[tuple[str, Point]]:
    """Calculate from the CPU for each piece how many sessions keep one core busy."""

    def sessions(microseconds: float) -> float:
        return 1e6 / microseconds / _PACE

    library = [(_LIBRARY, point) for _, point in _points(results, "company", "piece")]
    found = [*library, *_points(results, "serve", "piece"), *_points(results, "lone", "piece")]
    rows = [(name, Point(sessions(each.median), sessions(each.high), sessions(each.low))) for name, each in found]
    own = [row for row in rows if row[0] in (_LIBRARY, OWN_SERVER, OWN)]
    return own + sorted((row for row in rows if row not in own), key=lambda row: -row[1].median)
