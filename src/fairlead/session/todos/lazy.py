"""The todos of a session, before anybody has any: the keeper, and all that it needs, is loaded with the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.core.messages import CustomMessage, UserMessage, user_text
from fairlead.session.options import SessionOptions

if TYPE_CHECKING:
    from fairlead.session.history.log import Log
    from fairlead.session.session import Session
    from fairlead.session.todos.keeper import TodoKeeper
    from fairlead.session.todos.todos import TodoPhase


class LateTodos:
    """A `TodoKeeper` that is made when it is first needed. Without one there is nothing to do, and nothing is said of it."""

    def __init__(self, session: Session, options: SessionOptions) -> None:
        self._session = session
        self._options = options
        self._keeper: TodoKeeper | None = None

    @property
    def keeper(self) -> TodoKeeper:
        return self._make() if self._keeper is None else self._keeper

    @property
    def phases(self) -> list[TodoPhase]:
        return [] if self._keeper is None else self._keeper.phases

    def take_up(self, log: Log | None) -> None:
        """Take the list from a conversation, as it is where that stands; None has not begun."""
        if self._keeper is not None:
            self._keeper.take_up(log)
        elif log is not None and _has_todos(log):
            self._make()

    def prelude(self, prompt: UserMessage) -> list[CustomMessage]:
        """What the model is told before a prompt."""
        if self._keeper is None:
            return []
        self._keeper.begin()
        prelude = self._keeper.prelude(user_text(prompt))
        return [] if prelude is None else [prelude]

    def reminder(self) -> CustomMessage | None:
        """What the model is told if it stops although there is something left to do."""
        return None if self._keeper is None else self._keeper.reminder()

    def stop(self) -> None:
        """Clear nothing any more."""
        if self._keeper is not None:
            self._keeper.stop()

    def _make(self) -> TodoKeeper:
        from fairlead.session.todos.keeper import TodoKeeper

        options, conversation = self._options, self._session.conversation
        eager = options.eager_todos if options.todo.eager is None else options.todo.eager
        self._keeper = keeper = TodoKeeper(self._session, options.todo, options.todo_clear_delay, eager=eager)
        if conversation.has_begun:
            keeper.take_up(conversation.log)
        return keeper


def _has_todos(log: Log) -> bool:
    from fairlead.session.history.entries import TODOS, CustomEntry

    return any(isinstance(entry, CustomEntry) and entry.custom_type == TODOS for entry in log.entries())
