"""The todos of a session: kept with its conversation, cleared when they are done, and the model is reminded of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fairlead.config.settings import TodoSettings
from fairlead.core.events import TodoAutoClear, TodoReminder
from fairlead.core.messages import CustomMessage
from fairlead.session.events import Notify
from fairlead.session.history.current import CurrentConversation
from fairlead.session.history.entries import TODOS, CustomEntry, role_of
from fairlead.session.todos.todos import TodoList, TodoPhase, from_entry_data, to_entry_data
from fairlead.session.todos.tool import todo_write_tool
from fairlead.session.todos.upkeep import EAGER_PRELUDE, AutoClear, Reminders, eager_prelude
from fairlead.session.toolbox import Toolbox

if TYPE_CHECKING:
    from fairlead.session.history.log import Log

#: The type of the custom message that reminds the model.
REMINDER = "todo-reminder"


class TodoKeeper:
    """Todos, and what happens to them by itself. Each change is a custom entry `fairlead.todos` of the conversation."""

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
        self.tool = todo_write_tool(self._todos, self._changed)

    @property
    def phases(self) -> list[TodoPhase]:
        return self._todos.phases

    def set(self, phases: Any) -> None:
        """Replace the list by that of a host. Raises BadCommand, or SessionError if it cannot be written."""
        before = self._todos.phases
        self._todos.set(phases)
        try:
            self._changed()
        except Exception:
            self._todos.phases = before
            raise

    def load(self, log: Log | None) -> None:
        """Read the list from a conversation, as it is where that stands; None: it has not begun."""
        past = log.back() if log is not None else ()
        entry = next((entry for entry in past if isinstance(entry, CustomEntry) and entry.custom_type == TODOS), None)
        self._todos.phases = from_entry_data(entry.data) if entry is not None else []
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

    def _changed(self) -> None:
        self._current.conversation.note(TODOS, to_entry_data(self._todos.phases))
        self._schedule()

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
            self._current.conversation.keep(lambda: log.custom(TODOS, to_entry_data(self._todos.phases), keep=True))
            self._notify(TodoAutoClear())
        self._schedule()
