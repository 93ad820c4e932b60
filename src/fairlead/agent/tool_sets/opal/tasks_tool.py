"""Opal's tasks tool: how the model plans work, alone or for its sub-agents."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from fairlead.agent.tool_sets.opal.tasks import STATUSES, VIEWS, Draft, Op, TaskKeeper, chosen, payload
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools import integer, object_schema, repair_arguments, string
from fairlead.tools.opal.results import OUTPUT
from fairlead.tools.truncate import head

_DESCRIPTION = """\
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
        told = _made(keeper, arguments)
        text = head(msgspec.json.encode(told).decode())
        return ToolResult.text(text.content if not text.truncated else _in_short(told), {OUTPUT: told})

    return Tool(
        name="tasks",
        description=_DESCRIPTION,
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


def _made(keeper: TaskKeeper, arguments: dict[str, Any]) -> dict[str, Any]:
    """Carry out a call, completely or not at all. Raises ToolError, or SessionError if the tasks cannot be saved."""
    draft = keeper.draft()
    action: str = arguments["action"]
    if action == "list":
        op = _op(arguments)
        return payload(action, chosen(draft.tasks.values(), op), tree=op.tree)
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
        total = len(chosen(draft.tasks.values(), op) if op.action == "list" else draft.tasks)
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
