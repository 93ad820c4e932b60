"""The messages of a session that wait for a turn, for the end of the run, or for the next prompt."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fairlead.core.messages import CustomMessage
from fairlead.core.queues import Queued, Queues
from fairlead.session.events import Notify
from fairlead.session.history.current import CurrentConversation

if TYPE_CHECKING:
    from fairlead.session.history.queue_log import QueueName


class MessageQueue(Queues):
    """The queues of a session. `steering.mode`, `follow_up.mode` and `interrupt` say when its messages reach the model."""

    def __init__(self, current: CurrentConversation, notify: Notify, start_run: Callable[[], None]) -> None:
        super().__init__()
        #: Messages of extensions that go with the next prompt.
        self.next_turn: list[CustomMessage] = []
        self._current = current
        self._notify = notify
        self._start_run = start_run

    def start_run(self) -> None:
        """Begin a run with the messages that wait as steering, if there are any. Raises what `Session.prompt` raises."""
        self._start_run()

    def enqueue(self, line: QueueName, message: Queued) -> None:
        """Let a message wait. Raises SessionError if it cannot be written."""
        from fairlead.session.history.entries import QUEUE
        from fairlead.session.history.queue_log import addition

        self._current.conversation.note(QUEUE, addition(line, message))
        self.restore(line, message)
        if line != "nextTurn":
            self._notify(self.update())

    def restore(self, line: QueueName, message: Queued) -> None:
        """Let a message wait that has been written already."""
        if line != "nextTurn":
            (self.steering if line == "steering" else self.follow_up).add(message)
        elif isinstance(message, CustomMessage):
            self.next_turn.append(message)

    def clear(self) -> tuple[list[str], list[str]]:
        """Remove all messages that wait for a run. Returns the texts of the user, as steering and as follow-ups."""
        queued = [*self.steering, *self.follow_up]
        if queued:
            from fairlead.session.history.entries import QUEUE
            from fairlead.session.history.queue_log import cleared

            log = self._current.log
            self._current.conversation.keep(lambda: log.custom(QUEUE, cleared(log, queued), keep=True))
        texts = self.steering.clear(), self.follow_up.clear()
        self._notify(self.update())
        return texts

    def forget(self) -> None:
        """Drop everything: another conversation has its own messages that wait."""
        self.steering.clear()
        self.follow_up.clear()
        self.next_turn.clear()
