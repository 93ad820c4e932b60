"""What a command line runs, as far as that can be said beforehand. bash itself is the judge of the grammar."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fairlead.policy.patterns import ANY, CommandPattern
from fairlead.policy.shell import read_line


def certain(line: str) -> list[str | None]:
    """The commands of a line as rules that allow see them; None for one that they do not cover."""
    read = read_line(line)
    return [None] if read.opaque else [command.certain[0] if command.certain else None for command in read.commands]


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("git status", ["git status"]),
        ("git   status\t-s", ["git status -s"]),
        ("a; b && c || d | e & f\ng |& h", ["a", "b", "c", "d", "e", "f", "g", "h"]),
        ("(a; b)", ["a", "b"]),
        ("{ a; }", ["a"]),
        ("! a", ["a"]),
        ("if a; then b; elif c; then d; else e; fi", ["a", "b", "c", "d", "e"]),
        ("while a; do b; done", ["a", "b"]),
        ("for x in 1 2; do rm $x; done", ["for x in 1 2", f"rm {ANY}"]),
        ("echo 'a; b' \"c; d\" e\\;f", ["echo a; b c; d e;f"]),
        ("ls # rm x", ["ls"]),
        ("echo a#b", ["echo a#b"]),
        ("ls # x\nrm y", ["ls", "rm y"]),
        ("g\\\nit st\\\natus", ["git status"]),
        ("a 2>&1 >/dev/null </dev/null 3>&-", ["a"]),
        ("X=1 git status", ["X=1 git status"]),
        ('git log $n "${x}"', [f"git log {ANY} {ANY}"]),
        ("git commit -m 'it''s'", ["git commit -m its"]),
        ("", []),
    ],
)
def test_plain_lines_are_their_simple_commands(line: str, commands: list[str]) -> None:
    assert certain(line) == commands


@pytest.mark.parametrize(
    "line",
    [
        "git log $(rm x)",
        "git log `rm x`",
        'git log "$(rm x)"',
        'git log "`rm x`"',
        "git log <(rm x)",
        "cat <<E\n$(rm x)\nE",
        "git log > ~/.bashrc",
        "git log >> x",
        "git log >| x",
        "git log &> x",
        "git log <> x",
        "git log < /dev/tcp/127.0.0.1/80",
        "cat <<< x",
        "> x",
        "$cmd status",
        "g?t status",
        "{git,status}",
        "~/git status",
        "$'git' status",
        '"git status"',
        "git\u00a0status x",
        "f() { git status; }",
        "function f { git status; }",
        "case x in x) git status;; esac",
        "[[ -n x ]]",
        "((1))",
        "a=(1 2)",
        "echo $((1))",
        "echo ${x:-$(rm y)}",
        "echo 'unfinished",
        'echo "unfinished',
        "echo $(unfinished",
        "(unfinished",
        "git status)",
        "printf -v 'a[$(rm x)]' y",
        "test -v 'a[`rm x`]'",
    ],
)
def test_what_cannot_be_followed_is_covered_by_nothing(line: str) -> None:
    assert None in certain(line)


def test_bash_runs_no_program_that_was_not_read(tmp_path: Path) -> None:
    """Every program that bash starts for a plain line is one that the line was read as."""
    log = tmp_path / "ran"
    for name in ("one", "two", "three"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> {log}\n')
        program.chmod(0o755)
    lines = [
        "one a;two b&&three c",
        "one 'a  b' \"c\"\\ d",
        "one a\\\nb # two\nthree",
        "{ one; (two x) ; } 2>/dev/null | three",
        "if one; then ! two; fi; for i in x; do three; done",
        "X=1 one $UNSET a; Y=2; two 2>&1 3>&- b",
    ]
    for line in lines:
        log.write_text("")
        subprocess.run(["/bin/bash", "-c", line], env={"PATH": str(tmp_path)}, capture_output=True, check=False, timeout=20)
        ran = sorted(each.strip() for each in log.read_text().splitlines())
        possible = [each for command in read_line(line).commands for each in command.possible]
        assert ran
        assert [each for each in ran if not any(map(CommandPattern(each).may_fit, possible))] == [], line
