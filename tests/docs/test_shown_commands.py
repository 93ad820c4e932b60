"""Every command that a page shows runs in a test, or `commands_not_run.toml` names it and says why not, or where else."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.docs.test_snippets import FENCE, ROOT, Snippet, each, pages, snippets

from fairlead.cli.flags import FLAGS
from fairlead.cli.subcommands.table import SUBCOMMANDS

LIMIT = 100
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQAY3Y2wAAAAAElFTkSuQmCC"
HERE = Path(__file__).parent
EXCEPTIONS: list[dict[str, Any]] = tomllib.loads((HERE / "commands_not_run.toml").read_text())["exception"]
NOT_RUN = {command: each["reason"] for each in EXCEPTIONS for command in each["commands"]}
SHOWN = ("console", "sh")
HEREDOC = re.compile(r"<<'(\w+)'")
CHAT = re.compile(r"fairlead(?=$| )(?!.* (?:-p|--mode|--version)\b)(?! \w)")


def shown_commands(snippet: Snippet) -> list[str]:
    """The commands of a block, without the comments after them, and with what follows as their input."""
    lines = iter(snippet.text.splitlines())
    prompt = "$ " if snippet.info.startswith("console") else ""
    found: list[str] = []
    for line in lines:
        if not line.startswith(prompt) or not line.strip() or line.startswith("#!"):
            continue
        command = re.sub(r" +# .*$", "", line.removeprefix(prompt))
        if end := HEREDOC.search(command):
            for more in lines:
                command += f"\n{more}"
                if more == end[1]:
                    break
        found.append(command)
    return found


def first_line(command: str) -> str:
    return command.partition("\n")[0]


@each(*SHOWN)
def test_commands_that_a_page_shows_run(snippet: Snippet, environment: dict[str, str], tmp_path: Path) -> None:
    commands = [command for command in shown_commands(snippet) if first_line(command) not in NOT_RUN]
    if not commands:
        return
    project = make_project(tmp_path)
    if re.search(r"--continue|--resume|\blast\b", "\n".join(commands)):
        commands.insert(0, "fairlead -p Hello")
    script = "\n".join(
        ["set -eu", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT", *(in_terminal(command) for command in commands)]
    )
    ran = subprocess.run(
        ["bash", "-c", script],
        env={**environment, "FAIRLEAD_LOCAL_SERVERS": ""},
        cwd=project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert ran.returncode == 0, f"{script}\n{ran.stdout}\n{ran.stderr}"


def in_terminal(command: str) -> str:
    """The command on a terminal of its own, if it is a chat."""
    if not CHAT.match(command):
        return command
    return f"{sys.executable} {HERE / 'in_terminal.py'} {command}"


def make_project(folder: Path) -> Path:
    """The folder of a user, with the files that commands name, and the examples."""
    project = folder / "my-project"
    for name in ("AGENTS.md", ".fairlead/skills/release/SKILL.md", ".fairlead/prompts/fix.md"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("---\nname: release\ndescription: how to release\n---\nRelease.\n")
    (project / "screenshot.png").write_bytes(base64.b64decode(PIXEL))
    for name in (".local/share/bash-completion/completions", ".zfunc", ".config/fish/completions"):
        (folder / name).mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", str(project)], check=True)
    for name in ("examples", ".venv", "src", "docs", "scripts"):
        (project / name).symlink_to(ROOT / name)
    return project


def test_every_exception_is_shown_on_a_page_and_has_a_reason() -> None:
    shown = {first_line(command) for snippet in snippets(*SHOWN) for command in shown_commands(snippet)}
    assert set(NOT_RUN) <= shown, "no page shows these any more"
    assert all(len(reason.split()) >= 4 for reason in NOT_RUN.values())


@pytest.mark.parametrize("exception", [each for each in EXCEPTIONS if "run_by" in each], ids=lambda each: each["run_by"])
def test_what_runs_elsewhere_does(exception: Mapping[str, Any]) -> None:
    text = (ROOT / exception["run_by"]).read_text()
    assert [part for part in exception["as"] if part not in text] == []


def test_commands_in_sentences_exist() -> None:
    """Those in backquotes: each names a subcommand or flags that fairlead has."""
    known = {each.name for each in SUBCOMMANDS}
    flags = {"--as", "--help", *(name for flag in FLAGS for name in flag.names)}
    unknown: list[str] = []
    for page in pages():
        if "decisions" in page.parts:
            continue
        for text in re.findall(r"`(?:\w+=\S+ )*fairlead ([^`\n]+)`", FENCE.sub("", page.read_text())):
            word = text.split()[0]
            if word.startswith("-"):
                if word.partition("=")[0] not in flags:
                    unknown.append(f"{page.relative_to(ROOT)}: {text}")
            elif re.fullmatch(r"[a-z][a-z-]*", word) and word not in known:
                unknown.append(f"{page.relative_to(ROOT)}: {text}")
    assert unknown == []


def test_every_block_of_commands_is_one_that_tests_find() -> None:
    """A command in a block of another kind would be neither run nor an exception."""
    missed = [
        f"{page.relative_to(ROOT)}: {line}"
        for page in pages()
        for match in FENCE.finditer(page.read_text())
        if match[1].strip() not in (*SHOWN, "console run", "transcript", "markdown")
        for line in match[2].splitlines()
        if line.startswith("$ ")
    ]
    assert missed == []
