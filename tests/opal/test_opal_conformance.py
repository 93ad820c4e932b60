"""What Opal's own tests of its server check, asked of ours over a pipe."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.opal import Client, batch, opal, opal_again, request, said, types
from tests.support.stage import says

from fairlead.protocol.opal.opal_methods import METHODS

TOOLS = ["read_file", "write_file", "edit_file", "grep", "shell", "sub_agent", "tasks", "use_skill", "ask_user", "debug_state"]
OF_SESSION = {
    "agent/prompt": {"text": "hi"},
    "agent/abort": {},
    "agent/state": {},
    "session/branch": {"entry_id": "x"},
    "session/compact": {},
    "session/history": {},
    "model/set": {"model_id": "fake-1"},
    "thinking/set": {"level": "low"},
    "tasks/list": {},
    "opal/config/get": {},
    "opal/config/set": {},
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A server for requests that leave nothing behind."""
    with opal(tmp_path_factory.mktemp("opal"), model=None) as client:
        yield client


# Requests


def test_every_method_answers_an_empty_request_with_a_result_or_an_error(tmp_path: Path) -> None:
    with opal(tmp_path) as client:
        for method in METHODS:
            response = client.ask(method)
            assert ("result" in response) != ("error" in response), response


@pytest.mark.parametrize(
    ("method", "missing"),
    [
        ("agent/prompt", "params: session_id, text"),
        ("agent/abort", "param: session_id"),
        ("agent/state", "param: session_id"),
        ("session/branch", "params: session_id, entry_id"),
        ("session/compact", "param: session_id"),
        ("session/history", "param: session_id"),
        ("session/delete", "param: session_id"),
        ("model/set", "params: session_id, model_id"),
        ("thinking/set", "params: session_id, level"),
        ("tasks/list", "param: session_id"),
        ("settings/save", "param: settings"),
        ("auth/poll", "params: device_code, interval"),
        ("auth/set_key", "params: provider, api_key"),
        ("opal/config/get", "param: session_id"),
        ("opal/config/set", "param: session_id"),
    ],
)
def test_missing_params_are_named_in_their_order(shared: Client, method: str, missing: str) -> None:
    assert shared.refusal(method) == {"code": -32602, "message": f"Missing required {missing}"}


def test_all_required_params_are_named_also_if_only_one_is_missing_or_they_are_positional(shared: Client) -> None:
    named = {"code": -32602, "message": "Missing required params: session_id, text"}
    assert shared.refusal("agent/prompt", session_id="s") == named
    assert shared.raw('{"jsonrpc":"2.0","id":"p","method":"agent/prompt","params":["s","hi"]}')["error"] == named


@pytest.mark.parametrize("method", OF_SESSION)
def test_a_session_that_was_not_started_is_not_found(shared: Client, method: str) -> None:
    error = shared.refusal(method, session_id="nobody", **OF_SESSION[method])
    assert (error["code"], error["message"]) == (-32602, "Session not found")
    assert "nobody" in error["data"]


def test_a_session_to_delete_that_is_not_there_is_reported(shared: Client) -> None:
    assert shared.refusal("session/delete", session_id="nobody") == {
        "code": -32602,
        "message": "Session not found",
        "data": "nobody",
    }


@pytest.mark.parametrize(
    ("params", "message", "data"),
    [
        ({"model": {"provider": "fake"}}, "model must have a non-empty id string", None),
        ({"model": {"id": "", "provider": "fake"}}, "model must have a non-empty id string", None),
        ({"model": "fake-1"}, "model must have a non-empty id string", None),
        ({"features": []}, "features must be an object", None),
        ({"features": {"b": True, "a": True}}, "Unknown feature keys", "unknown features: a, b"),
        ({"features": {"debug": "yes"}}, "Invalid feature value", "debug must be a boolean"),
        ({"tools": ["shell", "nope"]}, "Unknown tools in tools list", "unknown tools: nope"),
        ({"session_id": 5}, "session_id: expected a string, got a number", None),
        ({"session_id": "x" * 1025}, "session_id: expected 1 to 1024 characters, got 1025", None),
        ({"session_id": ""}, "session_id: expected 1 to 1024 characters, got 0", None),
        ({"working_dir": "no/such/folder"}, "working_dir: expected the path of a folder, got 'no/such/folder'", None),
        ({"model": {"id": "fake-1", "thinking_level": "huge"}}, 'model.thinking_level: expected one of "off"', None),
        ({"model": {"id": "no-such-model"}}, 'Unknown model: "no-such-model"', None),
    ],
)
def test_a_session_is_not_started_with_what_cannot_be_used(
    shared: Client, params: dict[str, Any], message: str, data: str | None
) -> None:
    error = shared.refusal("session/start", **params)
    assert error["code"] == -32602
    assert error["message"].startswith(message)
    if data is not None:
        assert error["data"] == data
    assert shared.call("session/list") == {"sessions": []}


def test_params_of_a_start_have_to_be_an_object(shared: Client) -> None:
    error = shared.raw('{"jsonrpc":"2.0","id":"q","method":"session/start","params":[1]}')["error"]
    assert error == {"code": -32602, "message": "params must be an object"}


def test_params_of_a_wrong_type_are_reported(shared: Client) -> None:
    session = shared.start()
    assert shared.refusal("agent/prompt", session_id=session, text=5) == {
        "code": -32602,
        "message": "text: expected a string, got a number",
    }


def test_null_for_an_optional_param_means_absent(shared: Client) -> None:
    started = shared.call("session/start", model=None, features=None, tools=None, working_dir=None, session=None)
    assert re.fullmatch(r"[0-9a-f]{32}", started["session_id"])
    assert shared.call("opal/config/get", session_id=started["session_id"])["features"] == {
        "sub_agents": True,
        "skills": True,
        "debug": False,
    }


def test_ping_and_version(shared: Client) -> None:
    assert shared.call("opal/ping") == {}
    versions = shared.call("opal/version")
    assert versions["protocol_version"] == "0.1.0"
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", versions["server_version"])


def test_models_have_levels_if_they_think(shared: Client) -> None:
    models = {model["id"]: model for model in shared.call("models/list")["models"]}
    assert models["fake-1"] == {
        "id": "fake-1",
        "name": "fake-1",
        "provider": "fake",
        "supports_thinking": True,
        "thinking_levels": ["low", "medium", "high"],
    }
    assert all(bool(model["thinking_levels"]) == model["supports_thinking"] for model in models.values())


# Models and levels


def test_a_model_is_set_by_its_id_or_with_its_provider(shared: Client) -> None:
    session = shared.start()
    level = "medium"
    for name in ("fake-2", "fake/fake-2", "FAKE/fake-2", "fake:fake-2"):
        model = shared.call("model/set", session_id=session, model_id=name)["model"]
        assert model == {"provider": "fake", "id": "fake-2", "thinking_level": "off"}
    model = shared.call("model/set", session_id=session, model_id="fake-1")["model"]
    assert model == {"provider": "fake", "id": "fake-1", "thinking_level": level}
    model = shared.call("model/set", session_id=session, model_id="fake-1", thinking_level="low")["model"]
    assert model == {"provider": "fake", "id": "fake-1", "thinking_level": "low"}
    assert shared.call("agent/state", session_id=session)["model"] == model


@pytest.mark.parametrize("name", ["nope", "fake", "fake/nope", "nobody/fake-1", ""])
def test_a_model_that_is_not_known_is_refused_and_the_old_one_stays(shared: Client, name: str) -> None:
    session = shared.start()
    before = shared.call("agent/state", session_id=session)["model"]
    error = shared.refusal("model/set", session_id=session, model_id=name)
    assert (error["code"], error["message"]) == (-32602, f'Unknown model: "{name}"')
    assert shared.call("agent/state", session_id=session)["model"] == before


def test_levels_of_thinking_are_those_of_the_model(shared: Client) -> None:
    session = shared.start()
    for level in ("off", "low", "medium", "high"):
        assert shared.call("thinking/set", session_id=session, level=level) == {"thinking_level": level}
    assert shared.call("thinking/set", session_id=session, level="max") == {"thinking_level": "high"}
    error = shared.refusal("thinking/set", session_id=session, level="huge")
    assert error["code"] == -32602
    assert "max" in error["message"]


# Features and tools


def test_features_and_tools_are_honoured_from_the_start(shared: Client) -> None:
    session = shared.start(features={"debug": True, "sub_agents": False}, tools=["debug_state", "sub_agent", "shell"])
    config = shared.call("opal/config/get", session_id=session)
    assert config["features"] == {"sub_agents": False, "skills": True, "debug": True}
    assert config["tools"]["all"] == TOOLS
    assert config["tools"]["enabled"] == ["shell", "debug_state"]
    assert config["tools"]["disabled"] == [name for name in TOOLS if name not in ("shell", "sub_agent", "debug_state")]
    assert config["distribution"] is None
    assert shared.call("agent/state", session_id=session)["tools"] == ["shell", "debug_state"]


def test_features_and_tools_can_be_changed_and_what_is_not_named_stays(shared: Client) -> None:
    session = shared.start()
    config = shared.call("opal/config/set", session_id=session, features={"debug": True})
    assert config["features"] == {"sub_agents": True, "skills": True, "debug": True}
    assert "debug_state" in config["tools"]["enabled"]
    assert "use_skill" not in config["tools"]["enabled"], "there are no skills here"
    config = shared.call("opal/config/set", session_id=session, tools=["grep"])
    assert config["tools"]["enabled"] == ["grep"]
    assert config["features"]["debug"] is True
    assert shared.call("opal/config/set", session_id=session, distribution=None) == config


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"tools": ["grep", "nope"]}, "Unknown tools in tools list"),
        ({"tools": "grep"}, "tools: expected a list, got a string"),
        ({"features": {"nope": True}}, "Unknown feature keys"),
        ({"features": "debug"}, "features must be an object"),
        ({"features": {"debug": 1}}, "Invalid feature value"),
        ({"distribution": {"name": "node"}}, "distribution: an Erlang node cannot be started here"),
        ({"features": {"debug": True}, "tools": ["nope"]}, "Unknown tools in tools list"),
    ],
)
def test_a_bad_configuration_is_refused_and_changes_nothing(shared: Client, params: dict[str, Any], message: str) -> None:
    session = shared.start()
    before = shared.call("opal/config/get", session_id=session)
    error = shared.refusal("opal/config/set", session_id=session, **params)
    assert error["code"] == -32602
    assert error["message"].startswith(message)
    assert shared.call("opal/config/get", session_id=session) == before


def test_tools_of_the_command_line_hold_for_all_sessions(tmp_path: Path) -> None:
    with opal(tmp_path, flags=["--tools", "grep,shell,nope", "--exclude-tools", "write_file"]) as client:
        tools = client.call("opal/config/get", session_id=client.start())["tools"]
        assert tools["enabled"] == ["grep", "shell"]
        assert "write_file" not in tools["all"]
        assert client.host.stderr() == ""


# Settings


def test_settings_are_merged_kept_and_out_of_the_way_of_the_users_own(tmp_path: Path) -> None:
    with opal(tmp_path, settings={"theme": "mine"}) as client:
        own = (client.host.around.home / "settings.json").read_bytes()
        assert client.call("settings/get") == {"settings": {}}
        assert client.call("settings/save", settings={"a.b": 1, "c": {"d": 1}}) == {"settings": {"a.b": 1, "c": {"d": 1}}}
        assert client.call("settings/save", settings={"c": {"e": None}}) == {"settings": {"a.b": 1, "c": {"e": None}}}
        assert client.refusal("settings/save", settings=[1]) == {
            "code": -32602,
            "message": "Missing required param: settings",
        }
        client.host.leave()
        assert (client.host.around.home / "settings.json").read_bytes() == own
        with opal_again(client) as later:
            assert later.call("settings/get") == {"settings": {"a.b": 1, "c": {"e": None}}}


def test_the_default_model_of_the_settings_is_used_unless_another_is_named(tmp_path: Path) -> None:
    with opal(tmp_path, model=None, flags=["--verbose"]) as client:
        for name in ("fake-2", "fake/fake-2", "fake:fake-2"):
            client.call("settings/save", settings={"default_model": name})
            assert client.call("agent/state", session_id=client.start())["model"]["id"] == "fake-2"
        named = client.start(model={"id": "fake-oai", "provider": "copilot"})
        assert client.call("agent/state", session_id=named)["model"]["provider"] == "fakeoai"
        client.call("settings/save", settings={"default_model": "gone"})
        assert client.call("agent/state", session_id=client.start())["model"]["id"] == "fake-1"
        assert "gone" in client.host.stderr()


def test_the_model_of_the_command_line_goes_before_that_of_the_settings(tmp_path: Path) -> None:
    with opal(tmp_path, flags=["--provider", "fake"], model="fake-small") as client:
        client.call("settings/save", settings={"default_model": "fake-2"})
        assert client.call("agent/state", session_id=client.start())["model"]["id"] == "fake-small"


# Runs


def test_a_run_of_text(tmp_path: Path) -> None:
    with opal(tmp_path, [says("Hello there, you.")]) as client:
        session = client.start()
        events = client.prompt(session, "hi")
        assert types(events) == [
            "message_applied",
            "agent_start",
            "message_start",
            "message_delta",
            "usage_update",
            "agent_end",
        ]
        assert said(events) == "Hello there, you."
        assert all("id" not in frame for frame in client.host.frames if "method" in frame)
        state = client.call("agent/state", session_id=session)
        assert (state["status"], state["message_count"]) == ("idle", 2)
        client.prompt(session, "again")
        assert client.call("agent/state", session_id=session)["message_count"] == 4


def test_three_requests_at_once_are_all_answered(tmp_path: Path) -> None:
    with opal(tmp_path) as client:
        client.host.write(batch(request("a", "opal/ping"), request("b", "models/list"), request("c", "session/list")))
        assert {id for id in "abc" if "result" in client.response(id)} == {"a", "b", "c"}


# The client of Opal's terminal


def test_the_clients_first_requests(tmp_path: Path) -> None:
    """A session with an id of its own, the models, the state, then pings: as the real client begins."""
    ident = "7b0e2a5c-6f7c-4a55-9d3e-0d4e3f1b2c33"
    with opal(tmp_path, [says("Hi!")], model=None) as client:
        started = client.call("session/start", session_id=ident, working_dir=str(client.host.around.cwd))
        assert started["session_id"] == ident
        assert started["session_dir"].endswith(ident)
        assert started["auth"] == {"status": "ready", "provider": "fake"}
        assert client.call("models/list")["models"]
        state = client.call("agent/state", session_id=ident)
        assert (state["status"], state["message_count"]) == ("idle", 0)
        assert client.call("opal/ping") == {}
        client.prompt(ident, "hello")
        assert [listed["id"] for listed in client.call("session/list")["sessions"]] == [ident]
        assert client.host.leave() == 0


def test_without_credentials_a_login_is_asked_for(tmp_path: Path) -> None:
    with opal(tmp_path, model=None, flags=["--isolated"]) as client:
        started = client.call("session/start", session_id="s")
        assert (started["auth"]["status"], started["auth"]["provider"]) == ("setup_required", "")
        state = client.call("agent/state", session_id="s")
        assert state["model"] == {"provider": "", "id": "", "thinking_level": "medium"}
        error = client.refusal("agent/prompt", session_id="s", text="hi")
        assert error["code"] == -32603
        assert error["message"].startswith("No model selected.")
        assert client.call("models/list")["models"] == []
        assert client.refusal("settings/save", settings={})["message"] == "Settings are not saved in an isolated run."
        assert client.call("session/list") == {"sessions": []}
