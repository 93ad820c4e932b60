"""Where the place of a file counts, commands may do what the tools for files may do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fairlead.config.settings import ApprovalMode, ApprovalRule
from fairlead.policy.approvals import PatternContext, Policy, Subject


def decide(folder: Path, command: str, mode: ApprovalMode, *rules: ApprovalRule, at: str = "") -> str:
    policy = Policy(mode, rules, ("Read", "Edit"))
    around = PatternContext(os.path.realpath(folder), "/home/ada")
    subject = Subject("command", command, folder=os.path.join(os.path.realpath(folder), at))  # noqa: PTH118
    return policy.verdict("Bash", harmless=False, subject=subject, around=around).action


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "f" / "sub").mkdir(parents=True)
    (tmp_path / "f" / "a").write_text("a")
    (tmp_path / "f" / "out").symlink_to(tmp_path)
    (tmp_path / "f" / "twin").write_text("x")
    (tmp_path / "other").hardlink_to(tmp_path / "f" / "twin")
    (tmp_path / "f" / "leaf").symlink_to(tmp_path / "leaf")
    return tmp_path / "f"


@pytest.mark.parametrize("command", ["cat a", "ls", "ls -la sub", "echo x", "grep -n x a", "cat a | head -3", "find . -name a"])
def test_commands_that_only_read_inside_run(command: str, folder: Path) -> None:
    assert decide(folder, command, "ask") == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "cat ../x",
        "cat out/x",
        "cat /etc/passwd",
        "ls ~",
        "cat $HOME/x",
        "cat a > b",
        "cat `x`",
        "git status",
        "find . -delete",
        "find . -exec rm a +",
        "grep --file=/etc/passwd a",
        "grep -R x .",
        "grep -rn x .",
        "grep x sub",
        "rg x",
        "diff -r sub a",
        "find -L .",
        "rg --pre=evil x",
        "sort -o b a",
        "tee a",
        "env cat a",
        "./cat a",
        "cat a & rm a",
        "",
    ],
)
def test_other_commands_are_asked_about(command: str, folder: Path) -> None:
    assert decide(folder, command, "ask") == "ask"


@pytest.mark.parametrize(
    "command", ["mkdir b", "touch sub/b", "rm a", "rm -r sub", "mv a b", "cp a sub", "cp -r sub new", "sed -i s/a/b/g a"]
)
def test_changes_inside_run_in_the_mode_write_alone(command: str, folder: Path) -> None:
    assert decide(folder, command, "write") == "allow"
    assert decide(folder, command, "ask") == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "touch leaf",
        "rm out/x",
        "cp a leaf",
        "cp /etc/passwd b",
        "cp a ..",
        "mv ../x .",
        "mv out/x b",
        "mkdir .git",
        "mv a .envrc",
        "cp a .vscode",
        "rm -rf .",
        "rm -rf ./",
        "rm -rf sub/..",
        "rm --no-preserve-root a",
        "cp -r sub out",
        "sed -i e a",
        "sed -i 's/a/b/e' a",
        "sed -i 's/a/b/w x' a",
        "sed -i.envrc s/a/b/ a",
        "sed -f a -i a",
        "ln a b",
        "chmod +x a",
        "touch -r /x a",
        "cp a twin",
    ],
)
def test_changes_that_may_reach_further_are_asked_about(command: str, folder: Path) -> None:
    assert decide(folder, command, "write") == "ask"


def test_a_command_starts_where_the_shell_is(folder: Path, tmp_path: Path) -> None:
    (folder / "sub" / "d").symlink_to(tmp_path)
    assert decide(folder, "touch d/x", "write") == "allow"
    assert decide(folder, "touch d/x", "write", at="sub") == "ask"
    assert decide(folder, "ls", "ask", at="out") == "ask"


def test_rules_about_files_count_for_commands(folder: Path) -> None:
    assert decide(folder, "cat a", "ask", ApprovalRule(action="deny", tool="Read", pattern="a")) == "ask"
    assert decide(folder, "rm a", "write", ApprovalRule(action="ask", tool="Edit", pattern="a")) == "ask"
    assert decide(folder, "cat a", "ask", ApprovalRule(action="deny", tool="Bash", pattern="cat *")) == "deny"


def test_protected_files_need_a_question(folder: Path) -> None:
    around = PatternContext(os.path.realpath(folder), "/home/ada", may_use=lambda path, changes: not path.endswith("a"))
    for command in ("cat a", "rm a", "cp a b"):
        subject = Subject("command", command, folder=os.path.realpath(folder))
        policy = Policy("write", (), ("Read", "Edit"))
        assert policy.verdict("Bash", harmless=False, subject=subject, around=around).action == "ask"


def test_without_file_tools_the_place_does_not_count(folder: Path) -> None:
    around = PatternContext(os.path.realpath(folder), "/home/ada")
    subject = Subject("command", "cat a", folder=str(folder))
    assert Policy("ask").verdict("bash", harmless=False, subject=subject, around=around).action == "ask"
    outside = Subject("path", "/etc/passwd")
    assert Policy("ask").verdict("read", harmless=True, subject=outside, around=around).action == "allow"
    assert Policy("ask", (), ("Read", "Edit")).verdict("Read", harmless=True, subject=outside, around=around).action == "ask"
