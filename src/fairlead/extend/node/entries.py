"""Entries that extensions written for pi add to the session, with the methods of pi's session manager."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Raw, json

from fairlead.core.events import CompactionResult
from fairlead.core.messages import CustomMessage, Usage, decode_message
from fairlead.extend.extensions.values import converted
from fairlead.extend.node.results import custom_note
from fairlead.session.history.entries import Replacement, entries_in_context

if TYPE_CHECKING:
    from fairlead.session.history.conversation import Conversation
    from fairlead.session.history.current import History
    from fairlead.session.history.log import Log
    from fairlead.session.session import Session

Draft = Mapping[str, Any]


def add_entry(conversation: Conversation, draft: Draft, now_ms: int) -> None:
    """Add an entry that extensions may propose at the end of a turn. Raises TypeError if it cannot be used."""
    match draft["type"]:
        case "custom":
            conversation.note(str(draft.get("customType")), draft.get("data"))
        case "custom_message":
            note = custom_note(draft)
            conversation.add(CustomMessage(note.custom_type, note.content, note.display, now_ms, note.details))
        case "context_edit":
            given: Any = draft.get("replacement")
            replacement = None if given is None else Replacement(given.get("content"))
            conversation.keep(lambda: conversation.log.context_edit(draft["targetId"], replacement, keep=True))
            conversation.changed()
        case _:
            tokens = conversation.context_tokens() or 0
            usage = converted(Usage | None, draft.get("usage"), "usage")
            result = CompactionResult(draft["summary"], draft["firstKeptEntryId"], tokens, draft.get("details"), usage)
            conversation.compacted(result, from_hook=True)


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


def projected_entries(history: History) -> list[dict[str, Any]]:
    """Return the entries that the model sees something of; none if the conversation has not begun."""
    return context_entries(history.log) if history.conversation.has_begun else []
