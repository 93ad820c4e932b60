"""Lists of todos, and what is in them."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from fairlead.session.todos.todos import TodoList, TodoPhase


def as_json(phases: list[TodoPhase]) -> Any:
    return json.loads(msgspec.json.encode(phases))


def phase(*tasks: Any, **fields: Any) -> dict[str, Any]:
    """A phase as a host gives it; a task may be no more than its content."""
    given = [{"content": task} if isinstance(task, str) else task for task in tasks]
    return {"name": "One", "tasks": given, **fields}


def a_list(*phases: dict[str, Any]) -> TodoList:
    todos = TodoList()
    todos.set(list(phases))
    return todos


def statuses(todos: TodoList) -> dict[str, str]:
    return {task.id: task.status for task in todos.tasks()}


def ids(todos: TodoList) -> list[tuple[str, list[str]]]:
    return [(phase.id, [task.id for task in phase.tasks]) for phase in todos.phases]
