"""The contents of a session file: a header, then one entry per line, in pi's format (version 3).

Entries are decoded lazily: the message inside a `message` entry stays JSON until it is needed. Entries are never changed. `Log`
keeps the JSON of each entry beside it, so fields that are unknown here survive.
"""

from functools import cache
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.core import lenient
from fairlead.core.messages import (
    BranchSummaryMessage,
    CompactionSummaryMessage,
    encode_message,
)
from fairlead.stores.headers import Header, milliseconds

#: The type of the notes about queued messages: see `fairlead.session.history.run_log`.
QUEUE = "fairlead.queue"
#: The types of the notes about the progress of tool calls and of runs: see `fairlead.session.history.run_log`.
CALLS, RUN = "fairlead.calls", "fairlead.run"
#: The types of the notes about the approval mode and accepted requests: see `fairlead.serve.sessions.submissions`.
APPROVAL, REQUEST = "fairlead.approval", "fairlead.request"
#: The type of the notes about the sandbox: see `fairlead.agent.agent_workspace`.
SANDBOX = "fairlead.sandbox"
#: The types of the custom entries in older files that are notes about their parent: see `NoteEntry`.
OLD_NOTES = (CALLS, RUN, APPROVAL, REQUEST, SANDBOX)
#: The type of the notes for the todo list: see `fairlead.session.todos.todos`.
TODOS = "fairlead.todos"
#: The type of the notes for tasks: see `fairlead.agent.tool_sets.opal.tasks`.
TASKS = "fairlead.tasks"
#: The type of the notes about a move to their parent: see `fairlead.session.history.moves.branch`.
BRANCH = "fairlead.branch"
#: The type of the notes about images that a server could not read: see `fairlead.session.context.unreadable_images`.
IMAGES = "fairlead.unreadable_images"
#: The types of notes that hold state, which a fork takes along.
STATES = (TODOS, TASKS, IMAGES)
#: How the lines of notes begin.
NOTE_MARK = b'{"type":"note",'
#: The type of the custom messages that tell the model about a stream rule. The name is omp's, so that both read the same files.
STREAM_RULE = "ttsr-injection"


class _Entry(Struct, tag_field="type", rename="camel", gc=False):
    id: str
    #: The id of the entry before this one; None for the first of a conversation.
    parent_id: str | None
    #: ISO 8601 with milliseconds, in UTC.
    timestamp: str


class MessageEntry(_Entry, tag="message"):
    """A message of the user, the model or a tool, as JSON."""

    message: Raw


class ModelChangeEntry(_Entry, tag="model_change"):
    """The choice of a model."""

    provider: str
    model_id: str


class ThinkingLevelChangeEntry(_Entry, tag="thinking_level_change"):
    """The choice of a thinking level."""

    thinking_level: str


class CompactionEntry(_Entry, tag="compaction"):
    """A summary that replaces everything before `first_kept_entry_id` for the model. With its own id there, nothing is kept."""

    summary: str
    first_kept_entry_id: str = ""
    tokens_before: int = 0
    details: Any = UNSET
    usage: Any = UNSET
    from_hook: bool | UnsetType = UNSET
    #: pi's system prompt and tools at this point; not used here.
    system_message: Raw | UnsetType = UNSET


class BranchSummaryEntry(_Entry, tag="branch_summary"):
    """A summary of the branch that ended at `from_id` and that the conversation left."""

    from_id: str
    summary: str
    details: Any = UNSET
    usage: Any = UNSET
    from_hook: bool | UnsetType = UNSET


class CustomEntry(_Entry, tag="custom"):
    """State of an extension or of the agent itself, which the model does not see."""

    custom_type: str
    data: Any = UNSET


class NoteEntry(CustomEntry, tag="note"):
    """What fairlead itself notes about its parent. No entry follows a note, and hosts do not see it.

    A file keeps its notes in another file beside it: see `fairlead.stores.notes_files`. Older files have custom entries instead.
    """

    #: The newest entry when the note was made; None if there was none. It says where the note belongs in the order of the log.
    after: str | None = None


class CustomMessageEntry(_Entry, tag="custom_message"):
    """A message from an extension to the model."""

    custom_type: str
    content: Any = UNSET
    display: bool = False
    details: Any = UNSET


class LabelEntry(_Entry, tag="label"):
    """A label on another entry. Without a text it removes the label."""

    target_id: str
    label: str | UnsetType | None = UNSET


class SessionInfoEntry(_Entry, tag="session_info"):
    """A name for the session."""

    name: str | UnsetType | None = UNSET


class UsageEntry(_Entry, tag="usage"):
    """Tokens that were spent apart from the model's answers, such as those of a sub-agent. `note` says what for."""

    kind: str
    provider: str = ""
    model: str = ""
    usage: Any = UNSET
    note: str | UnsetType = UNSET


class Replacement(Struct, frozen=True):
    """What the model sees instead of the content of an entry."""

    content: Any


class ContextEditEntry(_Entry, tag="context_edit"):
    """An edit of what the model sees: `replacement` instead of an earlier entry's content, or nothing if there is none."""

    target_id: str
    replacement: Replacement | None


class OtherEntry(Struct, rename="camel", gc=False):
    """An entry of an unknown type or form. It keeps its place in the tree and its JSON."""

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
#: What hosts see.
ShownEntry: TypeAlias = KnownEntry | OtherEntry
Entry: TypeAlias = ShownEntry | NoteEntry


class NotAnEntry(ValueError):
    """A line is JSON but not an entry: it has no id, or it is a second header."""


def is_note(entry: Entry) -> bool:
    """Whether an entry is a note about its parent, in the form of today or of older files."""
    return isinstance(entry, NoteEntry) or (isinstance(entry, CustomEntry) and entry.custom_type in OLD_NOTES)


# Lines

# A decoder takes longer to make than this module to load, and a new session needs none. So each is made when first used.


@cache
def _make_known_decoder() -> msgspec.json.Decoder[KnownEntry | NoteEntry]:
    return msgspec.json.Decoder(KnownEntry | NoteEntry)


@cache
def _make_other_decoder() -> msgspec.json.Decoder[OtherEntry]:
    return msgspec.json.Decoder(OtherEntry)


def decode_line(line: bytes) -> tuple[Entry, bytes]:
    """Return the entry in a line, and the line as valid JSON.

    The returned line differs from the given one only if that has lone surrogates, which JavaScript writes and JSON forbids.
    Raises ValueError if the line is not JSON, and NotAnEntry if it is JSON but not an entry.
    """
    try:
        return _make_known_decoder().decode(line), line
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    try:
        return _decode_other(line), line
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    line = lenient.repair_json(line)
    try:
        return _make_known_decoder().decode(line), line
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return _decode_other(line), line
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _decode_other(line: bytes) -> OtherEntry:
    try:
        entry = _make_other_decoder().decode(line)
    except msgspec.ValidationError:
        lenient.decode(line)  # raises if it is not JSON: msgspec reports a wrong type before it reaches the end of the line
        raise NotAnEntry from None
    if entry.type == "session":
        raise NotAnEntry
    return entry


def encode_line(entry: Entry | Header) -> bytes:
    """Return an entry or a header as one line of JSON, without a line end."""
    try:
        return msgspec.json.encode(entry)
    except UnicodeEncodeError:  # a lone surrogate, which UTF-8 cannot encode
        return msgspec.json.encode(lenient.scrub(msgspec.to_builtins(entry)))


class _Message(Struct):
    message: Raw


@cache
def _message_part() -> msgspec.json.Decoder[_Message]:
    return msgspec.json.Decoder(_Message)


def message_in(line: bytes) -> Raw:
    """Return the message in the line of an entry: a part of the line, without a copy."""
    return _message_part().decode(line).message


# Messages


class _Role(Struct):
    role: str = ""


@cache
def _role() -> msgspec.json.Decoder[_Role]:
    return msgspec.json.Decoder(_Role)


def role_of(entry: Entry) -> str:
    """Return the role of the message in an entry without decoding the rest; an empty string if there is no message."""
    if not isinstance(entry, MessageEntry):
        return ""
    try:
        return _role().decode(entry.message).role
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""


def messages_of(entry: Entry, edit: ContextEditEntry | None = None) -> list[Raw]:
    """Return the messages that an entry adds to the conversation, as JSON, with an edit applied."""
    if edit is not None and edit.replacement is None:
        return []
    match entry:
        case MessageEntry():
            found = [entry.message]
        case CustomMessageEntry():
            # Not a CustomMessage: the content from an extension may have any form.
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
        found = [_apply_edit(message, edit.replacement.content) for message in found]
    return found


def _apply_edit(message: Raw, content: Any) -> Raw:
    value: Any = msgspec.json.decode(message)
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if fields.get("role") not in ("user", "assistant", "toolResult", "custom"):
        return message
    if isinstance(content, str) and fields["role"] in ("assistant", "toolResult"):
        content = [{"type": "text", "text": content}]
    return Raw(msgspec.json.encode({**fields, "content": content}))


def entries_in_context(path: list[Entry]) -> list[tuple[Entry, ContextEditEntry | None]]:
    """Return the entries of a path that are part of the context at its end, each with its last edit.

    After a compaction these are the compaction, the entries it keeps and those after it. pi folds its system prompts into
    the compaction, so system prompts among the kept entries are left out. Older compactions are left out too.
    """
    kinds = set(map(type, path))  # few paths have compactions and edits, and most are long
    if CompactionEntry in kinds:
        last = next(index for index in reversed(range(len(path))) if isinstance(path[index], CompactionEntry))
        compaction = path[last]
        assert isinstance(compaction, CompactionEntry)
        first = next((index for index in range(last) if path[index].id == compaction.first_kept_entry_id), last)
        kept = [e for e in path[first:last] if not isinstance(e, CompactionEntry) and role_of(e) != "system"]
        path = [compaction, *kept, *path[last + 1 :]]
    if ContextEditEntry not in kinds:
        return [(entry, None) for entry in path]
    edits = {entry.target_id: entry for entry in path if isinstance(entry, ContextEditEntry)}
    return [(entry, edits.get(entry.id)) for entry in path]
