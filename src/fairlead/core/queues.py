"""Messages that wait for their turn: steering (as soon as the agent can listen) and follow-ups (when it would stop)."""

from __future__ import annotations

from typing import Literal, TypeAlias

from fairlead.core.events import QueueUpdate
from fairlead.core.messages import UserMessage, user_text

QueueMode: TypeAlias = Literal["all", "one-at-a-time"]
InterruptMode: TypeAlias = Literal["immediate", "wait"]


class Queue:
    """One line of waiting messages. `mode` says how many of them a turn takes."""

    def __init__(self) -> None:
        self.mode: QueueMode = "one-at-a-time"
        self.messages: list[UserMessage] = []

    def take(self) -> list[UserMessage]:
        """The messages that the next turn hears. They no longer wait: nothing can come between here and their delivery."""
        count = len(self.messages) if self.mode == "all" else 1
        taken, self.messages[:] = self.messages[:count], self.messages[count:]
        return taken

    def texts(self) -> list[str]:
        return [user_text(message) for message in self.messages]

    def clear(self) -> list[str]:
        texts = self.texts()
        self.messages.clear()
        return texts


class Queues:
    """Both queues of a conversation. An abort leaves them as they are."""

    def __init__(self) -> None:
        self.steering = Queue()
        self.follow_up = Queue()
        #: `immediate`: steering is looked for at each tool's end, and calls not yet started are skipped.
        self.interrupt: InterruptMode = "wait"

    def __len__(self) -> int:
        return len(self.steering.messages) + len(self.follow_up.messages)

    def update(self) -> QueueUpdate:
        return QueueUpdate(self.steering.texts(), self.follow_up.texts())
