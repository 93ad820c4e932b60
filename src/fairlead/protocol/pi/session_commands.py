"""What a host may do with sessions: go from one to another, look into them, shorten them.

A run in progress is ended, with all its events, before the session changes under it.
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import UNSET, Struct, UnsetType

from fairlead.core.events import CompactionResult
from fairlead.core.messages import Message
from fairlead.core.session_info import SessionInfo
from fairlead.protocol.pi.command import Command, Persisted

# From one session to another


class Switched(Struct, rename="camel"):
    #: True if an extension forbade it; then nothing has changed.
    cancelled: bool
    #: True if there was no session in that file, so that a new one will be kept there.
    created: bool | UnsetType = UNSET


class NewSession(Command, tag="new_session", kw_only=True):
    """Begin a new session. `parentSession` is the file of the one it comes from, for the record."""

    parent_session: str | None = None
    result: ClassVar[Any] = Switched


class SwitchSession(Command, tag="switch_session", kw_only=True):
    """Go on with the session in a file. If there is none, a new one will be kept there."""

    session_path: str
    result: ClassVar[Any] = Switched


class Forked(Struct):
    cancelled: bool
    #: What the user said at that place; left out if an extension forbade to go there.
    text: str | UnsetType = UNSET


class Fork(Command, tag="fork", kw_only=True):
    """Go on in a new session with all that came before a message of the user's, whose text is returned."""

    entry_id: str
    result: ClassVar[Any] = Forked


class Branch(Command, tag="branch", kw_only=True):
    """The name of `fork` in omp and xcsh."""

    entry_id: str
    result: ClassVar[Any] = Forked


class Clone(Command, tag="clone"):
    """Go on in a new session that has everything up to here."""

    result: ClassVar[Any] = Switched


class SessionList(Struct):
    sessions: list[SessionInfo]


class ListSessions(Command, tag="list_sessions", kw_only=True):
    """The sessions of this working directory, or with `all` of every directory, those that changed last first."""

    all: bool | None = None
    result: ClassVar[Any] = SessionList


class DeleteSession(Command, tag="delete_session", kw_only=True):
    """Delete a session's file, and the conversations of its sub-agents. One that is in use is not deleted."""

    session_path: str


class SetSessionName(Command, tag="set_session_name", kw_only=True):
    """Give the session a name; blanks around it are dropped."""

    name: str


# The tree


class ForkMessage(Struct, rename="camel"):
    entry_id: str
    text: str


class ForkMessages(Struct):
    messages: list[ForkMessage]


class GetForkMessages(Command, tag="get_fork_messages"):
    """The messages of the user's on the present branch: where `fork` can go."""

    result: ClassVar[Any] = ForkMessages


class GetBranchMessages(Command, tag="get_branch_messages"):
    """The name of `get_fork_messages` in omp and xcsh."""

    result: ClassVar[Any] = ForkMessages


class Entries(Struct, rename="camel"):
    """Entries as in the session's file."""

    entries: list[dict[str, Any]]
    leaf_id: str | None


class GetEntries(Command, tag="get_entries", kw_only=True):
    """All entries of all branches in the order in which they were added, or those added after the entry `since`."""

    since: str | None = None
    result: ClassVar[Any] = Entries


class Tree(Struct, rename="camel"):
    """Nodes `{entry, children, label?, labelTimestamp?}`, nested as deeply as the conversation is long."""

    tree: list[dict[str, Any]]
    leaf_id: str | None


class GetTree(Command, tag="get_tree"):
    """All entries as a tree, and where in it the conversation stands."""

    result: ClassVar[Any] = Tree


class Navigated(Struct, rename="camel"):
    #: True if the summary was aborted; then the conversation stands where it stood.
    cancelled: bool
    leaf_id: str | None
    #: What the user said at the target, to be said anew.
    editor_text: str | UnsetType = UNSET
    #: The entry of the branch's summary.
    summary_entry_id: str | UnsetType = UNSET


class NavigateTree(Command, tag="navigate_tree", kw_only=True):
    """Go on from another entry of the same session; null is its beginning. A message of the user's is gone before, and its
    text returned. With `summarize` the model is told what happened on the branch that is left. The move lasts with the next
    entry that is added."""

    target_id: str | None
    summarize: bool | None = None
    custom_instructions: str | None = None
    result: ClassVar[Any] = Navigated


class Labelled(Struct, rename="camel"):
    entry_id: str


class SetLabel(Command, tag="set_label", kw_only=True):
    """Bookmark an entry; without a label, take its bookmark away. The answer names the entry that says so."""

    target_id: str
    label: str | None = None
    result: ClassVar[Any] = Labelled


# Long histories


class MessagesPage(Struct, rename="camel"):
    messages: list[Message]
    total_messages: int
    next_cursor: str | UnsetType = UNSET


class GetMessagesPage(Command, tag="get_messages_page", kw_only=True):
    """A part of the conversation, oldest messages first: at most `limit` messages (1 to 256, 100 if not given) and about
    768 KiB. `nextCursor`, if there is more, is the `cursor` of the next part, for as long as the conversation stays as it is."""

    cursor: str | None = None
    limit: int | None = None
    result: ClassVar[Any] = MessagesPage


# Compaction


class Compact(Command, tag="compact", kw_only=True):
    """Replace the older part of the conversation by a summary. `customInstructions` say what it should pay attention to.
    Answered when it is done; prompts are refused meanwhile, and `abort` stops it."""

    custom_instructions: str | None = None
    result: ClassVar[Any] = CompactionResult


class SetAutoCompaction(Persisted, tag="set_auto_compaction", kw_only=True):
    """Whether the conversation is compacted by itself when the model's context is nearly full, or overflows."""

    enabled: bool


# Export


class Exported(Struct):
    path: str


class ExportHtml(Command, tag="export_html", kw_only=True):
    """Write the session as a page to read: to `outputPath`, or to a file in the working directory. The answer says where."""

    output_path: str | None = None
    result: ClassVar[Any] = Exported


# Extensions


class Reloaded(Struct):
    #: The names of the extensions that there are now.
    extensions: list[str]


class Reload(Command, tag="reload"):
    """Load all extensions anew, without leaving the session. Refused while a run is going on."""

    result: ClassVar[Any] = Reloaded


SESSION_COMMANDS: tuple[type[Command], ...] = (
    NewSession,
    SwitchSession,
    Fork,
    Branch,
    Clone,
    ListSessions,
    DeleteSession,
    SetSessionName,
    GetForkMessages,
    GetBranchMessages,
    GetEntries,
    GetTree,
    NavigateTree,
    SetLabel,
    GetMessagesPage,
    Compact,
    SetAutoCompaction,
    ExportHtml,
    Reload,
)
