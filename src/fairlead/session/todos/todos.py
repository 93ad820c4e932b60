"""What there is to do in a session: tasks in phases, kept by the model with `todo_write` and by hosts with `set_todos`.

Whoever changes the list, afterwards it is in order:

- Every phase and every task has an id of its own. New ones are `phase-N` and `task-N`, counted on from the highest there is.
- At most one task is in progress: the first that claims to be, the others go back to pending. If none is, the first pending
  one begins.

A change is made as a whole or not at all, and always makes a new list of phases: an old one, once held, stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, cast, get_args

import msgspec
from msgspec import Struct

from fairlead.config.files import found
from fairlead.core.lenient import scrub_text
from fairlead.errors import BadCommand, ToolError

TodoStatus: TypeAlias = Literal["pending", "in_progress", "completed", "abandoned"]
STATUSES: tuple[TodoStatus, ...] = get_args(TodoStatus)
OPS = ("replace", "add_phase", "add_task", "update", "remove_task")


_NAMELESS = "Todos"


class TodoTask(Struct, omit_defaults=True):
    id: str
    content: str
    status: TodoStatus
    #: Context worth remembering.
    notes: str | None = None
    #: How it is to be done; of interest while it is in progress.
    details: str | None = None

    @property
    def is_open(self) -> bool:
        return self.status in ("pending", "in_progress")


class TodoPhase(Struct):
    id: str
    name: str
    tasks: list[TodoTask]


class TodoList:
    """The todos of one session. Assigning to `phases` takes the list back to what it was, or takes up another one."""

    def __init__(self, phases: list[TodoPhase] | None = None) -> None:
        self.phases: list[TodoPhase] = phases or []

    def set(self, phases: Any) -> list[TodoPhase]:
        """Replace everything by a host's phases, as they came as JSON; the list that this makes is the answer.

        `id` and `status` may be missing, and so may `notes` and `details`. An id that was given before in the same list is
        exchanged for a new one. Raises BadCommand, naming the place and what was expected there.
        """
        try:
            given = [_read_phase(value, f"phases[{i}]") for i, value in enumerate(_read_list(phases, "phases"))]
        except _Unusable as problem:
            raise BadCommand(str(problem)) from None
        self.phases = _in_order(given)
        return self.phases

    def apply(self, ops: Any) -> list[TodoPhase]:
        """Make the model's changes, one after the other; each has an `op`, one of `OPS`.

            replace      phases: [{name, tasks?: [{content, status?, notes?, details?}]}]
            add_phase    name, tasks?
            add_task     phase (an id), content, status?, notes?, details?
            update       id (of a task), and at least one of status, content, notes, details
            remove_task  id

        Raises ToolError, worded for the model, and then nothing has changed.
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
        """Take tasks out, and with them the phases that this leaves empty. Phases that were empty before stay."""
        gone = set(ids)
        left: list[TodoPhase] = []
        for phase in self.phases:
            tasks = [task for task in phase.tasks if task.id not in gone]
            if tasks or not phase.tasks:
                left.append(TodoPhase(phase.id, phase.name, tasks))
        self.phases = left

    def tasks(self) -> list[TodoTask]:
        return _tasks(self.phases)

    def open_items(self) -> list[TodoTask]:
        """The tasks that are pending or in progress."""
        return [task for task in self.tasks() if task.is_open]


# Session files


def to_entry_data(phases: Sequence[TodoPhase]) -> dict[str, Any]:
    """What the entry that keeps a list holds."""
    return {"phases": msgspec.to_builtins(phases)}


def from_entry_data(data: Any) -> list[TodoPhase]:
    """The list that an entry keeps, or the details of a `todo_write` result; what cannot be understood is left out."""
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
    return _in_order(phases)


def _objects_in(value: Any, name: str) -> list[dict[str, Any]]:
    items: Any = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
    return [item for item in cast("list[Any]", items) if isinstance(item, dict)] if isinstance(items, list) else []


def _usable_text(fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name)
    return scrub_text(value) if isinstance(value, str) and value.strip() else None


# Order

_Item = TypeVar("_Item", TodoPhase, TodoTask)


class _Ids:
    """Ids that nobody has yet."""

    def __init__(self, prefix: str, used: Iterable[str]) -> None:
        self._prefix = prefix
        self._last = max((self._number(id) for id in used), default=0)

    def next(self) -> str:
        self._last += 1
        return f"{self._prefix}-{self._last}"

    def _number(self, id: str) -> int:
        start, _, digits = id.rpartition("-")
        # Nobody counts that far, and Python refuses to read numbers of thousands of digits.
        counts = start == self._prefix and digits.isascii() and digits.isdigit() and len(digits) < 16
        return int(digits) if counts else 0


def _in_order(phases: list[TodoPhase]) -> list[TodoPhase]:
    _give_ids("phase", phases)
    _give_ids("task", _tasks(phases))
    return _one_in_progress(phases)


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
    """A copy of a list that is being changed."""

    def __init__(self, phases: Iterable[TodoPhase]) -> None:
        self.phases = [TodoPhase(p.id, p.name, [msgspec.structs.replace(task) for task in p.tasks]) for p in phases]
        self._count_on()

    def _count_on(self) -> None:
        self._phase_ids = _Ids("phase", (phase.id for phase in self.phases))
        self._task_ids = _Ids("task", (task.id for task in _tasks(self.phases)))

    def change(self, op: dict[str, Any], place: str) -> None:
        match op.get("op"):
            case "replace":
                given = _read_list(op.get("phases"), f"{place}.phases")
                self.phases = []
                self._count_on()
                for i, phase in enumerate(given):
                    self._add_phase(phase, f"{place}.phases[{i}]")
            case "add_phase":
                self._add_phase(op, place)
            case "add_task":
                phase = _named(self.phases, "phase", _read_text(op, "phase", place), f"{place}.phase")
                phase.tasks.append(self._new(_read_task(op, place)))
            case "update":
                _update(self._task(op, place), op, place)
            case "remove_task":
                gone = self._task(op, place)
                for phase in self.phases:
                    phase.tasks = [task for task in phase.tasks if task is not gone]
            case other:
                raise _unusable(f"{place}.op", _one_of(OPS), other)

    def _add_phase(self, value: Any, place: str) -> None:
        phase = _read_phase({"tasks": [], **_given(_read_object(value, place))}, place)
        phase.id = self._phase_ids.next()
        phase.tasks = [self._new(task) for task in phase.tasks]
        self.phases.append(phase)

    def _new(self, task: TodoTask) -> TodoTask:
        task.id = self._task_ids.next()
        return task

    def _task(self, op: dict[str, Any], place: str) -> TodoTask:
        return _named(_tasks(self.phases), "task", _read_text(op, "id", place), f"{place}.id")


def _named(items: Sequence[_Item], kind: str, id: str, place: str) -> _Item:
    for item in items:
        if item.id == id:
            return item
    there_are = f"there are {', '.join(item.id for item in items)}" if items else f"there are no {kind}s"
    raise _Unusable(f'{place}: no {kind} has the id "{id}"; {there_are}')


def _update(task: TodoTask, op: dict[str, Any], place: str) -> None:
    changes = _given({name: op.get(name) for name in ("status", "content", "notes", "details")})
    if not changes:
        raise _Unusable(f"{place}: expected a status, content, notes or details to change")
    if "status" in changes:
        task.status = _read_status(changes, place)
    if "content" in changes:
        task.content = _read_text(changes, "content", place)
    if "notes" in changes:
        task.notes = _read_remark(changes, "notes", place)
    if "details" in changes:
        task.details = _read_remark(changes, "details", place)


# Reading what somebody else wrote


class _Unusable(Exception):
    """Where something is wrong, and what was expected there."""


def _unusable(place: str, expected: str, value: Any) -> _Unusable:
    if value is None:
        return _Unusable(f"{place}: required, but missing")
    return _Unusable(f"{place}: expected {expected}, got {found(value)}")


def _one_of(values: Sequence[str]) -> str:
    quoted = [f'"{value}"' for value in values]
    return f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    """`fields` without those that are null, which is to say absent."""
    return {name: value for name, value in fields.items() if value is not None}


def _read_list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise _unusable(place, "a list", value)
    return cast("list[Any]", value)


def _read_object(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Unusable(f"{place}: expected an object, got {found(value)}")
    return cast("dict[str, Any]", value)


def _read_phase(value: Any, place: str) -> TodoPhase:
    fields = _read_object(value, place)
    tasks = _read_list(fields.get("tasks"), f"{place}.tasks")
    return TodoPhase(
        _read_remark(fields, "id", place) or "",
        _read_text(fields, "name", place),
        [_read_task(task, f"{place}.tasks[{i}]") for i, task in enumerate(tasks)],
    )


def _read_task(value: Any, place: str) -> TodoTask:
    fields = _read_object(value, place)
    return TodoTask(
        _read_remark(fields, "id", place) or "",
        _read_text(fields, "content", place),
        _read_status(fields, place),
        _read_remark(fields, "notes", place),
        _read_remark(fields, "details", place),
    )


def _read_status(fields: dict[str, Any], place: str) -> TodoStatus:
    value = fields.get("status")
    if value is None:
        return "pending"
    if value not in STATUSES:
        raise _unusable(f"{place}.status", _one_of(STATUSES), value)
    return value


def _read_text(fields: dict[str, Any], name: str, place: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise _unusable(f"{place}.{name}", "a string", value)
    if not value.strip():
        raise _Unusable(f"{place}.{name}: expected some text, got an empty string")
    return scrub_text(value)


def _read_remark(fields: dict[str, Any], name: str, place: str) -> str | None:
    """A text that may be missing; an empty one says as little."""
    value = fields.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise _unusable(f"{place}.{name}", "a string", value)
    return scrub_text(value)
