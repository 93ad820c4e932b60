"""Opal's tools, as a set for an agent: `Agent(tool_set=opal_tools())`.

`fairlead.tools.opal` has the tools that work on the machine; the tools in this package need the session too.
`fairlead.tools.opal.results` says what results and updates hold for the wire. Closing the session ends the processes that the
tools have started.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from fairlead.agent.tool_sets import ToolServices, ToolSet
from fairlead.core.events import Event, SubagentEvent, ToolUpdate
from fairlead.core.lenient import scrub
from fairlead.core.message_updates import MessageUpdate
from fairlead.core.messages import Message
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ConfigError, ToolError
from fairlead.session.subagents.subagent import cut
from fairlead.tools.opal import integer, machine_tools, object_schema, repaired, string
from fairlead.tools.opal.results import SKILL
from fairlead.tools.truncate import head
from fairlead.tools.workspace import Workspace

__all__ = ["TOOL_NAMES", "opal_tools"]

#: The tools, in the order in which Opal's hosts list them.
TOOL_NAMES = (
    "read_file",
    "write_file",
    "edit_file",
    "grep",
    "shell",
    "sub_agent",
    "tasks",
    "use_skill",
    "ask_user",
    "debug_state",
)


def opal_tools(*, data_dir: Path | None = None, excluded: Collection[str] = ()) -> ToolSet:
    """Return Opal's tools without those that are `excluded`. `data_dir` is a folder that most file tools may use too."""

    def for_workspace(workspace: Workspace) -> Mapping[str, Tool]:
        return {tool.name: tool for tool in machine_tools(workspace, data_dir)}

    def for_session(services: ToolServices) -> list[Tool]:
        tools = (
            *machine_tools(services.workspace, data_dir),
            _sub_agent(services),
            _tasks(services),
            _use_skill(services),
            _ask_user(services),
            _debug_state(services),
        )
        return [tool for tool in tools if tool.name not in excluded]

    return ToolSet(for_workspace, for_session)


def _sub_agent(services: ToolServices) -> Tool:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        from fairlead.agent.tool_sets.opal.sub_agent import run_sub_agent

        return await run_sub_agent(services, arguments, context)

    return Tool(
        name="sub_agent",
        description=(
            "Give a piece of work to a sub-agent and get its answer, below a log of the tools it called. It sees nothing of this"
            " conversation but the prompt. Sub-agents of several calls in one turn work at the same time."
        ),
        parameters=object_schema(
            {
                "prompt": string("What to do, and what the answer should contain"),
                "tools": {"type": "array", "items": {"type": "string"}, "description": "The tools it may use; all if left out"},
                "model": string("The id of its model; the same as yours if left out"),
                "system_prompt": string("Replaces its own instructions"),
            },
            "prompt",
        ),
        run=run,
        kind="think",
        title=lambda arguments: f"Sub-agent: {arguments['prompt']}",
        harmless=True,
        snippet="Give work to sub-agents",
        guidelines=("Give independent pieces of work to sub-agents in one turn; do small ones yourself.",),
        bound=True,
        timeout=None,
        grace=1.0,  # more than the sub-agent's own tools have
        prepare=repaired,
    )


def _tasks(services: ToolServices) -> Tool:
    from fairlead.agent.tool_sets.opal.tasks import TaskKeeper
    from fairlead.agent.tool_sets.opal.tasks_tool import tasks_tool

    return tasks_tool(TaskKeeper(lambda: services.conversation, services.now_ms))


def _use_skill(services: ToolServices) -> Tool:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        additions, cwd, name = services.additions, services.workspace.cwd, arguments["skill_name"]
        if additions is None:
            raise ToolError("There are no skills here.")
        try:
            text = additions.skill_text(name, cwd)
        except ConfigError as error:
            raise ToolError(str(error)) from error
        skill = next({"name": each.name, "description": each.description} for each in additions.skills(cwd) if each.name == name)
        context.update(ToolResult([], {SKILL: skill}))
        return ToolResult.text(text, {SKILL: skill})

    return Tool(
        name="use_skill",
        description="Load the instructions of a skill. Use it before work that fits the description of one.",
        parameters=object_schema({"skill_name": string("The name of the skill")}, "skill_name"),
        run=run,
        kind="read",
        title=lambda arguments: f"Load the skill {arguments['skill_name']}",
        harmless=True,
        snippet="Load the instructions of a skill",
        prepare=repaired,
    )


def _ask_user(services: ToolServices) -> Tool:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        question, ui = arguments["question"], services.ui
        choices: list[str] = arguments.get("choices", [])
        if not ui.available:
            raise ToolError("The user cannot be asked: this session has none. Decide yourself, or end with your question.")
        # Also without choices: every Opal host can answer a question from the model, but it need not know another kind of input.
        answer = await ui.select(question, choices, cancel=context.cancel)
        if answer is None:
            raise ToolError("Operation aborted" if context.cancel.fired else "The user gave no answer.")
        return ToolResult.text(answer)

    return Tool(
        name="ask_user",
        description=(
            "Ask the user a question and wait for the answer. Ask only what you cannot find out and must not decide yourself."
        ),
        parameters=object_schema(
            {
                "question": string("What you want to know, as a whole sentence"),
                "choices": {"type": "array", "items": {"type": "string"}, "description": "Answers to choose from"},
            },
            "question",
        ),
        run=run,
        title=lambda arguments: f"Ask: {arguments['question']}",
        harmless=True,
        snippet="Ask the user a question",
        bound=True,
        timeout=None,
        prepare=repaired,
    )


def _debug_state(services: ToolServices) -> Tool:
    events = _EventRing(services.now_ms)
    services.listen(events.add)

    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return await _run_debug_state(services, events, arguments, context)

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
        run=run,
        kind="read",
        title=lambda _: "Show the state of the session",
        harmless=True,
        snippet="Inspect the state of this session",
        bound=True,
        prepare=repaired,
    )


_KEPT = 400
_EVENTS, _MOST_EVENTS = 50, 500
_MESSAGES, _MOST_MESSAGES = 20, 200
#: How many characters of an event and of a message the model sees.
_EVENT_LENGTH, _MESSAGE_LENGTH = 500, 400


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
