"""What other users put into a folder that they share with the user, such as /tmp, for agents that work there or below it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead import Agent
from fairlead.config import project_files
from fairlead.config.home import Home
from fairlead.config.settings_files import load_settings
from fairlead.config.trust import find_decision, find_saved_decision, save_decision
from fairlead.errors import ConfigError
from fairlead.extend.mcp.config import McpConfigFile, load_servers
from fairlead.session.rules.stream_rules import load_rules
from fairlead.session.slash_commands import Origin
from fairlead.session.subagents.agent_kinds import load_agents
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

#: A user who is neither this one nor root.
STRANGER = 12345 if os.geteuid() not in (12345, 12346) else 23456
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user; the checks have tests without")


def put(root: Path, name: str, text: str = "EVIL") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def give(path: Path, root: Path) -> None:
    """Give a file, and all folders between it and `root`, to the stranger."""
    while path != root:
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
        path = path.parent


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder that all users share, as /tmp is."""
    folder = tmp_path / "shared"
    (folder / "mine").mkdir(parents=True)
    folder.chmod(0o1777)
    return folder


def request(cwd: Path) -> tuple[str, list[str]]:
    """What a model in that folder would see of the user's and the project's text, and the warnings."""

    async def ask() -> tuple[str, list[str]]:
        env = {"FAIRLEAD_HOME": str(cwd.parent.parent / "home"), "HOME": str(cwd.parent.parent / "user"), "PATH": "/usr/bin:/bin"}
        model = Scripted([Turn(text="ok")])
        async with Agent(model=SCRIPTED_MODEL, stream=model, cwd=cwd, env=env) as agent:
            await agent.ask("hi")
            return str(model.requests[-1].system_prompt), list(agent.warnings)

    return asyncio.run(ask())


TEXTS = (
    *("AGENTS.md", "CLAUDE.md", ".agents/skills/evil/SKILL.md", ".claude/skills/evil/SKILL.md"),
    *("mine/AGENTS.md", "mine/.fairlead/SYSTEM.md", "mine/.fairlead/APPEND_SYSTEM.md", "mine/.fairlead/skills/evil/SKILL.md"),
)
SKILL = "---\nname: evil\ndescription: EVIL\n---\nEVIL"


@as_root
@pytest.mark.parametrize("name", TEXTS)
def test_text_of_another_user_does_not_reach_the_model(shared: Path, name: str) -> None:
    path = put(shared, name, SKILL if "skills" in name else "EVIL")
    assert "EVIL" in request(shared / "mine")[0]
    give(path, shared / "mine" if name.startswith("mine") else shared)
    seen, warnings = request(shared / "mine")
    assert "EVIL" not in seen and any("belongs to another user" in text for text in warnings)


@as_root
def test_a_folder_of_another_user_above_has_no_text_for_the_model(shared: Path) -> None:
    put(shared, "AGENTS.md")
    put(shared, ".agents/skills/evil/SKILL.md", SKILL)
    os.chown(shared, STRANGER, STRANGER)
    seen, warnings = request(shared / "mine")
    assert "EVIL" not in seen and any(f"{shared} belongs to another user" in text for text in warnings)
    os.chown(shared / "mine", STRANGER, STRANGER)  # as in a container, where root works in the folder of a user
    assert "EVIL" in request(shared / "mine")[0]


@as_root
def test_a_link_of_another_user_to_a_file_of_the_users_does_not_reach_the_model(shared: Path) -> None:
    put(shared, "notes", "EVIL")
    link = shared / "AGENTS.md"
    link.symlink_to("notes")
    give(link, shared)
    assert "EVIL" not in request(shared / "mine")[0]


@as_root
@pytest.mark.parametrize("name", ["settings.json", "mcp.json", "agents/evil.md", "rules/evil.md", ".mcp.json"])
def test_configuration_of_another_user_is_not_used_in_a_shared_folder(shared: Path, tmp_path: Path, name: str) -> None:
    texts = {
        "settings.json": json.dumps({"protectedPaths": ["evil"]}),
        "agents/evil.md": "---\nname: evil\ndescription: x\n---\nEVIL",
        "rules/evil.md": "---\ncondition: x\n---\nEVIL",
    }
    servers = json.dumps({"mcpServers": {"evil": {"command": "evil"}}})
    path = put(shared, name if name.startswith(".") else f".fairlead/{name}", texts.get(name, servers))
    home = Home(tmp_path / "home")

    def found() -> tuple[list[str], list[str]]:
        problems: list[str] = []
        settings, warnings = load_settings(home, shared)
        files_of = [McpConfigFile(Origin(each, "auto", level), within=shared) for level, each in home.mcp_files(shared)[1:]]
        agents, more = load_agents(home.agents_folders(shared), within=shared)
        rules, others = load_rules(home.rules_folders(shared), shared)
        names = [server.name for server in load_servers(files_of, {}, problems)] + list(agents) + [rule.name for rule in rules]
        return [each for each in (*names, *settings.protected_paths) if "evil" in each], [*problems, *warnings, *more, *others]

    assert len(found()[0]) == 1
    give(path, shared)
    names, problems = found()
    assert names == [] and any("belongs to another user" in text for text in problems)


@as_root
def test_trust_in_a_shared_folder_does_not_cover_a_folder_of_another_user(shared: Path, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    theirs = put(shared, "theirs/.mcp.json", "{}").parent
    save_decision(home, shared, True)
    assert find_saved_decision(home, theirs) is True
    give(theirs, shared)
    assert find_saved_decision(home, theirs) is None
    found = find_decision(home, theirs)
    assert found is not None and "belongs to another user" in (found.problem or "")


def owned_by(path: Path, owner: int) -> os.stat_result:
    fields = list(path.stat())
    fields[4] = owner
    return os.stat_result(fields)


CHECK: Callable[..., Any] = project_files._check_owner  # pyright: ignore[reportPrivateUsage]


def test_a_file_may_belong_to_the_user_root_or_the_owner_of_the_project(tmp_path: Path) -> None:
    path = put(tmp_path, "AGENTS.md")
    for owner in (os.geteuid(), 0, tmp_path.stat().st_uid):
        CHECK(owned_by(path, owner), path, tmp_path)
    for owner in (STRANGER, STRANGER + 1):
        with pytest.raises(ConfigError, match="it belongs to another user"):
            CHECK(owned_by(path, owner), path, tmp_path)


def test_a_file_that_every_user_can_change_is_not_read(tmp_path: Path) -> None:
    path = put(tmp_path, "AGENTS.md", "text")
    path.chmod(0o666)
    with pytest.raises(ConfigError, match=r"every user can change it\. .*chmod o-w"):
        project_files.read_bytes(path, within=tmp_path)
    path.chmod(0o664)
    assert project_files.read_bytes(path, within=tmp_path) == b"text"
    # Some file systems say so of everything. But in a sticky folder, other users can only add files.
    path.chmod(0o666)
    tmp_path.chmod(0o777)
    assert project_files.read_bytes(path, within=tmp_path) == b"text"
    tmp_path.chmod(0o1777)
    with pytest.raises(ConfigError, match="every user can change it"):
        project_files.read_bytes(path, within=tmp_path)
