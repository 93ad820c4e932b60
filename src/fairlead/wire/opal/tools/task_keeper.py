"""The tasks of a session: kept with its conversation, and read from there wherever that stands."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fairlead.session.history.entries import TASKS, CustomEntry
from fairlead.wire.opal.tools.tasks import Draft, State, from_entry_data, to_entry_data

if TYPE_CHECKING:
    from fairlead.session.session import Session


class TaskKeeper:
    """Each change is a custom entry `fairlead.tasks` of the conversation, with all tasks.

    Nothing is remembered beside that, so a conversation that was resumed, branched or replaced has the tasks it had there.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def state(self) -> State:
        """The tasks where the conversation stands."""
        conversation = self._session.conversation
        if not conversation.has_begun:
            return State()
        for entry in conversation.log.back():
            if isinstance(entry, CustomEntry) and entry.custom_type == TASKS:
                return from_entry_data(entry.data)
        return State()

    def draft(self) -> Draft:
        """The tasks, to be changed."""
        now = datetime.fromtimestamp(self._session.runtime.now_ms() / 1000, UTC)
        return Draft(self.state(), now.strftime("%Y-%m-%d %H:%M:%S.%f"))

    def keep(self, state: State) -> None:
        """Raises SessionError if it cannot be kept; then the tasks are as they were."""
        self._session.conversation.note(TASKS, to_entry_data(state))
