"""What a client is told while a session works: the params of the notification `agent/event`. A class is an event; its
docstring is its documentation."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from fairlead.protocol.opal.method import OPEN
from fairlead.protocol.opal.objects import TokenUsage, ToolOutcome

#: The method of the notification that carries an event.
NOTIFICATION = "agent/event"


class Event(Struct, tag_field="type"):
    #: The session that it happened in.
    session_id: str


# Runs


class AgentStart(Event, tag="agent_start"):
    """A run begins."""


class AgentEnd(Event, tag="agent_end"):
    """A run is over; the session is idle."""

    usage: TokenUsage | UnsetType = UNSET


class AgentAbort(Event, tag="agent_abort"):
    """A run was stopped; the session is idle."""


class AgentRecovered(Event, tag="agent_recovered"):
    """A run ended because of a fault of the server's. The conversation is as it was, and the session is idle."""


class Error(Event, tag="error"):
    """A run failed; the session is idle."""

    reason: str


# Prompts


class MessageQueued(Event, tag="message_queued"):
    """A prompt waits, since the agent is busy."""

    text: str


class MessageApplied(Event, tag="message_applied"):
    """A prompt is part of the conversation now. Every prompt gets one, also one that did not wait."""

    text: str


# What the model says


class MessageStart(Event, tag="message_start"):
    """The model begins to answer."""


class MessageDelta(Event, tag="message_delta"):
    """More of the answer."""

    delta: str


class ThinkingStart(Event, tag="thinking_start"):
    """The model begins to think."""


class ThinkingDelta(Event, tag="thinking_delta"):
    """More of what it thinks."""

    delta: str


class TurnEnd(Event, tag="turn_end"):
    """An answer is complete, and the run goes on: with the tools that it asks for, or with prompts that waited."""

    #: The text of the answer; empty if it had none.
    message: str


class UsageUpdate(Event, tag="usage_update"):
    """The tokens so far, after each answer of the model's."""

    usage: TokenUsage


class StatusUpdate(Event, tag="status_update"):
    """What the agent is doing, in a few words."""

    message: str


# Tools


class ToolExecutionStart(Event, tag="tool_execution_start"):
    """A tool call begins."""

    tool: str
    call_id: str
    args: dict[str, Any]
    #: The call in a few words, for people.
    meta: str


class ToolOutput(Event, tag="tool_output"):
    """More of the output of a tool that is running."""

    tool: str
    call_id: str
    chunk: str


class ToolExecutionEnd(Event, tag="tool_execution_end"):
    """A tool call has its result."""

    tool: str
    call_id: str
    result: Annotated[ToolOutcome, OPEN]


# What the session found


class ContextDiscovered(Event, tag="context_discovered"):
    """There are files with instructions, which the model is told of."""

    #: Their paths.
    files: list[str]


class SkillLoaded(Event, tag="skill_loaded"):
    """The model has read a skill."""

    name: str
    description: str


# Sub-agents


class SubAgentEvent(Event, tag="sub_agent_event"):
    """Something happened in the run of a sub-agent. `sub_agent_start` is the first such event, `agent_end` the last."""

    #: The call of the tool `sub_agent` that started it.
    parent_call_id: str
    sub_session_id: str
    #: The event, as made by `inner`.
    inner: dict[str, Any]


class SubAgentStart(Struct, tag_field="type", tag="sub_agent_start"):
    """A sub-agent begins. It is told of inside `sub_agent_event` only."""

    model: str
    #: What it is to do, in a few words.
    label: str
    tools: list[str]


def inner(event: Event | SubAgentStart) -> dict[str, Any]:
    """An event of a sub-agent in the form that `SubAgentEvent` carries: without its session, which is named there."""
    values: dict[str, Any] = msgspec.to_builtins(event)
    values.pop("session_id", None)
    return values


#: All events by type.
EVENTS: dict[str, type[Event]] = {
    str(declared.__struct_config__.tag): declared
    for declared in (
        AgentStart,
        AgentEnd,
        AgentAbort,
        AgentRecovered,
        Error,
        MessageQueued,
        MessageApplied,
        MessageStart,
        MessageDelta,
        ThinkingStart,
        ThinkingDelta,
        TurnEnd,
        UsageUpdate,
        StatusUpdate,
        ToolExecutionStart,
        ToolOutput,
        ToolExecutionEnd,
        ContextDiscovered,
        SkillLoaded,
        SubAgentEvent,
    )
}
