"""Commands of the pi family, a method for each.

`make generate` writes this module from the declarations. Do not edit it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from fairlead.client.generated.base import SyncCaller

if TYPE_CHECKING:
    from fairlead.core.events import CompactionResult
    from fairlead.protocol.pi.session_commands import (
        Entries,
        Exported,
        Forked,
        ForkMessages,
        Labelled,
        MessagesPage,
        Navigated,
        Reloaded,
        SessionList,
        Switched,
        Tree,
    )


class SyncSessionMethods(SyncCaller):
    """Each method sends a command and returns the data of the response.

    It raises CommandRefused if the agent refuses the command, NoAnswer if `timeout` seconds pass, and AgentGone if the agent
    ends. `timeout` is by default that of the client; None means no limit.
    """

    def new_session(self, *, parent_session: str | None = None, timeout: float | UnsetType | None = UNSET) -> Switched:
        """Start a new session. `parentSession` is recorded as the file of the session that it came from."""
        return self._call("new_session", timeout, parent_session=parent_session)

    def switch_session(self, session_path: str, *, timeout: float | UnsetType | None = UNSET) -> Switched:
        """Resume the session in a file. If the file contains none, save a new session there."""
        return self._call("switch_session", timeout, session_path=session_path)

    def fork(self, entry_id: str, *, timeout: float | UnsetType | None = UNSET) -> Forked:
        """Start a new session with everything before a user message, and return the text of that message."""
        return self._call("fork", timeout, entry_id=entry_id)

    def branch(self, entry_id: str, *, timeout: float | UnsetType | None = UNSET) -> Forked:
        """The name that omp and xcsh have for `fork`."""
        return self._call("branch", timeout, entry_id=entry_id)

    def clone(self, *, timeout: float | UnsetType | None = UNSET) -> Switched:
        """Start a new session with a copy of the whole conversation."""
        return self._call("clone", timeout)

    def list_sessions(self, *, all: bool | None = None, timeout: float | UnsetType | None = UNSET) -> SessionList:
        """List the sessions of this working directory or, with `all`, of every directory. The latest change comes
        first."""
        return self._call("list_sessions", timeout, all=all)

    def delete_session(self, session_path: str, *, timeout: float | UnsetType | None = UNSET) -> None:
        """Delete the file of a session and the conversations of its sub-agents. A session in use is not deleted."""
        self._call("delete_session", timeout, session_path=session_path)

    def set_session_name(self, name: str, *, timeout: float | UnsetType | None = UNSET) -> None:
        """Name the session. Surrounding spaces are removed."""
        self._call("set_session_name", timeout, name=name)

    def get_fork_messages(self, *, timeout: float | UnsetType | None = UNSET) -> ForkMessages:
        """List the user messages of the current branch, which `fork` accepts."""
        return self._call("get_fork_messages", timeout)

    def get_branch_messages(self, *, timeout: float | UnsetType | None = UNSET) -> ForkMessages:
        """The name that omp and xcsh have for `get_fork_messages`."""
        return self._call("get_branch_messages", timeout)

    def get_entries(self, *, since: str | None = None, timeout: float | UnsetType | None = UNSET) -> Entries:
        """List the entries of all branches in the order in which they were added, or those added after the entry
        `since`."""
        return self._call("get_entries", timeout, since=since)

    def get_tree(self, *, timeout: float | UnsetType | None = UNSET) -> Tree:
        """Get all entries as a tree, and the entry at which the conversation continues (`leafId`)."""
        return self._call("get_tree", timeout)

    def navigate_tree(
        self,
        target_id: str | None,
        *,
        summarize: bool | None = None,
        custom_instructions: str | None = None,
        timeout: float | UnsetType | None = UNSET,
    ) -> Navigated:
        """Continue from another entry of the same session; null is its beginning. If the entry is a message of the
        user or of an extension, the conversation continues before it, and the response contains its text. With
        `summarize`, the model gets a summary of the abandoned branch. The new position is saved with the next entry."""
        return self._call(
            "navigate_tree", timeout, target_id=target_id, summarize=summarize, custom_instructions=custom_instructions
        )

    def set_label(self, target_id: str, *, label: str | None = None, timeout: float | UnsetType | None = UNSET) -> Labelled:
        """Label an entry, or remove its label. The response names the entry that records the change."""
        return self._call("set_label", timeout, target_id=target_id, label=label)

    def get_messages_page(
        self, *, cursor: str | None = None, limit: int | None = None, timeout: float | UnsetType | None = UNSET
    ) -> MessagesPage:
        """Get a page of the conversation, oldest messages first: at most `limit` messages (1 to 256, default 100)
        and about 768 KiB. If there is more, `nextCursor` is the `cursor` of the next page. A cursor is valid until
        the conversation changes."""
        return self._call("get_messages_page", timeout, cursor=cursor, limit=limit)

    def compact(self, *, custom_instructions: str | None = None, timeout: float | UnsetType | None = UNSET) -> CompactionResult:
        """Replace the older part of the conversation with a summary. `customInstructions` tell the model what to
        focus on. The response arrives at the end. Meanwhile prompts are refused, and `abort` stops the compaction."""
        return self._call("compact", timeout, custom_instructions=custom_instructions)

    def set_auto_compaction(
        self, enabled: bool, *, persist: bool | None = None, timeout: float | UnsetType | None = UNSET
    ) -> None:
        """Turn automatic compaction on or off. It happens when the context of the model is nearly full, or
        overflows."""
        self._call("set_auto_compaction", timeout, enabled=enabled, persist=persist)

    def export_html(self, *, output_path: str | None = None, timeout: float | UnsetType | None = UNSET) -> Exported:
        """Write the session as an HTML page to `outputPath`, or to a file in the working directory. The response has
        the path."""
        return self._call("export_html", timeout, output_path=output_path)

    def resume(self, *, timeout: float | UnsetType | None = UNSET) -> None:
        """Continue the last run if it was interrupted: the agent was killed or closed during it, or the model
        failed. No message is repeated. Tool calls that had ended keep their results. Calls of idempotent tools, and
        calls that had not started, are made now; any other call gets a result that says that it may have run.
        Refused if the last run has ended."""
        self._call("resume", timeout)

    def reload(self, *, timeout: float | UnsetType | None = UNSET) -> Reloaded:
        """Reload all extensions without closing the session. Refused during a run."""
        return self._call("reload", timeout)
