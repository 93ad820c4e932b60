"""Opal's tools that need the session: sub_agent, get_debug_state and tasks."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import msgspec

from fairlead.agent.tool_sets import ToolServices
from fairlead.agent.tool_sets.opal.tasks import STATUSES, VIEWS, Draft, Op, TaskKeeper, filter_tasks, payload
from fairlead.core.events import Event, SubagentEvent, ToolEnd, ToolStart, ToolUpdate
from fairlead.core.lenient import scrub
from fairlead.core.message_updates import MessageUpdate
from fairlead.core.messages import Message
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.protocol.opal.opal_objects import without_statuses
from fairlead.session.subagents.agent_kinds import BUILT_IN, AgentDefinition
from fairlead.session.subagents.subagent import cut
from fairlead.session.subagents.subagents import Order
from fairlead.tools import integer, object_schema, repair_arguments, string
from fairlead.tools.opal.anchors import OUTPUT, SUB_AGENT, text_of
from fairlead.tools.truncate import head

#: How many characters the host sees of the prompt, and the model of each logged call's arguments, result and error.
_LABEL, _ARGUMENTS, _RESULT, _FAILURE = 80, 500, 500, 200

_PARAMETERS = object_schema(
    {
        "prompt": string("What to do, and what the answer should contain"),
        "tools": {"type": "array", "items": {"type": "string"}, "description": "The tools it may use; all if left out"},
        "model": string("The id of its model; the same as yours if left out"),
        "system_prompt": string("Replaces its own instructions"),
    },
    "prompt",
)


def sub_agent_tool(services: ToolServices) -> Tool:
    return Tool(
        name="sub_agent",
        description=(
            "Give a piece of work to a sub-agent and get its answer, below a log of the tools it called. It sees nothing of this"
            " conversation but the prompt. Sub-agents of several calls in one turn work at the same time."
        ),
        parameters=_PARAMETERS,
        run=partial(_run_sub_agent, services),
        kind="think",
        title=lambda arguments: f"Sub-agent: {arguments['prompt']}",
        harmless=True,
        snippet="Give work to sub-agents",
        guidelines=("Give independent pieces of work to sub-agents in one turn; do small ones yourself.",),
        bound=True,
        timeout=None,
        grace=1.0,  # more than the sub-agent's own tools have
        prepare=repair_arguments,
    )


async def _run_sub_agent(services: ToolServices, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    """Let a sub-agent do what the call says, and return its answer.

    Raises ToolError if the sub-agent cannot be started, fails or is aborted.
    """
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
        messages = [_summarise_message(message) for message in last]
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


def _summarise_message(message: Message) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(message)
    return {"role": told.get("role"), "content": cut(msgspec.json.encode(scrub(told.get("content"))).decode(), _MESSAGE_LENGTH)}


_TASKS_DESCRIPTION = """\
Keep a list of tasks. The result has all tasks after the call.

- insert: a new task; takes label. parent_id makes it a part of another, blocked_by makes it wait for others
- list: the tasks, or those of a view; ready are those that can be started. tree puts parts behind what they belong to
- update: change the task id, or several ids alike; what is left out stays as it is
- delete: take tasks out; their parts go up to the task above
- batch: several of these in order (ops); if one of them is wrong, none is made

A task that waits for one that is not done is blocked, and opens by itself when that is done. Waiting in a circle is refused. In a
batch, blocked_by and parent_id may name tasks that it makes itself: ids count up by one."""


def tasks_tool(keeper: TaskKeeper) -> Tool:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        told = _carry_out(keeper, arguments)
        text = head(msgspec.json.encode(told).decode())
        return ToolResult.text(text.content if not text.truncated else _in_short(told), {OUTPUT: told})

    return Tool(
        name="tasks",
        description=_TASKS_DESCRIPTION,
        parameters=_parameters(),
        run=run,
        kind="think",
        title=lambda arguments: "List the tasks" if arguments["action"] == "list" else "Update the tasks",
        harmless=True,
        snippet="Plan work in several steps and keep track of it",
        guidelines=("Plan work of three steps or more with tasks; mark each one done as soon as it is.",),
        exclusive=True,
        bound=True,
        prepare=_prepare,
    )


def _carry_out(keeper: TaskKeeper, arguments: dict[str, Any]) -> dict[str, Any]:
    """Carry out a call, completely or not at all. Raises ToolError, or SessionError if the tasks cannot be saved."""
    draft = keeper.draft()
    action: str = arguments["action"]
    if action == "list":
        op = _op(arguments)
        return payload(action, filter_tasks(draft.tasks.values(), op), tree=op.tree)
    operations = _batch(draft, arguments) if action == "batch" else None
    if operations is None:
        draft.apply(_op(arguments))
    state = draft.finish()
    if draft.changes:
        keeper.keep(state)
    return payload(action, list(state.tasks.values()), changes=draft.changes, notes=draft.notes, operations=operations)


def _batch(draft: Draft, arguments: dict[str, Any]) -> list[dict[str, Any]]:
    operations: list[dict[str, Any]] = []
    if not arguments.get("ops"):
        raise ToolError("batch: expected a list of operations in ops.")
    for number, each in enumerate(arguments["ops"]):
        told_before = len(draft.changes)
        try:
            op = _op(each)
            draft.apply(op)
        except ToolError as error:
            raise ToolError(f"ops[{number}]: {str(error).removesuffix(' Nothing was changed.')} Nothing was changed.") from None
        total = len(filter_tasks(draft.tasks.values(), op) if op.action == "list" else draft.tasks)
        operations.append({"action": op.action, "ok": True, "changes": draft.changes[told_before:], "total": total})
    return operations


def _op(arguments: dict[str, Any]) -> Op:
    """The operation that valid arguments describe."""
    values = {name: value for name, value in arguments.items() if name not in ("id", "blocked_by", "ops")}
    id = arguments.get("id")
    ids = cast("list[int]", id) if isinstance(id, list) else [] if id is None else [id]
    return msgspec.convert({**values, "ids": ids, "blocked_by": _ids(arguments.get("blocked_by"))}, Op)


def _ids(text: str | None) -> list[int] | None:
    if text is None:
        return None
    words = [word.strip().removeprefix("#") for word in text.split(",") if word.strip()]
    wrong = next((word for word in words if not _is_id(word)), None)
    if wrong is not None:
        raise ToolError(f'blocked_by: expected ids with commas between them, such as "1,2", found {wrong[:40]!r}.')
    return list(dict.fromkeys(map(int, words)))


def _in_short(told: dict[str, Any]) -> str:
    """A result that would be too long, shortened for the model: the tasks without their long texts."""
    short = [{name: task[name] for name in ("id", "label", "status", "parent_id", "blocked_by")} for task in told["tasks"]]
    text = head(msgspec.json.encode({**told, "tasks": short}).decode().replace("},{", "},\n{")).content
    return f"{text}\n\n[The texts of the tasks are left out, since there are too many. List fewer, for example with a view.]"


def _parameters() -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": {
            "anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}],
            "description": "update, delete: the id of a task, or several",
        },
        "view": {"type": "string", "enum": list(VIEWS), "description": "list: only these"},
        "tree": {"type": "boolean", "description": "list: parts behind what they belong to, with their depth"},
        "label": string("What to do, in a few words"),
        "status": {"type": "string", "enum": list(STATUSES), "description": "How far it is"},
        "parent_id": integer("The task that it is a part of; 0: none"),
        "prompt": string("What a sub-agent that does it has to know"),
        "result": string("What came of it"),
        "notes": string("Anything else worth remembering"),
        "blocked_by": string('The ids of the tasks to wait for, such as "1,2"; empty: none'),
    }
    actions = ["insert", "list", "update", "delete"]
    op = object_schema({"action": {"type": "string", "enum": actions}, **fields}, "action")
    return object_schema(
        {
            "action": {"type": "string", "enum": [*actions, "batch"]},
            **fields,
            "ops": {"type": "array", "items": op, "description": "batch: what to do, in order"},
        },
        "action",
    )


def _prepare(arguments: dict[str, Any]) -> dict[str, Any]:
    """Accept what models also send: ids as strings, and `blocked_by` as an id or a list of ids."""
    arguments = repair_arguments(arguments)
    for name in ("id", "parent_id"):
        if name in arguments:
            arguments[name] = _number(arguments[name])
    match arguments.get("blocked_by"):
        case int() as id:
            arguments["blocked_by"] = str(id)
        case [*ids]:
            arguments["blocked_by"] = ",".join(map(str, ids))
        case _:
            pass
    if isinstance(arguments.get("ops"), list):
        ops = cast("list[Any]", arguments["ops"])
        arguments["ops"] = [_prepare(cast("dict[str, Any]", op)) if isinstance(op, dict) else op for op in ops]
    return arguments


def _number(value: Any) -> Any:
    if isinstance(value, list):
        return [_number(each) for each in cast("list[Any]", value)]
    text = value.strip().removeprefix("#") if isinstance(value, str) else ""
    return int(text) if _is_id(text) else value


def _is_id(text: str) -> bool:
    """Whether a text can be the id of a task. No id has more digits."""
    return text.isascii() and text.isdigit() and len(text) <= 18
