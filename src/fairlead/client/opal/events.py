"""The events of Opal, as a client gets them.

`make generate` writes this module from the declarations. Do not edit it.
"""

from __future__ import annotations

from fairlead.client.decoding import Event, UnknownEvent, UnparsedLine
from fairlead.protocol.opal import opal_events

__all__ = [
    "AgentAbortEvent",
    "AgentEnd",
    "AgentRecovered",
    "AgentStart",
    "ContextDiscovered",
    "Error",
    "Event",
    "MessageApplied",
    "MessageDelta",
    "MessageQueued",
    "MessageStart",
    "SkillLoaded",
    "StatusUpdate",
    "SubAgentEvent",
    "ThinkingDelta",
    "ThinkingStart",
    "ToolExecutionEnd",
    "ToolExecutionStart",
    "ToolOutputEvent",
    "TurnEnd",
    "UnknownEvent",
    "UnparsedLine",
    "UsageUpdate",
]


class AgentStart(opal_events.AgentStart, Event, tag="agent_start"):
    """A run has started."""


class AgentEnd(opal_events.AgentEnd, Event, tag="agent_end"):
    """A run has ended, and the session is idle."""


class AgentAbortEvent(opal_events.AgentAbortEvent, Event, tag="agent_abort"):
    """A run was stopped, and the session is idle."""


class AgentRecovered(opal_events.AgentRecovered, Event, tag="agent_recovered"):
    """The session has recovered, after a fault in the server or from its file."""


class Error(opal_events.Error, Event, tag="error"):
    """A run has failed, and the session is idle."""


class MessageQueued(opal_events.MessageQueued, Event, tag="message_queued"):
    """A prompt was queued, because the agent is busy."""


class MessageApplied(opal_events.MessageApplied, Event, tag="message_applied"):
    """A prompt is part of the conversation now."""


class MessageStart(opal_events.MessageStart, Event, tag="message_start"):
    """The model starts to answer."""


class MessageDelta(opal_events.MessageDelta, Event, tag="message_delta"):
    """More of the answer."""


class ThinkingStart(opal_events.ThinkingStart, Event, tag="thinking_start"):
    """The model starts to think."""


class ThinkingDelta(opal_events.ThinkingDelta, Event, tag="thinking_delta"):
    """More of the thinking."""


class TurnEnd(opal_events.TurnEnd, Event, tag="turn_end"):
    """An answer is complete, and the run continues: with the tools that the answer calls, or with queued prompts."""


class UsageUpdate(opal_events.UsageUpdate, Event, tag="usage_update"):
    """The tokens so far, after each answer."""


class StatusUpdate(opal_events.StatusUpdate, Event, tag="status_update"):
    """What the agent is doing, in a few words."""


class ToolExecutionStart(opal_events.ToolExecutionStart, Event, tag="tool_execution_start"):
    """A tool call starts."""


class ToolOutputEvent(opal_events.ToolOutputEvent, Event, tag="tool_output"):
    """More output of a running tool."""


class ToolExecutionEnd(opal_events.ToolExecutionEnd, Event, tag="tool_execution_end"):
    """A tool call has its result."""


class ContextDiscovered(opal_events.ContextDiscovered, Event, tag="context_discovered"):
    """The context files whose instructions the model gets."""


class SkillLoaded(opal_events.SkillLoaded, Event, tag="skill_loaded"):
    """The model has read a skill."""


class SubAgentEvent(opal_events.SubAgentEvent, Event, tag="sub_agent_event"):
    """An event of a sub-agent's run."""


#: All events by type.
EVENTS: dict[str, type[Event]] = {
    "agent_start": AgentStart,
    "agent_end": AgentEnd,
    "agent_abort": AgentAbortEvent,
    "agent_recovered": AgentRecovered,
    "error": Error,
    "message_queued": MessageQueued,
    "message_applied": MessageApplied,
    "message_start": MessageStart,
    "message_delta": MessageDelta,
    "thinking_start": ThinkingStart,
    "thinking_delta": ThinkingDelta,
    "turn_end": TurnEnd,
    "usage_update": UsageUpdate,
    "status_update": StatusUpdate,
    "tool_execution_start": ToolExecutionStart,
    "tool_output": ToolOutputEvent,
    "tool_execution_end": ToolExecutionEnd,
    "context_discovered": ContextDiscovered,
    "skill_loaded": SkillLoaded,
    "sub_agent_event": SubAgentEvent,
}
