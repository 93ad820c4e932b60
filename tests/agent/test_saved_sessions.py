"""What a program with a user of its own needs: the sessions that are saved, and keys that the user types."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from fairlead import Agent
from fairlead.messages import ToolCall, ToolResultMessage
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn


async def a_session(home: Path, cwd: Path, text: str) -> None:
    cwd.mkdir(exist_ok=True)
    env = {"FAIRLEAD_HOME": str(home)}
    async with Agent(model=SCRIPTED_MODEL, stream=Scripted([Turn(text="hi")]), cwd=cwd, env=env, keep=True) as agent:
        await agent.ask(text)


async def test_the_saved_sessions_of_a_folder_and_of_all_folders(tmp_path: Path) -> None:
    home = tmp_path / "home"
    await a_session(home, tmp_path / "one", "in one")
    await a_session(home, tmp_path / "two", "in two")
    env = {"FAIRLEAD_HOME": str(home)}
    async with Agent(
        model=SCRIPTED_MODEL, stream=Scripted([Turn(text="unused")]), cwd=tmp_path / "one", env=env, keep=True
    ) as agent:
        history = agent.session.history
        assert [info.first_message for info in await history.list_saved()] == ["in one"]
        assert {info.first_message for info in await history.list_saved(everywhere=True)} == {"in one", "in two"}


async def test_a_session_in_memory_has_no_saved_ones_beside_it(tmp_path: Path) -> None:
    async with Agent(model=SCRIPTED_MODEL, stream=Scripted([Turn(text="unused")]), cwd=tmp_path, isolated=True) as agent:
        assert await agent.session.history.list_saved(everywhere=True) == []


async def test_a_key_that_the_user_typed_is_stored_and_used(tmp_path: Path) -> None:
    async with Agent(cwd=tmp_path, env={"FAIRLEAD_HOME": str(tmp_path / "home")}) as agent:
        assert agent.session.models.available() == []
        agent.logins.store_key("anthropic", "sk-typed")
        assert {model.provider for model in agent.session.models.available()} == {"anthropic"}
        assert stat.S_IMODE(agent.home.auth_path.stat().st_mode) == 0o600


def again(tmp_path: Path, path: str = "", **options: Any) -> Agent:
    """An agent that resumes the latest session, if there is one."""
    env = {"FAIRLEAD_HOME": str(tmp_path / "home"), "PATH": path or os.environ["PATH"]}
    options = {"model": SCRIPTED_MODEL, "stream": Scripted([Turn(text="hi")]), "resume": True, **options}
    (tmp_path / "project").mkdir(exist_ok=True)
    return Agent(cwd=tmp_path / "project", env=env, keep=True, **options)


async def test_a_resumed_session_is_as_strict_as_it_was(tmp_path: Path) -> None:
    async with again(tmp_path, approval="ask") as agent:
        await agent.ask("hello")
        file = agent.session.history.path
    assert file is not None
    before = file.read_bytes()
    async with again(tmp_path) as agent:
        assert agent.session.approvals.mode == "ask"
    assert file.read_bytes() == before, "opening it changes nothing"
    async with again(tmp_path, approval="write") as agent:
        assert agent.session.approvals.mode == "write", "what the program says counts"
        await agent.ask("and now?")
        agent.session.approvals.set_mode("deny")
    async with again(tmp_path) as agent:
        assert agent.session.approvals.mode == "deny"
        agent.session.approvals.set_mode("auto")
        await agent.ask("go on")
    async with again(tmp_path) as agent:
        assert agent.session.approvals.mode == "auto"


async def test_a_session_file_makes_no_agent_more_permissive(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    settings = tmp_path / "home" / "settings.json"
    settings.write_text('{"approvals": {"mode": "ask"}}')
    async with again(tmp_path, approval="auto") as agent:
        await agent.ask("hello")
    async with again(tmp_path) as agent:
        assert agent.session.approvals.mode == "ask"


async def test_a_switch_to_another_session_keeps_what_protects_it(tmp_path: Path) -> None:
    async with again(tmp_path, approval="ask") as agent:
        await agent.ask("hello")
        file = agent.session.history.path
    async with again(tmp_path, resume=False) as agent:
        await agent.ask("hello")
        assert agent.session.approvals.mode == "auto"
        await agent.session.history.switch(str(file))
        assert agent.session.approvals.mode == "ask"
        await agent.session.history.new()
        assert agent.session.approvals.mode == "ask"


async def test_a_session_without_approvals_has_no_note_about_them(tmp_path: Path) -> None:
    async with again(tmp_path) as agent:
        await agent.ask("hello")
        file = agent.session.history.path
    assert file is not None and b"approval" not in file.read_bytes()


def runs(command: str) -> Scripted:
    return Scripted([Turn(tool_calls=[ToolCall("c", "bash", {"command": command})]), Turn(text="done")])


@pytest.mark.system  # it needs bubblewrap
async def test_the_commands_of_a_resumed_session_stay_in_their_sandbox(tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    async with again(tmp_path, sandbox="workspace") as agent:
        await agent.ask("hello")
        file = agent.session.history.path
    assert file is not None
    before = file.read_bytes()
    async with again(tmp_path, stream=runs(f"touch {outside}/made")) as agent:
        assert file.read_bytes() == before, "opening it changes nothing"
        await agent.ask("go")
    assert not list(outside.iterdir())
    async with again(tmp_path, resume=False, stream=runs(f"touch {outside}/free")) as agent:
        assert agent.session.host.workspace.sandbox is None, "another session is free"
        await agent.session.history.switch(str(file))
        await agent.ask("go")
    assert not list(outside.iterdir())
    async with again(tmp_path, sandbox="off", stream=runs(f"touch {outside}/allowed")) as agent:
        await agent.ask("go")
    assert [path.name for path in outside.iterdir()] == ["allowed"], "what the program says counts"
    async with again(tmp_path) as agent:
        assert agent.session.host.workspace.sandbox is None, "and lasts"


async def test_commands_fail_where_a_resumed_session_cannot_have_its_sandbox(tmp_path: Path) -> None:
    async with again(tmp_path) as agent:
        await agent.ask("hello")
        file = agent.session.history.path
    assert file is not None and b"fairlead.sandbox" not in file.read_bytes()
    note = {"type": "custom", "id": "0a0b0c0d", "parentId": leaf_of(file), "timestamp": "2026-01-01T00:00:00.000Z"}
    with file.open("a") as lines:
        lines.write(json.dumps({**note, "customType": "fairlead.sandbox", "data": {"mode": "workspace"}}) + "\n")
    async with again(tmp_path, path="/nowhere", stream=runs("touch made")) as agent:
        result = await agent.ask("go")
        [failed] = [message for message in result.messages if isinstance(message, ToolResultMessage)]
        assert failed.is_error and "--sandbox off" in str(failed.content)
    assert not (tmp_path / "project" / "made").exists()


def leaf_of(file: Path) -> str:
    return json.loads(file.read_text().splitlines()[-1])["id"]
