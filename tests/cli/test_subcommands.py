"""Subcommands: their table and help, and what happens to a word that is nearly one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.cli.command import Command
from tests.support.json_values import is_array

from fairlead import __version__
from fairlead.cli.subcommands.help import find_page, overview
from fairlead.cli.subcommands.subcommand import Subcommand, help_of
from fairlead.cli.subcommands.table import SUBCOMMANDS, suggestion
from fairlead.wire.dialects import Program, program_named

ROOT = Path(__file__).parents[2]
WIDEST = 120


@pytest.mark.parametrize("command", SUBCOMMANDS, ids=lambda command: command.name)
def test_every_subcommand_can_be_loaded_and_has_a_short_help_with_an_example(command: Subcommand) -> None:
    assert callable(command.load())
    lines = help_of(command).splitlines()
    assert lines[0].startswith(f"usage: fairlead {command.name}")
    assert any(line.startswith(f"  fairlead {command.name}") for line in lines)
    assert len(lines) < 24 and max(map(len, lines)) <= WIDEST


@pytest.mark.parametrize("words", [["export", "--help"], ["export", "x.jsonl", "-h"], ["help", "export"]], ids=" ".join)
def test_the_help_of_a_subcommand_goes_to_standard_output(fairlead: Command, words: list[str]) -> None:
    done = fairlead(*words)
    command = next(each for each in SUBCOMMANDS if each.name == "export")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", help_of(command) + "\n")


def test_the_overview_fits_two_screens_and_names_every_command() -> None:
    lines = overview(Program()).splitlines()
    assert len(lines) <= 72 and max(map(len, lines)) <= WIDEST
    assert {command.name for command in SUBCOMMANDS if not command.is_hidden} <= {line.split()[0] for line in lines if line}


def test_the_version_is_a_subcommand_too(fairlead: Command) -> None:
    assert fairlead("version").stdout == fairlead("--version").stdout == f"{__version__}\n"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["exprot", "x"], "fairlead export"),
        (["logn"], "fairlead login"),
        (["doc"], "fairlead doctor"),
        (["Help"], "fairlead help"),
        (["versoin", "--verbose"], "fairlead version"),
        (["--verbose", "exprot"], "fairlead export"),
    ],
    ids=lambda value: " ".join(value) if is_array(value) else "",
)
def test_a_mistyped_subcommand_is_an_error_and_asks_no_model(fairlead: Command, words: list[str], meant: str) -> None:
    done = fairlead(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"Did you mean `{meant}`?" in done.stderr and "To send it as a prompt: fairlead -p " in done.stderr
    assert fairlead.provider.requests == []


def test_a_subcommand_after_flags_is_an_error_that_says_so(fairlead: Command) -> None:
    done = fairlead("--model", "fake-1", "list")
    assert done.returncode == 2 and "list is a command, and flags of fairlead cannot come before it" in done.stderr
    assert fairlead.provider.requests == []


@pytest.mark.parametrize("words", [["hello"], ["explain"], ["-p", "exprot"], ["--", "exprot"], ["why?"]], ids=" ".join)
def test_other_words_are_prompts(fairlead: Command, words: list[str]) -> None:
    done = fairlead(*words)
    assert (done.returncode, done.stdout) == (0, "Hello!\n")


def test_a_mistyped_topic_of_help_is_an_error(fairlead: Command) -> None:
    done = fairlead("help", "exprot")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "Error: There is no command exprot. Did you mean `fairlead help export`? `fairlead --help` lists the commands, "
        "and `fairlead help pages` the documentation.\n"
    )


def test_pages_of_the_documentation_are_a_topic_of_help(fairlead: Command) -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    for name in ("troubleshooting", "troubleshooting.md"):
        assert (fairlead("help", name).stdout, fairlead("help", name).returncode) == (page, 0)
    assert fairlead("help", "models").stdout.startswith("usage: fairlead models")
    assert fairlead("help", "models.md").stdout.startswith("# Models and keys")
    listed = fairlead("help", "pages").stdout.splitlines()
    assert [line.split()[0] for line in listed] == sorted(each.name for each in (ROOT / "docs").glob("*.md"))
    assert fairlead("help", "../README.md").returncode == 2


def test_messages_name_topics_that_exist_and_no_file_of_a_checkout() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        for line in path.read_text().splitlines():
            assert not re.search(r"""["'].*\bdocs/[\w-]+\.md.*["']""", line), (path, line)
            for topic in re.findall(r"`fairlead help ([a-z.-]+)`", line):
                assert topic in ("flags", "pages") or find_page(topic), (path, topic)


@pytest.mark.parametrize("word", ["help", "version", "exprot"])
def test_under_the_name_of_a_peer_a_word_is_a_prompt_as_it_is_there(fairlead: Command, word: str) -> None:
    done = fairlead("--as", "pi", word)
    assert (done.returncode, done.stdout) == (0, "Hello!\n")


def test_under_the_name_of_a_peer_nothing_is_suggested() -> None:
    assert suggestion("exprot", program_named("omp")) is None


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["logout", "--al"], "usage: fairlead logout [PROVIDER | --all]"),
        (["version", "now"], "usage: fairlead version"),
        (["help", "a", "b"], "usage: fairlead help [COMMAND | flags | pages | PAGE.md]"),
        (["list", "x"], "usage: fairlead list"),
        (["schema", "--dialect"], "usage: fairlead schema"),
        (["trust", "--nope"], "usage: fairlead trust"),
    ],
    ids=lambda value: " ".join(value) if is_array(value) else "",
)
def test_bad_words_are_a_usage_error(fairlead: Command, words: list[str], complaint: str) -> None:
    done = fairlead(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in done.stderr


@pytest.mark.parametrize("words", [("replay",), ("serve", "--root"), ("trust", "add"), ("install",), ("local", "--model-file")])
def test_a_path_of_an_unknown_user_does_not_exist(fairlead: Command, words: tuple[str, ...]) -> None:
    done = fairlead(*words, "~nosuchuser/x")
    assert done.returncode != 0 and done.stderr.startswith("Error: ") and "~nosuchuser/x" in done.stderr
