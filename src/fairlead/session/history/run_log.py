"""The progress of runs in the session file: tool calls, interruptions and queued messages.

A call that starts, or that ends before the calls ahead of it, is noted in a note `fairlead.calls`:

    {"op": "waiting", "id": "..."}          the call waits for approval
    {"op": "started", "id": "..."}          its tool is about to start; tools that are idempotent are not noted
    {"op": "ended", "message": {...}}       its result, which the conversation gets when the calls ahead of it have ended
    {"op": "ended", "id": "..."}            the same, when extensions may still change the result

Where the messages do not show it, a note `fairlead.run` says whether the run is over:

    {"op": "started"}       a run continues after an answer that looks like the last one
    {"op": "ended"}         a run ended with the results of tools, because these said so
    {"op": "stopped"}       the session was closed during a run, so that its last answer was aborted

Every change of a queue is a note `fairlead.queue`, written before the message is acknowledged, so that a message that is
queued survives the process like one that was delivered:

    {"op": "add", "queue": "steering" | "followUp" | "nextTurn" | "bash", "message": {...}}
    {"op": "clear", "except"?: [{...}]}     the steering and follow-up messages were withdrawn, except for these
    {"op": "remove", "message": {...}}      the message does not wait any more, and the conversation does not have it
    {"op": "fork"}                          the messages so far are queued in the session that this one was forked from

A message has been delivered once the conversation has an entry with the same message. `nextTurn` holds messages that an
extension sends with the next prompt. `bash` holds commands that the host ran during a run; they follow that run.

No entry follows a note, and hosts do not see it: see `fairlead.session.history.entries.NoteEntry`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import msgspec
from msgspec import Struct

from fairlead.core.calls import turn
from fairlead.core.messages import (
    AssistantMessage,
    BashExecutionMessage,
    CustomMessage,
    Message,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    decode_message,
    encode_message,
)
from fairlead.core.queues import Queued
from fairlead.session.history.entries import (
    BRANCH,
    CALLS,
    QUEUE,
    RUN,
    BranchSummaryEntry,
    ContextEditEntry,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    role_of,
)
from fairlead.session.history.log import Log

if TYPE_CHECKING:
    from fairlead.core.calls.turn import InterruptedCalls
    from fairlead.session.history.conversation import Conversation


class CallLog:
    """Notes the calls of a conversation. Implements `fairlead.core.calls.turn.CallJournal`."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    def waits(self, call: ToolCall) -> None:
        self._note({"op": "waiting", "id": call.id})

    def note_start(self, call: ToolCall) -> None:
        self._note({"op": "started", "id": call.id})

    def note_end(self, result: ToolResultMessage, *, may_change: bool) -> None:
        self._note({"op": "ended", "id": result.tool_call_id} if may_change else {"op": "ended", "message": result})

    def _note(self, data: dict[str, Any]) -> None:
        log = self._conversation.log
        if log.sink is not None:  # a conversation in memory ends with its process
            self._conversation.keep(lambda: log.note(CALLS, data))


def note_run(conversation: Conversation, op: Literal["started", "ended", "stopped"]) -> None:
    """Note in the session file whether the run is over."""
    log = conversation.log
    conversation.keep(lambda: log.note(RUN, {"op": op}))


class Interruption(Struct, frozen=True):
    """Where an interrupted run stopped."""

    #: The calls that it has not finished; None: the model's answer comes next.
    calls: InterruptedCalls | None = None
    #: Whether the last answer failed or was cut off, so that the model must not see it again.
    failed: bool = False
    #: Whether the session file has notes about the calls.
    is_noted: bool = False


def find_interruption(log: Log) -> Interruption | None:
    """Return where the last run stopped; None if it has ended.

    A run has ended with an answer that calls no tools, or that the user aborted. An answer that failed is an interruption: the
    model can be asked again.
    """
    hidden: set[str] = set()
    told: dict[str, ToolResultMessage] = {}
    notes: list[dict[str, Any]] = []
    was_stopped = False
    for entry in log.back_with_notes():
        if isinstance(entry, ContextEditEntry):
            if entry.replacement is None:
                hidden.add(entry.target_id)
        elif isinstance(entry, CustomEntry):
            if entry.custom_type == CALLS:
                notes.append(_fields(entry))
            elif entry.custom_type == BRANCH:
                return None  # the user chose this place
            elif entry.custom_type == RUN:
                match _fields(entry).get("op"):
                    case "started":
                        return Interruption()
                    case "ended":
                        return None
                    case _:
                        was_stopped = True
        elif isinstance(entry, BranchSummaryEntry):
            return None
        elif entry.id not in hidden:
            match role_of(entry):
                case "user":
                    return Interruption()
                case "toolResult":
                    told |= {each.tool_call_id: each for each in log.read(entry) if isinstance(each, ToolResultMessage)}
                case "assistant":
                    return _after_answer(log, entry, told, notes, was_stopped=was_stopped)
                case _:
                    pass
    return None


def finish_calls(conversation: Conversation, now_ms: int) -> None:
    """Add the missing results of calls that were noted before the process was killed: the conversation continues after them."""
    found = find_interruption(conversation.log) if conversation.has_begun else None
    if found is not None and found.calls is not None and found.is_noted:
        for call in found.calls.find_unanswered():
            conversation.add(found.calls.ended.get(call.id) or turn.make_interrupted_result(call, now_ms))


def _after_answer(
    log: Log, entry: Entry, told: dict[str, ToolResultMessage], notes: list[dict[str, Any]], *, was_stopped: bool
) -> Interruption | None:
    """Return where a run stopped whose last answer is `entry`. `notes` are the newest first."""
    message = next((each for each in log.read(entry) if isinstance(each, AssistantMessage)), None)
    if message is None:
        return None
    if message.stop_reason in ("error", "aborted"):
        return Interruption(failed=True) if message.stop_reason == "error" or was_stopped else None
    calls = message.tool_calls()
    if not calls:
        return None
    if all(call.id in told for call in calls):
        return Interruption()
    started: set[str] = set()
    ended: dict[str, ToolResultMessage] = {}
    by_id = {call.id: call for call in calls}
    for note in notes:
        result = _result_in(note, by_id)
        if result is not None:
            ended[result.tool_call_id] = result
        elif note.get("op") == "started":
            started.add(str(note.get("id")))
    # Without any note, another program may have made the calls, so nothing is known about them.
    unstarted = {call.id for call in calls if call.id not in started and call.id not in ended} if notes else set[str]()
    return Interruption(turn.InterruptedCalls(message, told, ended, unstarted), is_noted=bool(notes))


def _result_in(note: dict[str, Any], calls: dict[str, ToolCall]) -> ToolResultMessage | None:
    if note.get("op") != "ended":
        return None
    if "message" in note:
        message = decode_message(encode_message(note["message"]))
        return message if isinstance(message, ToolResultMessage) else None
    call = calls.get(str(note.get("id")))
    return None if call is None else turn.make_interrupted_result(call, 0, turn.RESULT_LOST)


def _fields(entry: CustomEntry) -> dict[str, Any]:
    data: Any = entry.data
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


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


def removal(message: Queued) -> dict[str, Any]:
    """Return the data of the entry for a message that does not wait any more, although it was not delivered."""
    return {"op": "remove", "message": message}


def make_clearing(log: Log, withdrawn: Sequence[Queued]) -> dict[str, Any]:
    """Return the data of the entry for queues that are cleared. Messages that a turn has taken but not delivered yet stay."""
    keys = {_key(message) for message in withdrawn}
    taken = [each.message for each in find_undelivered(log) if each.queue in _CLEARABLE and _key(each.message) not in keys]
    return {**CLEARED, "except": taken} if taken else CLEARED


def find_undelivered(log: Log) -> list[QueuedMessage]:
    """Return the messages that were queued and neither delivered nor withdrawn, oldest first."""
    queued = _QueuedMessages()
    for entry in log.entries_with_notes():
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
    elif fields.get("op") == "remove" and "message" in fields:
        removed = decode_message(encode_message(fields["message"]))
        if removed is not None:
            queued.remove(_key(removed))
    elif fields.get("op") == "add" and fields.get("queue") in (*_CLEARABLE, "nextTurn", "bash") and "message" in fields:
        message = decode_message(encode_message(fields["message"]))
        if isinstance(message, UserMessage | CustomMessage | BashExecutionMessage):
            queued.add(QueuedMessage(fields["queue"], message))


def _key(message: Message) -> bytes:
    """Return the same bytes for equal messages."""
    return msgspec.json.encode(message, order="deterministic")
