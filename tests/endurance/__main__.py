"""Run the tests that take long: all of them, or those that are named.

    python -m tests.endurance [NAME ...] [--seed N] [--short] [--minutes M] [--write]

Each prints one line of figures. The exit code is 1 if any of them found a problem.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from tests.endurance import page
from tests.endurance.entries import Entry, Figures, Options, entries

#: How many problems of one entry are printed.
_MOST = 20


def main() -> None:
    known = entries()
    parser = argparse.ArgumentParser(
        prog="python -m tests.endurance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which entries to run: {', '.join(known)}")
    parser.add_argument("--seed", type=int, default=1, help="what the random choices depend on")
    parser.add_argument("--short", action="store_true", help="do a small part of the work, in a few seconds each")
    parser.add_argument("--minutes", type=float, help="how long fuzzing and the soak work, each, instead of their usual amount")
    parser.add_argument("--write", action="store_true", help="store the figures, and write them into docs/reliability.md")
    options = parser.parse_args()
    if unknown := set(options.names) - set(known):
        parser.error(f"there is no entry named {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    chosen = [known[name] for name in options.names or known]
    how = Options(seed=options.seed, short=options.short, minutes=options.minutes)
    failed = [entry.NAME for entry in chosen if not _ran_well(entry, how, write=options.write)]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def _ran_well(entry: Entry, options: Options, *, write: bool) -> bool:
    """Run an entry, print what it did, and return whether all was well."""
    began = time.monotonic()
    try:
        figures = entry.run(options)
    except Exception:
        figures = Figures(problems=[traceback.format_exc()])
    seconds = time.monotonic() - began
    verdict = "FAILED" if figures.problems else "passed"
    print(f"{verdict} {entry.NAME}: {figures}; {seconds:.0f} s, seed {options.seed}", flush=True)
    for problem in figures.problems[:_MOST]:
        print(f"  {problem}", flush=True)
    if len(figures.problems) > _MOST:
        print(f"  and {len(figures.problems) - _MOST} more", flush=True)
    if write and not figures.problems:
        page.store(entry.NAME, str(figures), seconds)
        page.write()
    return not figures.problems


if __name__ == "__main__":
    main()
