"""The progress of tool calls in the session file, and whether the last run was interrupted.

A call that starts, or that ends before the calls ahead of it, is noted in a custom entry `fairlead.calls`:

    {"op": "waiting", "id": "..."}          the call waits for approval
    {"op": "started", "id": "..."}          its tool is about to start; tools that are idempotent are not noted
    {"op": "ended", "message": {...}}       its result, which the conversation gets when the calls ahead of it have ended
    {"op": "ended", "id": "..."}            the same, when extensions may still change the result

Where the messages do not show it, a custom entry `fairlead.run` says whether the run is over:

    {"op": "started"}       a run continues after an answer that looks like the last one
    {"op": "ended"}         a run ended with the results of tools, because these said so
    {"op": "stopped"}       the session was closed during a run, so that its last answer was aborted

Both are notes: no entry follows one, and hosts do not see them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import Struct

from fairlead.core.messages import AssistantMessage, ToolCall, ToolResultMessage, decode_message, encode_message
from fairlead.session.history.entries import BRANCH, CALLS, RUN, BranchSummaryEntry, ContextEditEntry, CustomEntry, Entry, role_of

if TYPE_CHECKING:
    from fairlead.core.calls.interrupted import InterruptedCalls
    from fairlead.session.history.conversation import Conversation
    from fairlead.session.history.log import Log


class CallLog:
    """Notes the calls of a conversation. Implements `fairlead.core.calls.interrupted.CallJournal`."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    def waits(self, call: ToolCall) -> None:
        self._note({"op": "waiting", "id": call.id})

    def started(self, call: ToolCall) -> None:
        self._note({"op": "started", "id": call.id})

    def ended(self, result: ToolResultMessage, *, may_change: bool) -> None:
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
        from fairlead.core.calls.interrupted import interrupted_result

        for call in found.calls.unanswered():
            conversation.add(found.calls.ended.get(call.id) or interrupted_result(call, now_ms))


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
    from fairlead.core.calls.interrupted import InterruptedCalls

    return Interruption(InterruptedCalls(message, told, ended, unstarted), is_noted=bool(notes))


def _result_in(note: dict[str, Any], calls: dict[str, ToolCall]) -> ToolResultMessage | None:
    if note.get("op") != "ended":
        return None
    if "message" in note:
        message = decode_message(encode_message(note["message"]))
        return message if isinstance(message, ToolResultMessage) else None
    from fairlead.core.calls.interrupted import RESULT_LOST, interrupted_result

    call = calls.get(str(note.get("id")))
    return None if call is None else interrupted_result(call, 0, RESULT_LOST)


def _fields(entry: CustomEntry) -> dict[str, Any]:
    data: Any = entry.data
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}
