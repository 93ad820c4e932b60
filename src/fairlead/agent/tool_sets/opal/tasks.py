"""Opal's tasks: what is left to do, with parents and dependencies.

A task may have a parent (`parent_id`) and wait for others (`blocked_by`). Neither may form a circle. A task is `blocked` while it
waits for a task that is not done, and becomes `open` when the last of those is done or deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fairlead.errors import ToolError
from fairlead.protocol.opal.opal_objects import ListedTask
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.entries import TASKS, CustomEntry

VIEWS = ("open", "done", "blocked", "in_progress", "ready")


def filter_tasks(tasks: Iterable[Task], op: Op) -> list[Task]:
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
        "tasks": [{**_describe_task(task), "depth": depth} for task, depth in _as_tree(tasks)]
        if tree
        else [_describe_task(task) for task in tasks],
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


def _describe_task(task: Task) -> dict[str, Any]:
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


Status: TypeAlias = Literal["open", "in_progress", "done", "blocked"]
STATUSES: tuple[Status, ...] = get_args(Status)
#: The fields of a task other than its links to others.
_TEXTS = ("label", "status", "notes", "prompt", "result")
#: The fields that a caller can set, in the order in which changes are reported.
FIELDS = ("label", "status", "notes", "blocked_by", "parent_id", "prompt", "result")


class Task(Struct, frozen=True, kw_only=True):
    id: int
    label: str
    status: Status = "open"
    #: Its parent task.
    parent_id: int | None = None
    #: The tasks that must be done first, without those that are done.
    blocked_by: tuple[int, ...] = ()
    #: The prompt for a sub-agent, and its result.
    prompt: str | None = None
    result: str | None = None
    notes: str = ""
    #: UTC, such as `2026-11-15 06:27:08.281458`.
    created_at: str = ""
    updated_at: str = ""


class Op(Struct, frozen=True, kw_only=True):
    """One operation. Fields that are None stay unchanged. An empty `blocked_by`, and a `parent_id` of 0, remove the links."""

    action: Literal["insert", "list", "update", "delete"]
    ids: tuple[int, ...] = ()
    label: str | None = None
    status: Status | None = None
    notes: str | None = None
    blocked_by: tuple[int, ...] | None = None
    parent_id: int | None = None
    prompt: str | None = None
    result: str | None = None
    view: str | None = None
    tree: bool = False


class TaskList(Struct, frozen=True):
    """All tasks by id, oldest first. No id is used twice, not even that of a deleted task."""

    tasks: Mapping[int, Task] = {}
    last_id: int = 0


class Draft:
    """A copy of the tasks that can be changed. `finish` validates the result."""

    def __init__(self, state: TaskList, now: str) -> None:
        self.tasks = dict(state.tasks)
        #: The changes, as hosts get them, and notes for the caller.
        self.changes: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self._last_id = state.last_id
        self._now = now

    def apply(self, op: Op) -> None:
        """Apply an operation. If it raises ToolError, the draft must not be used any more."""
        match op.action:
            case "insert":
                self._insert(op)
            case "update":
                for id in self._check_ids(op):
                    self._update(id, op)
            case "delete":
                for id in self._check_ids(op):
                    self._delete(id)
            case "list":
                pass

    def finish(self) -> TaskList:
        """Return the new tasks. Raises ToolError if a link names an unknown task or forms a circle."""
        unknown = [
            f"Task #{task.id}: {field} references unknown task #{id}"
            for task in self.tasks.values()
            for field, ids in (("blocked_by", _blockers(task)), ("parent_id", _parents(task)))
            for id in ids
            if id not in self.tasks
        ]
        if unknown:
            raise ToolError(f"{'; '.join(unknown)}. Nothing was changed.")
        for field, links in (("blocked_by", _blockers), ("parent_id", _parents)):
            circle = _circle(self.tasks, links)
            if circle:
                way = " → ".join(str(id) for id in circle)
                raise ToolError(f"Cycle detected: {way} ({field}). Nothing was changed.")
        return TaskList(self.tasks, self._last_id)

    # Operations

    def _insert(self, op: Op) -> None:
        if not op.label or not op.label.strip():
            raise ToolError("insert: expected a label that says what to do.")
        self._last_id += 1
        task = Task(id=self._last_id, label=op.label, created_at=self._now)
        self.changes.append({"op": "insert", "id": task.id, "label": task.label})
        self._put(self._change_task(task, op), op)

    def _update(self, id: int, op: Op) -> None:
        if op.label is not None and not op.label.strip():
            raise ToolError("update: a label cannot be empty.")
        fields = [field for field in FIELDS if getattr(op, field) is not None]
        if not fields:
            raise ToolError(f"update: expected something to change, one of {', '.join(FIELDS)}.")
        self.changes.append({"op": "update", "id": id, "changed_fields": fields})
        self._put(self._change_task(self.tasks[id], op), op)

    def _delete(self, id: int) -> None:
        task = self.tasks.pop(id)
        self.changes.append({"op": "delete", "id": id, "label": task.label})
        for child in list(self.tasks.values()):
            if child.parent_id == id:  # its children move to its parent
                self.tasks[child.id] = replace(child, parent_id=task.parent_id, updated_at=self._now)
                self.changes.append({"op": "update", "id": child.id, "changed_fields": ["parent_id"]})
        self._take_away(id)

    def _change_task(self, task: Task, op: Op) -> Task:
        values: dict[str, Any] = {name: value for name in _TEXTS if (value := getattr(op, name)) is not None}
        if op.parent_id is not None:
            values["parent_id"] = op.parent_id or None
        if op.blocked_by is not None:
            values["blocked_by"] = op.blocked_by
        return replace(task, **values, updated_at=self._now)

    def _put(self, task: Task, op: Op) -> None:
        """Store a task with a status that fits its links. If it is done, no task waits for it any more."""
        waits_for = tuple(
            id for id in task.blocked_by if id not in self.tasks or self.tasks[id].status != "done" or id == task.id
        )
        status = task.status
        if waits_for and status in ("open", "in_progress"):
            status = "blocked"
            if op.status is not None:
                self.notes.append(f"Task #{task.id} is blocked, not {op.status}: it waits for {_numbers(waits_for)}.")
        elif not waits_for and status == "blocked" and op.blocked_by is not None and op.status is None:
            status = "open"
        if task.blocked_by and not waits_for:
            self.notes.append(f"Task #{task.id} waits for nothing: {_numbers(task.blocked_by)} is done already.")
        self.tasks[task.id] = replace(task, blocked_by=waits_for, status=status)
        if status == "done":  # also for a new task: earlier ones of the batch may wait for it
            self._take_away(task.id)

    def _take_away(self, id: int) -> None:
        """Remove this task from what other tasks wait for."""
        for task in list(self.tasks.values()):
            if id not in task.blocked_by:
                continue
            waits_for = tuple(each for each in task.blocked_by if each != id)
            opens = not waits_for and task.status == "blocked"
            status: Status = "open" if opens else task.status
            self.tasks[task.id] = replace(task, blocked_by=waits_for, status=status, updated_at=self._now)
            if opens:
                self.changes.append({"op": "auto_unblock", "id": task.id, "changed_fields": ["blocked_by", "status"]})

    def _check_ids(self, op: Op) -> list[int]:
        if not op.ids:
            raise ToolError(f"{op.action}: expected the id of a task, or a list of ids.")
        unknown = [id for id in op.ids if id not in self.tasks]
        if unknown:
            known = f"The tasks are: {_numbers(self.tasks)}." if self.tasks else "There are no tasks."
            raise ToolError(f"Task {_numbers(unknown)} not found. {known} Nothing was changed.")
        return list(dict.fromkeys(op.ids))


def _blockers(task: Task) -> tuple[int, ...]:
    return task.blocked_by


def _parents(task: Task) -> tuple[int, ...]:
    return () if task.parent_id is None else (task.parent_id,)


def _numbers(ids: Iterable[int]) -> str:
    return ", ".join(f"#{id}" for id in ids)


def _circle(tasks: Mapping[int, Task], links: Callable[[Task], Sequence[int]]) -> list[int]:
    """A path along the links that returns to its start; empty if there is none. It is iterative, because chains can be long."""
    done: set[int] = set()
    for first in tasks:
        way: list[int] = []
        on_way: set[int] = set()
        # The links to follow next, for each step of the path.
        ahead: list[list[int]] = [[first]]
        while ahead:
            if not ahead[-1]:
                ahead.pop()
                if way:
                    on_way.remove(way[-1])
                    done.add(way.pop())
                continue
            id = ahead[-1].pop()
            if id in on_way:
                return [*way[way.index(id) :], id]
            if id not in done:
                way.append(id)
                on_way.add(id)
                ahead.append(list(links(tasks[id])))
    return []


def to_entry_data(state: TaskList) -> dict[str, Any]:
    """The data of the entry that holds the tasks."""
    return {"tasks": [msgspec.to_builtins(task) for task in state.tasks.values()], "lastId": state.last_id}


def from_entry_data(data: Any) -> TaskList:
    """Read what `to_entry_data` wrote. Other data counts as no tasks."""
    try:
        kept = msgspec.convert(data, _Kept)
    except msgspec.ValidationError:
        return TaskList()
    tasks = {task.id: task for task in kept.tasks}
    return TaskList(tasks, max([kept.last_id, *tasks]))


class _Kept(Struct, rename="camel"):
    tasks: list[Task]
    last_id: int = 0


def tasks_of(conversation: Conversation) -> TaskList:
    """The tasks of a conversation, at the entry where it stands."""
    if conversation.has_begun:
        for entry in conversation.log.back_with_notes():
            if isinstance(entry, CustomEntry) and entry.custom_type == TASKS:
                return from_entry_data(entry.data)
    return TaskList()


class TaskKeeper:
    """Keeps the tasks in the present conversation: each change is a note `fairlead.tasks` with all tasks.

    Nothing is kept in memory, so a conversation that was resumed, branched or replaced has the tasks it had there.
    """

    def __init__(self, conversation: Callable[[], Conversation], now_ms: Callable[[], int]) -> None:
        self._conversation = conversation
        self._now_ms = now_ms

    def draft(self) -> Draft:
        """A copy of the tasks that can be changed."""
        now = datetime.fromtimestamp(self._now_ms() / 1000, UTC)
        return Draft(tasks_of(self._conversation()), now.strftime("%Y-%m-%d %H:%M:%S.%f"))

    def keep(self, state: TaskList) -> None:
        """Save the tasks. Raises SessionError if that fails; then the tasks are as they were."""
        self._conversation().note(TASKS, to_entry_data(state))
