"""The todo list of a session: tasks in phases, edited by the model with `todo_write` and by hosts with `set_todos`.

After every change, every phase and every task has a unique id. New ids are `phase-N` and `task-N`, counting up from the highest.

A host's list keeps the statuses that it has. After a change by the model, at most one task is in progress: the first that says
so; the others become pending. If none says so, the first pending task becomes the one in progress.

A change is made completely or not at all. It always makes a new list of phases and leaves the old list unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, cast, get_args

import msgspec
from msgspec import Struct

from fairlead.config.json_files import describe_value
from fairlead.core.lenient import scrub_text
from fairlead.errors import BadCommand, ToolError

TodoStatus: TypeAlias = Literal["pending", "in_progress", "completed", "abandoned"]
STATUSES: tuple[TodoStatus, ...] = get_args(TodoStatus)
OPS = ("replace", "add_phase", "add_task", "update", "remove_task")


#: The name of a phase without one.
_NAMELESS = "Todos"


class TodoTask(Struct, omit_defaults=True):
    """One thing to do."""

    id: str
    content: str
    status: TodoStatus
    #: Context worth remembering.
    notes: str | None = None
    #: How to do it; shown while it is in progress.
    details: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is pending or in progress."""
        return self.status in ("pending", "in_progress")


class TodoPhase(Struct):
    """A named group of tasks."""

    id: str
    name: str
    tasks: list[TodoTask]


class TodoList:
    """The todos of one session. Assign to `phases` to restore an earlier list or to load another one."""

    def __init__(self, phases: list[TodoPhase] | None = None) -> None:
        self.phases: list[TodoPhase] = phases or []

    def set(self, phases: Any) -> list[TodoPhase]:
        """Replace all phases by those that a host sends as JSON. Return the new list.

        `id`, `status`, `notes` and `details` may be missing. An id that occurs twice in the list is replaced by a new one.
        Raises BadCommand, which names the wrong field and what was expected there.
        """
        try:
            sent = [_read_phase(value, f"phases[{i}]") for i, value in enumerate(_read_list(phases, "phases"))]
        except _Unusable as problem:
            raise BadCommand(str(problem)) from None
        self.phases = _with_ids(sent)
        return self.phases

    def apply(self, ops: Any) -> list[TodoPhase]:
        """Make the model's changes in order and return the new list. Each has an `op`, one of `OPS`:

            replace      phases: [{name, tasks?: [{content, status?, notes?, details?}]}]
            add_phase    name, tasks?
            add_task     phase (an id), content, status?, notes?, details?
            update       id (of a task), and at least one of status, content, notes, details
            remove_task  id

        Raises ToolError with a text for the model if one is wrong; nothing has changed then.
        """
        draft = _Draft(self.phases)
        try:
            for i, op in enumerate(_read_list(ops, "ops")):
                draft.change(_read_object(op, f"ops[{i}]"), f"ops[{i}]")
        except _Unusable as problem:
            raise ToolError(f"{problem}. Nothing was changed.") from None
        self.phases = _one_in_progress(draft.phases)
        return self.phases

    def remove(self, ids: Iterable[str]) -> None:
        """Remove tasks, and the phases that become empty by it. Phases that were empty before stay."""
        removed = set(ids)
        remaining: list[TodoPhase] = []
        for phase in self.phases:
            tasks = [task for task in phase.tasks if task.id not in removed]
            if tasks or not phase.tasks:
                remaining.append(TodoPhase(phase.id, phase.name, tasks))
        self.phases = remaining

    def tasks(self) -> list[TodoTask]:
        """Return the tasks of all phases."""
        return _tasks(self.phases)

    def open_items(self) -> list[TodoTask]:
        """Return the tasks that are pending or in progress."""
        return [task for task in self.tasks() if task.is_open]


# Session files


def to_entry_data(phases: Sequence[TodoPhase]) -> dict[str, Any]:
    """Return the data of the session entry that stores a list."""
    return {"phases": msgspec.to_builtins(phases)}


def from_entry_data(data: Any) -> list[TodoPhase]:
    """Return the list in the data of an entry, or in the details of a `todo_write` result. Invalid parts are left out."""
    phases: list[TodoPhase] = []
    for phase in _objects_in(data, "phases"):
        tasks: list[TodoTask] = []
        for task in _objects_in(phase, "tasks"):
            content = _usable_text(task, "content")
            if content is not None:
                status = task.get("status")
                known: TodoStatus = status if status in STATUSES else "pending"
                notes, details = _usable_text(task, "notes"), _usable_text(task, "details")
                tasks.append(TodoTask(_usable_text(task, "id") or "", content, known, notes, details))
        phases.append(TodoPhase(_usable_text(phase, "id") or "", _usable_text(phase, "name") or _NAMELESS, tasks))
    return _with_ids(phases)


def _objects_in(value: Any, name: str) -> list[dict[str, Any]]:
    items: Any = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
    return [item for item in cast("list[Any]", items) if isinstance(item, dict)] if isinstance(items, list) else []


def _usable_text(fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name)
    return scrub_text(value) if isinstance(value, str) and value.strip() else None


# Ids, and the task in progress

_Item = TypeVar("_Item", TodoPhase, TodoTask)


class _Ids:
    """Makes ids that are not in use."""

    def __init__(self, prefix: str, used: Iterable[str]) -> None:
        self._prefix = prefix
        self._last = max((self._number(id) for id in used), default=0)

    def next(self) -> str:
        self._last += 1
        return f"{self._prefix}-{self._last}"

    def _number(self, id: str) -> int:
        start, _, digits = id.rpartition("-")
        # Longer numbers are not ours, and Python refuses to parse thousands of digits.
        counts = start == self._prefix and digits.isascii() and digits.isdigit() and len(digits) < 16
        return int(digits) if counts else 0


def _with_ids(phases: list[TodoPhase]) -> list[TodoPhase]:
    _give_ids("phase", phases)
    _give_ids("task", _tasks(phases))
    return phases


def _give_ids(prefix: str, items: Sequence[_Item]) -> None:
    ids = _Ids(prefix, (item.id for item in items))
    taken: set[str] = set()
    for item in items:
        if not item.id or item.id in taken:
            item.id = ids.next()
        taken.add(item.id)


def _one_in_progress(phases: list[TodoPhase]) -> list[TodoPhase]:
    tasks = _tasks(phases)
    current = next((task for task in tasks if task.status == "in_progress"), None)
    current = current or next((task for task in tasks if task.status == "pending"), None)
    for task in tasks:
        if task is current:
            task.status = "in_progress"
        elif task.status == "in_progress":
            task.status = "pending"
    return phases


def _tasks(phases: Iterable[TodoPhase]) -> list[TodoTask]:
    return [task for phase in phases for task in phase.tasks]


# Changes


class _Draft:
    """A copy of a list, on which changes are made."""

    def __init__(self, phases: Iterable[TodoPhase]) -> None:
        self.phases = [TodoPhase(p.id, p.name, [msgspec.structs.replace(task) for task in p.tasks]) for p in phases]
        self._find_free_ids()

    def _find_free_ids(self) -> None:
        self._phase_ids = _Ids("phase", (phase.id for phase in self.phases))
        self._task_ids = _Ids("task", (task.id for task in _tasks(self.phases)))

    def change(self, op: dict[str, Any], where: str) -> None:
        match op.get("op"):
            case "replace":
                phases = _read_list(op.get("phases"), f"{where}.phases")
                self.phases = []
                self._find_free_ids()
                for i, phase in enumerate(phases):
                    self._add_phase(phase, f"{where}.phases[{i}]")
            case "add_phase":
                self._add_phase(op, where)
            case "add_task":
                phase = _find_item(self.phases, "phase", _read_text(op, "phase", where), f"{where}.phase")
                phase.tasks.append(self._with_new_id(_read_task(op, where)))
            case "update":
                _update(self._task(op, where), op, where)
            case "remove_task":
                removed = self._task(op, where)
                for phase in self.phases:
                    phase.tasks = [task for task in phase.tasks if task is not removed]
            case other:
                raise _unusable(f"{where}.op", _one_of(OPS), other)

    def _add_phase(self, value: Any, where: str) -> None:
        phase = _read_phase({"tasks": [], **_without_nulls(_read_object(value, where))}, where)
        phase.id = self._phase_ids.next()
        phase.tasks = [self._with_new_id(task) for task in phase.tasks]
        self.phases.append(phase)

    def _with_new_id(self, task: TodoTask) -> TodoTask:
        task.id = self._task_ids.next()
        return task

    def _task(self, op: dict[str, Any], where: str) -> TodoTask:
        return _find_item(_tasks(self.phases), "task", _read_text(op, "id", where), f"{where}.id")


def _find_item(items: Sequence[_Item], kind: str, id: str, where: str) -> _Item:
    for item in items:
        if item.id == id:
            return item
    existing = f"there are {', '.join(item.id for item in items)}" if items else f"there are no {kind}s"
    raise _Unusable(f'{where}: no {kind} has the id "{id}"; {existing}')


def _update(task: TodoTask, op: dict[str, Any], where: str) -> None:
    changes = _without_nulls({name: op.get(name) for name in ("status", "content", "notes", "details")})
    if not changes:
        raise _Unusable(f"{where}: expected a status, content, notes or details to change")
    if "status" in changes:
        task.status = _read_status(changes, where)
    if "content" in changes:
        task.content = _read_text(changes, "content", where)
    if "notes" in changes:
        task.notes = _read_remark(changes, "notes", where)
    if "details" in changes:
        task.details = _read_remark(changes, "details", where)


# Reading JSON from hosts and models


class _Unusable(Exception):
    """A value is wrong. The text names the field and what was expected there."""


def _unusable(where: str, expected: str, value: Any) -> _Unusable:
    if value is None:
        return _Unusable(f"{where}: required, but missing")
    return _Unusable(f"{where}: expected {expected}, got {describe_value(value)}")


def _one_of(values: Sequence[str]) -> str:
    quoted = [f'"{value}"' for value in values]
    return f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    """Return `fields` without those that are null: a null means that the field is missing."""
    return {name: value for name, value in fields.items() if value is not None}


def _read_list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise _unusable(where, "a list", value)
    return cast("list[Any]", value)


def _read_object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Unusable(f"{where}: expected an object, got {describe_value(value)}")
    return cast("dict[str, Any]", value)


def _read_phase(value: Any, where: str) -> TodoPhase:
    fields = _read_object(value, where)
    tasks = _read_list(fields.get("tasks"), f"{where}.tasks")
    return TodoPhase(
        _read_remark(fields, "id", where) or "",
        _read_text(fields, "name", where),
        [_read_task(task, f"{where}.tasks[{i}]") for i, task in enumerate(tasks)],
    )


def _read_task(value: Any, where: str) -> TodoTask:
    fields = _read_object(value, where)
    return TodoTask(
        _read_remark(fields, "id", where) or "",
        _read_text(fields, "content", where),
        _read_status(fields, where),
        _read_remark(fields, "notes", where),
        _read_remark(fields, "details", where),
    )


def _read_status(fields: dict[str, Any], where: str) -> TodoStatus:
    value = fields.get("status")
    if value is None:
        return "pending"
    if value not in STATUSES:
        raise _unusable(f"{where}.status", _one_of(STATUSES), value)
    return value


def _read_text(fields: dict[str, Any], name: str, where: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise _unusable(f"{where}.{name}", "a string", value)
    if not value.strip():
        raise _Unusable(f"{where}.{name}: expected some text, got an empty string")
    return scrub_text(value)


def _read_remark(fields: dict[str, Any], name: str, where: str) -> str | None:
    """Return a text that may be missing. An empty one counts as missing."""
    value = fields.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise _unusable(f"{where}.{name}", "a string", value)
    return scrub_text(value)
