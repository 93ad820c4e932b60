"""Credentials of an Opal client: every place that may have some, keys that it stores, logins with a code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.device_server import PENDING, TOKEN, DeviceServer
from tests.support.opal import Client, opal, said, types
from tests.support.stage import says

from fairlead.testing import ProviderServer


def configure(client: Client, providers: Mapping[str, Any]) -> None:
    """Write another models.json. The server has not read it yet."""
    (client.host.around.home / "models.json").write_text(json.dumps({"providers": providers}))


def status(client: Client) -> tuple[bool, str, str]:
    credentials = client.call("auth/status")
    return credentials["authenticated"], credentials["auth"]["status"], credentials["auth"]["provider"]


# Where keys come from


@pytest.mark.parametrize(
    ("place", "flags", "env"),
    [
        ("the environment", [], {"OPENAI_API_KEY": "k"}),
        ("auth.json", [], {}),
        ("models.json", [], {}),
        ("the command line", ["--provider", "openai", "--api-key", "k"], {}),
    ],
)
def test_every_place_that_may_have_a_key_is_looked_at(tmp_path: Path, place: str, flags: list[str], env: dict[str, str]) -> None:
    with opal(tmp_path, model=None, flags=flags, env=env) as client:
        home = client.host.around.home
        configure(client, {"openai": {"apiKey": "k"}} if place == "models.json" else {})
        if place == "auth.json":
            (home / "auth.json").write_text(json.dumps({"openai": {"type": "api_key", "key": "k"}}))
        assert status(client) == (True, "ready", "openai")
        listed = {each["id"]: each for each in client.call("auth/status")["auth"]["providers"]}
        assert listed["openai"] == {
            "id": "openai",
            "name": "OpenAI",
            "method": "api_key",
            "ready": True,
            "env_var": "OPENAI_API_KEY",
        }
        assert not listed["anthropic"]["ready"]
        assert client.call("session/start")["auth"] == {"status": "ready", "provider": "openai"}


def test_without_any_key_the_provider_is_an_empty_string(tmp_path: Path) -> None:
    with opal(tmp_path, model=None) as client:
        configure(client, {})
        assert status(client) == (False, "setup_required", "")
        started = client.call("session/start")["auth"]
        assert (started["status"], started["provider"]) == ("setup_required", "")
        assert {each["name"] for each in started["providers"]} >= {"Anthropic", "OpenAI", "Google Gemini"}


def test_a_server_on_this_machine_without_a_key_is_ready_and_answers(tmp_path: Path) -> None:
    with ProviderServer([says("hello")]) as near, opal(tmp_path, model=None, env={"ANTHROPIC_BASE_URL": near.url}) as client:
        configure(client, {})
        assert status(client) == (True, "ready", "anthropic")
        assert {model["provider"] for model in client.call("models/list")["models"]} == {"anthropic"}
        assert said(client.prompt(client.start(), "hi")) == "hello"


def test_a_session_whose_model_has_no_key_needs_setting_up(tmp_path: Path) -> None:
    with opal(tmp_path, model=None, env={"OPENAI_API_KEY": "k"}) as client:
        configure(client, {})
        model = {"id": "claude-opus-5-5", "provider": "anthropic"}
        auth = client.call("session/start", session_id="s", model=model)["auth"]
        assert (auth["status"], auth["provider"]) == ("setup_required", "anthropic")
        assert {each["id"] for each in auth["providers"] if each["ready"]} == {"openai"}
        assert client.prompt("s", "hi")[-1]["type"] == "error"


@pytest.mark.parametrize("place", ["--model", "--provider", "settings/save"])
def test_the_model_that_new_sessions_get_decides_whether_the_client_is_ready(tmp_path: Path, place: str) -> None:
    flags = {"--model": ["--model", "anthropic/claude-sonnet-4-5"], "--provider": ["--provider", "anthropic"]}.get(place, [])
    with opal(tmp_path, model=None, flags=flags, env={"OPENAI_API_KEY": "k"}) as client:
        if place == "settings/save":
            client.call("settings/save", settings={"default_model": "anthropic/claude-sonnet-4-5"})
        assert status(client) == (False, "setup_required", "anthropic")
        assert client.call("session/start")["auth"]["status"] == "setup_required"
        client.call("auth/set_key", provider="anthropic", api_key="k")
        assert status(client) == (True, "ready", "anthropic")
        assert client.call("session/start")["auth"] == {"status": "ready", "provider": "anthropic"}


def test_among_models_with_one_id_the_first_usable_is_selected(tmp_path: Path) -> None:
    with opal(tmp_path, model=None) as client:
        there = {"baseUrl": "http://models.test", "api": "openai-completions", "models": [{"id": "twin"}]}
        configure(client, {"keyless": there, "first": {**there, "apiKey": "k"}, "second": {**there, "apiKey": "k"}})
        session = client.start()
        for name, provider in (("twin", "first"), ("second/twin", "second"), ("keyless/twin", "keyless")):
            model = client.call("model/set", session_id=session, model_id=name)["model"]
            assert (model["provider"], model["id"]) == (provider, "twin")


def test_a_key_is_stored_for_its_provider_alone(tmp_path: Path) -> None:
    with opal(tmp_path, model=None) as client:
        own = {"baseUrl": "http://models.test", "api": "openai-completions", "models": [{"id": "m"}]}
        configure(client, {"my.own": own})
        stored = client.host.around.home / "auth.json"
        stored.write_text('{"openai": {"type": "api_key", "key": "old"}}')
        assert client.call("auth/set_key", provider="anthropic", api_key=" sk-1 ") == {"ok": True}
        assert client.call("auth/set_key", provider="my.own", api_key="sk-2") == {"ok": True}
        error = client.refusal("auth/set_key", provider="antropic", api_key="sk-3")
        assert error["code"] == -32602 and "Did you mean anthropic?" in error["message"]
        assert {name: entry["key"] for name, entry in json.loads(stored.read_text()).items()} == {
            "openai": "old",
            "anthropic": "sk-1",
            "my.own": "sk-2",
        }
        assert stored.stat().st_mode & 0o077 == 0
        before = stored.read_bytes()
        error = client.refusal("auth/set_key", provider="anthropic", api_key="  ")
        assert error == {"code": -32602, "message": "provider and api_key must not be empty"}
        assert stored.read_bytes() == before


def test_a_session_that_began_without_a_key_works_once_there_is_one(tmp_path: Path) -> None:
    # The provider is reached through a proxy, since one on loopback would need no key.
    with (
        ProviderServer([says("hello")]) as far,
        opal(tmp_path, model=None, env={"http_proxy": far.url, "ANTHROPIC_BASE_URL": "http://models.test"}) as client,
    ):
        configure(client, {})
        session = client.start()
        assert client.refusal("agent/prompt", session_id=session, text="hi")["message"].startswith("No model selected.")
        assert status(client) == (False, "setup_required", "")
        client.call("auth/set_key", provider="anthropic", api_key="sk-1")
        assert status(client) == (True, "ready", "anthropic")
        assert said(client.prompt(session, "hi")) == "hello"
        client.call("auth/set_key", provider="anthropic", api_key="sk-2")
        client.prompt(session, "again")
        assert [request.headers["x-api-key"] for request in far.requests] == ["sk-1", "sk-2"]


# Logging in


def acme(client: Client, server: DeviceServer) -> dict[str, Any]:
    """A provider with a login, for the models of the scripted one."""
    model = {"id": "m", "reasoning": False, "contextWindow": 1000, "maxTokens": 100}
    url = f"{client.host.provider.url}/v1"
    return {"acme": {"baseUrl": url, "api": "openai-completions", "oauth": server.oauth, "models": [model]}}


def test_a_login_with_a_code_makes_the_providers_models_usable(tmp_path: Path) -> None:
    with DeviceServer([PENDING, PENDING, TOKEN]) as server, opal(tmp_path, [{"text": "hello"}], model=None) as client:
        configure(client, acme(client, server))
        begun = client.call("auth/login")
        assert begun == {
            "user_code": "ABCD-1234",
            "verification_uri": "http://localhost/enter",
            "device_code": "device-1",
            "interval": 0,
        }
        assert client.call("auth/poll", device_code="device-1", interval=begun["interval"]) == {"authenticated": True}
        assert [path for path, _ in server.forms] == ["/device", "/token", "/token", "/token"]
        assert status(client) == (True, "ready", "acme")
        session = client.start()
        assert said(client.prompt(session, "hi")) == "hello"
        assert client.host.provider.requests[0].headers["authorization"] == "Bearer token-1"


def test_other_requests_are_answered_while_a_login_is_waited_for(tmp_path: Path) -> None:
    with DeviceServer([PENDING]) as server, opal(tmp_path, model=None) as client:
        configure(client, acme(client, server))
        client.call("auth/login")
        ident = client.send("auth/poll", device_code="device-1", interval=3600)
        session = client.start()
        client.prompt(session, "hi")
        assert types(client.events(session))[-1] == "agent_end"
        assert not [frame for frame in client.host.frames if frame.get("id") == ident]
        assert client.host.leave() == 0, "it does not keep the process"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [({"error": "access_denied"}, "The login was declined."), ({"error": "expired_token"}, "The code has expired.")],
)
def test_a_login_that_fails_says_why_and_stores_nothing(tmp_path: Path, answer: dict[str, str], reason: str) -> None:
    with DeviceServer([answer]) as server, opal(tmp_path, model=None) as client:
        configure(client, acme(client, server))
        client.call("auth/login")
        error = client.refusal("auth/poll", device_code="device-1", interval=0)
        assert (error["code"], error["message"]) == (-32603, "Auth polling failed")
        assert error["data"].startswith(reason)
        assert not (client.host.around.home / "auth.json").exists()


def test_a_login_that_cannot_begin_says_why(tmp_path: Path) -> None:
    with opal(tmp_path, model=None) as client:
        error = client.refusal("auth/login")
        assert (error["code"], error["message"]) == (-32603, "Login flow failed")
        assert "oauth" in error["data"]
        assert "ANTHROPIC_API_KEY" in error["data"] and "auth/set_key" in error["data"]
        error = client.refusal("auth/poll", device_code="x", interval=0)
        assert (error["code"], error["message"]) == (-32603, "Auth polling failed")
        assert client.refusal("auth/poll", device_code="x", interval=-1)["code"] == -32602
