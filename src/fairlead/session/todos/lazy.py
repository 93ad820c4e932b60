"""The todos of a session that may have none: the keeper, and all that it needs, is loaded with the first todo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairlead.core.messages import CustomMessage, UserMessage, user_text
from fairlead.session.history.current import CurrentConversation
from fairlead.session.history.entries import TODOS, CustomEntry
from fairlead.session.todos import todo_keeper

if TYPE_CHECKING:
    from fairlead.core.tool import Tool
    from fairlead.session.history.log import Log
    from fairlead.session.session_events import Notify
    from fairlead.session.session_options import SessionOptions
    from fairlead.session.todos.todo_keeper import TodoKeeper
    from fairlead.session.todos.todos import TodoPhase
    from fairlead.session.toolbox import Toolbox


class LazyTodos:
    """The todos of a session. The `TodoKeeper` behind it is made when it is first needed."""

    def __init__(self, options: SessionOptions, current: CurrentConversation, toolbox: Toolbox, notify: Notify) -> None:
        self._options = options
        self._current = current
        self._toolbox = toolbox
        self._notify = notify
        self._keeper: TodoKeeper | None = None

    @property
    def phases(self) -> list[TodoPhase]:
        """The list, phase by phase."""
        return [] if self._keeper is None else self._keeper.phases

    def set(self, phases: Any) -> None:
        """Replace the list. Raises BadCommand if it is malformed, SessionError if it cannot be written."""
        self._get_keeper().set(phases)

    def tools(self) -> list[Tool]:
        """The tool with which the model changes the list."""
        return [self._get_keeper().tool]

    def load(self) -> None:
        """Read the list from the conversation, as it is where that stands."""
        log = self._current.begun_log
        if self._keeper is not None:
            self._keeper.load(log)
        elif log is not None and _has_todos(log):
            self._get_keeper()

    def prelude(self, prompt: UserMessage) -> list[CustomMessage]:
        """What the model is told before a prompt."""
        self._toolbox.fill()  # the tool comes with the keeper
        if self._keeper is None:
            return []
        self._keeper.begin()
        prelude = self._keeper.prelude(user_text(prompt))
        return [] if prelude is None else [prelude]

    def note(self) -> CustomMessage | None:
        """What the model is told about a list that the host has set; None if it knows the list."""
        return None if self._keeper is None else self._keeper.note()

    def mark_announced(self) -> None:
        """The model has been told the list that the host has set."""
        if self._keeper is not None:
            self._keeper.mark_announced()

    def reminder(self) -> CustomMessage | None:
        """What the model is told if it stops although there is something left to do."""
        return None if self._keeper is None else self._keeper.reminder()

    def stop(self) -> None:
        """Stop clearing todos that are done."""
        if self._keeper is not None:
            self._keeper.stop()

    def _get_keeper(self) -> todo_keeper.TodoKeeper:
        if self._keeper is None:
            options, settings = self._options, self._options.todo
            self._keeper = todo_keeper.TodoKeeper(
                settings,
                options.todo_clear_delay,
                self._current,
                self._toolbox,
                options.runtime.now_ms,
                self._notify,
                eager=options.behaviour.eager_todos if settings.eager is None else settings.eager,
            )
            self._keeper.load(self._current.begun_log)
        return self._keeper


def _has_todos(log: Log) -> bool:
    return any(isinstance(entry, CustomEntry) and entry.custom_type == TODOS for entry in log.entries_with_notes())
