"""The key of a provider: where it comes from, where it is sent, and who never sees it."""

from __future__ import annotations

import os
from base64 import b64encode
from pathlib import Path

import msgspec
import pytest
from tests.models.own_models import FAKE, load, names, write

from fairlead.config.home import Home
from fairlead.errors import NoCredentials

# keys


def test_models_are_available_with_a_key_and_no_command_is_run_to_find_out(home: Home, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    far = {**FAKE, "baseUrl": "https://models.example"}
    write(home.root, {"with": {**far, "apiKey": f"!touch {ran}; echo k"}, "without": {**far, "apiKey": None}})
    registry = load(home, {"PATH": os.environ["PATH"]})
    assert names(registry.available()) == ["with/fake-1", "with/fake-2"]
    assert not ran.exists()
    assert registry.auth(registry.match("with/fake-1")[0]).api_key == "k"
    assert ran.exists()


def test_a_provider_without_a_key_says_how_to_give_one(home: Home) -> None:
    registry = load(home)
    with pytest.raises(NoCredentials) as caught:
        registry.auth(registry.match("openai/gpt-5")[0])
    text = str(caught.value)
    assert text.startswith("No API key found for openai. ")
    for way in ("OPENAI_API_KEY", "`fairlead login openai`", "--api-key", str(home.models_path)):
        assert way in text


def test_the_missing_key_error_mentions_a_login(home: Home) -> None:
    home.root.mkdir()
    home.auth_path.write_text('{"anthropic": {"type": "oauth", "access": "a"}}')
    home.auth_path.chmod(0o600)
    registry = load(home)
    with pytest.raises(NoCredentials, match="has a login for it that is not an API key"):
        registry.auth(registry.match("anthropic/claude-opus-5")[0])


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080/v1", "http://localhost:11434/v1", "http://[::1]:1/v1"])
def test_a_server_on_this_machine_needs_no_key(home: Home, url: str) -> None:
    write(home.root, {"local": {"baseUrl": url, "api": "openai-completions", "models": [{"id": "m"}]}})
    registry = load(home)
    assert names(registry.available()) == ["local/m"]
    assert registry.auth(registry.match("m")[0]).api_key is None


@pytest.mark.parametrize("url", ["https://models.example/v1", "http://127.example.com/v1", "http://[broken"])
def test_any_other_server_needs_one(home: Home, url: str) -> None:
    write(home.root, {"far": {"baseUrl": url, "api": "openai-completions", "models": [{"id": "m"}]}})
    registry = load(home)
    assert registry.available() == []
    with pytest.raises(NoCredentials, match="No API key found for far"):
        registry.auth(registry.match("far/m")[0])


def test_a_header_may_carry_the_key(home: Home) -> None:
    provider = {**FAKE, "baseUrl": "https://models.example", "apiKey": None, "headers": {"X-Api-Key": "TEAM_KEY"}}
    write(home.root, {"far": provider})
    registry = load(home, {"TEAM_KEY": "secret"})
    auth = registry.auth(registry.match("far/fake-1")[0])
    assert (auth.api_key, auth.headers) == (None, {"X-Api-Key": "secret"})


def test_auth_header_sends_the_key_as_bearer_too(home: Home) -> None:
    write(home.root, {"fake": {**FAKE, "authHeader": True}})
    registry = load(home)
    assert registry.auth(registry.match("fake-1")[0]).headers == {"Authorization": "Bearer sk-fake"}


def test_a_key_from_the_flag_goes_to_the_chosen_provider_alone(home: Home) -> None:
    registry = load(home, api_key="secret")
    model, _ = registry.match("openai/gpt-5")
    assert {each.provider for each in registry.available()} == {"openai"}
    assert registry.auth(model).api_key == "secret"
    other, _ = registry.match("anthropic/claude-opus-5")
    with pytest.raises(NoCredentials):
        registry.auth(other)


# a password in a URL


def basic(pair: str) -> str:
    return f"Basic {b64encode(pair.encode()).decode()}"


@pytest.mark.parametrize(
    ("url", "shown", "pair"),
    [
        ("https://me:secret@models.example/v1", "https://models.example/v1", "me:secret"),
        ("https://me%40home:p%3Aw@models.example:8443?x=@1", "https://models.example:8443?x=@1", "me@home:p:w"),
        ("https://token@models.example", "https://models.example", "token:"),
        ("https://a@b:secret@models.example/x@y", "https://models.example/x@y", "a@b:secret"),
        ("https://me:secret@[broken/v1", "https://[broken/v1", "me:secret"),
    ],
)
def test_a_password_in_a_base_url_becomes_a_header_that_hosts_do_not_see(home: Home, url: str, shown: str, pair: str) -> None:
    write(home.root, {"fake": {**FAKE, "apiKey": None, "baseUrl": url}})
    registry = load(home)
    model = registry.available()[0]
    assert model.base_url == shown
    assert "secret" not in str(msgspec.to_builtins(registry.all()))
    assert registry.auth(model).headers == {"Authorization": basic(pair)}


def test_a_password_goes_only_to_the_server_whose_url_has_it(home: Home) -> None:
    models = [
        {"id": "provider's"},
        {"id": "own", "baseUrl": "https://other.example"},
        {"id": "twice"},
        {"id": "twice", "baseUrl": "https://other.example"},
        {"id": "overridden"},
    ]
    write(
        home.root,
        {
            "fake": {
                **FAKE,
                "baseUrl": "https://me:secret@models.example",
                "models": models,
                "modelOverrides": {"overridden": {"baseUrl": "https://you:too@other.example"}},
            }
        },
    )
    registry = load(home)
    found = {model.id: registry.auth(model).headers for model in registry.available()}
    assert found == {
        "provider's": {"Authorization": basic("me:secret")},
        "own": {},
        "twice": {},
        "overridden": {"Authorization": basic("you:too")},
    }


def test_a_password_in_a_url_of_the_environment_is_not_seen_either(home: Home) -> None:
    registry = load(home, {"ANTHROPIC_BASE_URL": "http://me:secret@127.0.0.1:1"})
    model = registry.find("anthropic", "claude-opus-5")
    assert model is not None and model.base_url == "http://127.0.0.1:1"
    assert registry.auth(model).headers == {"Authorization": basic("me:secret")}


def test_a_header_that_is_written_wins_over_the_password_in_the_url(home: Home) -> None:
    write(home.root, {"fake": {**FAKE, "baseUrl": "http://me:secret@127.0.0.1:1", "headers": {"authorization": "Mine"}}})
    registry = load(home)
    assert registry.auth(registry.match("fake-1")[0]).headers == {"authorization": "Mine"}
