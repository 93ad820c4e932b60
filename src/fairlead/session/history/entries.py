"""What a session file holds: a header, then one entry per line, in the format of pi (version 3).

An entry is read no further than is needed: the message inside a `message` entry stays JSON until somebody
asks for it. Entries never change once they exist; the JSON they came from is kept beside them (see `Log`), so
fields that are unknown here survive.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.core import lenient
from fairlead.core.messages import (
    BranchSummaryMessage,
    CompactionSummaryMessage,
    Message,
    Usage,
)
from fairlead.session.history.paths import iso

VERSION = 3

#: The type of the custom entries for messages that wait: see `fairlead.session.history.queue_log`.
WAITING = "fairlead.queue"
#: The type of the custom entries for the list of things to do: see `fairlead.session.todos.todos`.
TODOS = "fairlead.todos"
#: The type of the custom entries for Opal's tasks: see `fairlead.wire.opal.tools.task_keeper`.
TASKS = "fairlead.tasks"
#: The type of the custom entries that note a move to the entry before them: see `fairlead.session.history.moves.branch`.
BRANCH = "fairlead.branch"


class Header(Struct, tag_field="type", tag="session", rename="camel", omit_defaults=True, frozen=True):
    """The first line of a session file. `parent_session` is the file this one was forked from."""

    version: int | UnsetType = UNSET
    id: str = ""
    timestamp: str = ""
    cwd: str = ""
    parent_session: str | None = None


class _Entry(Struct, tag_field="type", rename="camel", gc=False):
    id: str
    #: The entry before this one; None begins a conversation.
    parent_id: str | None
    #: ISO 8601 with milliseconds, in UTC.
    timestamp: str


class MessageEntry(_Entry, tag="message"):
    message: Raw


class ModelChangeEntry(_Entry, tag="model_change"):
    provider: str
    model_id: str


class ThinkingLevelChangeEntry(_Entry, tag="thinking_level_change"):
    thinking_level: str


class CompactionEntry(_Entry, tag="compaction"):
    """What came before `first_kept_entry_id` is told to the model as a summary. Its own id there: nothing is kept."""

    summary: str
    first_kept_entry_id: str = ""
    tokens_before: int = 0
    details: Any = UNSET
    usage: Any = UNSET
    from_hook: bool | UnsetType = UNSET
    #: pi's system prompt and tools at this point; not used here.
    system_message: Raw | UnsetType = UNSET


class BranchSummaryEntry(_Entry, tag="branch_summary"):
    """What happened on the branch that ended at `from_id`, before the conversation moved elsewhere."""

    from_id: str
    summary: str
    details: Any = UNSET
    usage: Any = UNSET
    from_hook: bool | UnsetType = UNSET


class CustomEntry(_Entry, tag="custom"):
    """State of an extension or of the agent itself; the model is not told."""

    custom_type: str
    data: Any = UNSET


class CustomMessageEntry(_Entry, tag="custom_message"):
    """What an extension tells the model."""

    custom_type: str
    content: Any = UNSET
    display: bool = False
    details: Any = UNSET


class LabelEntry(_Entry, tag="label"):
    """A bookmark on an entry; without a label it takes an earlier one away."""

    target_id: str
    label: str | UnsetType | None = UNSET


class SessionInfoEntry(_Entry, tag="session_info"):
    name: str | UnsetType | None = UNSET


class UsageEntry(_Entry, tag="usage"):
    """Tokens that were spent beside the model's answers, such as those of a sub-agent. `note` says for what."""

    kind: str
    provider: str = ""
    model: str = ""
    usage: Any = UNSET
    note: str | UnsetType = UNSET


class Replacement(Struct, frozen=True):
    content: Any


class ContextEditEntry(_Entry, tag="context_edit"):
    """The model no longer sees the content of an earlier entry, but `replacement`; without one, nothing."""

    target_id: str
    replacement: Replacement | None


class OtherEntry(Struct, rename="camel", gc=False):
    """An entry of a type, or in a form, that is not known here. It keeps its place and its JSON."""

    type: str
    id: str
    parent_id: str | None = None
    timestamp: str = ""


KnownEntry: TypeAlias = (
    MessageEntry
    | ModelChangeEntry
    | ThinkingLevelChangeEntry
    | CompactionEntry
    | BranchSummaryEntry
    | CustomEntry
    | CustomMessageEntry
    | LabelEntry
    | SessionInfoEntry
    | UsageEntry
    | ContextEditEntry
)
Entry: TypeAlias = KnownEntry | OtherEntry


class NotAnEntry(ValueError):
    """A line is JSON, but no entry: it has no id, or is a second header."""


# Lines

_known: msgspec.json.Decoder[KnownEntry] = msgspec.json.Decoder(KnownEntry)
_other = msgspec.json.Decoder(OtherEntry)


def decode_line(line: bytes) -> tuple[Entry, bytes]:
    """The entry of a line, and the line as valid JSON.

    The line that is returned differs only where the given one is JSON for JavaScript alone: it may escape half a surrogate pair.
    Raises ValueError if the line is no JSON, NotAnEntry if it is no entry.
    """
    try:
        return _known.decode(line), line
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    try:
        return _decode_other(line), line
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    line = msgspec.json.encode(lenient.decode(line))
    try:
        return _known.decode(line), line
    except msgspec.DecodeError:
        return _decode_other(line), line


def _decode_other(line: bytes) -> OtherEntry:
    try:
        entry = _other.decode(line)
    except msgspec.ValidationError:
        lenient.decode(line)  # it may not even be JSON: a wrong type is noticed before the end of the line
        raise NotAnEntry from None
    if entry.type == "session":
        raise NotAnEntry
    return entry


def encode_line(entry: Entry | Header) -> bytes:
    """An entry as JSON on one line, without the line's end."""
    try:
        return msgspec.json.encode(entry)
    except UnicodeEncodeError:  # half a surrogate pair, which no UTF-8 can hold
        return msgspec.json.encode(lenient.scrub(msgspec.to_builtins(entry)))


def new_header(session_id: str, cwd: str, now_ms: int, parent_session: str | None = None) -> Header:
    return Header(version=VERSION, id=session_id, timestamp=iso(now_ms), cwd=cwd, parent_session=parent_session)


# Times


def milliseconds(timestamp: str) -> int:
    """An entry's time in milliseconds since the epoch; 0 if it cannot be read."""
    try:
        return round(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return 0


# Messages

_message: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


class _Role(Struct):
    role: str = ""


_role = msgspec.json.Decoder(_Role)


def role_of(entry: Entry) -> str:
    """The role of the message in an entry, without reading the rest of it; empty if there is none."""
    if not isinstance(entry, MessageEntry):
        return ""
    try:
        return _role.decode(entry.message).role
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""


def encode_message(message: Message) -> Raw:
    try:
        return Raw(msgspec.json.encode(message))
    except UnicodeEncodeError:
        return Raw(msgspec.json.encode(lenient.scrub(msgspec.to_builtins(message))))


def decode_message(data: Raw | bytes) -> Message | None:
    """The message in JSON of any age and author; None if its role is not known here (such as pi's `system`).

    A message that is not quite in form, from an old version or an extension, keeps what can be understood of it.
    """
    try:
        return _message.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    try:
        return msgspec.convert(_mended(lenient.decode(bytes(data))), cast("type[Message]", Message))
    except (msgspec.ValidationError, ValueError):
        return None


#: A tuple: what is looked for in it may be of any type.
_BLOCKS = ("text", "thinking", "image", "toolCall")


def _mended(value: Any) -> Any:
    """`value` with the parts of a message that are known to vary in a form that is accepted here."""
    if not isinstance(value, dict):
        return value
    message = cast("dict[str, Any]", value)
    content = message.get("content")
    if content is None and message.get("role") != "bashExecution":
        message["content"] = []
    elif isinstance(content, str) and message.get("role") in ("assistant", "toolResult"):
        message["content"] = [{"type": "text", "text": content}]
    elif isinstance(content, list):
        blocks = cast("list[Any]", content)
        message["content"] = [block for block in blocks if isinstance(block, dict) and block.get("type") in _BLOCKS]  # pyright: ignore[reportUnknownMemberType]
    if message.get("role") == "toolResult" and not isinstance(message.get("details", {}), dict):
        del message["details"]
    if message.get("role") == "assistant":
        message["usage"] = _mended_usage(message.get("usage"))
        if message.get("stopReason") not in ("stop", "length", "toolUse", "error", "aborted"):
            message["stopReason"] = "stop"
    return message


def _mended_usage(value: Any) -> dict[str, Any]:
    try:
        return msgspec.to_builtins(msgspec.convert(value, Usage))
    except msgspec.ValidationError:
        return msgspec.to_builtins(Usage())


def messages_of(entry: Entry, edit: ContextEditEntry | None = None) -> list[Raw]:
    """The messages that an entry contributes to a conversation, as JSON, after an edit of it."""
    if edit is not None and edit.replacement is None:
        return []
    match entry:
        case MessageEntry():
            found = [entry.message]
        case CustomMessageEntry():
            # Made by hand: the content of an extension's message may have any form.
            fields: dict[str, Any] = {"role": "custom", "customType": entry.custom_type, "display": entry.display}
            fields["content"] = [] if entry.content in (UNSET, None) else entry.content
            fields |= {} if entry.details is UNSET else {"details": entry.details}
            found = [Raw(msgspec.json.encode({**fields, "timestamp": milliseconds(entry.timestamp)}))]
        case BranchSummaryEntry() if entry.summary:
            summary = BranchSummaryMessage(entry.summary, entry.from_id, milliseconds(entry.timestamp))
            found = [encode_message(summary)]
        case CompactionEntry():
            summary = CompactionSummaryMessage(entry.summary, entry.tokens_before, milliseconds(entry.timestamp))
            found = [encode_message(summary)]
            if entry.system_message is not UNSET:
                found.insert(0, entry.system_message)
        case _:
            found = []
    if edit is not None and edit.replacement is not None:
        found = [_edited(message, edit.replacement.content) for message in found]
    return found


def _edited(message: Raw, content: Any) -> Raw:
    value: Any = msgspec.json.decode(message)
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if fields.get("role") not in ("user", "assistant", "toolResult", "custom"):
        return message
    if isinstance(content, str) and fields["role"] in ("assistant", "toolResult"):
        content = [{"type": "text", "text": content}]
    return Raw(msgspec.json.encode({**fields, "content": content}))


def selected(path: list[Entry]) -> list[tuple[Entry, ContextEditEntry | None]]:
    """The entries of a path that count in the conversation at its end, each with the last edit of it.

    After a compaction those are the compaction itself, the entries it keeps and those that followed. pi folds its
    system prompts into the compaction, so those among the kept entries do not count; nor do older compactions.
    """
    last = next((place for place in reversed(range(len(path))) if isinstance(path[place], CompactionEntry)), None)
    if last is not None:
        compaction = path[last]
        assert isinstance(compaction, CompactionEntry)
        first = next((place for place in range(last) if path[place].id == compaction.first_kept_entry_id), last)
        kept = [e for e in path[first:last] if not isinstance(e, CompactionEntry) and role_of(e) != "system"]
        path = [compaction, *kept, *path[last + 1 :]]
    edits = {entry.target_id: entry for entry in path if isinstance(entry, ContextEditEntry)}
    return [(entry, edits.get(entry.id)) for entry in path]
