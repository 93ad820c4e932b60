"""`fairlead login` and `fairlead logout`: keys that are stored for the user alone, and logins with a code."""

from __future__ import annotations

import json
import stat
import subprocess

import pytest
from tests.cli.command import Command
from tests.support.device_server import PENDING, TOKEN, DeviceServer


def test_a_key_is_stored_for_its_owner_alone_and_never_shown(fairlead: Command) -> None:
    done = fairlead("login", "anthropic", input="sk-very-secret\n")
    assert done.returncode == 0 and "anthropic" in done.stdout
    assert "sk-very-secret" not in done.stdout + done.stderr
    path = fairlead.around.home / "auth.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["anthropic"] == {"type": "api_key", "key": "sk-very-secret"}


def test_a_provider_with_a_login_page_gets_a_code(fairlead: Command) -> None:
    with DeviceServer([PENDING, TOKEN]) as server:
        models = fairlead.around.home / "models.json"
        content = json.loads(models.read_text())
        content["providers"]["acme"] = {**content["providers"]["fake"], "oauth": server.oauth}
        models.write_text(json.dumps(content))
        done = fairlead("login", "acme")
    assert done.returncode == 0, done.stderr
    assert "ABCD-1234" in done.stdout and "http://localhost/enter" in done.stdout and "token-1" not in done.stdout
    stored = json.loads((fairlead.around.home / "auth.json").read_text())
    assert stored["acme"]["type"] == "oauth" and stored["acme"]["access"] == "token-1"


def test_a_login_without_a_provider_a_key_or_a_terminal_changes_nothing(fairlead: Command) -> None:
    assert fairlead("login").returncode == 2
    assert fairlead("login", "--nope").returncode == 2
    assert "Unknown provider" in fairlead("login", "nope", input="k\n").stderr
    assert fairlead("login", "anthropic", input="\n").returncode == 1
    assert not (fairlead.around.home / "auth.json").exists()


@pytest.mark.parametrize("key", [b"sk-\xff\n", b"sk-\x1b[200~x\n", "sk-\u200b1\n".encode()], ids=["bytes", "control", "hidden"])
def test_login_refuses_malformed_keys(fairlead: Command, key: bytes) -> None:
    command = [str(word) for word in fairlead.argv("login", "anthropic")]
    done = subprocess.run(command, env=fairlead.env(), cwd=fairlead.around.cwd, input=key, capture_output=True, check=False)
    assert done.returncode == 1 and done.stderr.startswith(b"Error: The key has control characters, or bytes that are not text.")
    assert not (fairlead.around.home / "auth.json").exists()


def test_an_editor_can_log_in_with_the_command_that_starts_the_agent(fairlead: Command) -> None:
    done = fairlead("acp", "--login", "openai", input="sk-other\n")
    assert done.returncode == 0, done.stderr
    assert "openai" in json.loads((fairlead.around.home / "auth.json").read_text())


def test_login_without_a_terminal_lists_the_providers(fairlead: Command) -> None:
    done = fairlead("login", input="")
    assert done.returncode == 2 and "Error: Name a provider: " in done.stderr
    assert "anthropic, openai, google" in done.stderr


def test_logout_forgets_one_provider_or_all(fairlead: Command) -> None:
    for provider in ("anthropic", "openai"):
        fairlead("login", provider, input="sk-x\n")
    assert "Name a provider" in fairlead("logout").stderr
    assert fairlead("logout", "google").returncode == 1
    assert fairlead("logout", "anthropic").returncode == 0
    path = fairlead.around.home / "auth.json"
    assert list(json.loads(path.read_text())) == ["openai"]
    assert fairlead("logout", "--all").returncode == 0
    assert json.loads(path.read_text()) == {}
    assert "no keys" in fairlead("logout").stdout


def test_login_says_that_it_does_not_know_a_flag(fairlead: Command) -> None:
    done = fairlead("login", "--key", "secret")
    assert done.returncode == 2 and "no flag --key" in done.stderr and "secret" not in done.stderr
