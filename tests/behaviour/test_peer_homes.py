"""Started under a peer's name, fairlead lives where the peer lives."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.host import Host
from tests.support.stage import calls, says
from tests.support.surroundings import FAIRLEAD, Surroundings, surroundings

from fairlead.testing import ProviderServer

PROGRAMS = ("pi", "omp", "xcsh")


class Peer:
    """A program that fairlead stands in for, with a home of its own and a model that plays a script."""

    def __init__(self, program: str, provider: ProviderServer, around: Surroundings) -> None:
        self.program = program
        self.provider = provider
        self.cwd = around.cwd
        self.user = around.home
        self.env = {name: value for name, value in around.env.items() if name != "FAIRLEAD_HOME"}
        self.home = self.user / f".{program}" / "agent"
        self.home.mkdir(parents=True)
        self.models: dict[str, Any] = json.loads((self.user / "models.json").read_text())
        (self.user / "models.json").unlink()

    @contextmanager
    def host(self, *flags: str, env: Mapping[str, str] | None = None) -> Generator[Host]:
        argv = [FAIRLEAD, "--as", self.program, "--mode", "rpc", *flags]
        with Host(argv, self.cwd, {**self.env, **(env or {})}) as host:
            yield host

    def write(self, files: Mapping[str, str]) -> None:
        """Write files below the user's directory, or below the project (`project/...`)."""
        for name, text in files.items():
            path = self.cwd.parent / name if name.startswith("project/") else self.user / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def configure(self) -> None:
        """Have the default model chosen in the peer's settings, and models and keys in its own files."""
        root = self.home.relative_to(self.user)
        for provider in self.models["providers"].values():
            del provider["apiKey"]
        if self.program == "pi":
            self.write(
                {
                    f"{root}/models.json": json.dumps(self.models),
                    f"{root}/settings.json": json.dumps({"defaultProvider": "fake", "defaultModel": "fake-2", "theme": "x"}),
                    f"{root}/auth.json": json.dumps({"fake": {"type": "api_key", "key": "$FAKE-${FAKE}"}}),
                }
            )
            (self.home / "auth.json").chmod(0o600)
        else:
            self.write(
                {
                    f"{root}/models.yml": f"# mine\n{json.dumps(self.models)}\n",
                    f"{root}/config.yml": "# mine\nmodelRoles:\n  default: fake/fake-2  # two\ntheme: {dark: x}\n",
                }
            )
            store_key(self.home / "agent.db", "fake", "$FAKE-${FAKE}")


def store_key(path: Path, provider: str, key: str) -> None:
    """Store a key as omp does."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "CREATE TABLE auth_credentials (id INTEGER PRIMARY KEY, provider TEXT NOT NULL, credential_type TEXT NOT NULL,"
            " data TEXT NOT NULL, disabled_cause TEXT)"
        )
        rows = [
            (provider, "api_key", json.dumps({"key": "disabled"}), "revoked"),
            (provider, "api_key", json.dumps({"key": key}), None),
            (provider, "oauth", json.dumps({"access": "x"}), None),
            ("odd", "api_key", "not JSON", None),
        ]
        query = "INSERT INTO auth_credentials (provider, credential_type, data, disabled_cause) VALUES (?, ?, ?, ?)"
        database.executemany(query, rows)


@contextmanager
def peer(root: Path, program: str, *turns: Mapping[str, Any]) -> Generator[Peer]:
    with ProviderServer(turns or (says("ok"),)) as provider:
        yield Peer(program, provider, surroundings(root, provider.url))


def state(host: Host) -> dict[str, Any]:
    return host.request("get_state")["data"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_settings_models_keys_and_sessions_are_those_of_the_peer(tmp_path: Path, program: str) -> None:
    with peer(tmp_path, program) as here:
        here.configure()
        with here.host(env={"FAKE": "secret"}) as host:
            told = state(host)
            assert told["model"]["id"] == "fake-2"
            file = Path(told["sessionFile"])
            cwd = str(here.cwd)[1:].replace("/", "-")
            assert file.parent.parent == here.home / "sessions"
            assert file.parent.is_dir(), "hosts look into it at once"
            if program == "pi":
                assert file.parent.name == f"--{cwd}--"
            host.prompt("hi")
            assert file.exists()
        assert here.provider.requests[-1].headers["x-api-key"] == "secret-secret"
        assert not (here.user / ".fairlead").exists()


@pytest.mark.parametrize("program", PROGRAMS)
def test_files_of_users_and_projects_are_read_from_the_peers_folders(tmp_path: Path, program: str) -> None:
    with peer(tmp_path, program) as here:
        here.configure()
        home = here.home.relative_to(here.user)
        skill = "---\ndescription: {}\n---\nDo it.\n"
        here.write(
            {
                f"{home}/AGENTS.md": "instructions of the user",
                f"{home}/APPEND_SYSTEM.md": "appended by the user",
                f"{home}/skills/mine/SKILL.md": skill.format("skill of the user"),
                f"{home}/prompts/mine.md": "prompt of the user",
                f"project/.{program}/SYSTEM.md": "system of the project",
                f"project/.{program}/skills/both/SKILL.md": skill.format("skill of the peer"),
                f"project/.{program}/prompts/theirs.md": "prompt of the peer",
                "project/.fairlead/skills/both/SKILL.md": skill.format("skill that wins"),
                "project/.fairlead/prompts/ours.md": "prompt of fairlead",
            }
        )
        with here.host(env={"FAKE": "k"}) as host:
            host.prompt("/mine")
            names = {each["name"] for each in host.request("get_commands")["data"]["commands"]}
        asked = json.dumps(here.provider.requests[-1].body)
        for text in ("instructions of the user", "appended by the user", "skill of the user", "system of the project"):
            assert text in asked
        assert "skill that wins" in asked and "skill of the peer" not in asked
        assert "prompt of the user" in asked
        assert {"mine", "theirs", "ours"} <= names


def test_a_folder_of_the_peer_in_a_project_is_behind_trust(tmp_path: Path) -> None:
    with peer(tmp_path, "pi") as here:
        here.configure()
        made = "from pathlib import Path\n\n\ndef setup(fl):\n    Path('ran').touch()\n"
        here.write({"project/.pi/settings.json": '{"defaultModel": "fake-1"}', "project/.pi/extensions/theirs.py": made})
        with here.host(env={"FAKE": "k"}) as host:
            assert state(host)["model"]["id"] == "fake-2"
            host.prompt("hi")
            assert (host.leave(), host.stderr()) == (0, "")
        assert not (here.cwd / "ran").exists()
        trust = here.home / "trust.json"
        trust.write_text(json.dumps({"/elsewhere": None, str(here.cwd): True}))
        with here.host(env={"FAKE": "k"}) as host:
            assert state(host)["model"]["id"] == "fake-1"
            host.prompt("hi")
        assert (here.cwd / "ran").exists()


def test_settings_of_fairlead_win_over_those_of_the_peer_in_a_project(tmp_path: Path) -> None:
    with peer(tmp_path, "omp") as here:
        here.configure()
        here.write({"project/.omp/config.yml": "steeringMode: all\ninterruptMode: wait\n"})
        here.write({"project/.fairlead/settings.json": '{"steeringMode": "one-at-a-time"}'})
        with here.host("--approve", env={"FAKE": "k"}) as host:
            told = state(host)
        assert (told["steeringMode"], told["interruptMode"]) == ("one-at-a-time", "wait")


def test_a_link_out_of_the_project_is_not_followed_in_a_folder_of_the_peer(tmp_path: Path) -> None:
    with peer(tmp_path, "pi") as here:
        here.configure()
        here.write({"secret.md": "the secret of the user"})
        (here.cwd / ".pi").mkdir()
        (here.cwd / ".pi" / "SYSTEM.md").symlink_to(here.user / "secret.md")
        with here.host(env={"FAKE": "k"}) as host:
            host.prompt("hi")
        assert "the secret of the user" not in json.dumps(here.provider.requests[-1].body)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_files_with_keys_are_protected(tmp_path: Path, program: str) -> None:
    names = ("auth.json", "models.json") if program == "pi" else ("agent.db", "models.yml")
    turns = [calls(*(("read", {"path": f"~/.{program}/agent/{name}"}) for name in names)), says("done")]
    with peer(tmp_path, program, *turns) as here:
        here.configure()
        with here.host(env={"FAKE": "k"}) as host:
            host.prompt("read them")
            results = [each for each in host.request("get_messages")["data"]["messages"] if each["role"] == "toolResult"]
        assert [each["isError"] for each in results] == [True, True]
        assert all("protected" in each["content"][0]["text"] for each in results)


def test_saving_a_setting_keeps_the_rest_of_the_peers_settings(tmp_path: Path) -> None:
    with peer(tmp_path / "pi", "pi") as here:
        here.configure()
        before = {"zeta": [1, {"b": 2}], "defaultModel": "fake-2", "theme": "x", "packages": ["npm:x"], "defaultProvider": "fake"}
        (here.home / "settings.json").write_text(json.dumps(before))
        with here.host(env={"FAKE": "k"}) as host:
            assert host.request("set_model", provider="fake", modelId="fake-1", persist=True)["success"]
            assert host.request("set_steering_mode", mode="all", persist=True)["success"]
        after = json.loads((here.home / "settings.json").read_text())
        assert list(after.items()) == list({**before, "defaultModel": "fake-1", "steeringMode": "all"}.items())
    with peer(tmp_path / "omp", "omp") as here:
        here.configure()
        text = (here.home / "config.yml").read_text()
        with here.host(env={"FAKE": "k"}) as host:
            assert host.request("set_model", provider="fake", modelId="fake-1", persist=True)["success"]
            assert host.request("set_steering_mode", mode="all", persist=True)["success"]
        changed = text.replace("fake/fake-2", "fake/fake-1").replace("modelRoles:", "steeringMode: all\nmodelRoles:")
        assert (here.home / "config.yml").read_text() == changed
        with here.host(env={"FAKE": "k"}) as host:
            assert (state(host)["model"]["id"], state(host)["steeringMode"]) == ("fake-1", "all")


def test_settings_that_only_the_peer_understands_are_ignored_in_silence(tmp_path: Path) -> None:
    with peer(tmp_path, "pi") as here:
        here.configure()
        odd: dict[str, Any] = {
            "defaultThinkingLevel": "max",
            "extensions": ["-builtin:mcp", "!*.ts"],
            "skills": ["+a"],
            "retry": 5,
            "images": {},
        }
        settings = {"defaultProvider": "fake", "defaultModel": "fake-1", **odd}
        (here.home / "settings.json").write_text(json.dumps(settings))
        with here.host(env={"FAKE": "k"}) as host:
            assert (state(host)["model"]["id"], state(host)["thinkingLevel"]) == ("fake-1", "high"), "the highest of the model"
            host.prompt("hi")
            assert (host.leave(), host.stderr()) == (0, "")


def test_another_folder_can_be_the_home(tmp_path: Path) -> None:
    with peer(tmp_path, "omp") as here:
        here.configure()
        other = here.user / "other"
        for name, env, root in (
            ("PI_CODING_AGENT_DIR", str(other), other),
            ("PI_CONFIG_DIR", ".config/omp", here.user / ".config/omp/agent"),
            ("OMP_PROFILE", "work", here.user / ".omp/profiles/work/agent"),
            ("FAIRLEAD_HOME", str(here.user / "own"), here.user / "own"),
        ):
            with here.host(env={name: env, "ANTHROPIC_API_KEY": "k"}) as host:
                assert Path(state(host)["sessionFile"]).is_relative_to(root / "sessions")


def test_the_flag_of_omp_chooses_a_profile_with_its_settings(tmp_path: Path) -> None:
    with peer(tmp_path, "omp") as here:
        here.configure()
        with here.host("--profile", "work", env={"ANTHROPIC_API_KEY": "k", "OMP_PROFILE": "other"}) as host:
            assert Path(state(host)["sessionFile"]).is_relative_to(here.user / ".omp/profiles/work/agent/sessions")


@pytest.mark.parametrize("text", ["", "not a database" * 100])
def test_a_database_that_cannot_be_read_is_a_warning(tmp_path: Path, text: str) -> None:
    with peer(tmp_path, "omp") as here:
        here.configure()
        (here.home / "agent.db").write_text(text)
        (here.home / "auth.json").write_text(json.dumps({"fake": {"type": "api_key", "key": "older"}}))
        (here.home / "auth.json").chmod(0o600)
        with here.host() as host:
            host.prompt("hi")
        assert here.provider.requests[-1].headers["x-api-key"] == "older"


def test_started_as_fairlead_nothing_of_the_peers_is_read(tmp_path: Path) -> None:
    with peer(tmp_path, "pi") as here:
        here.configure()
        here.write({"project/.pi/SYSTEM.md": "system of pi"})
        argv = [FAIRLEAD, "--mode", "rpc", "--dialect", "pi"]
        with Host(argv, here.cwd, {**here.env, "FAKE": "k"}) as host:
            assert state(host)["model"] is None
        named = {"FAKE": "k", "PI_CODING_AGENT_DIR": str(here.home)}
        with Host([*argv, "--model", "fake/fake-1"], here.cwd, {**here.env, **named}) as host:
            assert Path(state(host)["sessionFile"]).is_relative_to(here.user / ".fairlead")
            host.prompt("hi")
        assert "system of pi" not in json.dumps(here.provider.requests[-1].body)
