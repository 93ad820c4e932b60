"""Compare fairlead with pi 1.5, pi 0.87, omp, tau, pi-acp, opencode's server and Claude Code.

It prints medians, their spread, and budgets. All do the same workloads, in turn, against the same scripted provider.

A missed budget does not fail the command, because figures vary with the machine and its load. An agent that does not do its
work does.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
from collections.abc import Sequence

from bench import acp, claude, page, report, rivals, servers
from bench.budgets import OWN, OWN_DELTA, medians_of, verdicts
from bench.contestants import Contestant, contestants
from bench.driver import BenchError
from bench.works import WORKS, Figures


def main() -> None:
    options = arguments()
    load_before = os.getloadavg()[0]
    makers = {"rpc": contestants, "acp": acp.contestants, "http": servers.contestants, "claude": claude.contestants}
    wanted = {WORKS[name].protocol for name in options.only}
    everyone = tuple(contestant for protocol, make in makers.items() if protocol in wanted for contestant in make())
    if not all(WORKS[name].alone for name in options.only):
        warm_up([each for each in everyone if any(takes_part(each, name) for name in options.only)])
    samples: dict[str, dict[str, list[Figures]]] = {}
    failures: dict[str, str] = {}
    for name in options.only:
        samples[name] = measure(name, everyone, options.runs, failures)
    circumstances = report.circumstances(options.runs, load_before)
    form = report.as_json if options.json else report.text
    print(form(circumstances, samples, verdicts(medians_of(samples)), failures))
    if options.write:
        page.store(
            {
                name: {"circumstances": circumstances, "samples": samples[name], "missing": missing(everyone, name)}
                for name in options.only
            }
        )
        page.write()
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
    parser.add_argument(
        "--write", action="store_true", help="store the samples, and write docs/performance.md with its tables and pictures"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args()
    options.only = options.only or (list(WORKS) if options.full else usual)
    if unknown := set(options.only) - set(WORKS):
        parser.error(f"no such work: {', '.join(sorted(unknown))}")
    return options


def matching_works(patterns: list[str]) -> list[str]:
    """Return the works that the patterns name, in their order. A pattern that matches none stays as it is."""
    return [name for pattern in patterns for name in fnmatch.filter(WORKS, pattern) or [pattern]]


def warm_up(everyone: Sequence[Contestant]) -> None:
    """Start each agent once without measuring, so that the files of all are in the system's cache."""
    for contestant in everyone:
        if contestant.protocol == "http":  # it is warmed up by the work
            continue
        try:
            WORKS[f"{contestant.protocol}-start" if contestant.protocol != "rpc" else "start"].measure(contestant)
        except BenchError as error:
            progress(f"{contestant.name} does not start: {error}")


def measure(name: str, everyone: tuple[Contestant, ...], runs: int, failures: dict[str, str]) -> dict[str, list[Figures]]:
    """Return the figures of the agents that did the work every time. The others are noted in `failures`."""
    work = WORKS[name]
    samples: dict[str, list[Figures]] = {contestant.name: [] for contestant in everyone if takes_part(contestant, name)}
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
    return samples


def takes_part(contestant: Contestant, name: str) -> bool:
    work = WORKS[name]
    if contestant.protocol != work.protocol or name in contestant.cannot:
        return False
    if work.alone:
        return contestant.name == OWN
    return work.both_forms or contestant.name != OWN_DELTA


def missing(everyone: tuple[Contestant, ...], name: str) -> dict[str, str]:
    """Return why contestants that could be expected do not take part in a work."""
    missing = {contestant.name: contestant.cannot[name] for contestant in everyone if name in contestant.cannot}
    if WORKS[name].protocol == "rpc" and not WORKS[name].alone and all(each.name != "tau" for each in everyone):
        missing["tau"] = f"it needs Python 3.{rivals.TAU_PYTHON} or newer, which this machine does not have"
    return missing


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
