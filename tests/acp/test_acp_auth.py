"""Logging in and out from an ACP client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.acp import ABLE, Client, acp
from tests.support.device_server import PENDING, TOKEN, DeviceServer

AUTH_REQUIRED = -32000


def without_keys(client: Client, server: DeviceServer | None = None) -> None:
    """Leave no key, and one provider to log in at if there is a server."""
    path = client.host.around.home / "models.json"
    fake = json.loads(path.read_text())["providers"]["fake"]
    fake.pop("apiKey", None)
    providers: dict[str, Any] = (
        {} if server is None else {"acme": {**fake, "baseUrl": "https://acme.invalid", "oauth": server.oauth}}
    )
    path.write_text(json.dumps({"providers": providers}))


def test_a_terminal_login_is_offered_to_clients_that_have_one(tmp_path: Path) -> None:
    with acp(tmp_path, able=None) as client:
        methods = client.initialize(ABLE)["authMethods"]
        assert [method.get("type") for method in methods] == [None, "terminal"]
        assert methods[1]["args"] == ["--login"]


def test_authenticate_without_anything_to_log_in_with_says_what_to_do(tmp_path: Path) -> None:
    with acp(tmp_path, model=None) as client:
        without_keys(client)
        error = client.refusal("authenticate", methodId="fairlead-login")
        assert error["code"] == AUTH_REQUIRED and "fairlead login" in error["message"]
        assert client.refusal("authenticate", methodId="nope")["code"] == -32602


def test_authenticate_finds_a_key_that_was_stored_meanwhile(tmp_path: Path) -> None:
    with acp(tmp_path, model=None) as client:
        without_keys(client)
        assert client.refusal("session/new", cwd=client.cwd, mcpServers=[])["code"] == AUTH_REQUIRED
        auth = client.host.around.home / "auth.json"
        auth.write_text(json.dumps({"anthropic": {"type": "api_key", "key": "sk-x"}}))
        auth.chmod(0o600)
        assert client.call("authenticate", methodId="fairlead-login") == {}
        assert client.new()
        assert client.call("logout") == {}
        assert json.loads(auth.read_text()) == {}
        assert client.refusal("session/new", cwd=client.cwd, mcpServers=[])["code"] == AUTH_REQUIRED


def test_authenticate_opens_the_page_of_a_provider_and_waits_for_the_code(tmp_path: Path) -> None:
    with DeviceServer([PENDING, PENDING, TOKEN]) as server, acp(tmp_path, model=None) as client:
        without_keys(client, server)
        request = client.send("authenticate", methodId="fairlead-login")
        page = client.asked("elicitation/create")
        assert page["params"]["mode"] == "url" and page["params"]["url"] == "http://localhost/enter"
        assert "ABCD-1234" in page["params"]["message"] and page["params"]["requestId"] == request
        client.answer(page, action="accept")
        assert client.answer_to(request)["result"] == {}
        assert client.asked("elicitation/complete")["params"] == {"elicitationId": page["params"]["elicitationId"]}
        assert client.new()


def test_a_client_that_cannot_open_pages_gets_the_code_in_an_error(tmp_path: Path) -> None:
    with DeviceServer([TOKEN]) as server, acp(tmp_path, model=None, able={}) as client:
        without_keys(client, server)
        error = client.refusal("authenticate", methodId="fairlead-login")
        assert error["code"] == AUTH_REQUIRED and "ABCD-1234" in error["message"]
        while "error" in client.answer_to(client.send("authenticate", methodId="fairlead-login")):
            pass
        assert client.new()


def with_a_provider_without_a_key(client: Client, server: DeviceServer | None) -> None:
    """Add the provider acme, at which the user can log in if there is a server. Another one has a key."""
    path = client.host.around.home / "models.json"
    models = json.loads(path.read_text())
    acme = {name: value for name, value in models["providers"]["fake"].items() if name != "apiKey"}
    models["providers"]["acme"] = {
        **acme,
        "baseUrl": "https://acme.invalid",
        **({} if server is None else {"oauth": server.oauth}),
    }
    path.write_text(json.dumps(models))


def test_authenticate_logs_in_at_the_provider_that_the_session_uses(tmp_path: Path) -> None:
    hi = [{"type": "text", "text": "hi"}]
    with DeviceServer([TOKEN]) as server, acp(tmp_path, model="acme/fake-1") as client:
        with_a_provider_without_a_key(client, server)
        session = client.new()
        assert client.refusal("session/prompt", sessionId=session, prompt=hi)["code"] == AUTH_REQUIRED
        request = client.send("authenticate", methodId="fairlead-login")
        client.answer(client.asked("elicitation/create"), action="accept")
        assert client.answer_to(request)["result"] == {}
        assert client.call("authenticate", methodId="fairlead-login") == {}


def test_authenticate_does_not_pretend_that_a_session_can_be_used(tmp_path: Path) -> None:
    with acp(tmp_path, model="acme/fake-1") as client:
        with_a_provider_without_a_key(client, None)
        client.new()
        error = client.refusal("authenticate", methodId="fairlead-login")
        assert error["code"] == AUTH_REQUIRED and "acme has no key" in error["message"]
