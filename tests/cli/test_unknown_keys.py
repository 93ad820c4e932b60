"""Keys of settings.json and models.json that mean nothing: people see them, hosts do not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema_rs import validator_for
from tests.cli.command import Command

from fairlead.cli.subcommands.schema import models_schema, settings_schema

SETTINGS = {"defualtModel": "fake-1", "retry": {"maxRetrys": 1}, "zzz": 1, "theme": "dark", "$schema": "x", "retry.provider": {}}


def test_unknown_settings_get_a_warning_with_the_nearest_key(fairlead: Command) -> None:
    path = fairlead.around.home / "settings.json"
    path.write_text(json.dumps(SETTINGS))
    done = fairlead("-p", "hi")
    assert (done.returncode, done.stdout) == (0, "Hello!\n")
    assert done.stderr.splitlines() == [
        f"fairlead: {path}: defualtModel: there is no such key, so it has no effect. Did you mean defaultModel?",
        f"fairlead: {path}: retry.maxRetrys: there is no such key, so it has no effect. Did you mean retry.maxRetries?",
        f"fairlead: {path}: zzz: there is no such key, so it has no effect.",
    ]


def test_a_misspelt_key_of_the_approvals_gets_the_nearest_one_too(fairlead: Command) -> None:
    path = fairlead.around.home / "settings.json"
    path.write_text(json.dumps({"approvals": {"mod": "deny"}}))
    done = fairlead("-p", "hi")
    assert f"{path}: approvals.mod: there is no such key. Did you mean approvals.mode? Until that is corrected," in done.stderr


def test_unknown_keys_of_models_get_a_warning_too(fairlead: Command) -> None:
    path = fairlead.around.home / "models.json"
    content: dict[str, Any] = json.loads(path.read_text())
    fake = content["providers"]["fake"]
    fake["baseURL"] = "x"
    fake["models"][0]["contextWindw"] = 5
    fake["models"][0]["cost"]["imput"] = 5
    path.write_text(json.dumps(content))
    done = fairlead("-p", "hi")
    assert (done.returncode, done.stdout) == (0, "Hello!\n")
    for wrong, right in (
        ("providers.fake.baseURL", "providers.fake.baseUrl"),
        ("providers.fake.models[0].contextWindw", "providers.fake.models[0].contextWindow"),
        ("providers.fake.models[0].cost.imput", "providers.fake.models[0].cost.input"),
    ):
        assert f"{path}: {wrong}: there is no such key, so it has no effect. Did you mean {right}?\n" in done.stderr


def test_unknown_keys_are_not_reported_to_hosts(fairlead: Command) -> None:
    (fairlead.around.home / "settings.json").write_text(json.dumps(SETTINGS))
    done = fairlead("--mode", "rpc", input='{"type":"get_state"}\n')
    assert (done.returncode, done.stderr) == (0, "")


def test_a_misspelt_key_that_should_protect_is_shown_to_hosts_too(fairlead: Command) -> None:
    (fairlead.around.home / "settings.json").write_text('{"aprovals": {"mode": "deny"}}')
    done = fairlead("--mode", "rpc", input='{"type":"get_state"}\n')
    assert done.returncode == 0 and "Did you mean approvals?" in done.stderr


@pytest.mark.parametrize(
    ("settings", "is_valid"),
    [
        ({}, True),
        ({"$schema": "x", "defaultModel": "opus", "retry": {"maxRetries": 0}, "ttsr": {"repeatGap": 1}}, True),
        ({"approvals": {"mode": "ask", "rules": [{"action": "deny", "tool": "bash"}]}, "packages": ["npm:x"]}, True),
        ({"defualtModel": "opus"}, False),
        ({"retry": {"maxRetries": -1}}, False),
        ({"tools": {"timeoutSeconds": 0}}, False),
        ({"approvals": {"mode": "perhaps"}}, False),
    ],
    ids=json.dumps,
)
def test_the_schema_of_settings_says_what_is_valid(settings: dict[str, Any], is_valid: bool) -> None:
    assert validator_for(settings_schema()).is_valid(settings) is is_valid


def test_the_schema_of_models_accepts_what_the_tests_use(fairlead: Command) -> None:
    content: dict[str, Any] = json.loads((fairlead.around.home / "models.json").read_text())
    checked = validator_for(models_schema())
    assert checked.is_valid(content)
    content["providers"]["fake"]["baseURL"] = "x"
    assert not checked.is_valid(content)
