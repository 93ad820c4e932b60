"""What a session in a store notes for the next server that opens it: its approval mode, and the requests that were accepted.

They are custom entries in the session, which hosts and the model do not see:

    fairlead.approval    {"mode": "ask", "chosen": true}                     chosen by a client, not the default of a server
    fairlead.request     {"id": "...", "fingerprint": "..."}                 a message with this id is about to be added
    fairlead.request     {"id": "...", "refused": true}                      it was refused

A request is noted before its message, so that a client that repeats it after a crash starts nothing twice: it was accepted if the
message, or its place in the queue, follows the note.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from fairlead.core.messages import AssistantMessage
from fairlead.protocol.http import objects as o
from fairlead.protocol.http.events import PromptResult
from fairlead.session.history.call_log import find_interruption
from fairlead.session.history.entries import APPROVAL, QUEUE, REQUEST, CustomEntry, role_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairlead.session.history.conversation import Conversation
    from fairlead.session.history.entries import Entry
    from fairlead.session.history.log import Log

#: How many ends of prompts a snapshot has.
REMEMBERED_RESULTS = 32
#: The approval modes, the most permissive first.
_MODES: tuple[o.Approval, ...] = ("auto", "write", "ask", "deny")


def note_approval(conversation: Conversation, mode: o.Approval, *, is_chosen: bool) -> None:
    """Note the approval mode of a session."""
    _note(conversation, APPROVAL, {"mode": mode, "chosen": is_chosen})


def noted_approval(log: Log, default: o.Approval) -> o.Approval:
    """Return the approval mode of a session, on a server with a default. It is at least as strict, unless a client chose it."""
    data = _last_approval(log)
    if data is None:
        return default
    mode = cast("o.Approval", data["mode"])
    return mode if data.get("chosen") is True or _MODES.index(mode) >= _MODES.index(default) else default


def has_noted_approval(log: Log) -> bool:
    """Whether a session notes its approval mode."""
    return _last_approval(log) is not None


def note_request(conversation: Conversation, id: str, fingerprint: str) -> None:
    """Note that a message with this id is about to be added."""
    _note(conversation, REQUEST, {"id": id, "fingerprint": fingerprint})


def note_refusal(conversation: Conversation, id: str) -> None:
    """Note that the message with this id was refused."""
    _note(conversation, REQUEST, {"id": id, "refused": True})


def noted_requests(log: Log) -> dict[str, tuple[str, o.AcceptedPrompt]]:
    """Return the requests that were accepted, oldest first: their ids, fingerprints and answers."""
    found: dict[str, tuple[str, o.AcceptedPrompt]] = {}
    waiting: dict[str, Any] | None = None
    for entry in _entries(log):
        data = _data(entry, REQUEST)
        if data is not None:
            waiting = None if data.get("refused") else data
            continue
        is_queued = (_data(entry, QUEUE) or {}).get("op") == "add"
        if waiting is not None and (is_queued or role_of(entry) == "user"):
            id, fingerprint = str(waiting.get("id")), str(waiting.get("fingerprint"))
            found[id] = fingerprint, o.AcceptedPrompt(status="queued" if is_queued else "started", id=id)
            waiting = None
    return found


def noted_results(log: Log) -> list[PromptResult]:
    """Return how the last requests of a session ended in which nothing runs. A run that was cut off has not ended."""
    requests = list(noted_requests(log))[-REMEMBERED_RESULTS:]
    if not requests:
        return []
    found = find_interruption(log)
    answers = (message for entry in log.back() for message in log.read(entry, keep=False))
    last = next((message for message in answers if isinstance(message, AssistantMessage)), None)
    results = [PromptResult(id=id, status="completed") for id in requests]
    if last is not None and last.stop_reason == "error":
        results[-1] = PromptResult(id=requests[-1], status="error", error=last.error_message)
    elif found is not None:
        results.pop()
    elif last is not None and last.stop_reason == "aborted":
        results[-1] = PromptResult(id=requests[-1], status="aborted")
    return results


def _last_approval(log: Log) -> dict[str, Any] | None:
    found = (data for entry in reversed(list(_entries(log))) if (data := _data(entry, APPROVAL)) is not None)
    return next((data for data in found if data.get("mode") in _MODES), None)


def _note(conversation: Conversation, kind: str, data: dict[str, Any]) -> None:
    log = conversation.log
    conversation.keep(lambda: log.note(kind, data))


def _entries(log: Log) -> Iterator[Entry]:
    return (log.at(position)[0] for position in range(len(log)))


def _data(entry: Entry, kind: str) -> dict[str, Any] | None:
    if not isinstance(entry, CustomEntry) or entry.custom_type != kind:
        return None
    data: Any = entry.data
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}
