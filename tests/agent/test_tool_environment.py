"""What the programs that an agent starts see of its environment: everything but the keys of providers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.host import Host
from tests.support.surroundings import FAIRLEAD, surroundings

from fairlead import Agent
from fairlead.agent.agent_workspace import ToolEnvironment
from fairlead.testing import ProviderServer

KEYS = {
    "ANTHROPIC_API_KEY": "anthropic-secret",
    "OPENAI_API_KEY": "openai-secret",
    "FAIRLEAD_API_KEY": "fairlead-secret",
    "MY_GATEWAY_KEY": "gateway-secret",
    "A_COPY": "openai-secret",
    "PROVIDER_HEADER": "provider-header-secret",
    "MODEL_HEADER": "model-header-secret",
    "OVERRIDE_HEADER": "override-header-secret",
    "STORED_KEY": "stored-secret",
    "FAIRLEAD_KEY_TEAM_A": "team-secret",
    "FAIRLEAD_JOBS_DB": "postgresql://fleet:password@db/jobs",
}
GATEWAY = {
    "baseUrl": "http://127.0.0.1:9",
    "api": "openai-completions",
    "apiKey": "$MY_GATEWAY_KEY",
    "headers": {"X-One": "$PROVIDER_HEADER"},
    "models": [{"id": "m", "headers": {"X-Two": "Bearer ${MODEL_HEADER}"}}],
    "modelOverrides": {"m": {"headers": {"X-Three": "OVERRIDE_HEADER"}}},
}
MODELS = {"providers": {"gateway": GATEWAY}}
AUTH = {"another": {"type": "api_key", "key": "$STORED_KEY"}}


async def seen(folder: Path, settings: dict[str, Any] | None = None, project: dict[str, Any] | None = None) -> dict[str, str]:
    """The environment of a command."""
    home, cwd = folder / "home", folder / "project"
    for place, content in ((home, settings), (cwd / ".fairlead", project)):
        place.mkdir(parents=True)
        (place / "settings.json").write_text(json.dumps(content or {}))
    (home / "models.json").write_text(json.dumps(MODELS))
    (home / "auth.json").write_text(json.dumps(AUTH))
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "FAIRLEAD_HOME": str(home), "OTHER_TOKEN": "stays", **KEYS}
    async with Agent(cwd=cwd, env=env, trust=True) as agent:
        done = await agent.session.host.bash("env")
        return dict(line.split("=", 1) for line in done.message.output.splitlines() if "=" in line)


async def test_commands_see_no_keys_of_providers(tmp_path: Path) -> None:
    found = await seen(tmp_path)
    assert not KEYS.keys() & found.keys()
    assert found["OTHER_TOKEN"] == "stays" and found["HOME"] == str(tmp_path / "home")


async def test_the_user_can_pass_a_key(tmp_path: Path) -> None:
    found = await seen(tmp_path, {"passKeys": ["OPENAI_API_KEY"]})
    assert found["OPENAI_API_KEY"] == "openai-secret"
    assert "ANTHROPIC_API_KEY" not in found


async def test_the_user_can_pass_all_keys(tmp_path: Path) -> None:
    assert KEYS.items() <= (await seen(tmp_path, {"passKeys": ["*"]})).items()


async def test_a_project_cannot_pass_a_key_even_if_it_is_trusted(tmp_path: Path) -> None:
    assert not KEYS.keys() & (await seen(tmp_path, project={"passKeys": ["*"]})).keys()


@pytest.mark.parametrize(("program", "sees"), [("pi", True), ("omp", True), (None, False)])
def test_under_the_name_of_a_peer_commands_see_what_they_see_there(tmp_path: Path, program: str | None, sees: bool) -> None:
    with ProviderServer([{"text": "ok"}]) as provider:
        around = surroundings(tmp_path, provider.url)
        argv = [FAIRLEAD, *(["--as", program] if program else []), "--mode", "rpc"]
        env = {name: value for name, value in around.env.items() if name != "FAIRLEAD_HOME"}
        with Host(argv, around.cwd, {**env, "OPENAI_API_KEY": "openai-secret"}) as host:
            output = host.request("bash", command="echo $OPENAI_API_KEY")["data"]["output"]
    assert ("openai-secret" in output) == sees


def test_all_variables_cost_one_search_for_keys() -> None:
    searches = 0

    def key_variables() -> list[str]:
        nonlocal searches
        searches += 1
        return ["A_KEY"]

    env = ToolEnvironment({"A_KEY": "a-long-secret", "A_COPY": "a-long-secret", "ONE": "1", "TWO": "2"}, key_variables, ())
    assert dict(env.items()) == {"ONE": "1", "TWO": "2"} and searches == 1
