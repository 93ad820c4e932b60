"""Models that only their provider knows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead.config.home import Home
from fairlead.config.settings import Settings
from fairlead.errors import ModelNotFound
from fairlead.models.registry import Registry

OWN = {
    "lab": {
        "baseUrl": "http://127.0.0.1:1",
        "api": "openai-completions",
        "apiKey": "k",
        "models": [{"id": "known", "contextWindow": 1234, "maxTokens": 99, "input": ["text", "image"]}],
    },
    "lab/inner": {
        "baseUrl": "http://127.0.0.1:2",
        "api": "openai-completions",
        "apiKey": "k",
        "models": [{"id": "known", "reasoning": True}],
    },
}


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    (tmp_path / "models.json").write_text(json.dumps({"providers": OWN}))
    return Registry.load(Home.find({"FAIRLEAD_HOME": str(tmp_path)}), {})


@pytest.mark.parametrize(
    ("pattern", "provider", "model_id", "level"),
    [
        ("lab/new", "lab", "new", None),
        ("LAB/org/New:free", "lab", "org/New:free", None),
        ("lab/new:high", "lab", "new", "high"),
        ("lab/inner/new", "lab/inner", "new", None),
    ],
)
def test_a_name_with_a_known_provider_is_a_model(
    registry: Registry, pattern: str, provider: str, model_id: str, level: str | None
) -> None:
    model, found = registry.match(pattern)
    assert (model.provider, model.id, model.name, found) == (provider, model_id, model_id, level)
    assert registry.warnings == [f'Model "{model_id}" not found for provider "{provider}". Using custom model id.']
    base = registry.default_of(provider)
    assert base is not None and (model.base_url, model.context_window) == (base.base_url, base.context_window)
    assert model.reasoning == (base.reasoning or level is not None)


@pytest.mark.parametrize("pattern", ["nowhere/new", "brand-new", "lab/", "lab/new*"])
def test_anything_else_is_not_found(registry: Registry, pattern: str) -> None:
    with pytest.raises(ModelNotFound):
        registry.match(pattern)


def test_hosts_find_it_by_its_parts(registry: Registry) -> None:
    model = registry.find_or_describe("lab", "new:high")
    assert model is not None and (model.id, model.max_tokens) == ("new:high", 99)
    assert registry.find("lab", "new") is None and registry.find_or_describe("nowhere", "new") is None
    assert registry.find_or_describe("lab", "") is None


def test_it_can_be_the_default_model(registry: Registry) -> None:
    model = registry.default(Settings(default_provider="lab", default_model="new"))
    assert model is not None and model.id == "new"


def test_an_unknown_level_in_a_list_leaves_a_warning(registry: Registry) -> None:
    ((model, level),) = registry.match_many(["lab/known:bogus"])
    assert (model.id, level) == ("known", None)
    assert registry.warnings == ['Unknown thinking level "bogus" in "lab/known:bogus". The default level is used.']
