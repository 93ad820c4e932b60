"""Commands about sessions: switch, fork, list, delete, inspect, compact.

The protocol that pi spoke in 2025, before it had responses, has three commands and eleven events.

A command that changes the session first ends a run in progress, including all its events.
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import UNSET, Struct, UnsetType

from fairlead.core.events import CompactionResult
from fairlead.core.messages import Message
from fairlead.core.snapshots import SessionInfo
from fairlead.protocol.pi.commands import Abort, Attachment, Command, Persisted
from fairlead.protocol.pi.frames import Frame

# From one session to another


class Switched(Struct, rename="camel"):
    #: True if an extension blocked the switch. Then nothing has changed.
    cancelled: bool
    #: True if the file contains no session, so that a new one will be saved there.
    created: bool | UnsetType = UNSET


class NewSession(Command, tag="new_session", kw_only=True):
    """Start a new session. `parentSession` is recorded as the file of the session that it came from."""

    parent_session: str | None = None
    result: ClassVar[Any] = Switched


class SwitchSession(Command, tag="switch_session", kw_only=True):
    """Resume the session in a file. If the file contains none, save a new session there."""

    session_path: str
    result: ClassVar[Any] = Switched


class Forked(Struct):
    cancelled: bool
    #: The text of that message; absent if an extension blocked the fork.
    text: str | UnsetType = UNSET


class Fork(Command, tag="fork", kw_only=True):
    """Start a new session with everything before a user message, and return the text of that message."""

    entry_id: str
    result: ClassVar[Any] = Forked


class Branch(Command, tag="branch", kw_only=True):
    """The name that omp and xcsh have for `fork`."""

    entry_id: str
    result: ClassVar[Any] = Forked


class Clone(Command, tag="clone"):
    """Start a new session with a copy of the whole conversation."""

    result: ClassVar[Any] = Switched


class SessionList(Struct):
    sessions: list[SessionInfo]


class ListSessions(Command, tag="list_sessions", kw_only=True):
    """List the sessions of this working directory or, with `all`, of every directory. The latest change comes first."""

    all: bool | None = None
    result: ClassVar[Any] = SessionList


class DeleteSession(Command, tag="delete_session", kw_only=True):
    """Delete the file of a session and the conversations of its sub-agents. A session in use is not deleted."""

    session_path: str


class SetSessionName(Command, tag="set_session_name", kw_only=True):
    """Name the session. Surrounding spaces are removed."""

    name: str


# The tree


class ForkMessage(Struct, rename="camel"):
    entry_id: str
    text: str


class ForkMessages(Struct):
    messages: list[ForkMessage]


class GetForkMessages(Command, tag="get_fork_messages"):
    """List the user messages of the current branch, which `fork` accepts."""

    result: ClassVar[Any] = ForkMessages


class GetBranchMessages(Command, tag="get_branch_messages"):
    """The name that omp and xcsh have for `get_fork_messages`."""

    result: ClassVar[Any] = ForkMessages


class Entries(Struct, rename="camel"):
    """Entries in the form of the session file."""

    entries: list[dict[str, Any]]
    leaf_id: str | None


class GetEntries(Command, tag="get_entries", kw_only=True):
    """List the entries of all branches in the order in which they were added, or those added after the entry `since`."""

    since: str | None = None
    result: ClassVar[Any] = Entries


class Tree(Struct, rename="camel"):
    """Nodes `{entry, children, label?, labelTimestamp?}`. The nesting is as deep as the conversation is long."""

    tree: list[dict[str, Any]]
    leaf_id: str | None


class GetTree(Command, tag="get_tree"):
    """Get all entries as a tree, and the entry at which the conversation continues (`leafId`)."""

    result: ClassVar[Any] = Tree


class Navigated(Struct, rename="camel"):
    #: True if the summary was aborted. Then nothing has changed.
    cancelled: bool
    leaf_id: str | None
    #: The text of the user message at the target, to edit and send again.
    editor_text: str | UnsetType = UNSET
    #: The entry with the summary of the branch.
    summary_entry_id: str | UnsetType = UNSET


class NavigateTree(Command, tag="navigate_tree", kw_only=True):
    """Continue from another entry of the same session; null is its beginning. If the entry is a message of the user or of an
    extension, the conversation continues before it, and the response contains its text. With `summarize`, the model gets a
    summary of the abandoned branch. The new position is saved with the next entry."""

    target_id: str | None
    summarize: bool | None = None
    custom_instructions: str | None = None
    result: ClassVar[Any] = Navigated


class Labelled(Struct, rename="camel"):
    entry_id: str


class SetLabel(Command, tag="set_label", kw_only=True):
    """Label an entry, or remove its label. The response names the entry that records the change."""

    target_id: str
    label: str | None = None
    result: ClassVar[Any] = Labelled


# Long histories


class MessagesPage(Struct, rename="camel"):
    messages: list[Message]
    total_messages: int
    next_cursor: str | UnsetType = UNSET


class GetMessagesPage(Command, tag="get_messages_page", kw_only=True):
    """Get a page of the conversation, oldest messages first: at most `limit` messages (1 to 256, default 100) and about 768 KiB.
    If there is more, `nextCursor` is the `cursor` of the next page. A cursor is valid until the conversation changes."""

    cursor: str | None = None
    limit: int | None = None
    result: ClassVar[Any] = MessagesPage


# Compaction


class Compact(Command, tag="compact", kw_only=True):
    """Replace the older part of the conversation with a summary. `customInstructions` tell the model what to focus on. The
    response arrives at the end. Meanwhile prompts are refused, and `abort` stops the compaction."""

    custom_instructions: str | None = None
    result: ClassVar[Any] = CompactionResult


class SetAutoCompaction(Persisted, tag="set_auto_compaction", kw_only=True):
    """Turn automatic compaction on or off. It happens when the context of the model is nearly full, or overflows."""

    enabled: bool


# Export


class Exported(Struct):
    path: str


class ExportHtml(Command, tag="export_html", kw_only=True):
    """Write the session as an HTML page to `outputPath`, or to a file in the working directory. The response has the path."""

    output_path: str | None = None
    result: ClassVar[Any] = Exported


# Interrupted runs


class Resume(Command, tag="resume"):
    """Continue the last run if it was interrupted: the agent was killed or closed during it, or the model failed.

    No message is repeated. Tool calls that had ended keep their results. Calls of idempotent tools, and calls that had not
    started, are made now; any other call gets a result that says that it may have run. Refused if the last run has ended.
    """


# Extensions


class Reloaded(Struct):
    #: The names of all extensions that are loaded now.
    extensions: list[str]


class Reload(Command, tag="reload"):
    """Reload all extensions without closing the session. Refused during a run."""

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
    Resume,
    Reload,
)


class Prompt2025(Command, tag="prompt", kw_only=True):
    """Start a run with a message from the user. The model sees attached images, and the texts of attached documents under their
    file names."""

    message: str
    attachments: list[Attachment] | None = None


class Compaction(Frame, tag="compaction", kw_only=True):
    """A summary has replaced the older part of the conversation. `auto` if fairlead decided to compact."""

    summary: str
    tokens_before: int
    auto: bool | UnsetType = UNSET


class Error(Frame, tag="error"):
    """A command is invalid or failed, or a compaction failed."""

    error: str


COMMANDS_2025: dict[str, type[Command]] = {"prompt": Prompt2025, "abort": Abort, "compact": Compact}

EVENTS_2025: frozenset[str] = frozenset(
    """agent_start agent_end turn_start turn_end message_start message_update message_end
    tool_execution_start tool_execution_end compaction error""".split()
)
