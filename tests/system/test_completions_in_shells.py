"""What real zsh and fish offer after `fairlead completions`. The tests install the shells, or name them if they cannot."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from fairlead.cli.subcommands.completions import script

pytestmark = pytest.mark.system

PATIENCE = 30.0
CASES = {
    "fairlead docto": "doctor",
    "fairlead --thinkin": "--thinking",
    "fairlead login anthr": "anthropic",
    "fairlead sessions sho": "show",
    "fairlead -p @no": "@notes.txt",
    "fairlead @no": "@notes.txt",
    "fairlead export --output no": "notes.txt",
    "fairlead rules test no": "notes.txt",
}


@pytest.fixture(params=["zsh", "fish"])
def shell(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if shutil.which(name) is None and os.geteuid() == 0 and shutil.which("apt-get") is not None:
        install = ["apt-get", "install", "-y", name]
        if subprocess.run(install, capture_output=True, check=False, timeout=300).returncode:  # its lists may be old, or missing
            subprocess.run(["apt-get", "update"], capture_output=True, check=False, timeout=300)
            subprocess.run(install, capture_output=True, check=False, timeout=300)
    if shutil.which(name) is None:
        pytest.fail(f"This test needs {name}. Install it, for example with: apt-get install {name}")
    return name


def test_it_completes(shell: str, tmp_path: Path) -> None:
    path = tmp_path / f"completions.{shell}"
    path.write_text(script(shell, ["openai/gpt-6"]))
    (tmp_path / "notes.txt").write_text("")
    for line, wanted in CASES.items():
        found = in_fish(path, line) if shell == "fish" else in_zsh(path, line, wanted)
        assert wanted in found, line


@pytest.mark.parametrize("shell", ["fish"], indirect=True)
def test_the_first_word_is_offered_once(shell: str, tmp_path: Path) -> None:
    path = tmp_path / f"completions.{shell}"
    path.write_text(script(shell, []))
    assert in_fish(path, "fairlead sessions ").split() == ["delete", "export", "list", "rename", "show"]
    assert in_fish(path, "fairlead sessions show ") == ""


def in_fish(path: Path, line: str) -> str:
    """What fish offers for a line."""
    command = ["fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", str(path), line]
    cwd = path.parent
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout


def in_zsh(path: Path, line: str, wanted: str) -> str:
    """What the line of a zsh has become after a press of the tab key."""
    process, terminal = pty.fork()
    if process == 0:
        os.environ.update(TERM="dumb", PS1="ready> ", HOME=str(path.parent))
        os.chdir(path.parent)
        os.execvp("zsh", ["zsh", "-f", "-i"])
    try:
        os.write(terminal, f"autoload -U compinit; compinit -u -D; source {path}; echo lo''aded\n".encode())
        read_until(terminal, "\nloaded")
        os.write(terminal, f"{line}\t".encode())
        return read_until(terminal, wanted)
    finally:
        os.close(terminal)
        os.waitpid(process, 0)


def read_until(terminal: int, wanted: str) -> str:
    """What a terminal shows until `wanted` is part of it, or nothing comes for too long."""
    shown = ""
    end = time.monotonic() + PATIENCE
    while wanted not in shown and time.monotonic() < end:
        if select.select([terminal], [], [], 1)[0]:
            shown += os.read(terminal, 65536).decode("utf-8", "replace").replace("\a", "")  # it may ring the bell
    return shown
