"""`fairlead local`, and the tools that people get."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cli.command import Command
from tests.cli.terminal import Terminal

CORE = ["read", "bash", "edit", "write"]


def tools_of(body: Any) -> list[str]:
    return [tool["name"] for tool in body["tools"]]


def test_without_weights_and_a_terminal_nothing_is_downloaded(fairlead: Command) -> None:
    done = fairlead("local", "-p", "hi")
    assert (done.returncode, done.stdout) == (1, "")
    assert "There are no weights on this machine. To download:" in done.stderr
    assert "fairlead local --model qwen2.5-coder-1.5b --download" in done.stderr and "smollm2" not in done.stderr
    assert not (fairlead.around.home / "models").exists()


@pytest.mark.parametrize(("answer", "downloads"), [("y", True), ("", False)], ids=["yes", "nothing"])
def test_a_model_that_is_named_is_downloaded_after_a_yes(fairlead: Command, answer: str, downloads: bool) -> None:
    terminal = Terminal(fairlead, "local", "--model", "qwen2.5-coder-1.5b", env={"HF_ENDPOINT": "http://127.0.0.1:9"})
    assert "These weights are not on this machine. To download to" in terminal.read_until(lambda shown: "[y/N] " in shown)
    terminal.type(f"{answer}\n")
    end = "downloading qwen2.5-coder-1.5b" if downloads else "Nothing was downloaded."
    assert end in terminal.read_until(lambda shown: end in shown)
    terminal.process.kill()
    terminal.finish()


def test_the_toy_is_offered_only_if_the_better_model_cannot_be_had(fairlead: Command) -> None:
    terminal = Terminal(fairlead, "local", env={"HF_ENDPOINT": "http://127.0.0.1:9"})
    offer = terminal.read_until(lambda shown: "[y/N] " in shown)
    assert "qwen2.5-coder-1.5b" in offer and "smollm2" not in offer
    terminal.type("y\n")
    assert "Cannot download" in terminal.read_until(lambda shown: "smollm2" in shown and shown.count("[y/N] ") == 2)
    terminal.type("n\n")
    assert "Nothing was downloaded." in terminal.read_until(lambda shown: "Nothing was" in shown)
    terminal.finish()


def test_the_list_names_what_is_here_and_what_can_be_downloaded(fairlead: Command) -> None:
    weights = fairlead.around.home / "models" / "mine.gguf"
    weights.parent.mkdir()
    weights.write_bytes(b"x" * (2 << 20))
    done = fairlead("local", "--list")
    assert done.returncode == 0
    mine, *others = done.stdout.splitlines()
    assert mine == f"local/mine  2 MB  fairlead  {weights}"
    assert [line.split()[0] for line in others] == ["local/qwen2.5-coder-1.5b", "local/smollm2"]


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--model", "nothing"], "There are no weights called nothing"),
        (["--model-file", "/etc/hostname"], "is not a GGUF file"),
        (["--model-file", "/no/such.gguf"], "No such file"),
        (["--model"], "--model needs a value"),
        (["--lst"], "fairlead local has no flag --lst. Did you mean --list?"),
        (["--donwload", "-p", "hi"], "Did you mean --download?"),
        (["--download", "--thinking", "-p", "hi", "--mode", "nothing"], "--mode: expected text"),
    ],
)
def test_models_that_cannot_run_here_are_explained(fairlead: Command, flags: list[str], problem: str) -> None:
    done = fairlead("local", *flags)
    assert done.returncode in (1, 2) and problem in done.stderr


def test_people_get_the_core_tools_and_more_if_they_ask(fairlead: Command) -> None:
    assert fairlead("-p", "hi").returncode == 0
    assert tools_of(fairlead.asked) == CORE
    assert fairlead("-p", "hi", "--tools", "+grep").returncode == 0
    assert tools_of(fairlead.asked) == [*CORE, "grep"]


def test_hosts_keep_the_tools_of_their_dialect(fairlead: Command) -> None:
    done = fairlead("--mode", "rpc", "--on-eof", "finish", input='{"type":"prompt","message":"hi"}\n')
    assert done.returncode == 0
    assert sorted(tools_of(fairlead.asked)) == sorted([*CORE, "grep", "find", "ls", "todo_write", "task"])
