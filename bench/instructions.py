"""Count what fairlead's hot paths cost, in machine instructions and in lines of Python, and compare that with a stored baseline.

    python -m bench.instructions            print the counts beside the baseline; fail if one has grown too much
    python -m bench.instructions --update   store the counts as the new baseline
    python -m bench.instructions --only lines --allow 0.2     as in CI: other machines have other paths and variables

Wall time is noise on a busy machine; counts hardly vary, because the provider of `bench.stepping` sends a piece when the agent
has handled the one before. Instructions are counted by callgrind, a tool of valgrind. Lines of Python are counted everywhere:
they see nothing of the work in C. Both depend on the interpreter, so each count is a ratio to that of a fixed program.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

from bench.contestants import Turn, own
from bench.counting import Callgrind, Counter, Lines, has_valgrind
from bench.driver import BenchError
from bench.searching import searches, write_tree
from bench.sessions import write_session
from bench.stepping import Stepper, stepping
from bench.works import prose

BASELINE = Path(__file__).with_name("instructions.json")

#: How much a count may grow before the check fails. On a machine with a load of 13 for two cores, five runs differed by at most
#: half of that.
_TOLERANCE = 0.05
#: On another version of Python the same code has other counts, even as a ratio.
_OTHER_PYTHON = 4

#: Under valgrind a program is about fifty times slower, and the machine may be busy.
_SECONDS = 300

#: The fixed program: imports, dictionaries, text, JSON, patterns and coroutines, as in an agent.
_YARDSTICK = """
import asyncio, json, re
words = [f"word{number}" for number in range(20_000)]
text = json.dumps({word: [word.upper(), len(word)] for word in words})
found = {match[0]: len(match[0]) for match in re.finditer(r"word[0-9]+", text)}
async def turn(number):
    await asyncio.sleep(0)
    return number
async def turns():
    return sum([await turn(number) for number in range(2_000)])
assert len(found) == 20_000 and asyncio.run(turns())
"""

_PROGRAM = own("--tools", "read,bash,edit,write,grep")

_PLAIN: Turn = {"text": "ok"}
_BASH: Turn = {"toolCalls": [{"name": "bash", "arguments": {"command": "true"}}]}


class Stored(TypedDict):
    """The baseline of one way to count: the version of Python, and the ratio of each path."""

    python: str
    paths: dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.instructions",
        description="Count what the hot paths cost and compare it with the stored baseline.",
    )
    parser.add_argument("--update", action="store_true", help="store the counts as the new baseline")
    parser.add_argument("--only", choices=("instructions", "lines"), help="count in this way alone")
    parser.add_argument("--allow", type=float, default=_TOLERANCE, help="how much a count may grow (default %(default)s)")
    arguments = parser.parse_args()
    known: dict[str, Stored] = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    grown: list[str] = []
    for name, counter in _counters(arguments.only).items():
        paths = measure_paths(counter)
        if arguments.update:
            rounded = {path: round(share, 5) for path, share in paths.items()}
            known[name] = {"python": platform.python_version(), "paths": rounded}
            BASELINE.write_text(json.dumps(known, indent=2) + "\n")
        grown += [f"{path} ({name})" for path in compare(name, paths, known, arguments.allow)]
    if grown:
        sys.exit(
            f"Dearer than the baseline: {', '.join(grown)}. Find out why, for example with callgrind_annotate.\n"
            "If the price is right, store it: make instructions ARGS=--update"
        )


def _counters(only: str | None) -> dict[str, type[Counter]]:
    counters: dict[str, type[Counter]] = {"lines": Lines, "instructions": Callgrind}
    if only is not None:
        counters = {only: counters[only]}
    if "instructions" in counters and not has_valgrind():
        advice = "Install it, for example with: apt-get install valgrind"
        if only is not None:
            sys.exit(f"Counting instructions needs valgrind. {advice}")
        print(f"There is no valgrind, so only lines of Python are counted, not instructions. {advice}", flush=True)
        del counters["instructions"]
    return counters


def compare(name: str, paths: dict[str, float], known: dict[str, Stored], tolerance: float) -> list[str]:
    """Print the ratios of one way to count beside the stored ones, and return the paths that have become too dear."""
    stored = known.get(name)
    if stored is None:
        raise BenchError(f"{BASELINE.name} has no {name}. Store them with: make instructions ARGS=--update")
    now, then = platform.python_version(), stored["python"]
    factor = 1 if now.split(".")[:2] == then.split(".")[:2] else _OTHER_PYTHON
    remark = "" if factor == 1 else f" The baseline is that of Python {then}, so {factor} times the change is allowed."
    print(f"\nPython {now}, {name} as a share of those of a fixed program.{remark}")
    print(f"{'path':44} {'now':>9} {'stored':>9} {'change':>8} {'allowed':>8}")
    grown: list[str] = []
    for path, share in paths.items():
        if path not in stored["paths"]:
            raise BenchError(f"{BASELINE.name} has no {path!r}. Store it with: make instructions ARGS=--update")
        change = share / stored["paths"][path] - 1
        allowed = tolerance * factor
        print(f"{path:44} {share:9.5f} {stored['paths'][path]:9.5f} {change:+8.1%} {allowed:+8.0%}", flush=True)
        if change > allowed:
            grown.append(path)
    return grown


def measure_paths(make: type[Counter]) -> dict[str, float]:
    """Return the cost of each path, as a share of that of the fixed program."""
    with tempfile.TemporaryDirectory(prefix="fairlead-counts-") as folder:
        root = Path(folder)
        script = root / "yardstick.py"
        script.write_text(_YARDSTICK)
        unit = make(root / "unit").of_program([str(script)])
        _load_everything_once(root)
        # What the dynamic loader does varies a little between two starts.
        start = min(_start(make(root / f"start-{number}")) for number in range(3))
        counts = {"start to the first answer": start, **_works(make(root / "work"), root, start)}
        return {path: count / unit for path, count in counts.items()}


def _load_everything_once(root: Path) -> None:
    """Run everything without counting, so that every module has been compiled and no count includes that."""
    with stepping(_PROGRAM, _SECONDS) as stepper:
        _play(stepper, root / "warm", lambda: 0.0)
        stepper.agent.finish(_SECONDS)


def _start(counter: Counter) -> float:
    """Count a process whose input ends with its first command, so that it does not load the rest."""
    with stepping(counter.command(_PROGRAM), _SECONDS) as stepper:
        stepper.agent.send(id="state", type="get_state")
        stepper.agent.finish(_SECONDS)
        if not stepper.agent.bytes_out:
            raise BenchError("fairlead did not answer")
    return counter.total()


def _works(counter: Counter, root: Path, start: float) -> dict[str, float]:
    """Count the parts of a long life of one process, whose start costs `start`. All prompts cost what a short one costs."""
    with stepping(counter.command(_PROGRAM), _SECONDS) as stepper:
        counts = _play(stepper, root / "counted", lambda: counter.mark(stepper.agent.pid))
        stepper.agent.finish(_SECONDS)
    plain = counts["plain"]
    return {
        # A process loads some of it when it has nothing to do, sooner or later, so the count begins with the process.
        "first prompt, with what it loads": counts["first"] - start,
        "a prompt with a short answer": plain,
        "1,000 pieces in a burst": counts["burst"] - plain,
        "100 pieces, far apart": (counts["slow"] - plain) / 40 * 100,
        "a turn with one `bash true`": (counts["bash"] - plain) / 10,
        "a turn with one search": (counts["search"] - plain) / 10,
        "1,000 entries of a session opened and sent": counts["long session"] - counts["short session"],
    }


def _play(stepper: Stepper, root: Path, mark: Callable[[], float]) -> dict[str, float]:
    """Let an agent do all works, and return what `mark` says after each."""
    agent = stepper.agent
    root.mkdir()
    write_tree(Path(agent.directory, "tree"), 200)
    counts: dict[str, float] = {}
    stepper.start()
    prompts: dict[str, tuple[list[Turn], int | None]] = {
        "first": ([_PLAIN], None),
        "second": ([_PLAIN], None),
        "plain": ([_PLAIN], None),
        "burst": ([{"text": prose(1_000), "chunk": 8}], 200),
        "slow": ([{"text": prose(40), "chunk": 8}], 1),
        "first bash": ([_BASH, _PLAIN], None),
        "bash": ([*[_BASH] * 10, _PLAIN], None),
        "first search": ([*searches(1), _PLAIN], None),
        "search": ([*searches(10), _PLAIN], None),
    }
    for name, (turns, batch) in prompts.items():
        stepper.prompt(turns, batch)
        counts[name] = mark()
    for name, entries in (("first", 10), ("short", 10), ("long", 1_010)):
        path = root / f"{name}.jsonl"
        write_session(path, entries)
        agent.ask("switch_session", _SECONDS, sessionPath=str(path))
        agent.ask("get_messages", _SECONDS)
        agent.wait_until_idle()
        counts[f"{name} session"] = mark()
    return counts


if __name__ == "__main__":
    main()
