"""Options of an agent are checked when it is made: what protects must not fail open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead import Agent
from fairlead.agent.options import AgentOptions
from fairlead.cli.flags import UsageError, parse
from fairlead.errors import BadOption, ConfigError

BAD: list[tuple[str, Any]] = [
    ("sandbox", "Workspace"),
    ("sandbox", "workspace "),
    ("sandbox", "on"),
    ("sandbox", ""),
    ("sandbox", True),
    ("sandbox", False),
    ("sandbox", ["workspace"]),
    ("sandbox", {"mode": "workspace"}),
    ("approval", "Ask"),
    ("approval", "never"),
    ("approval", ""),
    ("approval", False),
    ("approve", "no"),
    ("approve", 0),
    ("durability", "sync"),
    ("thinking", "maximal"),
    ("schedule", "parallel"),
    ("interrupt", "now"),
    ("mode", "tui"),
    ("isolated", "false"),
    ("keep", 1),
    ("context_files", None),
    ("tools", "read"),
    ("tools", ["read", 3]),
    ("exclude_tools", "bash"),
    ("models", "a,b"),
    ("extra_tools", ["read"]),
    ("reset_settings", ["tood"]),
    ("compaction_reserve", -1),
    ("compaction_reserve", True),
    ("env", [("A", "b")]),
    ("model", 3),
    ("warn", "stderr"),
    ("cwd", None),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_value_that_an_option_cannot_have_is_refused(tmp_path: Path, name: str, value: Any) -> None:
    base = AgentOptions(isolated=True, cwd=tmp_path, env={})
    for make in (lambda: Agent(base, **{name: value}), lambda: Agent(AgentOptions(**{name: value}))):
        with pytest.raises(BadOption, match=f"^{name}: expected .*, found ") as caught:
            make()
        assert isinstance(caught.value, ValueError) and isinstance(caught.value, ConfigError)


def test_the_error_names_the_option_the_value_and_what_it_takes() -> None:
    with pytest.raises(BadOption) as caught:
        Agent(sandbox="Workspace")
    assert str(caught.value) == "sandbox: expected 'off' or 'workspace' or None, found 'Workspace'."


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="sandbx"):
        Agent(sandbx="workspace")


async def test_good_values_are_taken(tmp_path: Path) -> None:
    agent = Agent(
        isolated=True,
        cwd=str(tmp_path),
        env={},
        sandbox="off",
        approval="deny",
        thinking="low",
        durability="fsync",
        tools=("read",),
        exclude_tools=[],
        skills=[tmp_path],
        reset_settings=["todo"],
        warn=print,
    )
    assert agent.session.tools.active == ["read"]
    await agent.close()


@pytest.mark.parametrize(
    ("flag", "value"),
    [("--sandbox", "Workspace"), ("--sandbox", "on"), ("--sandbox", "true"), ("--approval", "Ask"), ("--durability", "Fsync")],
)
def test_flags_take_no_other_spelling_either(flag: str, value: str) -> None:
    for words in ([flag, value], [f"{flag}={value}"]):
        with pytest.raises(UsageError, match=f"^{flag}: expected "):
            parse(words)
