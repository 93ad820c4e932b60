"""What a program with a user of its own needs: the sessions that are saved, and keys that the user types."""

from __future__ import annotations

import stat
from pathlib import Path

from fairlead import Agent
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
        assert [info.first_message for info in await history.saved()] == ["in one"]
        assert {info.first_message for info in await history.saved(everywhere=True)} == {"in one", "in two"}


async def test_a_session_in_memory_has_no_saved_ones_beside_it(tmp_path: Path) -> None:
    async with Agent(model=SCRIPTED_MODEL, stream=Scripted([Turn(text="unused")]), cwd=tmp_path, isolated=True) as agent:
        assert await agent.session.history.saved(everywhere=True) == []


async def test_a_key_that_the_user_typed_is_stored_and_used(tmp_path: Path) -> None:
    async with Agent(cwd=tmp_path, env={"FAIRLEAD_HOME": str(tmp_path / "home")}) as agent:
        assert agent.session.models.available() == []
        agent.logins.store_key("anthropic", "sk-typed")
        assert {model.provider for model in agent.session.models.available()} == {"anthropic"}
        assert stat.S_IMODE(agent.home.auth_path.stat().st_mode) == 0o600
