"""Messages that wait, written down: a queued message must outlive the process as much as one that was heard.

Each is a custom entry `fairlead.queue` of the session, written before it is acknowledged:

    {"op": "add", "queue": "steering" | "followUp" | "nextTurn" | "bash", "message": {...}}
    {"op": "clear", "except"?: [{...}]}                             steering and follow-ups were taken back, all but these
    {"op": "fork"}                                                  it all waits in the session that this is a fork of

It has been heard once the conversation has the same message as an entry of its own. `nextTurn` is what an extension wants to
go with the next prompt. `bash` is a command that the host ran during a run: its place in the conversation is after that run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct

from fairlead.core.messages import BashExecutionMessage, CustomMessage, UserMessage
from fairlead.core.queues import Queued
from fairlead.session.entries import WAITING, CustomEntry, CustomMessageEntry, decode_message, encode_message, role_of
from fairlead.session.log import Log

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
    taken_up = [each.message for each in still_waiting(log) if each.line in _QUEUES and each.message not in queued]
    return {**CLEARED, "except": taken_up} if taken_up else CLEARED


def still_waiting(log: Log) -> list[Waiting]:
    """The messages that were queued and neither heard nor taken back, oldest first."""
    found: list[Waiting] = []
    for entry in log.entries():
        if isinstance(entry, CustomEntry):
            if entry.custom_type == WAITING:
                _apply(entry.data, found)
        elif found and (isinstance(entry, CustomMessageEntry) or role_of(entry) in ("user", "bashExecution")):
            heard = log.read(entry)
            place = next((i for i, waiting in enumerate(found) if [waiting.message] == heard), None)
            if place is not None:
                del found[place]
    return found


def _apply(data: Any, found: list[Waiting]) -> None:
    fields = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    if fields.get("op") == "clear":
        listed = fields.get("except")
        messages = cast("list[Any]", listed) if isinstance(listed, list) else []
        spared = [decode_message(encode_message(message)) for message in messages]
        found[:] = [waiting for waiting in found if waiting.line not in _QUEUES or waiting.message in spared]
    elif fields.get("op") == "fork":
        found.clear()
    elif fields.get("op") == "add" and fields.get("queue") in (*_QUEUES, "nextTurn", "bash") and "message" in fields:
        message = decode_message(encode_message(fields["message"]))
        if isinstance(message, UserMessage | CustomMessage | BashExecutionMessage):
            found.append(Waiting(fields["queue"], message))
