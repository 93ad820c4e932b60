"""Queued messages in the session file, so that a message that is queued survives the process like one that was delivered.

Every change of a queue is a custom entry `fairlead.queue`, written before the message is acknowledged:

    {"op": "add", "queue": "steering" | "followUp" | "nextTurn" | "bash", "message": {...}}
    {"op": "clear", "except"?: [{...}]}     the steering and follow-up messages were withdrawn, except for these
    {"op": "fork"}                          the messages so far are queued in the session that this one was forked from

A message has been delivered once the conversation has an entry with the same message. `nextTurn` holds messages that an
extension sends with the next prompt. `bash` holds commands that the host ran during a run; they follow that run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, Literal, TypeAlias, cast

import msgspec
from msgspec import Struct

from fairlead.core.messages import BashExecutionMessage, CustomMessage, Message, UserMessage, decode_message, encode_message
from fairlead.core.queues import Queued
from fairlead.session.history.entries import QUEUE, CustomEntry, CustomMessageEntry, role_of
from fairlead.session.history.log import Log

QueueName: TypeAlias = Literal["steering", "followUp", "nextTurn", "bash"]

#: The queues whose messages can be withdrawn.
_CLEARABLE = ("steering", "followUp")

CLEARED: dict[str, Any] = {"op": "clear"}
FORKED: dict[str, Any] = {"op": "fork"}


class QueuedMessage(Struct):
    """A message and the queue it is in."""

    queue: QueueName
    message: Queued | BashExecutionMessage


def addition(queue: QueueName, message: Queued | BashExecutionMessage) -> dict[str, Any]:
    """Return the data of the entry for a message that joins a queue."""
    return {"op": "add", "queue": queue, "message": message}


def cleared(log: Log, withdrawn: Sequence[Queued]) -> dict[str, Any]:
    """Return the data of the entry for queues that are cleared. Messages that a turn has taken but not delivered yet stay."""
    keys = {_key(message) for message in withdrawn}
    taken = [each.message for each in undelivered(log) if each.queue in _CLEARABLE and _key(each.message) not in keys]
    return {**CLEARED, "except": taken} if taken else CLEARED


def undelivered(log: Log) -> list[QueuedMessage]:
    """Return the messages that were queued and neither delivered nor withdrawn, oldest first."""
    queued = _QueuedMessages()
    for entry in log.entries():
        if isinstance(entry, CustomEntry):
            if entry.custom_type == QUEUE:
                _apply(entry.data, queued)
        elif queued and (isinstance(entry, CustomMessageEntry) or role_of(entry) in ("user", "bashExecution")):
            delivered = log.read(entry)
            if len(delivered) == 1:
                queued.remove(_key(delivered[0]))
    return queued.all()


class _QueuedMessages:
    """Queued messages, oldest first, indexed by content: searching a list for each would take quadratic time."""

    def __init__(self) -> None:
        self._by_key: dict[bytes, deque[tuple[int, QueuedMessage]]] = {}
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def add(self, queued: QueuedMessage) -> None:
        self._count += 1
        self._by_key.setdefault(_key(queued.message), deque()).append((self._count, queued))

    def remove(self, key: bytes) -> None:
        """Remove the oldest message with this content, if there is one."""
        same = self._by_key.get(key)
        if same is not None:
            same.popleft()
            if not same:
                del self._by_key[key]

    def clear(self) -> None:
        self._by_key.clear()

    def all(self) -> list[QueuedMessage]:
        return [queued for _, queued in sorted(chain.from_iterable(self._by_key.values()), key=itemgetter(0))]


def _apply(data: Any, queued: _QueuedMessages) -> None:
    fields = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    if fields.get("op") == "clear":
        listed = fields.get("except")
        messages = cast("list[Any]", listed) if isinstance(listed, list) else []
        spared = {_key(decoded) for each in messages if (decoded := decode_message(encode_message(each))) is not None}
        before = queued.all()
        queued.clear()
        for each in before:
            if each.queue not in _CLEARABLE or _key(each.message) in spared:
                queued.add(each)
    elif fields.get("op") == "fork":
        queued.clear()
    elif fields.get("op") == "add" and fields.get("queue") in (*_CLEARABLE, "nextTurn", "bash") and "message" in fields:
        message = decode_message(encode_message(fields["message"]))
        if isinstance(message, UserMessage | CustomMessage | BashExecutionMessage):
            queued.add(QueuedMessage(fields["queue"], message))


def _key(message: Message) -> bytes:
    """Return the same bytes for equal messages."""
    return msgspec.json.encode(message, order="deterministic")
