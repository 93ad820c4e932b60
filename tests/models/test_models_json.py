"""models.json: the models and providers that it adds or changes, and what is wrong with it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest
from tests.models.own_models import COST, FAKE, load, names, write

from fairlead.config.home import Home
from fairlead.core.model import Price


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


def test_a_provider_can_be_configured_for_another_api(home: Home) -> None:
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


def test_invalid_entries_of_models_json_are_named_and_the_rest_is_used(home: Home) -> None:
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


def test_a_models_json_that_is_not_a_regular_file_is_a_warning(home: Home) -> None:
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
