"""What there is to do, as Opal's clients see it."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.protocol.opal.shapes import ListedTask
from fairlead.wire.opal.tools.tasks import Task


def listed(tasks: Iterable[Task]) -> list[ListedTask]:
    """The tasks that are not done. Every value is a text."""
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
