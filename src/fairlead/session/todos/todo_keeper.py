"""The todos of a session: kept with its conversation, edited by the model with the tool todo_write, cleared when done.

The model is reminded of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from fairlead.config.settings import TodoSettings
from fairlead.core.events import TodoAutoClear, TodoReminder, TodosChanged
from fairlead.core.lenient import decode
from fairlead.core.messages import CustomMessage
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.session.history.current import CurrentConversation
from fairlead.session.history.entries import TODOS, CustomEntry, role_of
from fairlead.session.session_events import Notify
from fairlead.session.todos.todos import OPS, STATUSES, TodoList, TodoPhase, TodoTask, from_entry_data, to_entry_data
from fairlead.session.toolbox import Toolbox
from fairlead.tools import object_schema, string

if TYPE_CHECKING:
    from fairlead.session.history.log import Log


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


#: The type of the custom message that reminds the model.
REMINDER = "todo-reminder"


class TodoKeeper:
    """Todos, and what happens to them by itself. Each change is a note `fairlead.todos` in the conversation."""

    def __init__(
        self,
        settings: TodoSettings,
        clear_delay: float,
        current: CurrentConversation,
        toolbox: Toolbox,
        now_ms: Callable[[], int],
        notify: Notify,
        *,
        eager: bool,
    ) -> None:
        self._current = current
        self._toolbox = toolbox
        self._now_ms = now_ms
        self._notify = notify
        self._settings = settings
        self._eager = eager
        self._todos = TodoList()
        self._reminders = Reminders(settings.reminders_max)
        self._auto_clear = AutoClear(self._todos, clear_delay)
        self._timer: asyncio.TimerHandle | None = None
        #: Whether the host has set a list that the model has not been told.
        self._is_untold = False
        self.tool = todo_write_tool(self._todos, self._save)

    @property
    def phases(self) -> list[TodoPhase]:
        return self._todos.phases

    def set(self, phases: Any) -> None:
        """Replace the list by that of a host. Raises BadCommand, or SessionError if it cannot be written."""
        before = self._todos.phases
        self._todos.set(phases)
        try:
            self._save()
        except Exception:
            self._todos.phases = before
            raise
        self._is_untold = True

    def load(self, log: Log | None) -> None:
        """Load the list at the current entry of a conversation. None means a new conversation."""
        before = self._todos.phases
        self._todos.phases, self._is_untold = [], True
        for entry in log.back_with_notes() if log is not None else ():
            if isinstance(entry, CustomEntry) and entry.custom_type == TODOS:
                self._todos.phases = from_entry_data(entry.data)
                break
            if role_of(entry):  # the model has seen the list in this message, or before it
                self._is_untold = False
        if self._todos.phases != before:
            self._emit_change()
        self._schedule()

    def begin(self) -> None:
        """A new prompt."""
        self._reminders.begin()
        if self._timer is None:
            self._schedule()

    def prelude(self, text: str) -> CustomMessage | None:
        """What the model is told before the first prompt of a session, so that it plans first; None in most dialects."""
        if not self._eager or not self._is_active() or self._was_prompted():
            return None
        asked = eager_prelude(text, self._todos)
        return CustomMessage(EAGER_PRELUDE, asked, False, self._now_ms()) if asked is not None else None

    def note(self) -> CustomMessage | None:
        """What the model is told about a list that the host has set; None if it knows the list."""
        if not self._is_untold or not self._todos.phases:
            return None
        return CustomMessage(HOST_LIST, host_list(self._todos.phases, self._is_active()), False, self._now_ms())

    def mark_announced(self) -> None:
        """The model has been told the list."""
        self._is_untold = False

    def reminder(self) -> CustomMessage | None:
        """What the model is told when it stops too early, after an event that says so. None if it may stop."""
        if not self._settings.reminders or not self._is_active():
            return None
        reminder = self._reminders.next(self._todos.open_items())
        if reminder is None:
            return None
        self._notify(TodoReminder(list(reminder.todos), reminder.attempt, reminder.max_attempts))
        return CustomMessage(REMINDER, reminder.text, False, self._now_ms())

    def stop(self) -> None:
        """Stop clearing todos that are done."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _was_prompted(self) -> bool:
        """Whether the session has had a prompt. Commands that the host sent before it do not count."""
        log = self._current.begun_log
        return log is not None and any(role_of(entry) == "user" for entry in log.back())

    def _is_active(self) -> bool:
        return self._settings.enabled and self.tool.name in self._toolbox.active

    def _save(self) -> None:
        self._current.conversation.note(TODOS, to_entry_data(self._todos.phases))
        self._emit_change()
        self._schedule()

    def _emit_change(self) -> None:
        self._notify(TodosChanged(deepcopy(self._todos.phases)))

    def _schedule(self) -> None:
        self.stop()
        now = self._now_ms()
        due = self._auto_clear.next_due(now)
        if due is None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # nothing runs yet; with the first prompt it does
            return
        self._timer = loop.call_later(max(0, due - now) / 1000, self._clear)

    def _clear(self) -> None:
        self._timer = None
        if self._auto_clear.clear_done(self._now_ms()):
            log = self._current.log
            self._current.conversation.keep(lambda: log.note(TODOS, to_entry_data(self._todos.phases)))
            self._notify(TodoAutoClear())
            self._emit_change()
        self._schedule()


#: The type of the custom message that asks for a plan.
EAGER_PRELUDE = "eager-todo-prelude"

#: The ends of questions and exclamations, also in full width and in Arabic.
_NO_PLAN_NEEDED = ("?", "!", "\uff1f", "\uff01", "\u061f")

_PRELUDE = """\
<system-reminder>
The user's message that follows begins this session, and there is no plan yet. Before you work on it, call todo_write once with
a single replace: lay out all of the work, from looking around to checking the result, as phases of small tasks.
- Make each task one step with a clear end, and write it so that it makes sense without the others.
- Put the files and decisions that you know about into details.
Then continue in the same turn: begin with the first task, and complete each one as soon as it is done.
Do not tell the user about this reminder.
</system-reminder>"""


def eager_prelude(text: str, todos: TodoList) -> str | None:
    """Return the text that asks the model for a plan, to send before the first prompt of a session.

    None if there are todos already, or if the prompt is a question or an exclamation, which needs no plan.
    """
    if todos.phases or text.rstrip().endswith(_NO_PLAN_NEEDED):
        return None
    return _PRELUDE


#: The type of the custom message with a list that the host has set.
HOST_LIST = "todo-list"


def host_list(phases: Sequence[TodoPhase], has_tool: bool) -> str:
    """Return the text that tells the model a list that the host has set."""
    lines: list[str] = []
    for phase in phases:
        lines.append(f"{phase.name}:")
        for task in phase.tasks:
            lines.append(f"- {task.id} {task.content} [{task.status}]")
            lines += [f"  {text}" for text in (task.details, task.notes) if text]
    update = "Work through it, and update it with todo_write as you go." if has_tool else "Work through it."
    listed = "\n".join(lines)
    return (
        f"<system-reminder>\nThis is the todo list for the session:\n{listed}\n\n{update}"
        " Do not tell the user about this reminder.\n</system-reminder>"
    )


class Reminder(Struct, frozen=True):
    """The model stopped although tasks are open. `text` is the message to it."""

    attempt: int
    max_attempts: int
    todos: list[TodoTask]
    text: str


class Reminders:
    """Makes the reminders, at most `limit` for each prompt."""

    def __init__(self, limit: int = 3) -> None:
        self._limit = limit
        self._attempt = 0

    def begin(self) -> None:
        """Start counting again for a new prompt."""
        self._attempt = 0

    def next(self, open_items: Sequence[TodoTask]) -> Reminder | None:
        """Return the reminder for a model that stops with these tasks open; None if there are none, or the limit is reached."""
        if not open_items or self._attempt >= self._limit:
            return None
        self._attempt += 1
        listed = "\n".join(f"- {task.id} {task.content} [{task.status}]" for task in open_items)
        text = (
            f"<system-reminder>\nYou stopped with {len(open_items)} incomplete todo item(s):\n{listed}\n\n"
            "Continue with them. Mark what is done as completed, and what will not be done as abandoned. If you cannot "
            f"continue without the user, say what you need.\n(Reminder {self._attempt}/{self._limit})\n</system-reminder>"
        )
        return Reminder(self._attempt, self._limit, list(open_items), text)


class AutoClear:
    """Removes tasks from a list some time after they were completed or abandoned; never, if the delay is negative.

    The caller has the timer: it calls `next_due` after every change of the list, which notices that tasks have ended, and
    `clear_done` at that time. Times are milliseconds of any one clock.
    """

    def __init__(self, todos: TodoList, delay_seconds: float = 60) -> None:
        self._todos = todos
        self._delay_ms = round(delay_seconds * 1000)
        #: When the end of each task was noticed. Another list may use the same ids, so the id alone does not identify a task.
        self._ended: dict[tuple[str, ...], int] = {}

    def next_due(self, now: int) -> int | None:
        """Return the time at which to clear the next task; None if no task has ended."""
        if self._delay_ms < 0:
            return None
        self._notice(now)
        return min(self._ended.values()) + self._delay_ms if self._ended else None

    def clear_done(self, now: int) -> bool:
        """Remove the tasks that are due. Return whether there were any."""
        if self._delay_ms < 0:
            return False
        self._notice(now)
        due = [task[0] for task, since in self._ended.items() if since + self._delay_ms <= now]
        if due:
            self._todos.remove(due)
        return bool(due)

    def _notice(self, now: int) -> None:
        ended = [(task.id, task.content, task.status) for task in self._todos.tasks() if not task.is_open]
        self._ended = {task: self._ended.get(task, now) for task in ended}
