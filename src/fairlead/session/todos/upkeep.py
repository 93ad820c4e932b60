"""Automatic care for the todos of a session: asking for a plan, reminding of open tasks, clearing finished ones."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from fairlead.session.todos.todos import TodoList, TodoTask

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
