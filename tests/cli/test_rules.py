"""`fairlead rules test`: what a rule would match, and why it would not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

NO_PRINT = r"""---
description: Log, do not print
condition: '\bprint\('
scope: [text, edit(*.py), write(*.py)]
---
Use the logging module.
"""


def run(cwd: Path, *words: str, input: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fairlead", "rules", *words]
    return subprocess.run(command, cwd=cwd, input=input, capture_output=True, encoding="utf-8", timeout=60, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "no-print.md").write_text(NO_PRINT)
    return tmp_path


def test_matches_are_shown_with_their_places(folder: Path) -> None:
    done = run(folder, "test", "no-print.md", "--text", "one\n\tä print(1) print(\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "no-print matches in text:",
        r"  \bprint\( (re2)",
        "    2:4  print(",
        "    2:13  print(",
    ]


def test_the_sample_may_come_from_a_file_or_from_standard_input(folder: Path) -> None:
    (folder / "sample.txt").write_text("print(")
    assert run(folder, "test", "no-print.md", "--file=sample.txt").returncode == 0
    assert run(folder, "test", "no-print.md", input="print(").returncode == 0
    assert run(folder, "test", "no-print.md", input="nothing").returncode == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--path", "src/a.py"], 0, "no-print matches in a call of edit for src/a.py:"),
        (["--scope", "tool:write", "--path", "a.py"], 0, "no-print matches in a call of write for a.py:"),
        (["--scope", "tool:write", "--path", "a.js"], 1, "no-print does not match in a call of write for a.js."),
        (["--scope", "thinking"], 1, "no-print does not match in thinking."),
        (["--scope", "tool:bash"], 1, "no-print does not match in a call of bash."),
    ],
)
def test_a_sample_may_be_taken_for_other_things_than_text(folder: Path, words: list[str], code: int, said: str) -> None:
    done = run(folder, "test", "no-print.md", "--text", "print(", *words)
    assert (done.returncode, done.stdout.splitlines()[0]) == (code, said)
    if code:
        assert "it looks at text, edit(*.py), write(*.py)" in done.stdout


def test_many_matches_are_cut(folder: Path) -> None:
    done = run(folder, "test", "no-print.md", "--text", "print(\n" * 50)
    assert done.stdout.count("print(\n") == 20 and done.stdout.endswith("    and more\n")


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("---\ncondition: (\n---\nNo.", "bad.md: condition: ( is not a regular expression"),
        ("---\nconditon: x\n---\nNo.", "Did you mean condition?"),
        ("---\nconditon: x\n---\nNo.", "it has no condition"),
        ("---\ncondition: '^(?!q)(x|xx|xxx)+y'\n---\nNo.", "took more than 50 ms"),
        (None, "bad.md: there is no such file."),
    ],
)
def test_unusable_rules_are_distinguished_from_rules_that_do_not_match(folder: Path, rule: str | None, said: str) -> None:
    if rule is not None:
        (folder / "bad.md").write_text(rule)
    done = run(folder, "test", "bad.md", "--text", "x" * 100)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "usage: fairlead rules test FILE"),
        (["list"], "usage: fairlead rules test FILE"),
        (["test"], "usage: fairlead rules test FILE"),
        (["test", "no-print.md", "no-print.md"], "usage: fairlead rules test FILE"),
        (["test", "no-print.md", "--flag"], "usage: fairlead rules test FILE"),
        (["test", "no-print.md", "--text", "a", "--file", "b"], "usage: fairlead rules test FILE"),
        (["test", "no-print.md", "--text"], "--text needs a value."),
        (["test", "no-print.md", "--file", "missing"], "--file: there is no file missing."),
        (["test", "no-print.md", "--file", "."], "found a folder"),
        (["test", "no-print.md", "--text", "a", "--scope", "txt"], "--scope: expected text, thinking, tool"),
        (["test", "no-print.md", "--text", "a", "--scope", "tool:read", "--path", "b"], "--path is for edit and write"),
    ],
)
def test_a_command_line_that_is_not_understood(folder: Path, words: list[str], said: str) -> None:
    done = run(folder, *words)
    assert done.returncode == 2 and said in done.stderr and done.stdout == ""


def test_the_help_explains_it(folder: Path) -> None:
    done = run(folder, "--help")
    assert done.returncode == 0 and "usage: fairlead rules test FILE" in done.stdout
