from __future__ import annotations

import json
import os
from base64 import b64encode
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairlead.config.home import Home
from fairlead.config.settings import Settings
from fairlead.core.model import Price, ThinkingLevel
from fairlead.errors import ModelNotFound, NoCredentials
from fairlead.models import catalog
from fairlead.models.registry import Registry

COST = {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75}
FAKE: dict[str, Any] = {
    "baseUrl": "http://127.0.0.1:9",
    "api": "anthropic-messages",
    "apiKey": "sk-fake",
    "models": [
        {
            "id": "fake-1",
            "name": "Fake One",
            "reasoning": True,
            "input": ["text", "image"],
            "contextWindow": 200000,
            "maxTokens": 8192,
            "cost": COST,
        },
        {"id": "fake-2"},
    ],
}


def write(folder: Path, providers: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "models.json"
    path.write_text(providers if isinstance(providers, str) else json.dumps({"providers": providers}))
    return path


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def load(home: Home, env: dict[str, str] | None = None, **options: Any) -> Registry:
    return Registry.load(home, env or {}, **options)


def names(models: list[Any]) -> list[str]:
    return [f"{model.provider}/{model.id}" for model in models]


# models.json


def test_a_model_of_models_json_is_as_written_with_pis_defaults(home: Home) -> None:
    write(home.root, {"fake": FAKE})
    registry = load(home)
    assert msgspec.to_builtins(registry.find("fake", "fake-1")) == {
        "id": "fake-1",
        "name": "Fake One",
        "api": "anthropic-messages",
        "provider": "fake",
        "baseUrl": "http://127.0.0.1:9",
        "reasoning": True,
        "input": ["text", "image"],
        "cost": COST,
        "contextWindow": 200000,
        "maxTokens": 8192,
    }
    plain = registry.find("fake", "fake-2")
    assert plain is not None
    assert (plain.name, plain.reasoning, plain.input, plain.cost) == ("fake-2", False, ["text"], Price())
    assert (plain.context_window, plain.max_tokens) == (128_000, 16_384)
    assert registry.warnings == []


def test_own_models_come_first_in_the_order_of_the_file(home: Home) -> None:
    write(home.root, {"zeta": FAKE, "alpha": {**FAKE, "models": [{"id": "one"}]}})
    assert names(load(home).all())[:4] == ["zeta/fake-1", "zeta/fake-2", "alpha/one", "anthropic/claude-opus-5-5"]


def test_a_known_provider_without_models_is_only_changed(home: Home) -> None:
    write(home.root, {"anthropic": {"baseUrl": "http://127.0.0.1:1/", "apiKey": "k", "headers": {"x-team": "a"}}})
    registry = load(home, {"ANTHROPIC_BASE_URL": "http://127.0.0.1:2"})
    model, _ = registry.match("anthropic/claude-opus-5")
    assert model.base_url == "http://127.0.0.1:1"
    assert model.cost.input > 0
    auth = registry.auth(model)
    assert (auth.api_key, auth.headers) == ("k", {"x-team": "a"})


def test_a_known_provider_with_models_gets_them_besides_its_own(home: Home) -> None:
    write(home.root, {"openai": {"models": [{"id": "gpt-5", "contextWindow": 7}, {"id": "gpt-next"}]}})
    registry = load(home)
    changed, added = registry.find("openai", "gpt-5"), registry.find("openai", "gpt-next")
    assert changed is not None and added is not None
    assert changed.context_window == 7
    assert (added.api, added.base_url) == ("openai-responses", "https://api.openai.com/v1")
    assert registry.find("openai", "gpt-5-mini") is not None
    assert names(registry.all()).count("openai/gpt-5") == 1


def test_a_provider_can_be_told_to_speak_another_api(home: Home) -> None:
    write(home.root, {"openai": {"api": "openai-completions"}})
    model = load(home).find("openai", "gpt-5")
    assert model is not None and model.api == "openai-completions"


def test_overrides_change_only_what_they_name(home: Home) -> None:
    override = {
        "name": "Mine",
        "cost": {"output": 1},
        "maxTokens": 5,
        "headers": {"x-model": "m"},
        "thinkingLevelMap": {"xhigh": "max"},
        "compat": {"b": 2},
    }
    write(home.root, {"anthropic": {"apiKey": "k", "compat": {"a": 1, "b": 1}, "modelOverrides": {"claude-opus-5": override}}})
    before = load(Home(home.root / "none")).find("anthropic", "claude-opus-5")
    registry = load(home)
    after = registry.find("anthropic", "claude-opus-5")
    assert before is not None and after is not None
    assert (after.name, after.max_tokens, after.context_window) == ("Mine", 5, before.context_window)
    assert (after.cost.input, after.cost.output) == (before.cost.input, 1)
    assert after.thinking_level_map == {"xhigh": "max"}
    assert after.compat == {**(before.compat or {}), "a": 1, "b": 2}
    assert registry.auth(after).headers == {"x-model": "m"}
    other = registry.find("anthropic", "claude-opus-5-5")
    assert other is not None and registry.auth(other).headers == {}


def test_comments_and_trailing_commas_are_tolerated(home: Home) -> None:
    write(home.root, '{"providers": {\n // local\n "fake": ' + json.dumps(FAKE) + ",\n}}")
    registry = load(home)
    assert registry.find("fake", "fake-1") is not None
    assert registry.warnings == []


def test_what_is_wrong_is_named_and_the_rest_counts(home: Home) -> None:
    path = write(
        home.root,
        {
            "broken": {"baseUrl": 7},
            "text": "x",
            "fake": {**FAKE, "models": [*FAKE["models"], {"id": "bad", "contextWindow": "big"}, {"name": "no id"}]},
            "list": {**FAKE, "models": {}},
            "nowhere": {"models": [{"id": "lost"}]},
        },
    )
    registry = load(home)
    assert names(registry.all())[:3] == ["fake/fake-1", "fake/fake-2", "anthropic/claude-opus-5-5"]
    assert registry.warnings == [
        f"{path}: providers.broken.baseUrl: expected `str | null`, got `int`. Left out.",
        f'{path}: providers.text: expected an object, found "x". Left out.',
        f"{path}: providers.fake.models[2].contextWindow: expected `int | null`, got `str`. Left out.",
        f"{path}: providers.fake.models[3]: object missing required field `id`. Left out.",
        f"{path}: providers.list.models: expected a list, found an object. Left out.",
        f"{path}: providers.nowhere.models[0]: needs baseUrl and api, here or for the whole provider. Left out.",
    ]


def test_a_models_json_that_is_no_regular_file_is_a_warning(home: Home) -> None:
    home.root.mkdir()
    os.mkfifo(home.models_path)
    registry = load(home)
    assert registry.find("anthropic", "claude-opus-5") is not None
    assert registry.warnings == [f"{home.models_path}: cannot be read: expected a regular file, found a named pipe."]


@pytest.mark.parametrize("tokens", [0, -1])
def test_a_model_for_no_tokens_is_named_and_gets_the_defaults(home: Home, tokens: int) -> None:
    sizes = {"contextWindow": tokens, "maxTokens": tokens}
    path = write(
        home.root,
        {"fake": {**FAKE, "models": [{"id": "m", **sizes}]}, "anthropic": {"modelOverrides": {"claude-opus-5": sizes}}},
    )
    registry = load(home)
    made, changed = registry.find("fake", "m"), registry.find("anthropic", "claude-opus-5")
    assert made is not None and changed is not None
    assert (made.context_window, made.max_tokens) == (128_000, 16_384)
    assert changed.context_window >= 200_000 and changed.max_tokens >= 32_000
    assert registry.warnings == [
        f"{path}: providers.{where}.{key}: expected a whole number of at least 1, found {tokens}. The default is used."
        for where in ("fake.models[0]", "anthropic.modelOverrides.claude-opus-5")
        for key in ("contextWindow", "maxTokens")
    ]


@pytest.mark.parametrize("style", ["chat-template", "baseten", "string-thinking", "ant-ling"])
def test_a_way_to_think_that_only_pi_knows_is_a_warning(home: Home, style: str) -> None:
    compat = {"compat": {"thinkingFormat": style}}
    path = write(
        home.root,
        {"one": {**FAKE, **compat}, "two": {**FAKE, "models": [{"id": "m", **compat}], "modelOverrides": {"m": compat}}},
    )
    registry = load(home)
    assert registry.find("two", "m") is not None
    assert registry.warnings == [
        f'{path}: providers.{where}compat.thinkingFormat: "{style}" is not supported. The model is used, but not asked to think.'
        for where in ("one.", "two.models[0].", "two.modelOverrides.m.")
    ]


@pytest.mark.parametrize("content", ["{", "[]", '{"providers": []}', '{"providers": 3}'])
def test_an_unusable_file_is_a_warning_and_the_catalog_is_there(home: Home, content: str) -> None:
    path = write(home.root, content)
    registry = load(home)
    assert registry.find("anthropic", "claude-opus-5") is not None
    assert len(registry.warnings) == 1 and registry.warnings[0].startswith(f"{path}: ")


@pytest.mark.parametrize("content", ["", "{}", '{"providers": null}', '{"providers": {}}'])
def test_a_file_that_says_nothing_is_fine(home: Home, content: str) -> None:
    write(home.root, content)
    registry = load(home)
    assert registry.find("anthropic", "claude-opus-5") is not None
    assert registry.warnings == []


def test_pis_models_json_is_asked_for_what_ours_lacks(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", pi_folder=tmp_path / "pi")
    write(home.root, {"fake": FAKE})
    write(tmp_path / "pi", {"fake": {**FAKE, "models": [{"id": "pis"}]}, "theirs": {**FAKE, "models": [{"id": "t"}]}})
    registry = load(home)
    assert names(registry.all())[:3] == ["fake/fake-1", "fake/fake-2", "theirs/t"]


def test_an_isolated_run_knows_the_catalog_alone(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", isolated=True)
    write(home.root, {"fake": FAKE})
    registry = load(home, {"OPENAI_API_KEY": "k"})
    assert registry.find("fake", "fake-1") is None
    assert {model.provider for model in registry.available()} == {"openai"}


# choosing


def test_naming_an_own_model_does_not_read_the_catalog(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home.root, {"fake": FAKE})
    monkeypatch.setattr(catalog, "read_catalog", lambda: pytest.fail("the catalog was read"))
    registry = load(home)
    for pattern in ("fake/fake-1", "fake-1", "FAKE/Fake-1:low"):
        model, _ = registry.match(pattern)
        assert registry.auth(model).api_key == "sk-fake"
    assert registry.find("fake", "fake-2") is not None
    assert registry.default(Settings()) == registry.find("fake", "fake-1")
    assert load(Home(home.root / "empty")).default(Settings()) is None


def test_a_level_after_the_name_is_given_back(home: Home) -> None:
    write(home.root, {"fake": FAKE})
    model, level = load(home).match("fake-1:high")
    assert (model.id, level) == ("fake-1", "high")


def test_an_unknown_model_is_named(home: Home) -> None:
    with pytest.raises(ModelNotFound) as caught:
        load(home).match("nope/none")
    assert str(caught.value) == 'Model "nope/none" not found. Use --list-models to see available models.'


def test_a_name_without_provider_means_one_that_can_be_used(home: Home) -> None:
    assert names([load(home, {"OPENROUTER_API_KEY": "k"}).match("claude-opus-5.5")[0]]) == [
        "openrouter/anthropic/claude-opus-5.5"
    ]
    assert names([load(home, {"ANTHROPIC_API_KEY": "k"}).match("anthropic/claude-opus-5.5")[0]]) == ["anthropic/claude-opus-5-5"]
    assert names([load(home, {"OPENROUTER_API_KEY": "k"}).match("sonnet")[0]]) == ["openrouter/anthropic/claude-sonnet-5.5"]


def test_a_full_name_means_that_provider_with_or_without_a_key(home: Home) -> None:
    registry = load(home, {"OPENROUTER_API_KEY": "k"})
    assert registry.match("openai/gpt-5.5")[0].provider == "openai"
    assert registry.match("openrouter/openai/gpt-5.5")[0].provider == "openrouter"


def test_an_id_of_several_usable_providers_is_ambiguous(home: Home) -> None:
    write(home.root, {"one": FAKE, "two": FAKE})
    with pytest.raises(ModelNotFound, match="several providers: name one of one/fake-1, two/fake-1"):
        load(home).match("fake-1")


def test_of_several_providers_the_one_with_a_key_is_meant(home: Home) -> None:
    far = {**FAKE, "baseUrl": "https://models.example"}
    write(home.root, {"one": {**far, "apiKey": None}, "two": far})
    assert load(home).match("fake-1")[0].provider == "two"


def test_only_available_models_match_when_asked(home: Home) -> None:
    registry = load(home, {"OPENAI_API_KEY": "k"})
    assert registry.match("gpt-5", available_only=True)[0].provider == "openai"
    with pytest.raises(ModelNotFound):
        registry.match("anthropic/claude-opus-5", available_only=True)


def test_a_list_gives_each_model_once_and_warns_of_misses(home: Home) -> None:
    write(home.root, {"fake": FAKE})
    registry = load(home)
    chosen = registry.match_many(["fake/*:low,fake-1:high", "zzz"])
    assert [(model.id, level) for model, level in chosen] == [("fake-1", "low"), ("fake-2", "low")]
    assert len(registry.warnings) == 1 and '"zzz" not found' in registry.warnings[0]
    with pytest.raises(ModelNotFound, match="zzz"):
        registry.match_many(["zzz"])
    assert registry.match_many([]) == []


def test_a_glob_in_a_list_means_models_that_can_be_used(home: Home) -> None:
    chosen = load(home, {"ANTHROPIC_API_KEY": "k"}).match_many(["*opus*"])
    assert {model.provider for model, _ in chosen} == {"anthropic"}


def test_the_default_is_the_settings_model_if_it_can_be_used(home: Home) -> None:
    env = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}
    chosen = load(home, env).default(Settings(default_provider="openai", default_model="gpt-5-mini"))
    assert chosen is not None and chosen.id == "gpt-5-mini"
    only_provider = load(home, env).default(Settings(default_provider="openai"))
    assert only_provider is not None and only_provider.id == catalog.PROVIDERS["openai"].default_model
    without_key = load(home, {"OPENAI_API_KEY": "k"}).default(
        Settings(default_provider="anthropic", default_model="claude-opus-5")
    )
    assert without_key is not None and without_key.provider == "openai"
    assert load(home).default(Settings(default_model="nope")) is None


def test_the_default_without_settings_is_the_first_usable_provider(home: Home) -> None:
    chosen = load(home, {"GROQ_API_KEY": "k", "GEMINI_API_KEY": "k"}).default(Settings())
    assert chosen is not None
    assert names([chosen]) == [f"google/{catalog.PROVIDERS['google'].default_model}"]
    write(home.root, {"fake": FAKE})
    own = load(home, {"ANTHROPIC_API_KEY": "k"}).default(Settings())
    assert own is not None and own.id == "fake-1"


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
    assert "OPENAI_API_KEY" in text and "--api-key" in text and str(home.models_path) in text


def test_a_login_that_is_no_key_is_mentioned(home: Home) -> None:
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


# thinking


def test_thinking_levels_are_those_the_model_has(home: Home) -> None:
    write(home.root, {"fake": FAKE})
    registry = load(home)
    thinks, plain = registry.find("fake", "fake-1"), registry.find("fake", "fake-2")
    assert thinks is not None and plain is not None
    assert thinks.levels() == ["off", "minimal", "low", "medium", "high"]
    assert plain.levels() == ["off"]
    mapped = msgspec.structs.replace(thinks, thinking_level_map={"off": None, "minimal": None, "medium": None, "xhigh": "max"})
    assert mapped.levels() == ["low", "high", "xhigh"]
    everything: list[tuple[ThinkingLevel, ThinkingLevel]] = [
        ("off", "low"),
        ("minimal", "low"),
        ("medium", "high"),
        ("xhigh", "xhigh"),
    ]
    assert [mapped.clamp(level) for level, _ in everything] == [expected for _, expected in everything]
    assert thinks.clamp("xhigh") == "high"
    assert plain.clamp("high") == "off"


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
