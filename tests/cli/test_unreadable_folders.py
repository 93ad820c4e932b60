"""Folders that the user may not read, such as those of another user in a shared project."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.testing import ProviderServer

#: Permissions do not bind the superuser, unless it gives up the right to ignore them.
_RIGHTS = "-dac_override,-dac_read_search"
BOUND = [] if os.geteuid() else ["setpriv", f"--inh-caps={_RIGHTS}", f"--bounding-set={_RIGHTS}"]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """A project whose configuration cannot be read."""
    closed = tmp_path / "work" / ".fairlead"
    closed.mkdir(parents=True)
    closed.chmod(0)
    yield closed.parent
    closed.chmod(0o700)


def run(project: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "FAIRLEAD_HOME": str(project.parent / "home"), "HOME": str(project.parent)}
    command = [*BOUND, sys.executable, "-m", "fairlead", *arguments]
    return subprocess.run(command, cwd=project, env=env, input=stdin, capture_output=True, text=True, timeout=60, check=False)


def test_a_host_is_served_and_warned(project: Path) -> None:
    done = run(project, "--mode", "rpc", stdin='{"type":"get_state","id":"1"}\n')
    assert '"command":"get_state","success":true' in done.stdout
    assert ".fairlead/settings.json: cannot be read: Permission denied." in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["doctor", "models", "trust", "sessions", "list"])
def test_commands_say_what_cannot_be_read(project: Path, command: str) -> None:
    done = run(project, command)
    assert "Traceback" not in done.stderr
    assert command in ("trust", "sessions") or "cannot be read: Permission denied" in done.stdout + done.stderr


@pytest.mark.parametrize("words", [["usage"], ["sessions", "--all"], ["export", "some-name"]], ids=" ".join)
def test_sessions_that_cannot_be_listed_are_an_error_and_not_an_empty_list(tmp_path: Path, words: list[str]) -> None:
    work, sessions = tmp_path / "work", tmp_path / "home" / "sessions"
    work.mkdir()
    sessions.mkdir(parents=True)
    sessions.chmod(0)
    done = run(work, *words)
    sessions.chmod(0o700)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: Cannot list the sessions in {sessions}") and "Permission denied" in done.stderr


def test_a_session_that_cannot_be_saved_names_the_flags_that_help(tmp_path: Path) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    with ProviderServer([{"text": "Hello!"}]) as server:
        model = ["--base-url", f"{server.url}/v1", "--model", "m"]
        home.chmod(0o500)
        done = run(work, "-p", "hi", *model)
        unsaved = run(work, "-p", "hi", "--no-session", *model)
        home.chmod(0o700)
    assert done.returncode == 1 and "Permission denied. --no-session does not save the session, and" in done.stderr
    assert (unsaved.returncode, unsaved.stdout) == (0, "Hello!\n")
