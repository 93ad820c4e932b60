"""What a host can see of the conversation that a session works with, and do with it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Raw

from fairlead.core.events import EntryAppended, ExtensionError, SessionInfoChanged
from fairlead.core.lenient import to_json_data
from fairlead.core.messages import AssistantMessage
from fairlead.errors import BadCommand
from fairlead.session import following
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.current import ConversationStore, CurrentConversation
from fairlead.session.history.entries import BRANCH, OLD_NOTES, QUEUE, TASKS, TODOS
from fairlead.session.session_events import Notify
from fairlead.stores.store import make_not_found_error

if TYPE_CHECKING:
    from fairlead.core.snapshots import SessionInfo
    from fairlead.session.following import NumberedEvent, Position
    from fairlead.session.history.log import Log
    from fairlead.session.history.moves import Moves
    from fairlead.session.run.state import RunState


class History:
    """The conversation of a session for its host: what it holds, where it is kept, and how to go to another one.

    Going to another conversation, or to another place in this one, stops everything that runs first, with all its events.
    Methods that do so raise MoveCancelled if an extension blocks it.
    """

    def __init__(
        self,
        current: CurrentConversation,
        sessions: ConversationStore,
        run: RunState,
        notify: Notify,
        make_moves: Callable[[], Moves],
        provider_id: str | None,
    ) -> None:
        #: What is wrong with the conversation that the session began with, in sentences.
        self.problems: list[str] = []
        #: Where conversations are kept.
        self.sessions = sessions
        #: The id that providers get instead of that of the conversation, if there is one.
        self.provider_id = provider_id
        self._current = current
        self._run = run
        self._notify = notify
        self._make_moves = make_moves

    # Looking

    @property
    def id(self) -> str:
        """The id of the conversation. It changes when the session goes to another one."""
        return self._current.conversation.id

    @property
    def conversation(self) -> Conversation:
        """The present conversation. It is another one after `new`, `switch`, `fork` and the like."""
        return self._current.conversation

    @property
    def log(self) -> Log:
        """The tree of its entries, which begins here if it has not begun."""
        return self._current.log

    @property
    def path(self) -> Path | None:
        """The file that keeps the conversation, which may not exist yet; None: it is kept in memory."""
        return self._current.conversation.path

    @property
    def name(self) -> str | None:
        """What the user calls the session."""
        return self._current.conversation.name

    @property
    def leaf(self) -> str | None:
        """The id of the entry at which the conversation stands; None at its beginning."""
        log = self._current.begun_log
        return None if log is None else log.leaf

    @property
    def count(self) -> int:
        """How many messages there are, those of unknown roles included."""
        return self._current.conversation.count

    def last_answer(self) -> AssistantMessage | None:
        """The last message of the model that says something; None if there is none."""
        return self._current.conversation.last_answer()

    async def list_saved(self, *, everywhere: bool = False) -> list[SessionInfo]:
        """Return the sessions that are saved where this one is, the last changed first.

        Args:
            everywhere: Whether to list those of all working directories. A directory that the user chose has no others.

        Raises:
            SessionError: The directory or the store cannot be listed.
        """
        return await self.sessions.archive.summaries(self.sessions.workspace.cwd, everywhere=everywhere)

    def follow(self, after: Position | None = None) -> AsyncGenerator[NumberedEvent]:
        """Yield what happens after a position, or from now on, until the caller stops: see `fairlead.session.following`."""
        return following.Follower(self._current, self._current.events, self._run, after).follow()

    # The store

    async def open(self) -> None:
        """Open the conversation in the agent's store, if it has one and that has not been done.

        Raises SessionInUse if another owner has the session, and SessionError.
        """
        if self._current.conversation.opener is not None:
            for problem in await self._current.open():
                self._notify(ExtensionError("session", "open", problem))

    async def wait_written(self) -> None:
        """Wait until everything so far is durable. Raises SessionLost. In a file it is durable at once."""
        await self._current.conversation.wait_written()

    def call_when_written(self, action: Callable[[], object]) -> None:
        """Call `action` when everything so far is durable and every event before it was sent: now, unless it must wait."""
        self._current.events.call_when_written(action)

    async def delete(self, name: str) -> None:
        """Delete another session: the file at a path, or the session of the store with an id. Raises SessionError."""
        archive = self.sessions.archive
        name = archive.resolve(name, self.sessions.workspace.resolve)
        path = archive.path_at(name)
        if path is not None and self._current.conversation.is_kept_in(path):
            raise BadCommand("This session is in use. Switch to another one before you delete it.")
        if not await archive.delete(name):
            raise make_not_found_error(name)

    # Adding

    def set_name(self, name: str, *, lasting: bool = True) -> None:
        """Name the session. Unless it is `lasting`, the name alone does not create a file. Line breaks become spaces.

        Raises BadCommand if the name is empty, SessionError if it cannot be written.
        """
        name = " ".join(line for line in name.replace("\r", "\n").split("\n") if line).strip()
        if not name:
            raise BadCommand("Session name cannot be empty")
        conversation = self._current.conversation
        (conversation.lasting_log if lasting else conversation.log).session_info(name)
        self._notify(SessionInfoChanged(name))

    def remove_name(self) -> None:
        """Remove the name of the session, if it has one. Raises SessionError if that cannot be written."""
        if self.name is not None:
            self._current.conversation.lasting_log.session_info("")
            self._notify(SessionInfoChanged(None))

    def set_label(self, entry_id: str, label: str | None) -> str:
        """Bookmark an entry, or remove its bookmark. Returns the id of the entry that says so. Raises EntryNotFound."""
        return self._current.conversation.lasting_log.label(entry_id, label).id

    def append_entry(self, custom_type: str, data: Any = None) -> str:
        """Keep data of an extension in the session; the model does not see it. Returns the id of the entry.

        Raises BadCommand if the type is reserved or the data is not JSON, SessionError if it cannot be written.
        """
        if custom_type in (TASKS, TODOS, QUEUE, BRANCH, *OLD_NOTES):
            raise BadCommand(f'Entries of type "{custom_type}" are kept by fairlead itself; choose another name.')
        log = self._current.conversation.lasting_log
        entry = log.custom(custom_type, UNSET if data is None else to_json_data(data))
        self._notify(EntryAppended(Raw(log.last_line)))
        return entry.id

    # Going to another conversation

    async def new(self, parent: str | None = None) -> None:
        """Begin a new conversation. `parent` is the file of the one it comes from, for the record."""
        await self._make_moves().new(parent)

    async def switch(self, path: str) -> bool:
        """Resume the conversation in a file. Returns True if there was no such file, so that a new one will be kept there.

        Raises BadCommand if the path is empty, SessionError if the file cannot be used.
        """
        return await self._make_moves().switch(path)

    async def open_folder(self, path: str) -> bool:
        """Keep sessions in another directory, and resume its latest one. Returns whether it had one. Raises SessionError."""
        return await self._make_moves().open_folder(path)

    async def hand_off(self, instructions: str | None = None) -> None:
        """Begin a new conversation with what the model writes down of this one. Raises what a compaction raises."""
        await self._make_moves().hand_off(instructions)

    async def clone(self, entry_id: str | None = None) -> None:
        """Continue in a new session that has everything up to an entry; None: up to here. Raises EntryNotFound."""
        await self._make_moves().clone(entry_id)

    # Going to another place in this conversation

    async def allow_branch(self, entry_id: str) -> None:
        """Check that `branch` may go there, while everything keeps running. Raises EntryNotFound."""
        await self._make_moves().allow_branch(entry_id)

    async def branch(self, entry_id: str) -> None:
        """Continue after any entry of the tree, also when the session is opened again. Raises EntryNotFound."""
        await self._make_moves().branch(entry_id)
