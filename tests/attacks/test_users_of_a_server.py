"""A user of a server with several users tries to change what all of them share: keys, settings, decisions about projects."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from tests.attacks.traps import Trap
from tests.serve.test_serve_command import Process, served
from tests.support.device_server import DeviceServer
from tests.support.front_end import HostSocket

from fairlead.config.home import Home
from fairlead.errors import ConfigError
from fairlead.extend.package_manager import PackageManager
from fairlead.serve.access import add_user
from fairlead.testing.agents import agent_command

KEY = "sk-ant-the-key-of-the-server"


class Shared(Struct):
    """A server, its home, and the token of a user."""

    server: Process
    token: str
    before: dict[str, bytes]

    def host(self, path: str) -> HostSocket:
        return HostSocket(self.server.url.replace("http", "ws", 1) + path, {"Authorization": f"Bearer {self.token}"})

    def files(self) -> dict[str, bytes]:
        """The files of the home, without the sessions and caches of users."""
        return files_of(self.server.home)


def files_of(home: Path) -> dict[str, bytes]:
    skipped = ("serve", "cache", "sessions", "tmp", "logs")
    found = (path for path in home.rglob("*") if path.is_file() and path.relative_to(home).parts[0] not in skipped)
    return {str(path.relative_to(home)): path.read_bytes() for path in found if path.suffix != ".lock"}


@asynccontextmanager
async def serving(tmp_path: Path, *, users: bool = True) -> AsyncGenerator[Shared]:
    command = agent_command(tmp_path, "http://127.0.0.1:9")
    home = Path(command.env["FAIRLEAD_HOME"])
    (home / "auth.json").write_text(json.dumps({"anthropic": {"type": "api_key", "key": KEY}}))
    (home / "settings.json").write_text(json.dumps({"steeringMode": "all"}))
    (home / "trust.json").write_text("{}")
    with DeviceServer([{"access_token": "stolen", "expires_in": 3600}]) as device:
        models = json.loads((home / "models.json").read_text())
        models["providers"]["test"]["oauth"] = device.oauth
        (home / "models.json").write_text(json.dumps(models))
        flags: tuple[str, ...] = ()
        token = ""
        if users:
            token, flags = add_user(tmp_path / "users.json", "ann"), ("--users", str(tmp_path / "users.json"))
        async with served(command, *flags) as server:
            yield Shared(server, token or (home / "serve.token").read_text().strip(), files_of(home))


PERSISTENT: list[dict[str, Any]] = [
    {"type": "set_steering_mode", "mode": "one-at-a-time"},
    {"type": "set_follow_up_mode", "mode": "all"},
    {"type": "set_interrupt_mode", "mode": "wait"},
    {"type": "set_thinking_level", "level": "high"},
    {"type": "set_model", "provider": "test", "modelId": "test-model"},
    {"type": "set_auto_compaction", "enabled": False},
    {"type": "set_auto_retry", "enabled": False},
]


async def test_no_user_logs_the_server_out_over_acp(tmp_path: Path) -> None:
    async with serving(tmp_path) as shared:
        with shared.host("/acp") as host:
            host.call("initialize", protocolVersion=1, clientCapabilities={})
            answer = host.call("logout")
            assert "error" in answer and "all users of the server" in str(answer["error"])
            host.call("authenticate", methodId="fairlead-login")
        assert shared.files() == shared.before


async def test_no_user_starts_a_program_of_their_own_over_acp(tmp_path: Path) -> None:
    """It would run outside the sandbox and without approvals, whatever the owner of the server has set."""
    trap = Trap(tmp_path / "trap")
    servers: list[dict[str, Any]] = [
        {"name": "x", "command": str(trap.path), "args": [], "env": []},
        {"type": "http", "name": "x", "url": "http://127.0.0.1:9/", "headers": []},
    ]
    async with serving(tmp_path) as shared:
        with shared.host("/acp") as host:
            host.call("initialize", protocolVersion=1, clientCapabilities={})
            assert "result" in host.call("session/new", cwd=str(tmp_path), mcpServers=[])
            for server in servers:
                answer = host.call("session/new", cwd=str(tmp_path), mcpServers=[server])
                assert "only its owner adds MCP servers" in str(answer.get("error")), answer
    assert not trap.is_sprung


async def test_no_user_replaces_a_key_or_a_setting_over_opal(tmp_path: Path) -> None:
    async with serving(tmp_path) as shared:
        with shared.host("/ws?dialect=opal") as host:
            for method, params in (
                ("auth/set_key", {"provider": "anthropic", "api_key": "sk-ant-the-key-of-a-stranger"}),
                ("auth/set_key", {"provider": "new", "api_key": "sk-ant-the-key-of-a-stranger"}),
                ("auth/login", {}),
                ("auth/poll", {"device_code": "device-1", "interval": 0}),
                ("settings/save", {"settings": {"default_model": "test/test-model"}}),
            ):
                answer = host.call(method, **params)
                assert "error" in answer and "all users of the server" in json.dumps(answer["error"]), (method, answer)
        assert shared.files() == shared.before


@pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])
async def test_no_user_saves_settings_or_logs_in_over_the_pi_family(tmp_path: Path, dialect: str) -> None:
    async with serving(tmp_path) as shared:
        with shared.host(f"/ws?dialect={dialect}") as host:
            for fields in PERSISTENT:
                answer = host.command(**fields, persist=True)
                assert answer["success"] is False and "all users of the server" in str(answer), answer
                assert "all users of the server" not in str(host.command(**fields))
            if dialect == "omp":
                answer = host.command("login", providerId="test")
                assert answer["success"] is False and "all users of the server" in str(answer)
        assert shared.files() == shared.before


async def test_the_owner_changes_what_the_server_keeps(tmp_path: Path) -> None:
    async with serving(tmp_path, users=False) as shared:
        with shared.host("/ws?dialect=pi") as host:
            assert host.command("set_steering_mode", mode="one-at-a-time", persist=True)["success"]
        with shared.host("/ws?dialect=opal") as host:
            assert "error" not in host.call("auth/set_key", provider="anthropic", api_key="sk-ant-another-key-of-the-owner")
        assert b"one-at-a-time" in shared.files()["settings.json"] and b"another-key" in shared.files()["auth.json"]
        with shared.host("/acp") as host:
            host.call("initialize", protocolVersion=1, clientCapabilities={})
            assert "error" not in host.call("logout")
        assert KEY.encode() not in shared.files()["auth.json"]


def test_packages_of_a_shared_home_stay(tmp_path: Path) -> None:
    manager = PackageManager(Home(tmp_path, is_shared=True), {})
    for change in (lambda: manager.install("npm:x", tmp_path), lambda: manager.remove("npm:x"), manager.update):
        with pytest.raises(ConfigError, match="all users of the server"):
            change()
