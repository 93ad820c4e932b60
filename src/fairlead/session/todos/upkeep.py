"""What a session does about its todos by itself: it asks for a plan, reminds of what is left, and clears what is done."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from fairlead.session.todos.todos import TodoList, TodoTask

#: The type of the custom message that asks for a plan.
EAGER_PRELUDE = "eager-todo-prelude"

#: How a prompt ends that asks or exclaims, in the scripts that have marks of their own: full width, Arabic.
_NO_PLAN_NEEDED = ("?", "!", "\uff1f", "\uff01", "\u061f")

_PRELUDE = """\
<system-reminder>
The user's message that follows begins this session, and there is no plan yet. Before you work on it, call todo_write once with
a single replace: lay out all of the work, from looking around to checking the result, as phases of small tasks.
- Make each task one step whose end can be told, and write it so that it makes sense without the others.
- Put the files and decisions that you know of into details.
Then go on in the same turn: begin with the first task, and complete each one as soon as it is done.
Do not tell the user about this reminder.
</system-reminder>"""


def eager_prelude(text: str, todos: TodoList) -> str | None:
    """What the model is told before the first prompt of a session, so that it plans first.

    None if it has todos already, or if the prompt is a question or an exclamation: those are answered, not planned.
    """
    if todos.phases or text.rstrip().endswith(_NO_PLAN_NEEDED):
        return None
    return _PRELUDE


class Reminder(Struct, frozen=True):
    """The model stopped although there is something left to do. `text` tells it so."""

    attempt: int
    max_attempts: int
    todos: list[TodoTask]
    text: str


class Reminders:
    """Counts the reminders of one prompt after another; there are at most `limit` for each."""

    def __init__(self, limit: int = 3) -> None:
        self._limit = limit
        self._attempt = 0

    def begin(self) -> None:
        """A new prompt: it has all its reminders."""
        self._attempt = 0

    def next(self, open_items: Sequence[TodoTask]) -> Reminder | None:
        """The reminder that is due when the model stops with these items open, if there is one."""
        if not open_items or self._attempt >= self._limit:
            return None
        self._attempt += 1
        listed = "\n".join(f"- {task.id} {task.content} [{task.status}]" for task in open_items)
        text = (
            f"<system-reminder>\nYou stopped with {len(open_items)} incomplete todo item(s):\n{listed}\n\n"
            "Go on with them. Mark what is done as completed, and what is not going to be done as abandoned. If you cannot go "
            f"on without the user, say what you need.\n(Reminder {self._attempt}/{self._limit})\n</system-reminder>"
        )
        return Reminder(self._attempt, self._limit, list(open_items), text)


class AutoClear:
    """Takes tasks off a list some time after they were completed or abandoned. A negative delay: never.

    Whoever has a timer asks for `next_due` after every change of the list, since that is when it is noticed that a task has
    ended, and calls `clear_done` when the time has come. Times are milliseconds of any clock, as long as it is the same one.
    """

    def __init__(self, todos: TodoList, delay_seconds: float = 60) -> None:
        self._todos = todos
        self._delay_ms = round(delay_seconds * 1000)
        #: When it was noticed. Ids can come again in another list, so a task is known by more than its id.
        self._ended: dict[tuple[str, ...], int] = {}

    def next_due(self, now: int) -> int | None:
        """When there will be something to clear; None if nothing has ended."""
        if self._delay_ms < 0:
            return None
        self._notice(now)
        return min(self._ended.values()) + self._delay_ms if self._ended else None

    def clear_done(self, now: int) -> bool:
        """Clear what is due; whether anything was."""
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
