"""`fairlead doctor`: what it finds, what it says to do, and its exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import Command, Scripted

from fairlead.cli.subcommands import doctor
from fairlead.errors import ConfigError
from fairlead.testing import ProviderServer


def findings(fairlead: Command, *words: str, **env: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """The exit code, and what was found, by name."""
    done = fairlead("doctor", "--json", *words, env=env)
    assert done.stderr == ""
    found: dict[str, list[dict[str, Any]]] = {}
    report = json.loads(done.stdout)
    assert report["ok"] is (done.returncode == 0)
    for finding in report["findings"]:
        found.setdefault(finding["name"], []).append(finding)
    return done.returncode, found


def test_all_is_well_with_a_model_that_answers(fairlead: Command) -> None:
    done = fairlead("doctor", env={"OPENAI_API_KEY": "sk-secret"})
    assert done.returncode == 0 and "Everything works." in done.stdout
    assert "openai: from the environment variable OPENAI_API_KEY" in done.stdout and "sk-secret" not in done.stdout
    assert "ok    fake/fake-1 answered in " in done.stdout
    for section in ("Home", "Keys", "Models", "Programs", "Extras", "Project"):
        assert f"{section}\n" in done.stdout
    assert len(fairlead.provider.requests) == 1 and "tools" not in fairlead.asked


def test_offline_asks_no_model(fairlead: Command) -> None:
    code, found = findings(fairlead, "--offline")
    assert code == 0 and "live" not in found and fairlead.provider.requests == []


@pytest.mark.parametrize(
    ("turn", "said"),
    [
        ({"status": 401, "error": "invalid x-api-key"}, "invalid x-api-key"),
        ({"status": 500, "error": "down"}, "down"),
        ({"text": "word " * 60, "hangAfter": 1}, "no answer within 1 s"),
    ],
    ids=["refused", "down", "hangs"],
)
def test_a_model_that_does_not_answer_is_a_failure(scripted: Scripted, turn: dict[str, Any], said: str) -> None:
    fairlead = scripted(turn)
    code, found = findings(fairlead, "--timeout", "1")
    (live,) = found["live"]
    assert (code, live["status"]) == (1, "fail") and said in live["text"]
    assert f"came from {fairlead.around.home / 'models.json'}" in live["fix"]
    # The server has answered if it refused the key.
    assert (fairlead.provider.url in live["fix"]) == (turn.get("status") != 401)
    assert len(fairlead.provider.requests) == 1


def test_without_a_key_or_a_server_it_says_what_would_do(fairlead: Command) -> None:
    code, found = findings(fairlead, "--isolated")
    assert code == 1 and found["model"][0]["status"] == "fail" and "fairlead login" in found["model"][0]["fix"]
    assert found["keys"][0]["fix"].startswith("fairlead login ") and found["servers"][0]["status"] == "off"


def test_servers_of_this_machine_are_found_and_asked(fairlead: Command) -> None:
    with ProviderServer([{"text": "OK"}], models=[{"id": "tiny"}]) as server:
        code, found = findings(fairlead, "--isolated", FAIRLEAD_LOCAL_SERVERS=f"here={server.url}")
    assert code == 0 and found["here"][0]["text"].startswith("here serves 1 model at ")
    assert "here/tiny answered" in found["live"][0]["text"]


def test_settings_that_do_not_exist_are_named_with_the_nearest_one(fairlead: Command) -> None:
    (fairlead.around.home / "settings.json").write_text('{"defualtModel": "x"}')
    code, found = findings(fairlead, "--offline")
    assert code == 0
    assert any(each["status"] == "warn" and "Did you mean defaultModel?" in each["text"] for each in found["settings"])


def test_a_file_that_is_not_json_is_not_called_fine_and_each_advice_is_given_once(fairlead: Command) -> None:
    path = fairlead.around.home / "settings.json"
    path.write_text('{"defaultModel": ')
    (found,) = findings(fairlead, "--offline")[1]["settings"]
    assert found["status"] == "warn" and found["fix"] == f"correct {path}; until then, nothing in it applies"
    path.write_text('{"defualtModel": "x", "defaultProvidr": "x"}')
    assert fairlead("doctor", "--offline").stdout.count("`fairlead schema settings`") == 1


def test_a_server_of_this_machine_that_wants_a_key_is_not_a_provider_to_log_in_at(fairlead: Command) -> None:
    with ProviderServer([{"status": 401, "error": "no key"}], models=[{"id": "tiny"}]) as server:
        _, found = findings(fairlead, "--isolated", FAIRLEAD_LOCAL_SERVERS=f"here={server.url}")
    assert (
        found["live"][0]["fix"] == f"No key was sent. Give one with --base-url {server.url}/v1 and FAIRLEAD_API_KEY or --api-key."
    )


def test_a_project_that_is_not_trusted_is_reported(fairlead: Command) -> None:
    (fairlead.around.cwd / ".mcp.json").write_text("{}")
    _, found = findings(fairlead, "--offline")
    assert found["trust"][0]["status"] == "warn" and "fairlead trust" in found["trust"][0]["fix"]
    fairlead("trust")
    assert findings(fairlead, "--offline")[1]["trust"][0]["status"] == "ok"


def test_missing_programs_come_with_the_command_that_installs_them(fairlead: Command, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "apt-get").write_text("#!/bin/sh\n")
    (tools / "apt-get").chmod(0o755)
    _, found = findings(fairlead, "--offline", PATH=str(tools))
    assert found["git"] == [
        {
            "section": "Programs",
            "name": "git",
            "status": "off",
            "text": "git is not installed; needed for packages from git and for what changed in a project",
            "fix": "sudo apt-get install git",
        }
    ]


def test_a_home_that_is_a_file_is_a_failure(fairlead: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, found = findings(fairlead, "--offline", FAIRLEAD_HOME=str(tmp_path / "file" / "home"))
    assert code == 1 and found["home"][0]["status"] == "fail" and "FAIRLEAD_HOME" in found["home"][0]["fix"]


@pytest.mark.parametrize("words", [["now"], ["--timeout", "soon"], ["--timeout", "0"], ["--jsn"]], ids=" ".join)
def test_bad_words_are_usage_errors(fairlead: Command, words: list[str]) -> None:
    done = fairlead("doctor", *words)
    assert (done.returncode, done.stdout) == (2, "")


def test_a_home_that_takes_empty_files_only_is_a_failure(fairlead: Command) -> None:
    limited = ["bash", "-c", 'ulimit -f 0; exec "$@"', "doctor", sys.executable, "-m", "fairlead"]
    done = fairlead("doctor", "--offline", argv=limited)
    assert done.returncode == 1 and "cannot be written" in done.stdout


@pytest.mark.parametrize("has_node", [True, False])
def test_node_on_the_machine_makes_the_extra_unnecessary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, has_node: bool) -> None:
    def find(env: object) -> str:
        if not has_node:
            raise ConfigError("no node")
        return "/usr/bin/node"

    monkeypatch.setattr(doctor, "find_node", find)
    monkeypatch.setattr(doctor, "missing_packages", lambda name: ["something"])  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    extra = next(finding for finding in doctor._extras() if finding.name == "node")  # pyright: ignore[reportPrivateUsage]
    assert extra.status == ("ok" if has_node else "off")
    assert ("not needed" in extra.text) == has_node
