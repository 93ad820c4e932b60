"""Messages that wait for their turn: steering (as soon as the agent can listen) and follow-ups (when it would stop)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from fairlead.core.events import QueueUpdate
from fairlead.core.messages import CustomMessage, UserMessage, user_text

QueueMode: TypeAlias = Literal["all", "one-at-a-time"]
InterruptMode: TypeAlias = Literal["immediate", "wait"]
#: What becomes of a prompt that comes while the agent runs: it is heard as soon as possible, or when the agent would stop.
Behavior: TypeAlias = Literal["steer", "followUp"]
#: What can wait: something that the user said, or that an extension adds.
Queued: TypeAlias = UserMessage | CustomMessage

#: How many messages may have been taken before the list that held them is replaced by a shorter one.
_SPENT = 64


class Queue:
    """Waiting messages, oldest first. `mode` says how many of them a turn takes.

    Every operation costs the same however many messages wait, except those that return or remove all of them. The lists
    only grow at their end, and are replaced when their beginning is no longer needed. A snapshot is therefore a list
    and two positions in it, and stays correct whatever happens to the queue later.
    """

    def __init__(self) -> None:
        self.mode: QueueMode = "one-at-a-time"
        self._messages: list[Queued] = []
        #: What the user said, message by message; None for a message of an extension.
        self._texts: list[str | None] = []
        self._start = 0
        self._ids: set[int] = set()
        #: Characters of all waiting texts.
        self._size = 0

    def __len__(self) -> int:
        return len(self._messages) - self._start

    def __iter__(self) -> Iterator[Queued]:
        return iter(self._messages[self._start :])

    def holds(self, message: Queued) -> bool:
        """Whether this very message waits here; one that says the same does not count."""
        return id(message) in self._ids

    def add(self, message: Queued) -> None:
        text = user_text(message) if isinstance(message, UserMessage) else None
        self._messages.append(message)
        self._texts.append(text)
        self._ids.add(id(message))
        self._size += len(text or "")

    def peek(self) -> list[Queued]:
        """The messages that the next turn hears."""
        return self._messages[self._start : None if self.mode == "all" else self._start + 1]

    def take(self) -> list[Queued]:
        """Remove and return the messages that the next turn hears."""
        taken = self.peek()
        for message, text in zip(taken, self._texts[self._start : self._start + len(taken)], strict=True):
            self._ids.discard(id(message))
            self._size -= len(text or "")
        self._start += len(taken)
        if self._start > max(_SPENT, len(self._messages) // 2):
            self._messages, self._texts, self._start = self._messages[self._start :], self._texts[self._start :], 0
        return taken

    def texts(self) -> list[str]:
        """What the user said, of all that waits."""
        return list(self.snapshot())

    def snapshot(self) -> WaitingTexts:
        """The texts that wait now."""
        return WaitingTexts(self._texts, self._start, self._size)

    def clear(self) -> list[str]:
        """Remove all messages; returns what the user said."""
        texts = self.texts()
        self._messages, self._texts, self._start, self._size = [], [], 0, 0
        self._ids.clear()
        return texts


class WaitingTexts:
    """The texts that waited in a queue at one moment. They are put together only when they are read."""

    __slots__ = ("_end", "_start", "_texts", "size")

    def __init__(self, texts: list[str | None], start: int, size: int) -> None:
        self._texts = texts
        self._start = start
        self._end = len(texts)
        #: Characters of all texts.
        self.size = size

    def __iter__(self) -> Iterator[str]:
        return (text for text in self._texts[self._start : self._end] if text is not None)


class Queues:
    """Both queues of a conversation. An abort leaves them as they are."""

    def __init__(self) -> None:
        self.steering = Queue()
        self.follow_up = Queue()
        #: `immediate`: steering is looked for at each tool's end, and calls not yet started are skipped.
        self.interrupt: InterruptMode = "wait"

    def __len__(self) -> int:
        return len(self.steering) + len(self.follow_up)

    def holds(self, message: Queued) -> bool:
        """Whether this very message waits in either queue."""
        return self.steering.holds(message) or self.follow_up.holds(message)

    def update(self) -> QueueUpdate:
        """The event that tells what waits now. Costs the same however much does."""
        return QueueUpdate(self.steering.snapshot(), self.follow_up.snapshot())
