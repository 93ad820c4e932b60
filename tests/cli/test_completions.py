"""`fairlead completions`: what a real bash offers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.cli.command import PATIENCE, Command

from fairlead.cli.flags import FLAGS
from fairlead.cli.subcommands.completions import script
from fairlead.cli.subcommands.table import SUBCOMMANDS, command_named

#: The flags of `fairlead sessions`.
SESSIONS = [*(name for flag in command_named("sessions").flags for name in flag.names), "-h", "--help"]
#: Completes the command line that the arguments are, and prints what is offered.
ASK = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _fairlead; printf "%s\\n" "${COMPREPLY[@]}"'


def offered(cwd: Path, *line: str) -> list[str]:
    """What bash offers for the last word of a command line."""
    path = cwd / "completions.bash"
    path.write_text(script("bash", ["anthropic/claude-opus-5", "openai/gpt-6"]))
    words = ["bash", "-c", ASK, str(path), "fairlead", *line]
    done = subprocess.run(words, cwd=cwd, capture_output=True, encoding="utf-8", timeout=PATIENCE, check=True)
    assert "error" not in done.stderr
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (["docto"], ["doctor"]),
        (["--thin"], ["--thinking"]),
        (["--mode", "r"], ["rpc", "rpc-ui"]),
        (["--mode", "=", "te"], ["text"]),
        (["--thinking", "mi"], ["minimal"]),
        (["--dialect", "o"], ["omp", "opal"]),
        (["--provider", "anth"], ["anthropic"]),
        (["--model", "open"], ["openai/gpt-6"]),
        (["--output-format", "s"], ["stream-json"]),
        (["doctor", "--of"], ["--offline"]),
        (["acp", "--thin"], ["--thinking"]),
        (["login", "open"], ["openai", "openrouter"]),
        (["schema", "se"], ["settings"]),
        (["completions", ""], ["bash", "zsh", "fish", "-h", "--help"]),
        (["help", "docto"], ["doctor"]),
        (["-p", "my f"], ["my file.txt"]),
        (["-p", "@my"], ["@my file.txt"]),
        (["--cwd", "my"], ["my folder"]),
        (["what is this", "--isol"], ["--isolated"]),
        (["sessions", ""], ["list", "show", "rename", "delete", "export", *SESSIONS]),
        (["sessions", "show", ""], SESSIONS),
        (["export", "--output", "my f"], ["my file.txt"]),
        (["rules", "test", "my f"], ["my file.txt"]),
        (["local", "--model", "open"], [""]),
    ],
    ids=lambda value: " ".join(value),
)
def test_bash_completes(tmp_path: Path, line: list[str], wanted: list[str]) -> None:
    (tmp_path / "my file.txt").write_text("")
    (tmp_path / "my folder").mkdir()
    found = offered(tmp_path, *line)
    assert [word for word in found if "folder" not in word or "--cwd" in line] == wanted


def test_every_flag_and_every_subcommand_is_offered(tmp_path: Path) -> None:
    found = set(offered(tmp_path, ""))
    assert {command.name for command in SUBCOMMANDS if not command.is_hidden} <= found
    assert {name for flag in FLAGS for name in flag.names} <= found


def test_the_command_prints_the_script(fairlead: Command) -> None:
    for shell in ("bash", "zsh", "fish"):
        done = fairlead("completions", shell)
        assert (done.returncode, done.stderr) == (0, "") and "fake/fake-1" in done.stdout


@pytest.mark.parametrize("words", [[], ["bsh"], ["bash", "zsh"], ["--shell", "bash"]], ids=" ".join)
def test_bad_words_are_usage_errors(fairlead: Command, words: list[str]) -> None:
    done = fairlead("completions", *words)
    assert (done.returncode, done.stdout) == (2, "") and "usage: fairlead completions bash|zsh|fish" in done.stderr
