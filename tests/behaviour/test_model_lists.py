"""The models that hosts of pi are shown, in pi's order and with the thinking levels that their release knows."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support.stage import stage
from tests.support.surroundings import FAIRLEAD, surroundings

KEYS = {"ANTHROPIC_API_KEY": "x", "OPENAI_API_KEY": "x"}


def names(answer: Any) -> list[str]:
    return [f"{model['provider']}/{model['id']}" for model in answer["data"]["models"]]


def test_hosts_of_pi_get_the_catalog_by_name_and_then_what_the_user_has_added(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", env=KEYS) as host:
        listed = names(host.request("get_available_models"))
        catalog = [name for name in listed if not name.startswith("fake")]
        assert catalog == sorted(catalog) and {name.split("/")[0] for name in catalog} == {"anthropic", "openai"}
        assert listed[: len(catalog)] == catalog and "fake/fake-1" in listed[len(catalog) :]


def test_cycling_goes_through_the_models_in_that_order(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", model="anthropic/claude-opus-5", env=KEYS) as host:
        listed = names(host.request("get_available_models"))
        chosen = host.request("cycle_model")["data"]["model"]["id"]
        assert chosen == listed[listed.index("anthropic/claude-opus-5") + 1].split("/")[1] == "claude-opus-5-5"


@pytest.mark.parametrize(
    ("model", "levels"),
    [
        ("claude-opus-4-6", ["off", "minimal", "low", "medium", "high", "max"]),
        ("claude-sonnet-5-5", ["low", "medium", "high", "xhigh", "max"]),
        ("claude-haiku-5-5", ["off", "low", "medium", "high", "xhigh", "max"]),
    ],
)
def test_adaptive_models_have_the_levels_that_pi_lists(model: str, levels: list[str], tmp_path: Path) -> None:
    with stage(tmp_path, "pi", model=f"anthropic/{model}", env=KEYS) as host:
        assert host.request("get_available_thinking_levels")["data"]["levels"] == levels
        host.request("set_thinking_level", level="max")
        assert host.request("get_state")["data"]["thinkingLevel"] == "max"


def test_hosts_of_an_old_release_get_no_level_that_it_does_not_know(tmp_path: Path) -> None:
    with stage(tmp_path, "pi@0.73", model="anthropic/claude-opus-5-5", env=KEYS) as host:
        assert "max" not in host.request("get_available_thinking_levels")["data"]["levels"]
        host.request("set_thinking_level", level="max")
        state = host.request("get_state")["data"]
        assert state["thinkingLevel"] == "xhigh" and "max" not in state["model"]["thinkingLevelMap"]
        assert all(
            "max" not in (each.get("thinkingLevelMap") or {}) for each in host.request("get_available_models")["data"]["models"]
        )


def test_a_model_change_that_takes_the_level_away_is_announced(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", model="anthropic/claude-opus-5", env=KEYS) as host:
        host.request("set_thinking_level", level="max")
        since = host.mark()
        host.request("set_model", provider="anthropic", modelId="claude-haiku-4-5")
        host.request("set_model", provider="anthropic", modelId="claude-opus-5")
        changes = [frame["level"] for frame in host.frames[since:] if frame["type"] == "thinking_level_changed"]
        assert changes == ["high"]
        assert host.request("get_state")["data"]["thinkingLevel"] == "high"


@pytest.mark.parametrize(
    ("dialect", "levels"), [("pi", ["high", "high"]), ("pi@0.87", ["high", "high"]), ("pi@0.73", ["low", "low"])]
)
def test_a_chosen_model_has_the_default_level_of_the_user_again(dialect: str, levels: list[str], tmp_path: Path) -> None:
    settings = {"defaultThinkingLevel": "high"}
    with stage(tmp_path, dialect, model="anthropic/claude-opus-5", env=KEYS, settings=settings) as host:
        found: list[str] = []
        for command, given in [("set_model", {"provider": "anthropic", "modelId": "claude-haiku-4-5"}), ("cycle_model", {})]:
            host.request("set_thinking_level", level="low")
            host.request(command, **given)
            found.append(host.request("get_state")["data"]["thinkingLevel"])
        assert found == levels


def test_a_level_that_changes_nothing_is_not_written_down(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", model="anthropic/claude-opus-5", env=KEYS) as host:
        for level in ("low", "low", "high", "high"):
            host.request("set_thinking_level", level=level)
        entries = host.request("get_entries")["data"]["entries"]
        assert [entry["thinkingLevel"] for entry in entries if entry["type"] == "thinking_level_change"] == ["low", "high"]


@pytest.mark.parametrize(
    ("default", "patterns", "chosen"),
    [
        ("claude-haiku-4-5", "claude-opus-5,claude-haiku-4-5:low", "claude-haiku-4-5"),
        ("claude-opus-4-8", "claude-opus-5,claude-haiku-4-5:low", "claude-opus-5"),
        ("claude-opus-4-8", "anthropic/*haiku*", "claude-haiku-4-5"),
        (None, "claude-opus-5,claude-haiku-4-5", "claude-opus-5"),
    ],
)
def test_the_first_of_the_models_to_cycle_begins_unless_the_default_is_among_them(
    default: str | None, patterns: str, chosen: str, tmp_path: Path
) -> None:
    settings = {"defaultProvider": "anthropic", "defaultModel": default} if default else {}
    with stage(tmp_path, "pi", model=None, env=KEYS, settings=settings, flags=["--models", patterns]) as host:
        assert host.request("get_state")["data"]["model"]["id"] == chosen


def run(root: Path, program: str, *flags: str) -> tuple[int, list[str], str]:
    around = surroundings(root, "http://127.0.0.1:1")
    done = subprocess.run(
        [FAIRLEAD, "--as", program, *flags],
        env={**around.env, **KEYS},
        cwd=around.cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_pi_lists_models_without_prices_and_finds_letters_that_are_apart(tmp_path: Path) -> None:
    code, lines, errors = run(tmp_path, "pi", "--list-models", "anth opus-5")
    assert (code, errors) == (0, "")
    assert lines[0].split() == ["provider", "model", "context", "max-out", "thinking", "images"]
    found = [line.split()[1] for line in lines[1:]]
    assert "claude-opus-4-5" in found and "claude-opus-5-5" in found and found == sorted(found)


def test_pi_finds_no_model_without_failing(tmp_path: Path) -> None:
    assert run(tmp_path, "pi", "--list-models", "nosuchmodel") == (0, ['No models matching "nosuchmodel"'], "")
    assert run(tmp_path / "omp", "omp", "--list-models", "nosuchmodel")[0] == 1
