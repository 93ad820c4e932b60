"""Queued messages: steering (delivered as soon as the agent can listen) and follow-ups (delivered when it would stop)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from fairlead.core.events import QueueUpdate
from fairlead.core.messages import CustomMessage, UserMessage, user_text

QueueMode: TypeAlias = Literal["all", "one-at-a-time"]
InterruptMode: TypeAlias = Literal["immediate", "wait"]
#: When a prompt that comes during a run is delivered: as soon as possible, or when the agent would stop.
Behavior: TypeAlias = Literal["steer", "followUp"]
#: What can be queued: a message from the user or from an extension.
Queued: TypeAlias = UserMessage | CustomMessage

#: How many messages are taken before a shorter list replaces the one that held them.
_SPENT = 64


class Queue:
    """Queued messages, oldest first. `mode` says how many of them a turn takes.

    Every operation takes constant time, except those that return or remove all messages. The lists only grow at their end,
    and are replaced when their beginning is no longer needed. A snapshot is therefore a list and two positions in it, and
    stays correct when the queue changes.
    """

    def __init__(self) -> None:
        self.mode: QueueMode = "one-at-a-time"
        self._messages: list[Queued] = []
        #: The text of each message from the user; None for a message from an extension.
        self._texts: list[str | None] = []
        self._start = 0
        #: The queued messages by their `id()`.
        self._by_id: dict[int, Queued] = {}
        #: The number of characters in all texts.
        self._size = 0

    def __len__(self) -> int:
        return len(self._messages) - self._start

    def __iter__(self) -> Iterator[Queued]:
        return iter(self._messages[self._start :])

    def holds(self, message: Queued) -> bool:
        """Whether this message object is queued here. An equal message does not count."""
        return id(message) in self._by_id

    def add(self, message: Queued) -> None:
        text = user_text(message) if isinstance(message, UserMessage) else None
        self._messages.append(message)
        self._texts.append(text)
        self._by_id[id(message)] = message
        self._size += len(text or "")

    def peek(self) -> list[Queued]:
        """The messages that the next turn gets."""
        return self._messages[self._start : None if self.mode == "all" else self._start + 1]

    def take(self) -> list[Queued]:
        """Remove and return the messages that the next turn gets."""
        taken = self.peek()
        for message, text in zip(taken, self._texts[self._start : self._start + len(taken)], strict=True):
            self._by_id.pop(id(message), None)
            self._size -= len(text or "")
        self._start += len(taken)
        if self._start > max(_SPENT, len(self._messages) // 2):
            self._messages, self._texts, self._start = self._messages[self._start :], self._texts[self._start :], 0
        return taken

    def remove(self, message: Queued) -> None:
        """Remove this message object, wherever in the queue it is."""
        place = next(place for place in range(self._start, len(self._messages)) if self._messages[place] is message)
        self._size -= len(self._texts[place] or "")
        self._by_id.pop(id(message), None)
        self._messages = self._messages[self._start : place] + self._messages[place + 1 :]
        self._texts = self._texts[self._start : place] + self._texts[place + 1 :]
        self._start = 0

    def texts(self) -> list[str]:
        """The texts of all queued messages from the user."""
        return list(self.snapshot())

    def snapshot(self) -> WaitingTexts:
        """A snapshot of the queued texts."""
        return WaitingTexts(self._texts, self._start, self._size)

    def clear(self) -> list[str]:
        """Remove all messages. Returns the texts of those from the user."""
        texts = self.texts()
        self._messages, self._texts, self._start, self._size = [], [], 0, 0
        self._by_id.clear()
        return texts


class WaitingTexts:
    """The texts in a queue at one moment. The list is built when it is first read."""

    __slots__ = ("_end", "_start", "_texts", "size")

    def __init__(self, texts: list[str | None], start: int, size: int) -> None:
        self._texts = texts
        self._start = start
        self._end = len(texts)
        #: The number of characters in all texts.
        self.size = size

    def __iter__(self) -> Iterator[str]:
        return (text for text in self._texts[self._start : self._end] if text is not None)


class Queues:
    """Both queues of a session. An abort does not change them."""

    def __init__(self) -> None:
        self.steering = Queue()
        self.follow_up = Queue()
        #: With `immediate`, the run checks for steering when each tool ends, and skips the calls that have not started.
        self.interrupt: InterruptMode = "wait"
        #: Whether to ask the model once more, although no message waits for it.
        self.again = False

    def __len__(self) -> int:
        return len(self.steering) + len(self.follow_up)

    def holds(self, message: Queued) -> bool:
        """Whether this message object is in either queue."""
        return self.steering.holds(message) or self.follow_up.holds(message)

    def take_again(self) -> bool:
        """Whether to ask the model once more. Asked again, the answer is no."""
        again, self.again = self.again, False
        return again

    def update(self) -> QueueUpdate:
        """The event that reports what is queued now. Takes constant time."""
        return QueueUpdate(self.steering.snapshot(), self.follow_up.snapshot())
