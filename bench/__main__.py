"""Compare fairlead with pi 1.5, pi 0.87 and pi-acp. Prints medians and budgets.

All do the same workloads, in turn, against the same scripted provider.

A missed budget does not fail the command, because figures vary with the machine and its load. An agent that does not do its
work does.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import statistics
import sys

from bench import acp, report
from bench.budgets import OWN, OWN_DELTA, verdicts
from bench.contestants import Contestant, contestants
from bench.driver import BenchError
from bench.works import WORKS, Figures, Work


def main() -> None:
    options = arguments()
    load_before = os.getloadavg()[0]
    everyone = (*contestants(), *acp.contestants())
    if not all(WORKS[name].alone for name in options.only):
        warm_up(everyone)
    medians: dict[str, dict[str, Figures]] = {}
    failures: dict[str, str] = {}
    for name in options.only:
        medians[name] = measure(name, everyone, options.runs, failures)
    circumstances = report.circumstances(options.runs, load_before)
    form = report.as_json if options.json else report.text
    print(form(circumstances, medians, verdicts(medians), failures))
    sys.exit(1 if failures else 0)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    usual = [name for name, work in WORKS.items() if not work.slow]
    parser.add_argument("--runs", type=int, default=5, help="how often each work is done by each contestant (default 5)")
    only = f"works, with commas; `client-*` stands for all that begin so: {', '.join(WORKS)}"
    parser.add_argument("--only", type=lambda text: matching_works(text.split(",")), help=only)
    parser.add_argument("--full", action="store_true", help="also the slow works")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args()
    options.only = options.only or (list(WORKS) if options.full else usual)
    if unknown := set(options.only) - set(WORKS):
        parser.error(f"no such work: {', '.join(sorted(unknown))}")
    return options


def matching_works(patterns: list[str]) -> list[str]:
    """Return the works that the patterns name, in their order. A pattern that matches none stays as it is."""
    return [name for pattern in patterns for name in fnmatch.filter(WORKS, pattern) or [pattern]]


def warm_up(everyone: tuple[Contestant, ...]) -> None:
    """Start each agent once without measuring, so that the files of all are in the system's cache."""
    for contestant in everyone:
        try:
            WORKS["acp-start" if contestant.protocol == "acp" else "start"].measure(contestant)
        except BenchError as error:
            progress(f"{contestant.name} does not start: {error}")


def measure(name: str, everyone: tuple[Contestant, ...], runs: int, failures: dict[str, str]) -> dict[str, Figures]:
    """Return the medians of the agents that did the work every time. The others are noted in `failures`."""
    work = WORKS[name]
    samples: dict[str, list[Figures]] = {contestant.name: [] for contestant in everyone if takes_part(contestant, work)}
    runs = 1 if work.once else runs
    for run in range(runs):
        progress(f"{work.title}, run {run + 1} of {runs}")
        for contestant in everyone:
            if contestant.name in samples:
                try:
                    samples[contestant.name].append(work.measure(contestant))
                except BenchError as error:
                    failures[f"{contestant.name}, {work.title}"] = str(error)
                    del samples[contestant.name]
    return {who: {key: statistics.median(row[key] for row in rows) for key in rows[0]} for who, rows in samples.items()}


def takes_part(contestant: Contestant, work: Work) -> bool:
    if contestant.protocol != work.protocol:
        return False
    if work.alone:
        return contestant.name == OWN
    return work.both_forms or contestant.name != OWN_DELTA


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
