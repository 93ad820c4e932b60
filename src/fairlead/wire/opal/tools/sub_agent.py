"""Opal's tools about the agent itself: sub_agent, which hands work to a sub-agent, and debug_state, which shows recent events."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from fairlead.agent.tool_set import ToolServices
from fairlead.core.events import Event, MessageUpdate, SubagentEvent, ToolEnd, ToolStart, ToolUpdate
from fairlead.core.lenient import scrub
from fairlead.core.messages import Message
from fairlead.core.tool import ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.session.subagents.subagent import cut
from fairlead.tools.truncate import head
from fairlead.wire.opal.statuses import without_statuses
from fairlead.wire.opal.tools.results import SUB_AGENT, text_of

if TYPE_CHECKING:
    from fairlead.session.subagents.agents import AgentDefinition

#: How many characters the host sees of the prompt, and the model of each logged call's arguments, result and error.
_LABEL, _ARGUMENTS, _RESULT, _FAILURE = 80, 500, 500, 200


async def run_sub_agent(services: ToolServices, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    """Let a sub-agent do what the call says, and return its answer.

    Raises ToolError if the sub-agent cannot be started, fails or is aborted.
    """
    from fairlead.session.subagents.subagent import cut
    from fairlead.session.subagents.subagents import Order

    subagents = services.subagents
    if not subagents.may_spawn:
        raise ToolError("Sub-agents are not available here. Do the work yourself.")
    available = _available(services)
    agent = _agent(arguments, available)
    # Opal's hosts know ids of this form.
    order = Order(f"sub-{os.urandom(16).hex()}", cut(arguments["prompt"], _LABEL), arguments["prompt"])
    child = subagents.prepare(agent, [order], "", context.call_id)[0]
    start = {
        "id": child.assignment.id,
        "label": child.assignment.description,
        "model": agent.model or (services.model.id if services.model is not None else ""),
        "tools": [name for name in available if agent.tools is None or name in agent.tools],
    }
    context.update(ToolResult([], {SUB_AGENT: start}))
    log = _CallLog(child.assignment.id)
    forget = services.subscribe(log.add)
    try:
        await subagents.work([child], context.cancel)
    finally:
        forget()
    answer = log.above(without_statuses(child.output))
    if child.status == "completed":
        return ToolResult.text(answer or "(no answer)")
    problem = "Operation aborted" if child.error is None else f"Sub-agent failed: {child.error}"
    raise ToolError(f"{answer}\n\n{problem}" if answer else problem)


def _available(services: ToolServices) -> list[str]:
    """The tools that a sub-agent can have: as in `fairlead.session.subagents.spawner`, only those that its parent may use."""
    made = services.subagents.family.make_tools(services.workspace)
    return [name for name, tool in services.toolbox.active_tools().items() if name in made or not tool.bound]


def _agent(arguments: dict[str, Any], available: list[str]) -> AgentDefinition:
    from fairlead.session.subagents.agents import BUILT_IN, AgentDefinition

    tools: list[str] | None = arguments.get("tools")
    unknown = [name for name in tools or () if name not in available]
    if unknown:
        raise ToolError(f"tools: a sub-agent cannot have {', '.join(unknown)}. It can have: {', '.join(available)}.")
    return AgentDefinition(
        name="sub_agent",
        description="does one piece of work",
        prompt=arguments.get("system_prompt") or BUILT_IN[0].prompt,
        tools=None if tools is None else tuple(tools),
        model=arguments.get("model"),
    )


class _CallLog:
    """The tool calls of a sub-agent and their results, in short."""

    def __init__(self, id: str) -> None:
        self._id = id
        self._calls: dict[str, str] = {}
        self._results: dict[str, str] = {}

    def add(self, event: Event) -> None:
        from fairlead.session.subagents.subagent import cut

        match event:
            case SubagentEvent(id=self._id, event=ToolStart() as call):
                arguments = msgspec.json.encode(scrub(call.arguments)).decode()
                self._calls[call.call_id] = f"{call.tool_name}({cut(arguments, _ARGUMENTS)})"
            case SubagentEvent(id=self._id, event=ToolEnd(is_error=False) as end):
                self._results[end.call_id] = cut(text_of(end.result), _RESULT)
            case SubagentEvent(id=self._id, event=ToolEnd() as end):
                self._results[end.call_id] = f"ERROR: {cut(text_of(end.result), _FAILURE)}"
            case _:
                pass

    def above(self, answer: str) -> str:
        """The text for the model: the answer, below the calls if there were any. The form is Opal's."""
        if not self._calls:
            return head(answer).content
        calls = "\n".join(f"- {call}: {self._results.get(id, '(no result)')}" for id, call in self._calls.items())
        return f"## Sub-agent tool log\n{head(calls).content}\n\n## Sub-agent response\n{head(answer).content}"


_KEPT = 400
_EVENTS, _MOST_EVENTS = 50, 500
_MESSAGES, _MOST_MESSAGES = 20, 200
#: How many characters of an event and of a message the model sees.
_EVENT_LENGTH, _MESSAGE_LENGTH = 500, 400


class EventRing:
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


async def run_debug_state(
    services: ToolServices, events: EventRing, arguments: dict[str, Any], context: ToolContext
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
    name = type(event).__name__
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
