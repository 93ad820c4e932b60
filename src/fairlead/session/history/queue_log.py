"""Messages that wait, written down: a queued message must outlive the process as much as one that was heard.

Each is a custom entry `fairlead.queue` of the session, written before it is acknowledged:

    {"op": "add", "queue": "steering" | "followUp" | "nextTurn" | "bash", "message": {...}}
    {"op": "clear", "except"?: [{...}]}                             steering and follow-ups were taken back, all but these
    {"op": "fork"}                                                  it all waits in the session that this is a fork of

It has been heard once the conversation has the same message as an entry of its own. `nextTurn` is what an extension wants to
go with the next prompt. `bash` is a command that the host ran during a run: its place in the conversation is after that run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, Literal, TypeAlias, cast

import msgspec
from msgspec import Struct

from fairlead.core.messages import BashExecutionMessage, CustomMessage, Message, UserMessage
from fairlead.core.queues import Queued
from fairlead.session.history.entries import WAITING, CustomEntry, CustomMessageEntry, decode_message, encode_message, role_of
from fairlead.session.history.log import Log

Line: TypeAlias = Literal["steering", "followUp", "nextTurn", "bash"]

#: The lines that can be taken back.
_QUEUES = ("steering", "followUp")

CLEARED: dict[str, Any] = {"op": "clear"}
FORKED: dict[str, Any] = {"op": "fork"}


class Waiting(Struct):
    """A message and what it waits in."""

    line: Line
    message: Queued | BashExecutionMessage


def waits(line: Line, message: Queued | BashExecutionMessage) -> dict[str, Any]:
    """What is written down of a message that begins to wait."""
    return {"op": "add", "queue": line, "message": message}


def cleared(log: Log, queued: Sequence[Queued]) -> dict[str, Any]:
    """What is written down when all that is queued is taken back. What a turn has taken up, but not heard yet, is not."""
    keys = {_key(message) for message in queued}
    taken_up = [each.message for each in still_waiting(log) if each.line in _QUEUES and _key(each.message) not in keys]
    return {**CLEARED, "except": taken_up} if taken_up else CLEARED


def still_waiting(log: Log) -> list[Waiting]:
    """The messages that were queued and neither heard nor taken back, oldest first."""
    found = _Found()
    for entry in log.entries():
        if isinstance(entry, CustomEntry):
            if entry.custom_type == WAITING:
                _apply(entry.data, found)
        elif found and (isinstance(entry, CustomMessageEntry) or role_of(entry) in ("user", "bashExecution")):
            heard = log.read(entry)
            if len(heard) == 1:
                found.remove(_key(heard[0]))
    return found.all()


class _Found:
    """Messages that wait, oldest first, and found by what they say: looking for each in a list would cost too much."""

    def __init__(self) -> None:
        self._by_key: dict[bytes, deque[tuple[int, Waiting]]] = {}
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def add(self, waiting: Waiting) -> None:
        self._count += 1
        self._by_key.setdefault(_key(waiting.message), deque()).append((self._count, waiting))

    def remove(self, key: bytes) -> None:
        """Remove the oldest message that says this, if there is one."""
        same = self._by_key.get(key)
        if same is not None:
            same.popleft()
            if not same:
                del self._by_key[key]

    def clear(self) -> None:
        self._by_key.clear()

    def all(self) -> list[Waiting]:
        return [waiting for _, waiting in sorted(chain.from_iterable(self._by_key.values()), key=itemgetter(0))]


def _apply(data: Any, found: _Found) -> None:
    fields = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    if fields.get("op") == "clear":
        listed = fields.get("except")
        messages = cast("list[Any]", listed) if isinstance(listed, list) else []
        spared = {_key(decoded) for each in messages if (decoded := decode_message(encode_message(each))) is not None}
        before = found.all()
        found.clear()
        for waiting in before:
            if waiting.line not in _QUEUES or _key(waiting.message) in spared:
                found.add(waiting)
    elif fields.get("op") == "fork":
        found.clear()
    elif fields.get("op") == "add" and fields.get("queue") in (*_QUEUES, "nextTurn", "bash") and "message" in fields:
        message = decode_message(encode_message(fields["message"]))
        if isinstance(message, UserMessage | CustomMessage | BashExecutionMessage):
            found.add(Waiting(fields["queue"], message))


def _key(message: Message) -> bytes:
    """The same for messages that are equal."""
    return msgspec.json.encode(message, order="deterministic")
