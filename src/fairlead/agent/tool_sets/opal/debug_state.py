"""Opal's debug_state tool: the state of the session, for a model that looks for the cause of trouble."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from fairlead.agent.tool_sets import ToolServices
from fairlead.core.events import Event, SubagentEvent, ToolUpdate
from fairlead.core.lenient import scrub
from fairlead.core.message_updates import MessageUpdate
from fairlead.core.messages import Message
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.session.subagents.subagent import cut
from fairlead.tools import integer, object_schema, repair_arguments
from fairlead.tools.truncate import head

_KEPT = 400
_EVENTS, _MOST_EVENTS = 50, 500
_MESSAGES, _MOST_MESSAGES = 20, 200
#: How many characters of an event and of a message the model sees.
_EVENT_LENGTH, _MESSAGE_LENGTH = 500, 400


def debug_state_tool(services: ToolServices) -> Tool:
    events = _EventRing(services.now_ms)
    services.listen(events.add)
    return Tool(
        name="debug_state",
        description="Show the state of this session and what happened in it lately, to find the cause of trouble.",
        parameters=object_schema(
            {
                "event_limit": integer("How many of the last events to show, at most 500; 50 if left out"),
                "include_messages": {"type": "boolean", "description": "Show the last messages too"},
                "message_limit": integer("How many of them, at most 200; 20 if left out"),
            }
        ),
        run=partial(_run_debug_state, services, events),
        kind="read",
        title=lambda _: "Show the state of the session",
        harmless=True,
        snippet="Inspect the state of this session",
        bound=True,
        prepare=repair_arguments,
    )


class _EventRing:
    """The latest events of a session. They become text only when the model asks for them, which is rare."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._events: deque[tuple[int, str, Event | str]] = deque(maxlen=_KEPT)

    def add(self, event: Event) -> None:
        self._events.append((self._now_ms(), _type_of(event), _worth_keeping(event)))

    def last(self, count: int) -> list[dict[str, Any]]:
        return [
            {"timestamp_ms": time, "type": kind, "data": cut(str(event), _EVENT_LENGTH)}
            for time, kind, event in list(self._events)[-count:]
        ]


async def _run_debug_state(
    services: ToolServices, events: _EventRing, arguments: dict[str, Any], context: ToolContext
) -> ToolResult:
    model, toolbox, conversation = services.model, services.toolbox, services.conversation
    active = toolbox.active
    messages: list[dict[str, Any]] = []
    if arguments.get("include_messages"):
        last = conversation.messages[-_count(arguments, "message_limit", _MESSAGES, _MOST_MESSAGES) :]
        messages = [_shown(message) for message in last]
    state = {
        "session_id": conversation.id,
        "status": "running" if services.is_running else "idle",
        "model": None if model is None else {"provider": model.provider, "id": model.id, "thinking_level": services.thinking},
        "working_dir": str(services.workspace.cwd),
        "queues": {"pending_messages": services.queued_messages},
        "tools": {
            "all": list(toolbox),
            "enabled": active,
            "disabled": [name for name in toolbox if name not in active],
        },
        "context_tokens": conversation.context_tokens(),
        "messages": {"count": conversation.count, "recent": messages},
        "recent_events": events.last(_count(arguments, "event_limit", _EVENTS, _MOST_EVENTS)),
    }
    return ToolResult.text(head(msgspec.json.format(msgspec.json.encode(scrub(state)), indent=2).decode()).content)


def _count(arguments: dict[str, Any], name: str, default: int, most: int) -> int:
    return min(max(arguments.get(name, default), 1), most)


def _type_of(event: Event) -> str:
    """The name of an event in the form that the wire uses, such as `tool_start`."""
    name = "MessageUpdate" if isinstance(event, MessageUpdate) else type(event).__name__
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).removeprefix("_")


def _worth_keeping(event: Event) -> Event | str:
    """An event, or a short text for one that comes by the thousand and would keep long texts in memory."""
    match event:
        case MessageUpdate():
            return type(event.event).__name__
        case ToolUpdate():
            return event.tool_name
        case SubagentEvent():
            return f"{event.id}: {_type_of(event.event)}"
        case _:
            return event


def _shown(message: Message) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(message)
    return {"role": told.get("role"), "content": cut(msgspec.json.encode(scrub(told.get("content"))).decode(), _MESSAGE_LENGTH)}
