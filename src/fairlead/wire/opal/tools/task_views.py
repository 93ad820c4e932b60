"""Opal's tasks as the tool and the hosts show them: chosen, in order, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairlead.protocol.opal.objects import ListedTask
from fairlead.wire.opal.tools.tasks import STATUSES, Op, Task

VIEWS = ("open", "done", "blocked", "in_progress", "ready")


def chosen(tasks: Iterable[Task], op: Op) -> list[Task]:
    """The tasks that a `list` asks for. With a view, other filters are ignored."""
    if op.view is not None:
        status = "open" if op.view == "ready" else op.view
        return [task for task in tasks if task.status == status and not (op.view == "ready" and task.blocked_by)]
    return [task for task in tasks if _fits(task, op)]


def payload(
    action: str,
    tasks: Sequence[Task],
    *,
    tree: bool = False,
    changes: Sequence[Mapping[str, Any]] = (),
    notes: Sequence[str] = (),
    operations: Sequence[Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """The result of a call, as JSON."""
    counts = {status: sum(task.status == status for task in tasks) for status in STATUSES}
    told: dict[str, Any] = {
        "kind": "tasks",
        "action": action,
        "tasks": [{**_told(task), "depth": depth} for task, depth in _as_tree(tasks)]
        if tree
        else [_told(task) for task in tasks],
        "total": len(tasks),
        "counts": counts,
        "changes": list(changes),
        "notes": list(notes),
    }
    return told if operations is None else {**told, "operations": list(operations)}


def open_tasks(tasks: Iterable[Task]) -> list[ListedTask]:
    """The tasks that are not done, as `tasks/list` has them: every value is a string."""
    return [
        ListedTask(
            id=str(task.id),
            label=task.label,
            status=task.status,
            prompt=task.prompt or "",
            result=task.result or "",
            notes=task.notes,
            blocked_by=",".join(map(str, task.blocked_by)),
            parent_id="" if task.parent_id is None else str(task.parent_id),
            created_at=task.created_at,
            updated_at=task.updated_at,
        )
        for task in tasks
        if task.status != "done"
    ]


def _told(task: Task) -> dict[str, Any]:
    return {
        "id": task.id,
        "label": task.label,
        "status": task.status,
        "done": task.status == "done",
        "parent_id": task.parent_id,
        "prompt": task.prompt,
        "result": task.result,
        "notes": task.notes,
        "blocked_by": [str(id) for id in task.blocked_by],  # strings, as Opal's hosts expect
        "created_at": task.created_at,
        "updated_at": task.updated_at,
    }


def _fits(task: Task, op: Op) -> bool:
    return (
        (op.label is None or task.label == op.label)
        and (op.status is None or task.status == op.status)
        and (op.notes is None or task.notes == op.notes)
        and (op.prompt is None or task.prompt == op.prompt)
        and (op.result is None or task.result == op.result)
        and (op.parent_id is None or task.parent_id == (op.parent_id or None))
        and (op.blocked_by is None or set(op.blocked_by) <= set(task.blocked_by))
    )


def _as_tree(tasks: Sequence[Task]) -> list[tuple[Task, int]]:
    """Each task after its parent, with its depth. A task whose parent is not shown is at the top."""
    shown = {task.id for task in tasks}
    parts: dict[int | None, list[Task]] = {}
    for task in tasks:
        parts.setdefault(task.parent_id if task.parent_id in shown else None, []).append(task)
    ordered: list[tuple[Task, int]] = []
    pending = [(task, 0) for task in reversed(parts.get(None, []))]
    while pending:
        task, depth = pending.pop()
        ordered.append((task, depth))
        pending += [(part, depth + 1) for part in reversed(parts.get(task.id, []))]
    return ordered
