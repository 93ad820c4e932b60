"""The ends of turns and runs, where extensions written for pi may add entries to the session and ask the model again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec import Raw, json

from fairlead.core.events import CompactionResult, EntryAppended
from fairlead.core.messages import AssistantMessage, CustomMessage, Usage, decode_message
from fairlead.errors import FairleadError
from fairlead.extend.extensions.values import convert
from fairlead.extend.node.results import custom_note
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.entries import Replacement, entries_in_context, role_of

if TYPE_CHECKING:
    from fairlead.extend.extensions.engine import Engine
    from fairlead.extend.extensions.registrations import Extension
    from fairlead.session.history.history import History
    from fairlead.session.history.log import Log
    from fairlead.session.session import Session

Draft = Mapping[str, Any]


def add_entry(conversation: Conversation, draft: Draft, now_ms: int) -> None:
    """Add an entry that extensions may propose at the end of a turn. Raises TypeError if it cannot be used."""
    match draft["type"]:
        case "custom":
            conversation.add_data(str(draft.get("customType")), draft.get("data"))
        case "custom_message":
            note = custom_note(draft)
            conversation.add(CustomMessage(note.custom_type, note.content, note.display, now_ms, note.details))
        case "context_edit":
            given: Any = draft.get("replacement")
            replacement = None if given is None else Replacement(given.get("content"))
            conversation.keep(lambda: conversation.log.context_edit(draft["targetId"], replacement, keep=True))
            conversation.forget_computed()
        case _:
            tokens = conversation.context_tokens() or 0
            usage = convert(Usage | None, draft.get("usage"), "usage")
            result = CompactionResult(draft["summary"], draft["firstKeptEntryId"], tokens, draft.get("details"), usage)
            conversation.compact(result, from_hook=True)


def append_entry(session: Session, draft: Draft) -> str | None:
    """Add an entry with which an extension prepares a session, and return its id. Raises TypeError if it cannot be used."""
    conversation = session.history.conversation
    match draft["type"]:
        case "message":
            message = decode_message(Raw(json.encode(draft["message"])))
            if message is None:
                raise TypeError(f"There are no messages with the role {draft['message'].get('role')}.")
            conversation.add(message)
        case "session_info":
            session.history.set_name(str(draft["name"]))
        case "label":
            return session.history.set_label(str(draft["targetId"]), draft.get("label"))
        case "model_change":
            conversation.log.model_change(str(draft["provider"]), str(draft["modelId"]))
        case "thinking_level_change":
            conversation.log.thinking_level_change(str(draft["thinkingLevel"]))
        case _:
            add_entry(conversation, draft, session.host.now_ms())
    return conversation.log.leaf


def context_entries(log: Log) -> list[dict[str, Any]]:
    """Return the entries that the model sees something of, each with its messages."""
    shown = entries_in_context(log.path())
    entries = log.plain([entry for entry, _ in shown])
    return [{"sourceEntry": entry, "messages": log.read(*parts)} for entry, parts in zip(entries, shown, strict=True)]


def project_entries(history: History) -> list[dict[str, Any]]:
    """Return the entries that the model sees something of; none if the conversation has not begun."""
    return context_entries(history.log) if history.conversation.has_begun else []


#: The events at which entries can be proposed.
BOUNDARIES = ("turn_end", "agent_before_settle")


class Boundary:
    """What handlers propose at one end of a turn or a run. Each handler sees what those before it have proposed."""

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self.name = name
        self._entries: list[Draft] = []
        self._continues = False

    def fields(self, event: Any) -> dict[str, Any]:
        """Return the fields of the event for the next handler."""
        proposed: dict[str, Any] = {"entries": self._entries, "continue": self._continues, "outcome": self._outcome(event)}
        return {**proposed, **self._entry_ids()} if self.name == "turn_end" else proposed

    def propose(self, result: Any) -> None:
        """Take over what a handler returned. Raises TypeError if its entries are not a list of objects."""
        if isinstance(result, dict):
            given = cast("dict[str, Any]", result)
            entries: Any = given.get("entries")
            if entries is not None:
                if not isinstance(entries, list) or not all(isinstance(each, dict) for each in cast("list[Any]", entries)):
                    raise TypeError("Its entries are not a list of objects.")
                self._entries = cast("list[Draft]", entries)
            self._continues = self._continues if given.get("continue") is None else given["continue"] is True

    def commit(self) -> None:
        """Add the entries, and have the run continue if that was proposed. Raises ValueError if the proposal cannot be used."""
        for draft in self._entries:
            _check(self._session.history.log, draft)
        for draft in self._entries:
            add_entry(self._session.history.conversation, draft, self._session.host.now_ms())
            self._session.host.notify(EntryAppended(Raw(self._session.history.log.last_line)))
        if self._continues:
            if not _can_continue(self._session, self._session.history.conversation):
                raise ValueError(f"{self.name} requested continuation without runnable model context")
            self._session.queue.again = True

    def _outcome(self, event: Any) -> str:
        last = self._session.activity.last_end
        message = event.message if self.name == "turn_end" else None if last is None else last.message
        reason = getattr(message, "stop_reason", "stop")
        return reason if reason in ("aborted", "error") else "completed"

    def _entry_ids(self) -> dict[str, Any]:
        """Return the ids of the entries of the turn: the model's message, and the results of its tool calls."""
        results: list[str] = []
        for entry in self._session.history.log.back():
            role = role_of(entry)
            if role == "assistant":
                return {"messageEntryId": entry.id, "toolResultEntryIds": results}
            if role == "toolResult":
                results.insert(0, entry.id)
        return {"messageEntryId": None, "toolResultEntryIds": results}


class Boundaries:
    """The handlers at the ends of turns and runs, and what they have proposed at the present one.

    Handlers have numbers, and are asked in the order of these.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._handlers: dict[str, dict[int, Extension]] = {name: {} for name in BOUNDARIES}
        self._present: dict[str, Boundary] = {}

    def add_handler(self, name: str, number: int, extension: Extension) -> None:
        """Add a handler of an extension for the event `name`."""
        self._handlers[name][number] = extension

    def remove_handler(self, number: int) -> None:
        """Remove a handler, if it is one of these."""
        for handlers in self._handlers.values():
            handlers.pop(number, None)

    def enter(self, name: str, number: int) -> Boundary:
        """Return the boundary that a handler is asked at. The first handler begins a new one."""
        if number == min(self._live(name)) or name not in self._present:
            self._present[name] = Boundary(self._engine.session, name)
        return self._present[name]

    def leave(self, boundary: Boundary, number: int) -> None:
        """Commit what was proposed at a boundary if this was its last handler."""
        if number != max(self._live(boundary.name)):
            return
        try:
            boundary.commit()
        except (ValueError, TypeError, FairleadError) as error:
            self._engine.report("<boundary>", boundary.name, error)

    def _live(self, name: str) -> list[int]:
        """Return the numbers of the handlers whose extensions have not been removed."""
        return [number for number, extension in self._handlers[name].items() if extension.is_loaded]


def _check(log: Log, draft: Draft) -> None:
    """Raise ValueError unless an entry can be added."""
    kind = draft.get("type")
    target = {"context_edit": "targetId", "compaction": "firstKeptEntryId"}.get(str(kind))
    if kind not in ("custom", "custom_message", "context_edit", "compaction"):
        raise ValueError(f"Invalid boundary entries: there are no entries of the type {kind}")
    if target is not None and draft.get(target) not in {entry.id for entry in log.path()}:
        raise ValueError(f"Invalid boundary entries: {draft.get(target)} is not an entry of this branch")
    if kind == "custom_message":
        custom_note(draft)
    elif kind == "compaction" and not isinstance(draft.get("summary"), str):
        raise ValueError("Invalid boundary entries: a compaction needs a summary")


def _can_continue(session: Session, conversation: Conversation) -> bool:
    """Whether the model can be asked again: it has something to answer."""
    messages = conversation.for_model()
    return bool(messages) and (not isinstance(messages[-1], AssistantMessage) or len(session.queue) > 0)


def boundary_context(session: Session, proposed: list[Draft]) -> dict[str, Any]:
    """Return what pi calls the context of a boundary: the conversation as the model would see it with the proposed entries.

    Raises ValueError if these cannot be used.
    """
    log, conversation = session.history.log, session.history.conversation
    if proposed:
        log = log.fork(log.header)
        conversation = Conversation.of(log)
    for draft in proposed:
        _check(log, draft)
        add_entry(conversation, draft, session.host.now_ms())
    return {
        "contextEntries": context_entries(log),
        "contextMessages": conversation.messages,
        "llmMessages": conversation.for_model(),
        "pendingMessages": [*session.queue.steering, *session.queue.follow_up],
        "canContinue": _can_continue(session, conversation),
    }
