"""Logging in at a provider with a code, against a real server on loopback."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from tests.support.device_server import PENDING, SLOW_DOWN, TOKEN, DeviceServer

from fairlead.config.home import Home
from fairlead.core.messages import UserMessage
from fairlead.core.model import Model, ModelRequest, StreamEnd
from fairlead.core.runtime import CancelToken
from fairlead.errors import LoginFailed, NoCredentials
from fairlead.models import logins
from fairlead.models.credentials import LoginToken
from fairlead.models.http.http_client import Http
from fairlead.models.logins import DeviceCode, Logins, begin, renew_if_due, wait_for_token
from fairlead.models.model_streams import ModelStreams
from fairlead.models.models_json import OAuthEntry
from fairlead.models.registry import Registry
from fairlead.testing import ProviderServer

T = TypeVar("T")


class Waits(list[float]):
    """The pauses that were asked for, none of which is made."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def with_http(work: Callable[[Http], Awaitable[T]]) -> T:
    async def main() -> T:
        http = Http(env={})
        try:
            return await work(http)
        finally:
            await http.close()

    return asyncio.run(main())


def oauth(server: DeviceServer) -> OAuthEntry:
    return msgspec.convert(server.oauth, OAuthEntry)


def waited(server: DeviceServer, interval: float = 5, lifetime: float = 900) -> tuple[LoginToken | str, Waits]:
    """What comes of waiting for a token: itself, or why there is none; and the pauses."""
    waits = Waits()

    async def work(http: Http) -> LoginToken | str:
        try:
            return await wait_for_token(http, oauth(server), "device-1", interval, lifetime, sleep=waits)
        except LoginFailed as error:
            return str(error)

    return with_http(work), waits


# The code


def test_a_code_is_asked_for_with_the_client_and_its_scope() -> None:
    with DeviceServer() as server:
        code = with_http(lambda http: begin(http, oauth(server)))
        assert code == DeviceCode("ABCD-1234", "http://localhost/enter", "device-1", 0, 900)
        assert server.forms == [("/device", {"client_id": "client-1", "scope": "read write"})]


@pytest.mark.parametrize(
    ("said", "interval", "lifetime"),
    [
        ({"interval": "7", "expires_in": "60"}, 7, 60),
        ({"interval": 7.0}, 7, 900),
        ({"interval": None, "expires_in": None}, 5, 900),
    ],
    ids=["texts", "floats", "nulls"],
)
def test_numbers_are_understood_as_providers_write_them(said: dict[str, Any], interval: int, lifetime: float) -> None:
    with DeviceServer(code={"device_code": "d", "user_code": "u", "verification_uri": "v", **said}) as server:
        code = with_http(lambda http: begin(http, oauth(server)))
        assert (code.interval, code.expires_in) == (interval, lifetime)


@pytest.mark.parametrize("said", [{"interval": -5}, {"interval": 10**30}, {"expires_in": -1}], ids=str)
def test_login_codes_with_impossible_numbers_are_rejected(said: dict[str, Any]) -> None:
    code = {"device_code": "d", "user_code": "u", "verification_uri": "v", **said}
    with DeviceServer(code=code) as server, pytest.raises(LoginFailed, match="no usable code"):
        with_http(lambda http: begin(http, oauth(server)))


def test_a_provider_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "PATIENCE", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        login = {"deviceUrl": url, "tokenUrl": url, "clientId": "client-1"}
        registry = a_registry(tmp_path, {"acme": {"oauth": login}})
        with pytest.raises(LoginFailed, match=r"did not answer within 0\.1 seconds"):
            with_http(lambda http: Logins(registry, http).begin("acme"))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"error": "invalid_client", "error_description": "Who are you?"}, "Who are you? (invalid_client)"),
        ({"user_code": "A"}, "gave no usable code"),
        ((200, "<html>"), "answered 200 with something that is not an answer to a login"),
        ((404, "nothing here"), "answered 404"),
        ((503, "later"), "answered 503"),
        ((302, ""), "redirects"),
    ],
)
def test_a_login_that_cannot_begin_says_why(tmp_path: Path, answer: Any, reason: str) -> None:
    with DeviceServer(code=answer) as server:
        registry = a_registry(tmp_path, {"acme": {"oauth": server.oauth}})
        with pytest.raises(LoginFailed) as failure:
            with_http(lambda http: Logins(registry, http).begin("acme"))
        assert reason in str(failure.value)


# The token


@pytest.mark.parametrize("lifetime", ["1e999", "1e300", '"soon"', "null", "-1"])
def test_tokens_with_malformed_lifetimes_are_kept(lifetime: str) -> None:
    with DeviceServer([(200, f'{{"access_token":"t","expires_in":{lifetime}}}')]) as server:
        assert waited(server)[0] == LoginToken("t")


def test_a_lifetime_may_be_a_text() -> None:
    with DeviceServer([(200, '{"access_token":"t","expires_in":"3600"}')]) as server:
        token, _ = waited(server)
        assert isinstance(token, LoginToken)
        assert token.expires is not None
        assert 3500 < token.expires / 1000 - time.time() <= 3600


def test_a_code_expires_however_seldom_the_client_wants_to_look() -> None:
    with DeviceServer([PENDING]) as server:
        outcome, waits = waited(server, interval=1e30)
        assert "not entered in time" in str(outcome)
        assert waits == [3600]


@pytest.mark.parametrize("status", [400, 200], ids=["RFC 8628", "GitHub"])
def test_the_provider_is_asked_until_the_code_was_entered(status: int) -> None:
    with DeviceServer([PENDING, PENDING, SLOW_DOWN, PENDING, TOKEN], error_status=status) as server:
        token, waits = waited(server)
        assert isinstance(token, LoginToken)
        assert (token.access, token.refresh) == ("token-1", "refresh-1")
        assert token.expires is not None
        assert abs(token.expires - (time.time() + 3600) * 1000) < 60_000
        assert waits == [5, 5, 5, 10, 10], "slower from when it was told so"
        assert server.forms[0] == (
            "/token",
            {
                "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
                "device_code": "device-1",
                "client_id": "client-1",
            },
        )


def test_a_failure_that_may_pass_is_waited_out() -> None:
    with DeviceServer([(503, "busy"), TOKEN]) as server:
        token, waits = waited(server)
        assert isinstance(token, LoginToken)
        assert waits == [5, 10]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"error": "access_denied"}, "The login was declined."),
        ({"error": "expired_token"}, "The code has expired. Begin the login again."),
        ({"error": "odd"}, "The provider refused the login: odd."),
        ({"token_type": "bearer"}, "gave no token"),
        ((200, "[]"), "not an answer to a login"),
    ],
)
def test_a_login_that_comes_to_nothing_says_why(answer: Any, reason: str) -> None:
    with DeviceServer([PENDING, answer]) as server:
        outcome, _ = waited(server)
        assert isinstance(outcome, str)
        assert reason in outcome


def test_a_code_that_is_never_entered_is_given_up() -> None:
    with DeviceServer([PENDING]) as server:
        outcome, waits = waited(server, interval=5, lifetime=20)
        assert outcome == "The code was not entered in time. Begin the login again."
        assert waits == [5] * 5
        _, waits = waited(server, interval=0, lifetime=1)
        assert min(waits) > 0, "a provider that allows no pause is asked at a bearable pace"


# Keeping and using it


def a_registry(root: Path, providers: dict[str, Any], *, isolated: bool = False) -> Registry:
    home = root / "home"
    home.mkdir(exist_ok=True)
    (home / "models.json").write_text(json.dumps({"providers": providers}))
    return Registry.load(Home(home, None, isolated), {})


def provider(url: str, server: DeviceServer, api: str = "openai-completions") -> dict[str, Any]:
    return {"acme": {"baseUrl": url, "api": api, "oauth": server.oauth, "models": [{"id": "m"}]}}


async def ask(access: ModelStreams, model: Model) -> StreamEnd:
    stream = await access.stream(model)
    request = ModelRequest("", [UserMessage("hi", 0)], [])
    events = [event async for batch in stream(request, CancelToken()) for event in batch]
    assert isinstance(events[-1], StreamEnd)
    return events[-1]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.mark.parametrize(
    ("api", "header", "value"),
    [("openai-completions", "authorization", "Bearer token-1"), ("anthropic-messages", "x-api-key", "token-1")],
)
async def test_a_login_is_kept_and_the_adapter_uses_its_token(tmp_path: Path, api: str, header: str, value: str) -> None:
    with DeviceServer() as server:
        http = Http(env={})
        async with ProviderServer([{"text": "hi"}]) as model_server:
            registry = a_registry(tmp_path, provider(model_server.url, server, api))
            logins = Logins(registry, http)
            assert logins.provider() == "acme"
            code = await logins.begin("acme")
            assert await logins.finish(code.device_code, code.interval, sleep=Waits()) == "acme"
            stored = json.loads(registry.home.auth_path.read_text())["acme"]
            assert (stored["type"], stored["access"], stored["refresh"]) == ("oauth", "token-1", "refresh-1")
            assert registry.home.auth_path.stat().st_mode & 0o077 == 0
            model = registry.match("acme/m")[0]
            assert (await ask(ModelStreams(registry, http, now_ms), model)).message.text() == "hi"
            assert model_server.requests[0].headers[header] == value
        await http.close()


def write_login(registry: Registry, **token: Any) -> None:
    registry.home.auth_path.write_text(json.dumps({"acme": {"type": "oauth", **token}}))
    registry.home.auth_path.chmod(0o600)


async def test_an_expired_token_is_renewed_once_for_all_who_need_it(tmp_path: Path) -> None:
    renewed = {"access_token": "token-2", "expires_in": 3600}
    with DeviceServer([renewed]) as server:
        http = Http(env={})
        async with ProviderServer([{"text": "hi"}]) as model_server:
            registry = a_registry(tmp_path, provider(model_server.url, server))
            write_login(registry, access="token-1", refresh="refresh-1", expires=now_ms() - 1000)
            model = registry.match("acme/m")[0]
            await asyncio.gather(*(ask(ModelStreams(registry, http, now_ms), model) for _ in range(5)))
            assert [request.headers["authorization"] for request in model_server.requests] == ["Bearer token-2"] * 5
            stored = json.loads(registry.home.auth_path.read_text())["acme"]
            assert (stored["access"], stored["refresh"]) == ("token-2", "refresh-1")
        await http.close()
        assert server.forms == [
            ("/token", {"grant_type": "refresh_token", "refresh_token": "refresh-1", "client_id": "client-1"})
        ]


def test_a_token_that_another_process_has_renewed_is_not_renewed_again(tmp_path: Path) -> None:
    with DeviceServer() as server:
        registry = a_registry(tmp_path, provider("http://127.0.0.1:9", server))
        write_login(registry, access="token-1", refresh="refresh-1", expires=now_ms() - 1000)
        assert registry.login("acme") is not None, "it has been read"
        write_login(registry, access="token-2", refresh="refresh-2", expires=now_ms() + 3_600_000)
        with_http(lambda http: renew_if_due(registry, http, "acme"))
        renewed = registry.login("acme")
        assert renewed is not None and renewed.access == "token-2"
        assert server.forms == []


async def test_a_token_that_expires_during_a_session_is_renewed_for_the_next_request(tmp_path: Path) -> None:
    with DeviceServer([{**TOKEN, "access_token": "token-2"}]) as server:
        http = Http(env={})
        async with ProviderServer([{"text": "hi"}]) as model_server:
            registry = a_registry(tmp_path, provider(model_server.url, server))
            write_login(registry, access="token-1", refresh="refresh-1", expires=now_ms() + 3_600_000)
            later = 0
            access = ModelStreams(registry, http, lambda: now_ms() + later)
            model = registry.match("acme/m")[0]
            await ask(access, model)
            later = 3_600_000
            assert access.find_open_stream(model) is None
            write_login(registry, access="token-1", refresh="refresh-1", expires=now_ms())
            registry.keys_changed()
            later = 0
            await ask(access, model)
            sent = [request.headers["authorization"] for request in model_server.requests]
            assert sent == ["Bearer token-1", "Bearer token-2"]
        await http.close()


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ({"refresh": "refresh-1"}, "has expired and could not be renewed: The provider refused the login: invalid_grant."),
        ({}, "The login for acme has expired. Log in again."),
    ],
    ids=["refused", "no refresh token"],
)
def test_a_login_that_has_expired_for_good_says_so(tmp_path: Path, token: dict[str, str], reason: str) -> None:
    with DeviceServer([{"error": "invalid_grant"}]) as server:
        registry = a_registry(tmp_path, provider("http://127.0.0.1:9", server))
        write_login(registry, access="token-1", expires=now_ms() - 1, **token)
        model = registry.match("acme/m")[0]
        with pytest.raises(NoCredentials) as failure:
            with_http(lambda http: ModelStreams(registry, http, now_ms).stream(model))
        assert reason in str(failure.value)


def test_logins_of_other_programs_need_a_declared_login(tmp_path: Path) -> None:
    registry = a_registry(
        tmp_path, {"acme": {"baseUrl": "http://example.com", "api": "openai-completions", "models": [{"id": "m"}]}}
    )
    write_login(registry, access="token-1")
    assert registry.login("acme") is None
    assert registry.available() == []


def test_without_login_providers_no_login_is_offered(tmp_path: Path) -> None:
    registry = a_registry(tmp_path, {"acme": {"baseUrl": "http://example.com"}})
    with pytest.raises(LoginFailed, match=r"No provider supports login\. Use a key instead: put one of ANTHROPIC_API_KEY"):
        with_http(lambda http: _provider(registry, http))


def test_the_provider_that_is_preferred_goes_first_if_it_has_a_login(tmp_path: Path) -> None:
    with DeviceServer() as server:
        registry = a_registry(tmp_path, {"one": {"oauth": server.oauth}, "two": {"oauth": server.oauth}, "three": {}})
        found = [with_http(lambda http, name=name: _provider(registry, http, name)) for name in (None, "two", "three")]
        assert found == ["one", "two", "one"]


async def _provider(registry: Registry, http: Http, preferred: str | None = None) -> str:
    return Logins(registry, http).provider(preferred)


def test_nothing_is_kept_in_an_isolated_run(tmp_path: Path) -> None:
    with DeviceServer() as server:
        registry = a_registry(tmp_path, {"acme": {"oauth": server.oauth}}, isolated=True)
        assert registry.logins() == {}


def test_a_token_is_not_shown(tmp_path: Path) -> None:
    assert "secret" not in repr(LoginToken("secret", "secret", 5))
