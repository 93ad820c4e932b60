"""`fairlead models` and `fairlead trust`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command import Command

from fairlead.testing import ProviderServer


def test_models_with_a_key_are_listed_with_windows_prices_and_the_source_of_the_key(fairlead: Command) -> None:
    done = fairlead("models", env={"OPENAI_API_KEY": "sk-secret"})
    heading, *rows = done.stdout.splitlines()
    assert done.returncode == 0 and heading.split()[:4] == ["provider", "model", "context", "max-out"]
    assert {row.split()[0] for row in rows} == {"fake", "fakeoai", "openai"}
    assert any(row.endswith("OPENAI_API_KEY") for row in rows) and "sk-secret" not in done.stdout
    assert "more models have no key" in done.stderr


def test_a_search_also_finds_models_that_lack_a_key(fairlead: Command) -> None:
    done = fairlead("models", "opus", "claude")
    rows = done.stdout.splitlines()[1:]
    assert done.returncode == 0 and rows and all("opus" in row and row.endswith("no key") for row in rows)
    none = fairlead("models", "no-such-thing")
    assert (none.returncode, none.stdout) == (1, "") and none.stderr.startswith("No model matches 'no-such-thing'.")


def test_without_any_key_it_says_what_would_do(fairlead: Command) -> None:
    done = fairlead("models", "--isolated")
    assert (done.returncode, done.stdout) == (1, "") and "ANTHROPIC_API_KEY" in done.stderr and "Ollama" in done.stderr
    assert fairlead("models", "--isolated", "--all").returncode == 0


def test_the_list_is_available_as_json(fairlead: Command) -> None:
    (found,) = [model for model in json.loads(fairlead("models", "--json").stdout) if model["id"] == "fake-1"]
    assert found["isUsable"] is True and found["keySource"].endswith("models.json") and found["contextWindow"] > 0


def test_servers_of_this_machine_are_included(fairlead: Command) -> None:
    with ProviderServer([], models=[{"id": "tiny"}]) as server:
        done = fairlead("models", "tiny", env={"FAIRLEAD_LOCAL_SERVERS": f"here={server.url}"})
    assert "here" in done.stdout and "needs none" in done.stdout


def test_trust_is_shown_with_what_needs_it(fairlead: Command) -> None:
    cwd = fairlead.around.cwd.resolve()
    (cwd / ".mcp.json").write_text("{}")
    (cwd / ".fairlead" / "extensions").mkdir(parents=True)
    assert fairlead("trust", "show").stdout.splitlines() == [
        f"{cwd}: not decided. To trust it, run `fairlead trust {cwd}`, or pass --approve for one run.",
        f"  {Path('.fairlead/extensions')}",
        "  .mcp.json",
    ]
    assert fairlead("trust", "add", str(cwd.parent)).returncode == 0
    assert f"{cwd}: trusted because {cwd.parent} is, by " in fairlead("trust", "show").stdout
    assert fairlead("trust", "--never").returncode == 0
    assert f"{cwd}: never trusted, by " in fairlead("trust", "show", ".").stdout
    assert fairlead("trust", "remove").returncode == 0
    assert fairlead("trust", "list").stdout == f"trusted  {cwd.parent}\n"


def test_an_empty_list_of_trusted_projects_says_so(fairlead: Command) -> None:
    said = fairlead("trust", "list").stdout
    assert said == "There is no decision about any project yet. `fairlead trust` trusts the one here.\n"


def test_bad_words_of_trust_are_usage_errors(fairlead: Command) -> None:
    for words in (["list", "x"], ["show", "a", "b"], ["remove", "--never"], ["--list"]):
        done = fairlead("trust", *words)
        assert (done.returncode, done.stdout) == (2, ""), words
    assert fairlead("trust", "show", "missing").returncode == 1
    assert fairlead("trust", "lst").stderr.endswith("lst is not a directory. Did you mean list?\n")
