"""Which model a name, a pattern, a list or a setting means, and the levels of thinking it has."""

from __future__ import annotations

import msgspec
import pytest
from tests.models.own_models import FAKE, load, names, write

from fairlead.config.home import Home
from fairlead.config.settings import Settings
from fairlead.core.model import ThinkingLevel
from fairlead.errors import ModelNotFound
from fairlead.models import catalog

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


def test_an_unknown_model_is_reported(home: Home) -> None:
    write(home.root, {"fake": FAKE})
    with pytest.raises(ModelNotFound) as caught:
        load(home).match("nope/none")
    assert str(caught.value) == 'Model "nope/none" not found. Use --list-models to see available models.'


def test_the_error_for_an_unknown_model_recommends_no_empty_list(home: Home) -> None:
    with pytest.raises(ModelNotFound) as caught:
        load(home).match("nonsense")
    assert str(caught.value) == (
        'Model "nonsense" not found. No provider has a key yet: set one, such as ANTHROPIC_API_KEY. '
        "`fairlead models --all` lists every model."
    )


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


def test_an_ambiguous_model_name_selects_the_provider_with_a_key(home: Home) -> None:
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
