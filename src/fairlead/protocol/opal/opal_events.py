"""What the server sends: the events of a session, and requests to the client. The docstring of a class is its documentation.

The fields of an event are the params of the notification `agent/event`. Requests have the ids `s2c-1`, `s2c-2` and so on, and are
declared like methods.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from fairlead.protocol.opal.opal_objects import OPEN, Method, TokenUsage, ToolOutcome

#: The method of the notification that carries an event.
NOTIFICATION = "agent/event"


class Event(Struct, tag_field="type"):
    #: The session that the event belongs to.
    session_id: str


# Runs


class AgentStart(Event, tag="agent_start"):
    """A run has started."""


class AgentEnd(Event, tag="agent_end"):
    """A run has ended, and the session is idle."""

    usage: TokenUsage | UnsetType = UNSET


class AgentAbortEvent(Event, tag="agent_abort"):
    """A run was stopped, and the session is idle."""


class AgentRecovered(Event, tag="agent_recovered"):
    """The session has recovered, after a fault in the server or from its file. The conversation is intact, and it is idle."""


class Error(Event, tag="error"):
    """A run has failed, and the session is idle."""

    reason: str


# Prompts


class MessageQueued(Event, tag="message_queued"):
    """A prompt was queued, because the agent is busy."""

    text: str


class MessageApplied(Event, tag="message_applied"):
    """A prompt is part of the conversation now. Every prompt gets this event, whether it was queued or not."""

    text: str


# What the model writes


class MessageStart(Event, tag="message_start"):
    """The model starts to answer."""


class MessageDelta(Event, tag="message_delta"):
    """More of the answer."""

    delta: str


class ThinkingStart(Event, tag="thinking_start"):
    """The model starts to think."""


class ThinkingDelta(Event, tag="thinking_delta"):
    """More of the thinking."""

    delta: str


class TurnEnd(Event, tag="turn_end"):
    """An answer is complete, and the run continues: with the tools that the answer calls, or with queued prompts."""

    #: The text of the answer; empty if it had none.
    message: str


class UsageUpdate(Event, tag="usage_update"):
    """The tokens so far, after each answer."""

    usage: TokenUsage


class StatusUpdate(Event, tag="status_update"):
    """What the agent is doing, in a few words."""

    message: str


# Tools


class ToolExecutionStart(Event, tag="tool_execution_start"):
    """A tool call starts."""

    tool: str
    call_id: str
    args: dict[str, Any]
    #: A short description of the call, for people.
    meta: str


class ToolOutputEvent(Event, tag="tool_output"):
    """More output of a running tool."""

    tool: str
    call_id: str
    chunk: str


class ToolExecutionEnd(Event, tag="tool_execution_end"):
    """A tool call has its result."""

    tool: str
    call_id: str
    result: Annotated[ToolOutcome, OPEN]


# Context


class ContextDiscovered(Event, tag="context_discovered"):
    """The context files whose instructions the model gets."""

    #: Their paths.
    files: list[str]


class SkillLoaded(Event, tag="skill_loaded"):
    """The model has read a skill."""

    name: str
    description: str


# Sub-agents


class SubAgentEvent(Event, tag="sub_agent_event"):
    """An event of a sub-agent's run. The first is `sub_agent_start`, the last is `agent_end`."""

    #: The `sub_agent` tool call that started it.
    parent_call_id: str
    sub_session_id: str
    #: The event, as made by `inner`.
    inner: dict[str, Any]


class SubAgentStart(Struct, tag_field="type", tag="sub_agent_start"):
    """A sub-agent starts. Sent only inside `sub_agent_event`."""

    model: str
    #: Its task, in a few words.
    label: str
    tools: list[str]


def inner(event: Event | SubAgentStart) -> dict[str, Any]:
    """An event of a sub-agent in the form that `SubAgentEvent` has: without its session, which is named there."""
    values: dict[str, Any] = msgspec.to_builtins(event)
    values.pop("session_id", None)
    return values


#: All events by type.
EVENTS: dict[str, type[Event]] = {
    str(declared.__struct_config__.tag): declared
    for declared in (
        AgentStart,
        AgentEnd,
        AgentAbortEvent,
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
        ToolOutputEvent,
        ToolExecutionEnd,
        ContextDiscovered,
        SkillLoaded,
        SubAgentEvent,
    )
}


class Confirmation(Struct):
    #: One of the actions.
    action: str
    #: With `deny`, if a tool call needs approval: why. The model sees it.
    reason: str | UnsetType = UNSET


class Confirm(Method, kw_only=True):
    """Ask the user for approval."""

    method: ClassVar[str] = "client/confirm"
    session_id: str
    #: The question, in a few words.
    title: str
    #: What the user needs to know to decide.
    message: str
    #: What the user may answer: `allow`, `deny`, `allow_session`, and `allow_always` if that can write the rule in the message.
    actions: list[str]
    #: If a tool call needs approval: the tool, its call and its arguments. Absent otherwise.
    tool: str | UnsetType = UNSET
    call_id: str | UnsetType = UNSET
    args: dict[str, Any] | UnsetType = UNSET
    #: What the call would change, as a unified diff; absent if it changes no file or the change is not known.
    diff: str | UnsetType = UNSET
    result: ClassVar[type[Struct]] = Confirmation


class InputText(Struct):
    text: str


class Input(Method, kw_only=True):
    """Ask the user for a text."""

    method: ClassVar[str] = "client/input"
    session_id: str
    prompt: str
    #: Whether the text is a secret that must not be shown while the user types it.
    sensitive: bool | UnsetType = UNSET
    result: ClassVar[type[Struct]] = InputText


class UserAnswer(Struct):
    answer: str


class AskUser(Method, kw_only=True):
    """Ask the user a question from the model."""

    method: ClassVar[str] = "client/ask_user"
    session_id: str
    question: str
    #: Answers to choose from; the user may give another one.
    choices: list[str] | UnsetType = UNSET
    result: ClassVar[type[Struct]] = UserAnswer


#: All requests to the client by name.
SERVER_REQUESTS: dict[str, type[Method]] = {declared.method: declared for declared in (Confirm, Input, AskUser)}
