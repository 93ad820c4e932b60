"""What a command line may run, as far as that can be told beforehand. Real shells are the judges of the grammar."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.policy.patterns import ANY, CommandPattern
from fairlead.policy.shell import possible_commands

SHELLS = [shell for shell in ("/bin/bash", "/bin/dash", "/bin/sh") if os.access(shell, os.X_OK)][:2]


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
        ("for x in 1 2; do rm $x; done", ["for x in 1 2", f"rm{ANY}"]),
        ("echo 'a; b' \"c; d\" e\\;f", ["echo a; b c; d e;f"]),
        ("ls # rm x", ["ls"]),
        ("echo a#b", ["echo a#b"]),
        ("ls # x\nrm y", ["ls", "rm y"]),
        ("ls # x\\\nrm y", ["ls", "rm y"]),
        ("g\\\nit st\\\natus", ["git status"]),
        ("echo 'a\\\nb' \"c\\\nd\" e\\\\\nf", ["echo a\\\nb cd e\\", "f"]),
        ("a 2>&1 >/dev/null </dev/null 3>&-", ["a"]),
        ("X=1 git status", ["git status"]),
        ("X\\\n=1 git status", ["git status"]),
        ("'x'=1 git", ["x=1 git"]),
        ("git commit -m 'it''s'", ["git commit -m its"]),
        ("/bin/RM x", ["/bin/RM x", "RM x", "rm x"]),
        ("# nothing", []),
        ("", [ANY]),
    ],
)
def test_a_line_is_its_simple_commands(line: str, commands: list[str]) -> None:
    assert possible_commands(line) == commands


@pytest.mark.parametrize(
    "line",
    [
        r"env bash -c '\bad'",
        r"nice -n 1 bash -c -- 'b\ad'",
        "command bash -o errexit -c '{bad,x}'",
        r"exec -a x sh -c '\bad'",
        r"env ssh host 'b\ad'",
        r"su -c '\bad'",
        "su -cbad user",
        "nice su --command=bad",
        "exec env -S '\"bad\"'",
        "nice parallel ok ::: bad",
        r"command mapfile -C 'b\ad' -c 1 <<< x",
        "builtin mapfile -C '{bad,x}' -c 1 <<< x",
        "command -p alias z='bad'\nz",
        "time -p command -- builtin printf -v 'a[$(bad)]' x",
    ],
)
def test_a_command_line_behind_two_runners_is_seen(line: str) -> None:
    assert any(map(CommandPattern("bad *").may_fit, possible_commands(line)))


#: Parts of lines that run `bad`, or may: what quotes, divides, continues, substitutes, evaluates or runs it.
PARTS = [
    *("bad", "bad x", "ok", "ok a", "b", "ad", " ", " ", " ", "\\\n", "\\\n", "\n", ";", "&", "&&", "||", "|", "|&", "(", ")"),
    *("{ ", "; }", "'", '"', "$", "$(", "`", "${", "}", "$'", '$"', "[", "]", "a[", "]=1", "a=", "x=1 ", "\\", "#", " #", "! "),
    *("'$(bad)'", "'`bad`'", "'a[$(bad)]'", "'bad'", "<", ">", ">x", "<x", "2>&1", "&>x", ">&", "<&", "<<<", "<<E", "\nE\n"),
    *(
        "{a[",
        "]}>x",
        "{fd}>x ",
        "=",
        "+=",
        "[[ ",
        "]]",
        "((",
        "))",
        "test -v ",
        "printf -v ",
        "declare ",
        "declare -i ",
        "export ",
    ),
    *("let ", "eval ", "exec ", "command ", "bash ", "bash -c ", "sh -c ", "bash -s", "env ", "if ", "; then ", "; fi"),
    *("for x in a; do ", "; done", "case a in a) ", ";;", " esac", "f() ", "; f", "time ", "~", "*", "{bad,x}", "/dev/stdin"),
    *("/dev/./stdin", "cd /dev; ", "stdin", "echo bad |", "<<< bad", "trap bad EXIT", "x='a[$(bad)]' ", "$x", '"$x"', "x=bad; "),
]


def test_shells_do_not_run_a_forbidden_program_that_was_not_seen(tmp_path: Path) -> None:
    """Lines in which no rule for `bad` would see it are run by real shells, which must not run it either."""
    log, cwd, programs = tmp_path / "log", tmp_path / "cwd", tmp_path / "programs"
    cwd.mkdir()
    programs.mkdir()
    for name in ("bad", "ok"):
        (programs / name).write_text(f"#!/bin/sh\necho {name} >>{log}\n")
        (programs / name).chmod(0o755)
    for name, target in (("bash", SHELLS[0]), ("sh", SHELLS[1]), ("env", "/usr/bin/env")):
        (programs / name).symlink_to(target)
    bad, ran = CommandPattern("bad *"), Counter[str]()

    @settings(max_examples=400, deadline=None, derandomize=True, database=None)
    @given(st.lists(st.sampled_from(PARTS), min_size=2, max_size=8).map("".join))
    def check(line: str) -> None:
        if any(map(bad.may_fit, possible_commands(line))):
            return
        for shell in SHELLS:
            log.write_text("")
            env = {"PATH": str(programs)}
            subprocess.run([shell, "-c", line], env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
            ran.update(["line", *log.read_text().split()])
            assert ran["bad"] == 0, (shell, line)

    check()
    assert ran["line"] > 50
