"""Messages that wait for their turn: steering (as soon as the agent can listen) and follow-ups (when it would stop)."""

from __future__ import annotations

from typing import Literal, TypeAlias

from fairlead.core.events import QueueUpdate
from fairlead.core.messages import CustomMessage, UserMessage, user_text

QueueMode: TypeAlias = Literal["all", "one-at-a-time"]
InterruptMode: TypeAlias = Literal["immediate", "wait"]
#: What becomes of a prompt that comes while the agent runs: it is heard as soon as possible, or when the agent would stop.
Behavior: TypeAlias = Literal["steer", "followUp"]
#: What can wait: something that the user said, or that an extension adds.
Queued: TypeAlias = UserMessage | CustomMessage


class Queue:
    """One line of waiting messages. `mode` says how many of them a turn takes."""

    def __init__(self) -> None:
        self.mode: QueueMode = "one-at-a-time"
        self.messages: list[Queued] = []

    def take(self) -> list[Queued]:
        """The messages that the next turn hears. They no longer wait: nothing can come between here and their delivery."""
        count = len(self.messages) if self.mode == "all" else 1
        taken, self.messages[:] = self.messages[:count], self.messages[count:]
        return taken

    def texts(self) -> list[str]:
        """What the user said, of all that waits."""
        return [user_text(message) for message in self.messages if isinstance(message, UserMessage)]

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
