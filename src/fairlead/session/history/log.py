"""A conversation in memory, as a tree of entries. Its `sink` stores it; this module does not know about files.

Every entry names its parent. The leaf is the current entry. A new entry becomes a child of the leaf and the new leaf, so
moving the leaf back and adding an entry starts a branch. Entries are never changed or removed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct

from fairlead.core import lenient
from fairlead.core.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    Usage,
    UserBlock,
    UserMessage,
    decode_message,
    encode_message,
    user_text,
)
from fairlead.errors import EntryNotFound, FairleadError
from fairlead.session.history import tree
from fairlead.session.history.entries import (
    BRANCH,
    NOTE_MARK,
    STATES,
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    LabelEntry,
    MessageEntry,
    ModelChangeEntry,
    NoteEntry,
    Replacement,
    SessionInfoEntry,
    ThinkingLevelChangeEntry,
    UsageEntry,
    decode_line,
    encode_line,
    entries_in_context,
    is_note,
    message_in,
    messages_of,
    role_of,
)
from fairlead.stores.headers import Header
from fairlead.stores.paths import iso

if TYPE_CHECKING:
    from fairlead.session.history.tree import EntryNode, Label


class Sink(Protocol):
    """Stores the entries of a log."""

    def write(self, entry: Entry, line: bytes) -> None:
        """Store an entry, whose JSON is `line`. Raises a FairleadError if it cannot; the entry is then not added to the log."""
        ...

    def hold(self, line: bytes) -> None:
        """Remember a line that could not be written, and write it before the next one."""
        ...


class ModelChoice(Struct, frozen=True):
    """A provider and the id of one of its models."""

    provider: str
    id: str


_E = TypeVar("_E", bound=Entry)
_T = TypeVar("_T")


def _new_id() -> str:
    return os.urandom(4).hex()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Log:
    """A conversation.

    `records` are entries with their JSON, parents first. `gaps` are the positions in `records` that follow an unreadable line:
    an entry after a gap whose parent is missing continues the entry before the gap. `now_ms` returns the time of new entries.
    """

    def __init__(
        self,
        header: Header,
        records: Iterable[tuple[Entry, bytes]] = (),
        *,
        gaps: Sequence[int] = (),
        now_ms: Callable[[], int] = _now_ms,
    ) -> None:
        self.header = header
        self.sink: Sink | None = None
        #: The numbers of the lines that are not entries. Every other number belongs to an entry: see `number_at`.
        self.unreadable: Sequence[int] = ()
        #: Returns the id of a new entry.
        self.new_id: Callable[[], str] = _new_id
        #: Ids that were chosen for the next messages, by their role.
        self.reserved_ids: dict[str, str] = {}
        self._now_ms = now_ms
        # Entries are identified by position: a path is then a walk over a list of numbers.
        self._entries: list[Entry] = []
        self._lines: list[bytes] = []
        self._parents: list[int] = []
        self._positions: dict[str, int] = {}
        #: The entries that label another entry or name the session.
        self._marks: list[int] = []
        #: The positions of notes, and those of the notes at each entry, oldest first.
        self._notes: set[int] = set()
        self._notes_at: dict[int, list[int]] = {}
        #: The positions of the leaf, and of the newest entry that is not a note.
        self._leaf = self._last = -1
        self._decoded: dict[tuple[str, str], list[Message]] = {}
        before_gap, gaps_ahead = -1, list(reversed(gaps))
        for number, (entry, line) in enumerate(records):
            while gaps_ahead and gaps_ahead[-1] <= number:
                gaps_ahead.pop()
                before_gap = len(self._entries) - 1
            # A second entry with an id that exists is a copy: pi is known to have written whole files twice.
            if entry.id not in self._positions:
                self._add(entry, line, before_gap)

    # Adding

    def message(self, message: Message, *, keep: bool = False) -> MessageEntry | CustomMessageEntry:
        """Add a message and return its entry. Raises the sink's FairleadError if it cannot be stored; nothing has changed then.

        With `keep` the error is raised too, but the message is part of the log and is written before the next entry. Use it
        for what has already happened, such as a model's answer.
        """
        if isinstance(message, CustomMessage):  # pi has an entry type for these
            id, parent, _ = self._next()
            details = UNSET if message.details is None else message.details
            sent_at = iso(message.timestamp)  # a message that is read again gets the time of its entry
            entry = CustomMessageEntry(id, parent, sent_at, message.custom_type, message.content, message.display, details)
        else:
            id, parent, now = self._next()
            reserved = self.reserved_ids.pop(message.role, "")
            id = reserved if reserved and reserved not in self._positions else id
            entry = MessageEntry(id, parent, now, encode_message(message))
        self._decoded[entry.id, ""] = [message]
        try:
            self._append(entry, keep)
        finally:
            if entry.id not in self._positions:
                del self._decoded[entry.id, ""]
        return entry

    def model_change(self, provider: str, model_id: str, *, keep: bool = False) -> ModelChangeEntry:
        return self._append(ModelChangeEntry(*self._next(), provider, model_id), keep)

    def thinking_level_change(self, level: str, *, keep: bool = False) -> ThinkingLevelChangeEntry:
        return self._append(ThinkingLevelChangeEntry(*self._next(), level), keep)

    def compaction(
        self,
        summary: str,
        first_kept_entry_id: str | None,
        tokens_before: int,
        *,
        details: Any = UNSET,
        usage: Usage | None = None,
        from_hook: bool = False,
    ) -> CompactionEntry:
        """Replace everything before `first_kept_entry_id` by `summary` in what the model sees; None keeps no entry."""
        id, parent, timestamp = self._next()
        kept = id if first_kept_entry_id is None else self.get(first_kept_entry_id).id
        extra = details, usage or UNSET, from_hook or UNSET
        return self._append(CompactionEntry(id, parent, timestamp, summary, kept, tokens_before, *extra))

    def branch_summary(
        self, from_id: str | None, summary: str, *, details: Any = UNSET, usage: Usage | None = None, from_hook: bool = False
    ) -> BranchSummaryEntry:
        """Add a summary of the branch that ends at `from_id`. Call `move` to the start of the new branch first."""
        left = "root" if from_id is None else self.get(from_id).id
        extra = details, usage or UNSET, from_hook or UNSET
        return self._append(BranchSummaryEntry(*self._next(), left, summary, *extra))

    def custom(self, custom_type: str, data: Any = UNSET, *, keep: bool = False) -> CustomEntry:
        """Add state that the model does not see. `keep` works as in `message`."""
        return self._append(CustomEntry(*self._next(), custom_type, data), keep)

    def note(self, custom_type: str, data: Any, *, keep: bool = True) -> NoteEntry:
        """Add a note about the current entry, from which the conversation continues. `keep` works as in `message`."""
        after = self._entries[self._last].id if self._last >= 0 else None
        return self._append(NoteEntry(*self._next(), custom_type, data, after), keep)

    def custom_message(
        self, custom_type: str, content: str | list[UserBlock], *, display: bool, details: Any = UNSET
    ) -> CustomMessageEntry:
        return self._append(CustomMessageEntry(*self._next(), custom_type, content, display, details))

    def label(self, target_id: str, label: str | None) -> LabelEntry:
        """Label an entry; None or a blank text removes its label."""
        text = (label or "").strip()
        return self._append(LabelEntry(*self._next(), self.get(target_id).id, text or UNSET))

    def session_info(self, name: str) -> SessionInfoEntry:
        return self._append(SessionInfoEntry(*self._next(), name))

    def usage(self, kind: str, provider: str, model: str, usage: Usage, note: str, *, keep: bool = False) -> UsageEntry:
        """Record tokens that were spent apart from the model's answers. `keep` works as in `message`."""
        return self._append(UsageEntry(*self._next(), kind, provider, model, usage, note), keep)

    def context_edit(self, target_id: str, replacement: Replacement | None, *, keep: bool = False) -> ContextEditEntry:
        """Replace an entry's content in what the model sees; None hides the entry. `keep` works as in `message`."""
        return self._append(ContextEditEntry(*self._next(), self.get(target_id).id, replacement), keep)

    # Reading

    @property
    def leaf(self) -> str | None:
        """The id of the current entry; None before the first one."""
        return self._entries[self._leaf].id if self._leaf >= 0 else None

    def find_end(self) -> str | None:
        """Return the id of the entry that is the current one when the log is read again; None if there is none."""
        for position in reversed(range(len(self._entries))):
            entry = self._entries[position]
            if position not in self._notes:
                return entry.id
            if isinstance(entry, NoteEntry) and entry.custom_type == BRANCH and self._parents[position] >= 0:
                return entry.parent_id
        return None

    @property
    def name(self) -> str | None:
        """The name that the user gave the session."""
        for position in reversed(self._marks):
            entry = self._entries[position]
            if isinstance(entry, SessionInfoEntry):
                return (entry.name or "").strip() or None
        return None

    @property
    def labels(self) -> dict[str, Label]:
        """The labels, by the id of their entry."""
        return tree.labels_in(self._entries[position] for position in self._marks)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, id: str) -> bool:
        return id in self._positions

    def get(self, id: str) -> Entry:
        """Return the entry with this id. Raises EntryNotFound."""
        return self._entries[self._position(id)]

    def entries(self, since: str | None = None) -> list[Entry]:
        """Return the entries of all branches, oldest first; with `since`, those added after that entry. Notes are left out.

        Raises EntryNotFound.
        """
        return self._list_shown(self._entries, since)

    def entries_with_notes(self) -> Iterator[Entry]:
        """Yield the entries of all branches and the notes about them, oldest first."""
        return iter(self._entries)

    def find_note(self, custom_type: str) -> CustomEntry | None:
        """Return the newest note of a type, about whichever entry; None if there is none."""
        for position in sorted(self._notes, reverse=True):
            note = self._entries[position]
            if isinstance(note, CustomEntry) and note.custom_type == custom_type:
                return note
        return None

    def children(self, id: str | None) -> list[Entry]:
        """Return the children of an entry; of None, the entries without a parent. Raises EntryNotFound."""
        parent = -1 if id is None else self._position(id)
        found = (child for child, position in enumerate(self._parents) if position == parent)
        return [self._entries[child] for child in found if child not in self._notes]

    def path(self, leaf: str | None = None) -> list[Entry]:
        """Return the entries from the root to an entry, or to the current one. Raises EntryNotFound."""
        return [self._entries[position] for position in self._path(leaf)]

    def back(self) -> Iterator[Entry]:
        """Yield the entries from the current one back to the root."""
        position = self._leaf
        while position >= 0:
            yield self._entries[position]
            position = self._parents[position]

    def back_with_notes(self) -> Iterator[Entry]:
        """Yield the same as `back`, and before each entry the notes about it, newest first."""
        position = self._leaf
        while position >= 0:
            for note in reversed(self._notes_at.get(position, ())):
                yield self._entries[note]
            yield self._entries[position]
            position = self._parents[position]
        for note in reversed(self._notes_at.get(-1, ())):
            yield self._entries[note]

    def tree(self) -> list[EntryNode]:
        """Return the entries without a parent, each with all of its descendants."""
        return tree.build_tree(self._entries, self._lines, self._parents, self.labels, self._notes)

    def lines(self) -> list[bytes]:
        """Return the header, the entries and the notes as lines of JSON, in the order in which they were added."""
        return [encode_line(self.header), *self._lines]

    def lines_of_file(self) -> list[bytes]:
        """Return the header and the entries as lines of JSON, in the order of a file. The notes are beside it."""
        return [line for line in self.lines() if not line.startswith(NOTE_MARK)]

    def lines_of_notes(self) -> list[bytes]:
        """Return the notes as lines of JSON."""
        return [line for line in self._lines if line.startswith(NOTE_MARK)]

    def size(self) -> int:
        """Return how many bytes the entries have as JSON."""
        return sum(map(len, self._lines))

    def at(self, position: int) -> tuple[Entry, bytes]:
        """Return the entry at a position, counted from 0, and its JSON."""
        return self._entries[position], self._lines[position]

    def number_at(self, position: int) -> int:
        """Return the number of the entry at a position: counted from 1, with the lines that are not entries."""
        number = position + 1
        for skipped in self.unreadable:
            if skipped > number:
                break
            number += 1
        return number

    @property
    def last_line(self) -> bytes:
        """The newest entry as JSON."""
        return self._lines[-1]

    def plain(self, entries: Iterable[Entry]) -> list[dict[str, Any]]:
        """Return copies of the entries as JSON objects. A number that is too large for a float is infinite."""
        return [lenient.decode(self._lines[self._positions[entry.id]]) for entry in entries]

    def entries_json(self, since: str | None = None) -> bytes:
        """Return `entries` as a JSON array, byte for byte as they were written. Raises EntryNotFound."""
        return b"[%b]" % b",".join(self._list_shown(self._lines, since))

    def tree_json(self) -> bytes:
        """Return `tree` as a JSON array in pi's form."""
        return tree.tree_json(self.tree())

    def user_messages(self) -> list[tuple[str, str]]:
        """Return the user's messages with text on the path to the leaf, as pairs of entry id and text."""
        found: list[tuple[str, str]] = []
        for entry in self.path():
            if role_of(entry) == "user":
                for message in self.read(entry):
                    if isinstance(message, UserMessage) and (text := user_text(message)):
                        found.append((entry.id, text))
        return found

    # What the model sees

    def read(self, entry: Entry, edit: ContextEditEntry | None = None, *, keep: bool = True) -> list[Message]:
        """Return the messages that an entry adds to the conversation, with an edit applied.

        They are kept in memory for the next time, unless `keep` is false.
        """
        key = entry.id, edit.id if edit is not None else ""
        messages = self._decoded.get(key)
        if messages is None:
            decoded = [decode_message(raw) for raw in messages_of(entry, edit)]
            messages = [message for message in decoded if message is not None]
            if keep:
                self._decoded[key] = messages
        return messages

    def messages(self) -> list[Message]:
        """Return the messages at the leaf, failed ones included. Every call returns the same message objects."""
        return [message for entry, edit in entries_in_context(self.path()) for message in self.read(entry, edit)]

    def raw_messages(self) -> list[Raw]:
        """Return the messages at the leaf as JSON, as they were written. Unknown roles are included."""
        found: list[Raw] = []
        for entry, edit in entries_in_context(self.path()):
            if edit is None and type(entry) is MessageEntry:  # nearly all of them
                found.append(entry.message)
            else:
                found += messages_of(entry, edit)
        return found

    def messages_json(self) -> bytes:
        """Return `raw_messages` as a JSON array."""
        return b"[%b]" % b",".join(self.raw_messages())

    def model(self) -> ModelChoice | None:
        """Return the model that was chosen or that answered last on the path to the leaf."""
        for entry in self.back():
            if isinstance(entry, ModelChangeEntry):
                return ModelChoice(entry.provider, entry.model_id)
            if role_of(entry) == "assistant":
                for message in self.read(entry):
                    if isinstance(message, AssistantMessage):
                        return ModelChoice(message.provider, message.model)
        return None

    def find_chosen_model(self) -> ModelChoice | None:
        """Return the model that was chosen last on the path to the leaf, even if another one answered after that."""
        chosen = next((entry for entry in self.back() if isinstance(entry, ModelChangeEntry)), None)
        return None if chosen is None else ModelChoice(chosen.provider, chosen.model_id)

    def thinking_level(self) -> str | None:
        """Return the thinking level that was chosen last on the path to the leaf."""
        for entry in self.back():
            if isinstance(entry, ThinkingLevelChangeEntry):
                return entry.thinking_level
        return None

    # Moving

    def move(self, leaf: str | None) -> None:
        """Make another entry the leaf; None is before the first. The move itself is not written. Raises EntryNotFound."""
        self._leaf = -1 if leaf is None else self._position(leaf)
        # Branches that were left need no more memory than their JSON.
        path = {self._entries[position].id for position in self._path(None)}
        self._decoded = {key: messages for key, messages in self._decoded.items() if key[0] in path}

    def fork(self, header: Header, before: str | None = None, at: str | None = None) -> Log:
        """Copy the path to the leaf, to the parent of `before`, or to `at`, to a new log. Entries keep their ids.

        Raises EntryNotFound.
        """
        path = self._path(at if before is None else before)
        if before is not None:
            path.pop()
        fork = Log(header, now_ms=self._now_ms)
        self._copy_states(-1, fork)
        for position in path:
            entry, line = self._entries[position], self._lines[position]
            if entry.parent_id != fork.leaf:  # its parent was lost
                entry, line = decode_line(msgspec.json.encode({**lenient.decode(line), "parentId": fork.leaf}))
            fork._add(entry, line)
            self._copy_states(position, fork)
        # Labels are often set later, on another branch than the entry they mark.
        mine, theirs = self.labels, fork.labels
        for target in {**mine, **theirs}:
            label = mine.get(target)
            if target in fork and label != theirs.get(target):
                id, parent, now = fork._next()
                fork._append(LabelEntry(id, parent, label.timestamp if label else now, target, label.text if label else UNSET))
        return fork

    # Inside

    def _copy_states(self, position: int, fork: Log) -> None:
        """Note in a fork the states that are noted about the entry at a position."""
        for note in self._notes_at.get(position, ()):
            entry = self._entries[note]
            if isinstance(entry, NoteEntry) and entry.custom_type in STATES:
                fork.note(entry.custom_type, entry.data)

    def _list_shown(self, items: list[_T], since: str | None) -> list[_T]:
        """Return what `items` has for the entries after `since` that are not notes."""
        start = 0 if since is None else self._position(since) + 1
        if not self._notes:
            return items[start:]
        return [item for position, item in enumerate(items[start:], start) if position not in self._notes]

    def _position(self, id: str) -> int:
        try:
            return self._positions[id]
        except KeyError:
            raise EntryNotFound(f"Entry {id} not found") from None  # as pi says it

    def _path(self, leaf: str | None) -> list[int]:
        position = self._leaf if leaf is None else self._position(leaf)
        parents, path = self._parents, list[int]()
        while position >= 0:
            path.append(position)
            position = parents[position]
        path.reverse()
        return path

    def _next(self) -> tuple[str, str | None, str]:
        """Return the id, the parent and the time of the next entry."""
        while (id := self.new_id()) in self._positions:
            pass
        return id, self.leaf, iso(self._now_ms())

    def _append(self, entry: _E, keep: bool = False) -> _E:
        line = encode_line(entry)
        if isinstance(entry, MessageEntry):
            entry.message = message_in(line)
        if self.sink is not None:
            try:
                self.sink.write(entry, line)
            except FairleadError:
                if keep:
                    self.sink.hold(line)
                    self._add(entry, line)
                raise
        self._add(entry, line)
        return entry

    def _add(self, entry: Entry, line: bytes, orphan_parent: int = -1) -> None:
        position = len(self._entries)
        parent = -1 if entry.parent_id is None else self._positions.get(entry.parent_id, orphan_parent)
        self._entries.append(entry)
        self._lines.append(line)
        self._parents.append(parent)
        self._positions[entry.id] = position
        if isinstance(entry, CustomEntry) and is_note(entry):
            self._notes.add(position)
            self._notes_at.setdefault(parent, []).append(position)
            if entry.custom_type == BRANCH and parent >= 0:
                self._leaf = parent
            return
        if isinstance(entry, (LabelEntry, SessionInfoEntry)):
            self._marks.append(position)
        self._leaf = self._last = position
