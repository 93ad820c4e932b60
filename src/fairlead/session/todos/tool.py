"""The todo_write tool, with which the model edits its todo list."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from fairlead.core.lenient import decode
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.session.todos.todos import OPS, STATUSES, TodoList, TodoPhase
from fairlead.tools import object_schema, string

_MARKS = {"pending": "○", "in_progress": "→", "completed": "✓", "abandoned": "✗"}

_DESCRIPTION = """\
Keep the list of what there is to do: phases, which hold tasks. The result shows the whole list with its ids.

The changes in ops are made in order; if one of them is wrong, none is made. No ops at all only shows the list.
- replace: a new list; takes phases
- add_phase: one more phase at the end; takes name, and tasks if there are any yet
- add_task: one more task at the end of a phase; takes phase and content
- update: change a task; takes id and the fields to change
- remove_task: take a task out; takes id

One task is in progress at a time, the first that says so. When it ends, the next pending one begins by itself, so it is enough
to complete tasks. To turn to another one out of order, set the current one to pending in the same call."""


def todo_write_tool(todos: TodoList, on_change: Callable[[], object]) -> Tool:
    """Return the tool that changes `todos`.

    `on_change` is called after a call that changed the list, before the call returns. If it raises, the call fails and the
    list is restored.
    """

    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        before = todos.phases
        if todos.apply(arguments["ops"]) != before:
            try:
                on_change()
            except Exception:
                todos.phases = before
                raise
        details = {"phases": msgspec.to_builtins(todos.phases), "storage": "session"}
        return ToolResult.text(_summary(todos.phases), details)

    return Tool(
        name="todo_write",
        label="todo",
        description=_DESCRIPTION,
        parameters=_parameters(),
        run=run,
        kind="think",
        title=lambda _: "Update the todo list",
        snippet="Plan work in several steps and keep track of it",
        guidelines=(
            "Plan work of three steps or more with todo_write before you begin; do without it for less.",
            "Complete each todo as soon as it is done and checked, not several at once; abandon what turns out to be needless.",
        ),
        exclusive=True,
        harmless=True,
        bound=True,
        prepare=_prepare,
    )


@cache
def _parameters() -> dict[str, Any]:
    remarks = {
        "notes": string("Context worth remembering"),
        "details": string("How to do it: files, decisions; shown while the task is in progress"),
    }
    status = {"type": "string", "enum": list(STATUSES), "description": "pending if left out for a new task"}
    task = object_schema({"content": string("What to do"), "status": status, **remarks}, "content")
    tasks = {"type": "array", "items": task, "description": "Its tasks, in order"}
    phase = object_schema({"name": string("What the phase is called"), "tasks": tasks}, "name")
    op = object_schema(
        {
            "op": {"type": "string", "enum": list(OPS)},
            "phases": {"type": "array", "items": phase, "description": "replace: the new list"},
            "name": string("add_phase: what the phase is called"),
            "tasks": {**tasks, "description": "add_phase: its tasks, in order"},
            "phase": string("add_task: the id of the phase, such as phase-1"),
            "id": string("update, remove_task: the id of the task, such as task-3"),
            "content": string("add_task, update: what to do"),
            "status": {**status, "description": "add_task, update: how far it is"},
            **remarks,
        },
        "op",
    )
    return object_schema({"ops": {"type": "array", "items": op, "description": "The changes, in order"}}, "ops")


def _prepare(arguments: dict[str, Any]) -> dict[str, Any]:
    """Accept what models also send: a single change instead of a list, and either one as a string of JSON."""
    ops: Any = arguments.get("ops")
    if isinstance(ops, str):
        try:
            ops = decode(ops)
        except ValueError:
            return arguments  # validation against the schema reports what is wrong
    if isinstance(ops, dict):
        ops = [ops]
    return {**arguments, "ops": ops} if isinstance(ops, list) else arguments


def _summary(phases: list[TodoPhase]) -> str:
    """Return the list as text for the model: the open tasks, the progress, then all tasks (in xcsh's form)."""
    remaining = [(task, phase) for phase in phases for task in phase.tasks if task.is_open]
    lines = [f"Remaining items ({len(remaining)}):" if remaining else "Remaining items (0): none"]
    for task, phase in remaining:
        lines.append(f"  - {task.id} {_line(task.content)} [{task.status}] ({_line(phase.name)})")
        if task.status == "in_progress":
            lines += [f"      {line}" for text in (task.details, task.notes) if text for line in text.splitlines()]
    if phases:
        lines.append(_progress(phases))
    for phase in phases:
        lines.append(f"  {_line(phase.name)}:")
        lines += [f"    {_MARKS[task.status]} {task.id} {_line(task.content)}" for task in phase.tasks]
    return "\n".join(lines)


def _progress(phases: list[TodoPhase]) -> str:
    """Describe the progress of the first phase with open tasks, or of the last phase if none has any."""
    number, phase = len(phases), phases[-1]
    for i, candidate in enumerate(phases, 1):
        if any(task.is_open for task in candidate.tasks):
            number, phase = i, candidate
            break
    done = sum(not task.is_open for task in phase.tasks)
    return f'Phase {number}/{len(phases)} "{_line(phase.name)}" — {done}/{len(phase.tasks)} tasks complete'


def _line(text: str) -> str:
    return " ".join(text.split())
