"""What tests of sub-agents share: a session that can give work away, and a model that plays a part in each conversation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.session.scene import a_system_prompt, a_workspace, kept_in

from fairlead.config.settings import TaskSettings
from fairlead.core import events as e
from fairlead.core.messages import TextContent, ToolCall, ToolResultMessage, UserMessage, user_text
from fairlead.core.model import ModelRequest, StreamEvent
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import Tool
from fairlead.session.asyncio_runtime import AsyncioRuntime
from fairlead.session.history.current import ConversationStore
from fairlead.session.selection import OneModel
from fairlead.session.session import Session
from fairlead.session.session_options import SessionOptions
from fairlead.session.subagents.agent_kinds import BUILT_IN, AgentDefinition
from fairlead.session.subagents.spawner import Match, SessionSpawner, task_tool
from fairlead.session.subagents.subagents import Family, SessionSubagents
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn
from fairlead.tools.builtin import builtin_tools

DONE = Turn(text="all done")
ONE_AT_A_TIME = TaskSettings(max_concurrency=1)


class Cast:
    """A model that plays a part in each conversation: the one whose name its first message contains."""

    def __init__(self, **parts: Sequence[Turn]) -> None:
        self._parts = parts
        self._playing: dict[str | None, Scripted] = {}
        self.names: dict[str | None, str] = {}

    def __call__(self, request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
        if request.session_id not in self._playing:
            first = next(message for message in request.messages if isinstance(message, UserMessage))
            name = next(name for name in self._parts if name in user_text(first))
            self._playing[request.session_id] = Scripted(self._parts[name])
            self.names[request.session_id] = name
        return self._playing[request.session_id](request, cancel)

    def requests(self, name: str) -> list[ModelRequest]:
        """The requests of all conversations with that part."""
        return [request for id, played in self._playing.items() if self.names[id] == name for request in played.requests]


def task_call(*assignments: str, agent: str = "task", id: str = "call", **rest: Any) -> Turn:
    """A turn in which the model gives work away. The id of each sub-agent is its assignment's first word."""
    tasks = [{"id": text.split()[0], "description": f"about {text}", "assignment": text} for text in assignments]
    return Turn(tool_calls=[ToolCall(id, "task", {"agent": agent, "tasks": tasks, **rest})], chunk=1 << 20)


def bash(command: str, id: str = "b") -> Turn:
    return Turn(tool_calls=[ToolCall(id, "bash", {"command": command})], chunk=1 << 20)


def two_calls(assignment: str) -> Turn:
    """A turn with two calls, each of two tasks."""
    calls = [task_call(f"{assignment} one", f"{assignment} two", id=id).tool_calls[0] for id in ("first", "second")]
    return Turn(tool_calls=calls, chunk=1 << 20)


def a_parent(
    stream: Any,
    tmp_path: Path,
    *,
    settings: TaskSettings | None = None,
    keep: bool = False,
    file: Path | None = None,
    agents: Sequence[AgentDefinition] = (),
    match: Match | None = None,
    tools: Sequence[Tool] = (),
    active: Sequence[str] | None = None,
    **changes: Any,
) -> Session:
    """A session that works in `tmp_path` and can give work to the built-in agents and to `agents`. With `keep`, or a `file` to
    go on with, it has a file in `tmp_path / "sessions"`."""
    settings = settings or TaskSettings()
    kept = keep or file is not None
    sessions = (
        kept_in(tmp_path / "sessions")
        if kept
        else ConversationStore(workspace=a_workspace(tmp_path), now_ms=AsyncioRuntime().now_ms)
    )
    spawner = SessionSpawner(lambda: OneModel(SCRIPTED_MODEL, stream), match, settings.agent_model_overrides, ["Appended."])
    known = {agent.name: agent for agent in (*BUILT_IN, *agents)}
    subagents = SessionSubagents(Family(known, settings, spawner, builtin_tools))
    all_tools: Mapping[str, Tool] = {
        **builtin_tools(sessions.workspace),
        **{tool.name: tool for tool in tools},
        "task": task_tool(subagents),
    }
    options: dict[str, Any] = {
        "models": OneModel(SCRIPTED_MODEL, stream),
        "make_tools": lambda: all_tools,
        "active_tools": list(all_tools) if active is None else active,
        "workspace": sessions.workspace,
        "system_prompt": a_system_prompt,
        "model": SCRIPTED_MODEL,
        "runtime": AsyncioRuntime(),
        "sessions": sessions,
        "conversation": sessions.open(str(file)) if file is not None else None,
        "subagents": subagents,
    }
    spawner.like = SessionOptions(**(options | changes))
    return Session(spawner.like)


def subagents_of(session: Session) -> SessionSubagents:
    assert session.subagents is not None
    return session.subagents


def result_of(session: Session, call: str = "call") -> ToolResultMessage:
    """What the model was told of a call."""
    return next(m for m in session.messages if isinstance(m, ToolResultMessage) and m.tool_call_id == call)


def told(session: Session, call: str = "call") -> str:
    return "".join(block.text for block in result_of(session, call).content if isinstance(block, TextContent))


def statuses(session: Session) -> dict[str, str]:
    return {snapshot.id: snapshot.status for snapshot in subagents_of(session).snapshots()}


def lives(events: Sequence[e.Event]) -> list[tuple[str, str]]:
    """What was told of the lives of sub-agents, in order."""
    return [(event.payload.id, event.payload.status) for event in events if isinstance(event, e.SubagentLifecycle)]


def most_at_once(events: Sequence[e.Event]) -> int:
    """How many sub-agents had started and not ended, at most."""
    most = now = 0
    for _, status in lives(events):
        now += 1 if status == "started" else -1
        most = max(most, now)
    return most
