"""Messages of extensions that must not start or continue a turn: pi adds them when the present turn has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.core.events import AgentEnd, Event, MessageEnd, MessageStart, TurnEnd
from fairlead.core.messages import CustomMessage

if TYPE_CHECKING:
    from fairlead.session.session import Session


class QuietMessages:
    """Adds messages to a session between turns."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting: list[CustomMessage] = []
        self.close = session.subscribe(self._heard)

    def add(self, message: CustomMessage) -> None:
        """Add a message when the turn ends, or the run if its last turn has ended."""
        self._waiting.append(message)

    def _heard(self, event: Event) -> None:
        if not self._waiting or not isinstance(event, TurnEnd | AgentEnd):
            return
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            self._session.history.conversation.add(message)
            self._session.host.notify(MessageStart(message))
            self._session.host.notify(MessageEnd(message))
