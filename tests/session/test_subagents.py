"""What a sub-agent is given: its assignment, its tools, its place of work and its model."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec import UNSET, structs
from tests.session.family import DONE, Cast, a_parent, bash, lives, result_of, statuses, subagents_of, task_call, told
from tests.session.scene import Listener, a_tool, settled, talk

from fairlead.config.settings import TaskSettings
from fairlead.core import events as e
from fairlead.core.messages import UserMessage, user_text
from fairlead.core.model import Model, ThinkingLevel
from fairlead.core.tool import Tool
from fairlead.errors import ModelNotFound
from fairlead.session.session import Session
from fairlead.session.subagents.agent_kinds import AgentDefinition
from fairlead.testing import SCRIPTED_MODEL, Turn

# A context of its own


async def test_a_sub_agent_knows_its_assignment_and_nothing_else(tmp_path: Path) -> None:
    cast = Cast(start=[task_call("look around", context="It is dark."), DONE], look=[Turn(text="I see a door.")])
    session = a_parent(cast, tmp_path)
    await talk(session, "start")
    assert "I see a door." in told(session)
    assert statuses(session) == {"look": "completed"}
    await session.close()
    (request,) = cast.requests("look")
    (message,) = request.messages
    assert isinstance(message, UserMessage)
    assert user_text(message) == "Context:\nIt is dark.\n\nAssignment:\nlook around"
    assert message.attribution == "agent"
    assert "You are a test." not in request.system_prompt
    assert "one assignment" in request.system_prompt
    assert request.system_prompt.endswith(f"Current working directory: {tmp_path}")
    assert "\n\nAppended.\n\n" in request.system_prompt


async def test_without_a_context_only_the_assignment_is_sent(tmp_path: Path) -> None:
    cast = Cast(start=[task_call("look"), DONE], look=[DONE])
    await talk(session := a_parent(cast, tmp_path), "start")
    await session.close()
    assert user_text(cast.requests("look")[0].messages[0]) == "look"  # type: ignore[arg-type]


async def test_an_agent_has_the_tools_of_its_definition_as_far_as_its_parent_has_them(tmp_path: Path) -> None:
    agent = AgentDefinition(name="narrow", description="d", prompt="p", tools=("bash", "grep", "nothing"))
    cast = Cast(start=[task_call("narrow-one", agent="narrow"), DONE], narrow=[DONE])
    session = a_parent(cast, tmp_path, agents=[agent], active=["read", "grep", "task"])
    await talk(session, "start")
    await session.close()
    assert [tool.name for tool in cast.requests("narrow")[0].tools] == ["grep"]


async def test_an_agent_has_what_replaces_a_built_in_tool_of_its_parent_and_not_the_tool_itself(tmp_path: Path) -> None:
    cast = Cast(start=[task_call("look"), DONE], look=[bash("touch made"), DONE])
    session = a_parent(cast, tmp_path, tools=[a_tool("bash")])
    await talk(session, "start")
    await session.close()
    assert [tool.description for tool in cast.requests("look")[0].tools if tool.name == "bash"] == ["A test."]
    assert not (tmp_path / "made").exists()


async def test_an_agent_without_a_list_of_tools_has_all_of_its_parents_but_those_bound_to_its_session(tmp_path: Path) -> None:
    own = Tool("mine", "A tool of this session.", {"type": "object"}, a_tool("x").run, bound=True)
    cast = Cast(start=[task_call("look"), DONE], look=[DONE])
    session = a_parent(cast, tmp_path, tools=[a_tool("extra"), own], active=["read", "extra", "mine", "task"])
    await talk(session, "start")
    await session.close()
    assert [tool.name for tool in cast.requests("look")[0].tools] == ["read", "extra", "task"]


async def test_a_sub_agent_works_where_its_parent_worked_when_it_began(tmp_path: Path) -> None:
    go = asyncio.Event()
    cast = Cast(start=[task_call("look"), DONE], look=[structs.replace(bash("pwd > here"), pause=go.wait), DONE])
    for name in ("there", "elsewhere"):
        (tmp_path / name).mkdir()
    session = a_parent(cast, tmp_path)
    heard = Listener(session)
    session.host.workspace.cwd = tmp_path / "there"
    await session.prompt("start")
    await heard.until(e.SubagentEvent)
    session.host.workspace.cwd = tmp_path / "elsewhere"
    go.set()
    await settled(session)
    await session.close()
    assert (tmp_path / "there" / "here").read_text().strip() == str(tmp_path / "there")


# Models


SMALL = structs.replace(SCRIPTED_MODEL, id="small")


def match(pattern: str) -> tuple[Model, ThinkingLevel | None]:
    if pattern == "nothing":
        raise ModelNotFound('No model matches "nothing".')
    return structs.replace(SMALL, id=pattern), "high"


def resolved(session: Session) -> list[object]:
    return [snapshot.progress.resolved_model for snapshot in subagents_of(session).snapshots()]


@pytest.mark.parametrize(
    ("of_agent", "overrides", "thinking", "expected"),
    [
        (None, {}, None, ("scripted/scripted-1", "low")),
        ("small", {}, None, ("scripted/small", "high")),
        ("small", {}, "minimal", ("scripted/small", "minimal")),
        ("small", {"own": "other"}, None, ("scripted/other", "high")),
        (None, {"own": "other"}, None, ("scripted/other", "high")),
        (None, {"task": "other"}, None, ("scripted/scripted-1", "low")),
    ],
)
async def test_the_model_is_that_of_the_settings_else_of_the_agent_else_of_the_parent(
    tmp_path: Path, of_agent: str | None, overrides: dict[str, str], thinking: ThinkingLevel | None, expected: tuple[str, str]
) -> None:
    agent = AgentDefinition(name="own", description="d", prompt="p", model=of_agent, thinking=thinking)
    cast = Cast(start=[task_call("look", agent="own"), DONE], look=[DONE])
    settings = TaskSettings(agent_model_overrides=overrides)
    session = a_parent(cast, tmp_path, agents=[agent], match=match, settings=settings, thinking="low")
    await talk(session, "start")
    assert resolved(session) == [expected[0]]
    await session.close()
    assert cast.requests("look")[0].thinking == expected[1]


async def test_an_unknown_model_fails_only_its_sub_agent(tmp_path: Path) -> None:
    agent = AgentDefinition(name="own", description="d", prompt="p", model="nothing")
    cast = Cast(start=[task_call("look", agent="own"), DONE], look=[DONE])
    session = a_parent(cast, tmp_path, agents=[agent], match=match)
    heard = Listener(session)
    await talk(session, "start")
    assert lives(heard) == [("look", "started"), ("look", "failed")]
    assert result_of(session).is_error
    assert 'No model matches "nothing".' in told(session)
    assert resolved(session) == [UNSET]
    await session.close()


async def test_tools_the_host_switched_off_are_off_in_sub_agents(tmp_path: Path) -> None:
    failing = Turn(error="overloaded", status=529, transient=True)
    cast = Cast(start=[task_call("look"), DONE], look=[failing])
    session = a_parent(cast, tmp_path)
    session.activity.auto_retry = False
    await talk(session, "start")
    assert len(cast.requests("look")) == 1
    await session.close()
