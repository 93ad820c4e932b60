"""Fuzzes the parsers of command lines, with real shells as the judges: no line may be judged safer than it is.

The lines call programs that only write down how they were called. They run in an empty folder in which no file can be written,
with a PATH that has nothing else but shells and `env`.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.endurance.entries import Figures, Options
from tests.endurance.mutation import assert_linear
from tests.endurance.shell_seeds import AROUND_A_LINE, HOSTILE_PARTS, SPELLINGS
from tests.policy.test_plain_commands import HOSTILE

from fairlead.config.settings import ApprovalRule
from fairlead.policy.approvals import PatternContext, Policy, Subject
from fairlead.policy.patterns import ANY
from fairlead.policy.shell import plain_commands, possible_commands

NAME = "commands"
TITLE = "Command lines that approval rules judge, run by real bash and dash: none does more than it was judged to do"
STARTS_PROCESSES = True

Argv = tuple[str, ...]
SHELLS = [shell for shell in ("/bin/bash", "/bin/dash") if os.access(shell, os.X_OK)]
#: Lines that run in one process.
BATCH = 200
#: Seconds that a batch may take.
PATIENCE = 30

_WORDS = [
    "a",
    "b.c",
    "-x",
    "--y=z",
    "'a b'",
    '"c d"',
    "''",
    "'$x'",
    '"it\'s"',
    "é",
    "2>&1",
    ">/dev/null",
    "2> /dev/null",
    "=",
    "@%:,",
]
_BETWEEN = [" ", "  ", "\t", ";", " ; ", "&&", "||", "|", " | ", "\n", ";\n", "&&\n", "|\n"]

_AROUND = PatternContext("/", "/")
_DENY = Policy("auto", [ApprovalRule("deny", "bash", "bad *")])
_ALLOW = Policy("deny", [ApprovalRule("allow", "bash", "ok *")])


class Judge:
    """Runs lines in real shells, and returns the programs that they called."""

    def __init__(self, folder: Path) -> None:
        self._cwd, self._programs = folder / "cwd", folder / "programs"
        self._cwd.mkdir()
        self._programs.mkdir()
        for name in ("ok", "bad", "one", "two"):
            # Without a descriptor to write to, it cannot say that it was called, so the shell's stderr has to do.
            (self._programs / name).write_text(f'#!/bin/sh\nprintf "%s\\0" "$#" {name} "$@" >&9\n')
            (self._programs / name).chmod(0o755)
        for name, target in (("bash", SHELLS[0]), ("sh", SHELLS[-1]), ("env", "/usr/bin/env"), ("nice", "/usr/bin/nice")):
            (self._programs / name).symlink_to(target)
        self.runs = 0

    def script(self, shell: str, script: str, lines: Sequence[str] = ()) -> list[list[Argv]]:
        """Run a script, which gets the lines as arguments. Returns the calls, in groups that the program `next` begins."""
        read, write = os.pipe()
        # dash knows descriptors of one digit alone.
        start = ("ulimit -f 0; ulimit -c 0; ulimit -t 10", "exec 9>&1 >/dev/null", script)
        env = {"PATH": str(self._programs), "LC_ALL": "C.UTF-8"}
        with subprocess.Popen(
            [shell, "-c", "\n".join(start), "judge", *lines],
            env=env,
            cwd=self._cwd,
            stdin=subprocess.DEVNULL,
            stdout=write,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            os.close(write)
            # A line may wait for what never comes. The others of its batch are then not judged.
            end = threading.Timer(PATIENCE, os.killpg, (process.pid, signal.SIGKILL))
            end.start()
            with os.fdopen(read, "rb") as pipe:
                data = pipe.read()
            process.wait()
            end.cancel()
        assert list(self._cwd.iterdir()) == [] or self._clean()
        groups: list[list[Argv]] = [[]]
        for call in _calls(data):
            if call[0] == "next":
                groups.append([])
            else:
                groups[-1].append(call)
        return groups[1:] if len(groups) > 1 else groups

    def alone(self, shell: str, line: str) -> list[Argv]:
        """Run one line, and return the calls."""
        self.runs += 1
        try:
            return self.script(shell, '"$1" -c "$2"', [shell, line])[0]
        except ValueError:
            return []

    def each(self, shell: str, lines: Sequence[str]) -> list[list[Argv]]:
        """Run each line in its own shell, and return the calls of each. Late ones may count for the next line."""
        mark = 'printf "%s\\0" 0 next >&9'
        if shell.endswith("bash"):
            quick = "; ".join(f'{name}() {{ printf "%s\\0" "$#" {name} "$@" >&9; }}; export -f {name}' for name in ("ok", "bad"))
            script = f'{quick}\nfor line; do {mark}; (eval "$line"; wait) </dev/null; done'
        else:
            script = f'for line; do {mark}; (eval "$line"; wait) </dev/null; done'
        self.runs += len(lines)
        try:
            return self.script(shell, script, lines)
        except ValueError:
            return [] if len(lines) == 1 else [group for line in lines for group in self.each(shell, [line]) or [[]]]

    def plain(self, shell: str, lines: Sequence[str]) -> list[list[Argv]]:
        """Run plain lines one after the other, and return the calls of each."""
        self.runs += len(lines)
        quick = "\n".join(f'{name}() {{ printf "%s\\0" "$#" {name} "$@" >&9; }}' for name in ("one", "two"))
        marked = [f'printf "%s\\0" 0 next >&9\n{line}' for line in lines]
        try:
            return self.script(shell, "\n".join([quick, *marked, ""]))
        except ValueError:  # a word with a newline is written in two parts, and two programs of a pipe have written at once
            return [] if len(lines) == 1 else [group for line in lines for group in self.plain(shell, [line]) or [[]]]

    def _clean(self) -> bool:
        for path in self._cwd.iterdir():
            assert path.stat().st_size == 0, path
            path.unlink()
        return True


def _calls(data: bytes) -> Iterator[Argv]:
    words = iter(data.decode("utf-8", "replace").split("\0")[:-1])
    for count in words:
        yield tuple(itertools.islice(words, int(count) + 1))


def _verdict(policy: Policy, line: str) -> str:
    return policy.verdict("bash", harmless=False, subject=Subject("command", line), around=_AROUND).action


def _hostile_line(source: random.Random) -> str:
    if source.random() < 0.7:
        line = source.choice(SPELLINGS)
        for _ in range(source.randrange(1, 4)):
            line = source.choice(AROUND_A_LINE).format(line)
        for _ in range(source.randrange(-2, 3)):
            at = source.randrange(len(line) + 1)
            line = line[:at] + source.choice((*HOSTILE, "", "", " ", "ok")) + line[at + source.randrange(2) :]
        return line
    return "".join(source.choice(HOSTILE_PARTS) for _ in range(source.randrange(1, 9)))


def _nearly_plain_line(source: random.Random) -> str:
    line = ""
    for _ in range(source.randrange(1, 4)):
        words = [source.choice(_WORDS) for _ in range(source.randrange(4))]
        line += (
            source.choice(("one", "two"))
            + "".join(source.choice(_BETWEEN[:3]) + word for word in words)
            + source.choice(_BETWEEN)
        )
    for _ in range(source.randrange(3)):
        at = source.randrange(len(line) + 1)
        line = line[:at] + source.choice(HOSTILE) + line[at:]
    return line


def check_hostile(judge: Judge, source: random.Random, figures: Counter[str]) -> list[str]:
    """Lines that the rules let pass call no program that the rules forbid."""
    lines = [_hostile_line(source) for _ in range(BATCH)]
    figures["lines"] += len(lines)
    passed = [line for line in lines if "\0" not in line and "allow" in (_verdict(_DENY, line), _verdict(_ALLOW, line))]
    passed = [line for line in passed if not line.startswith(("-", "+"))]
    problems: list[str] = []
    for shell in SHELLS:
        groups = judge.each(shell, passed)
        for line, calls in zip(passed, groups, strict=False):
            if _is_wrong(line, calls) and _is_wrong(line, judge.alone(shell, line)):
                problems.append(f"{shell} runs {calls}, and the rules let it pass: {line!r}")
        if len(groups) != len(passed):
            figures["batches cut short"] += 1
    return problems


def _is_wrong(line: str, calls: Sequence[Argv]) -> bool:
    """Whether a line called what no rule allowed."""
    names = {call[0] for call in calls}
    if "bad" in names and _verdict(_DENY, line) == "allow":
        return True
    return bool(names - {"ok"}) and _verdict(_ALLOW, line) == "allow"


def check_plain(judge: Judge, source: random.Random, figures: Counter[str]) -> list[str]:
    """A plain line calls exactly the programs that were read, with exactly those words."""
    lines = [_nearly_plain_line(source) for _ in range(BATCH)]
    figures["lines"] += len(lines)
    found = [(line, plain_commands(line)) for line in lines]
    plain = [(line, [command.words for command in commands]) for line, commands in found if commands is not None]
    plain = [(line, commands) for line, commands in plain if all(words[0] in ("one", "two") for words in commands)]
    for line, commands in plain:
        seen = possible_commands(line)
        assert ANY in seen or all(any(words[0] in each for each in seen) for words in commands), line
    problems: list[str] = []
    for shell in SHELLS:
        groups = judge.plain(shell, [line for line, _ in plain])
        if len(groups) != len(plain):
            problems.append(f"{shell} does not run every line: {[line for line, _ in plain]!r}")
            continue
        for (line, commands), calls in zip(plain, groups, strict=True):
            if not calls:  # they were garbled
                continue
            surplus, missing = Counter(calls) - Counter(commands), Counter(commands) - Counter(calls)
            if surplus or (missing and "||" not in line):
                problems.append(f"{shell} runs {calls} and not {commands}: {line!r}")
    return problems


def growth() -> None:
    """Check that judging a line costs work in proportion to its length."""
    for piece in (
        "a ",
        "a;",
        "'",
        '"',
        "$(",
        "(",
        "a=",
        "\\\n",
        "{",
        "<",
        "bash -c '",
        "$x",
        "#",
        "`",
        "a|",
        "&&",
        "-a ",
        "env ",
    ):

        def work(size: int, piece: str = piece) -> object:
            line = (piece * (size // len(piece)))[:size]
            return lambda: [(possible_commands(line), plain_commands(line)) for _ in range(5)]

        assert_linear(work, size=1 << 11)  # pyright: ignore[reportArgumentType]


def run(options: Options) -> Figures:
    source = random.Random(options.seed)
    is_enough = options.enough(4 * 2 * BATCH, 1_000_000)
    figures: Counter[str] = Counter()
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="fairlead-shell-") as folder:
        judge = Judge(Path(folder))
        rounds = 0
        while not is_enough(figures["lines"]):
            rounds += 1
            problems += check_hostile(judge, source, figures) + check_plain(judge, source, figures)
            if len(problems) > 5:
                break
        done: dict[str, int | float | str] = {"lines": figures["lines"], "runs in real shells": judge.runs, "shells": len(SHELLS)}
    if figures["batches cut short"] > rounds / 4:
        problems.append(f"{figures['batches cut short']} of {rounds} batches were cut short")
    if not options.short:
        growth()
    return Figures(done, problems)
