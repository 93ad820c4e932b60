"""A conversation as a tree of entries, in memory. It knows no files: whoever keeps it is its `sink`.

Every entry names the one before it. The leaf is where the conversation stands; what is added becomes its child
and the new leaf, so moving the leaf back and adding something makes a branch. Nothing is ever changed or removed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct

from fairlead.core.messages import AssistantMessage, CustomMessage, Message, Usage, UserBlock, UserMessage, user_text
from fairlead.errors import EntryNotFound, FairleadError
from fairlead.session.history.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    Header,
    LabelEntry,
    MessageEntry,
    ModelChangeEntry,
    Replacement,
    SessionInfoEntry,
    ThinkingLevelChangeEntry,
    UsageEntry,
    decode_line,
    decode_message,
    encode_line,
    encode_message,
    messages_of,
    role_of,
    selected,
)
from fairlead.session.history.paths import iso
from fairlead.session.history.tree import Label, Node, tree_json


class Sink(Protocol):
    """Whoever makes entries last."""

    def write(self, entry: Entry, line: bytes) -> None:
        """Make an entry last. Raises a FairleadError if that cannot be done; then the entry is not part of the log."""
        ...

    def hold(self, line: bytes) -> None:
        """Keep an entry that could not be written, to write it before the next one."""
        ...


class ModelChoice(Struct, frozen=True):
    provider: str
    id: str


class Context(Struct, frozen=True):
    """Where the conversation stands: its messages, and the model and thinking level last chosen, if any was."""

    messages: list[Message]
    model: ModelChoice | None
    thinking_level: str | None


_E = TypeVar("_E", bound=Entry)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Log:
    """A conversation. `records` are entries with their JSON, parents first; `gaps` are the positions in them that follow
    something unreadable: an entry there whose parent is missing is taken to continue the entry before the gap."""

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
        self._now_ms = now_ms
        # Entries are known by position: a path is then a walk over a list of numbers.
        self._entries: list[Entry] = []
        self._lines: list[bytes] = []
        self._parents: list[int] = []
        self._positions: dict[str, int] = {}
        self._marks: list[int] = []
        self._leaf = -1
        self._decoded: dict[tuple[str, str], list[Message]] = {}
        bridge, waiting = -1, list(reversed(gaps))
        for number, (entry, line) in enumerate(records):
            while waiting and waiting[-1] <= number:
                waiting.pop()
                bridge = len(self._entries) - 1
            # A second entry with an id that exists is a copy: pi is known to have written whole files twice.
            if entry.id not in self._positions:
                self._add(entry, line, bridge)

    # Adding

    def message(self, message: Message, *, keep: bool = False) -> MessageEntry | CustomMessageEntry:
        """Add a message. If it cannot be made to last, that is raised and nothing has changed.

        With `keep` the error is raised too, but the message is part of the log and will be written before the next
        entry: right for what has already happened, such as a model's answer.
        """
        if isinstance(message, CustomMessage):  # pi has entries of their own for these
            id, parent, _ = self._next()
            details = UNSET if message.details is None else message.details
            told_at = iso(message.timestamp)  # the entry's time is the message's when it is read again
            entry = CustomMessageEntry(id, parent, told_at, message.custom_type, message.content, message.display, details)
        else:
            entry = MessageEntry(*self._next(), encode_message(message))
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
        """From here on `summary` stands for everything before `first_kept_entry_id`; None keeps nothing beside it."""
        id, parent, timestamp = self._next()
        kept = id if first_kept_entry_id is None else self.get(first_kept_entry_id).id
        extra = details, usage or UNSET, from_hook or UNSET
        return self._append(CompactionEntry(id, parent, timestamp, summary, kept, tokens_before, *extra))

    def branch_summary(
        self, from_id: str | None, summary: str, *, details: Any = UNSET, usage: Usage | None = None, from_hook: bool = False
    ) -> BranchSummaryEntry:
        """Tell the model what happened on the branch that ends at `from_id`. Move to where the new branch begins first."""
        left = "root" if from_id is None else self.get(from_id).id
        extra = details, usage or UNSET, from_hook or UNSET
        return self._append(BranchSummaryEntry(*self._next(), left, summary, *extra))

    def custom(self, custom_type: str, data: Any = UNSET, *, keep: bool = False) -> CustomEntry:
        """Add state that the model is not told of. `keep` is that of `message`."""
        return self._append(CustomEntry(*self._next(), custom_type, data), keep)

    def custom_message(
        self, custom_type: str, content: str | list[UserBlock], *, display: bool, details: Any = UNSET
    ) -> CustomMessageEntry:
        return self._append(CustomMessageEntry(*self._next(), custom_type, content, display, details))

    def label(self, target_id: str, label: str | None) -> LabelEntry:
        """Bookmark an entry; None or nothing but blanks takes its bookmark away."""
        text = (label or "").strip()
        return self._append(LabelEntry(*self._next(), self.get(target_id).id, text or UNSET))

    def session_info(self, name: str) -> SessionInfoEntry:
        return self._append(SessionInfoEntry(*self._next(), name))

    def usage(self, kind: str, provider: str, model: str, usage: Usage, note: str, *, keep: bool = False) -> UsageEntry:
        """Count what was spent beside the model's answers. `keep` is that of `message`."""
        return self._append(UsageEntry(*self._next(), kind, provider, model, usage, note), keep)

    def context_edit(self, target_id: str, replacement: Replacement | None, *, keep: bool = False) -> ContextEditEntry:
        """Show the model something else for an entry's content from here on, or nothing. `keep` is that of `message`."""
        return self._append(ContextEditEntry(*self._next(), self.get(target_id).id, replacement), keep)

    # Looking

    @property
    def leaf(self) -> str | None:
        """The entry at which the conversation stands; None before its beginning."""
        return self._entries[self._leaf].id if self._leaf >= 0 else None

    @property
    def name(self) -> str | None:
        """What the user calls this session."""
        for position in reversed(self._marks):
            entry = self._entries[position]
            if isinstance(entry, SessionInfoEntry):
                return (entry.name or "").strip() or None
        return None

    @property
    def labels(self) -> dict[str, Label]:
        """The bookmarks, by the id of their entry."""
        labels: dict[str, Label] = {}
        for position in self._marks:
            entry = self._entries[position]
            if isinstance(entry, LabelEntry):
                labels.pop(entry.target_id, None)
                if entry.label:
                    labels[entry.target_id] = Label(entry.label, entry.timestamp)
        return labels

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, id: str) -> bool:
        return id in self._positions

    def get(self, id: str) -> Entry:
        return self._entries[self._position(id)]

    def entries(self, since: str | None = None) -> list[Entry]:
        """All entries of all branches in the order in which they were added, or those added after `since`."""
        return self._entries[0 if since is None else self._position(since) + 1 :]

    def children(self, id: str | None) -> list[Entry]:
        """What came directly after an entry; after None, where conversations begin."""
        parent = -1 if id is None else self._position(id)
        return [self._entries[child] for child, position in enumerate(self._parents) if position == parent]

    def path(self, leaf: str | None = None) -> list[Entry]:
        """The entries from the beginning to an entry; to where the conversation stands, if none is named."""
        return [self._entries[position] for position in self._path(leaf)]

    def back(self) -> Iterator[Entry]:
        """The entries from where the conversation stands to its beginning."""
        position = self._leaf
        while position >= 0:
            yield self._entries[position]
            position = self._parents[position]

    def tree(self) -> list[Node]:
        """Where conversations begin, each with all that came after it."""
        nodes = [Node(entry, line, []) for entry, line in zip(self._entries, self._lines, strict=True)]
        for id, label in self.labels.items():
            if id in self._positions:
                nodes[self._positions[id]].label = label
        roots: list[Node] = []
        for node, parent in zip(nodes, self._parents, strict=True):
            (roots if parent < 0 else nodes[parent].children).append(node)
        for node in nodes:
            if len(node.children) > 1:
                node.children.sort(key=lambda child: child.entry.timestamp)
        return roots

    def lines(self) -> list[bytes]:
        """Header and entries as JSON, in the order of a file."""
        return [encode_line(self.header), *self._lines]

    @property
    def last_line(self) -> bytes:
        """The entry that was added last, as JSON."""
        return self._lines[-1]

    def plain(self, entries: Iterable[Entry]) -> list[dict[str, Any]]:
        """Entries as their JSON objects, as copies."""
        return [msgspec.json.decode(self._lines[self._positions[entry.id]]) for entry in entries]

    def entries_json(self, since: str | None = None) -> bytes:
        """`entries` as a JSON array, as they were written."""
        return b"[%b]" % b",".join(self._lines[0 if since is None else self._position(since) + 1 :])

    def tree_json(self) -> bytes:
        """`tree` as a JSON array in the form of pi. A conversation is nested as deeply as it is long."""
        return tree_json(self.tree())

    def user_messages(self) -> list[tuple[str, str]]:
        """What the user said on the way to the leaf, where it has text: entry id and text."""
        found: list[tuple[str, str]] = []
        for entry in self.path():
            if role_of(entry) == "user":
                for message in self.read(entry):
                    if isinstance(message, UserMessage) and (text := user_text(message)):
                        found.append((entry.id, text))
        return found

    # The conversation as the model will be told of it

    def read(self, entry: Entry, edit: ContextEditEntry | None = None) -> list[Message]:
        """The messages that an entry contributes to a conversation, after an edit of it."""
        key = entry.id, edit.id if edit is not None else ""
        messages = self._decoded.get(key)
        if messages is None:
            decoded = [decode_message(raw) for raw in messages_of(entry, edit)]
            messages = self._decoded[key] = [message for message in decoded if message is not None]
        return messages

    def context(self) -> Context:
        return Context(self.messages(), self.model(), self.thinking_level())

    def messages(self) -> list[Message]:
        """The messages at the leaf, failed ones included. They are the same objects whenever they are asked for."""
        return [message for entry, edit in selected(self.path()) for message in self.read(entry, edit)]

    def raw_messages(self) -> list[Raw]:
        """The messages at the leaf as JSON, as they were written: those of roles that are unknown here included."""
        found: list[Raw] = []
        for entry, edit in selected(self.path()):
            if edit is None and type(entry) is MessageEntry:  # nearly all of them
                found.append(entry.message)
            else:
                found += messages_of(entry, edit)
        return found

    def messages_json(self) -> bytes:
        """`raw_messages` as a JSON array."""
        return b"[%b]" % b",".join(self.raw_messages())

    def model(self) -> ModelChoice | None:
        """The model that was chosen, or that answered, last on the way to the leaf."""
        for entry in self.back():
            if isinstance(entry, ModelChangeEntry):
                return ModelChoice(entry.provider, entry.model_id)
            if role_of(entry) == "assistant":
                for message in self.read(entry):
                    if isinstance(message, AssistantMessage):
                        return ModelChoice(message.provider, message.model)
        return None

    def thinking_level(self) -> str | None:
        for entry in self.back():
            if isinstance(entry, ThinkingLevelChangeEntry):
                return entry.thinking_level
        return None

    # Moving

    def move(self, leaf: str | None) -> None:
        """Go to another entry, or before all of them. This is not written; the next entry will show it."""
        self._leaf = -1 if leaf is None else self._position(leaf)

    def forked(self, header: Header, before: str | None = None) -> Log:
        """A new conversation with the way to the leaf, or with what came before an entry. Entries keep their ids."""
        path = self._path(before)
        if before is not None:
            path.pop()
        fork = Log(header, now_ms=self._now_ms)
        for position in path:
            entry, line = self._entries[position], self._lines[position]
            if entry.parent_id != fork.leaf:  # its parent was lost
                entry, line = decode_line(msgspec.json.encode({**msgspec.json.decode(line), "parentId": fork.leaf}))
            fork._add(entry, line)
        # Bookmarks are often given later, on another branch than the entry they mark.
        mine, theirs = self.labels, fork.labels
        for target in {**mine, **theirs}:
            label = mine.get(target)
            if target in fork and label != theirs.get(target):
                id, parent, now = fork._next()
                fork._append(LabelEntry(id, parent, label.timestamp if label else now, target, label.text if label else UNSET))
        return fork

    # Inside

    def _position(self, id: str) -> int:
        try:
            return self._positions[id]
        except KeyError:
            raise EntryNotFound(f"Entry {id} not found.") from None

    def _path(self, leaf: str | None) -> list[int]:
        position = self._leaf if leaf is None else self._position(leaf)
        parents, path = self._parents, list[int]()
        while position >= 0:
            path.append(position)
            position = parents[position]
        path.reverse()
        return path

    def _next(self) -> tuple[str, str | None, str]:
        """Id, parent and time of an entry to come."""
        while (id := os.urandom(4).hex()) in self._positions:
            pass
        return id, self.leaf, iso(self._now_ms())

    def _append(self, entry: _E, keep: bool = False) -> _E:
        line = encode_line(entry)
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
        if isinstance(entry, (LabelEntry, SessionInfoEntry)):
            self._marks.append(position)
        self._leaf = position
