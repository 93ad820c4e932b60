from __future__ import annotations

import pytest

from fairlead.core.model import Model, Price
from fairlead.models import model_patterns


def model(name: str, title: str = "") -> Model:
    provider, _, model_id = name.partition("/")
    return Model(model_id, title or model_id, "api", provider, "https://x", False, ["text"], Price(), 1000, 100)


MODELS = [
    model("anthropic/claude-opus-4-5-20251101"),
    model("anthropic/claude-opus-4-5"),
    model("anthropic/claude-opus-5", "Claude Opus 5"),
    model("anthropic/claude-opus-5-5"),
    model("anthropic/claude-opus-5-5-fast"),
    model("anthropic/claude-sonnet-4-6"),
    model("openrouter/anthropic/claude-opus-5.5"),
    model("openrouter/anthropic/claude-sonnet-9"),
    model("local/qwen:7b"),
    model("local/qwen:high"),
    model("local/nova-1"),
    model("local/nova-2-20260101"),
    model("local/big-zed-3"),
    model("local/zed-3"),
]


def exactly(pattern: str) -> list[tuple[str, str | None]]:
    for naming in (model_patterns.full_name, model_patterns.bare_id):
        found = model_patterns.exact(pattern, MODELS, naming)
        if found:
            return [(model_patterns.full_name(each), level) for each, level in found]
    return []


@pytest.mark.parametrize(
    ("pattern", "name", "level"),
    [
        ("anthropic/claude-opus-5", "anthropic/claude-opus-5", None),
        ("Anthropic/CLAUDE-opus-5:HIGH", "anthropic/claude-opus-5", "high"),
        ("claude-sonnet-4-6:off", "anthropic/claude-sonnet-4-6", "off"),
        ("openrouter/anthropic/claude-opus-5.5", "openrouter/anthropic/claude-opus-5.5", None),
        ("anthropic/claude-sonnet-9", "openrouter/anthropic/claude-sonnet-9", None),
        ("local/qwen:7b", "local/qwen:7b", None),
        ("qwen:7b:low", "local/qwen:7b", "low"),
        ("qwen:high", "local/qwen:high", None),
        ("qwen:high:high", "local/qwen:high", "high"),
    ],
)
def test_an_exact_name_is_that_model(pattern: str, name: str, level: str | None) -> None:
    assert exactly(pattern) == [(name, level)]


@pytest.mark.parametrize("pattern", ["claude", "nope/none", "", ":high", "anthropic/", "claude-opus-5:much"])
def test_other_patterns_are_not_exact_names(pattern: str) -> None:
    assert exactly(pattern) == []


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("opus", "claude-opus-5-5"),
        ("opus-4-5", "claude-opus-4-5"),
        ("opus-4.5", "claude-opus-4-5"),
        ("anthropic/opus", "claude-opus-5-5"),
        ("Claude Opus 5", "claude-opus-5"),
        ("20251101", "claude-opus-4-5-20251101"),
        ("nova", "nova-1"),
        ("zed", "zed-3"),
        ("openrouter/opus", "anthropic/claude-opus-5.5"),
        ("*sonnet*", "claude-sonnet-4-6"),
        ("ANTHROPIC/*Sonnet*", "claude-sonnet-4-6"),
        ("openrouter/*sonnet*", "anthropic/claude-sonnet-9"),
    ],
)
def test_part_of_a_name_means_an_alias_before_a_date_then_the_newest_then_the_plainest(pattern: str, name: str) -> None:
    assert model_patterns.best(model_patterns.matching(pattern, MODELS)).id == name


def test_a_provider_that_lacks_the_model_is_not_replaced_by_another() -> None:
    assert model_patterns.matching("anthropic/claude-sonnet-9", MODELS) == []


def test_a_glob_matches_all_in_order() -> None:
    found = model_patterns.matching("anthropic/*opus-5*", MODELS)
    assert [each.id for each in found] == ["claude-opus-5", "claude-opus-5-5", "claude-opus-5-5-fast"]


def test_a_glob_after_a_provider_is_about_ids_alone() -> None:
    assert model_patterns.matching("local/l*", MODELS) == []


def test_lists_are_split_at_commas() -> None:
    assert model_patterns.split_list(["a, b:high,,", " c "]) == ["a", "b:high", "c"]


def test_provider_and_model_flags_make_one_name() -> None:
    assert model_patterns.qualify("anthropic", "opus") == "anthropic/opus"
    assert model_patterns.qualify("Anthropic", "anthropic/opus") == "anthropic/opus"
    assert model_patterns.qualify(None, "opus") == "opus"


def test_a_miss_names_the_nearest_models() -> None:
    text = str(model_patterns.make_not_found_error("anthropic/claude-opsu-5:high", MODELS))
    assert text.startswith(
        'Model "anthropic/claude-opsu-5:high" not found. Use --list-models to see available models. Did you mean '
    )
    assert "anthropic/claude-opus-5" in text
    assert str(model_patterns.make_not_found_error("nope/none", MODELS)) == (
        'Model "nope/none" not found. Use --list-models to see available models.'
    )


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("opsu", "anthropic/claude-opus-5-5"),
        ("Opsu:high", "anthropic/claude-opus-5-5"),
        ("sonet-4.6", "anthropic/claude-sonnet-4-6"),
        ("nvoa", "local/nova-1"),
    ],
)
def test_a_mistyped_part_of_a_name_suggests_the_model_that_it_means(typed: str, meant: str) -> None:
    assert str(model_patterns.make_not_found_error(typed, MODELS)).endswith(f" Did you mean {meant}?")


@pytest.mark.parametrize("typed", ["", "zz", "nothere", "4-5-5-5", "opus-9"])
def test_a_name_that_is_near_to_no_model_gets_no_suggestion(typed: str) -> None:
    assert "Did you mean" not in str(model_patterns.make_not_found_error(typed, MODELS))
