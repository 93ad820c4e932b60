"""The conversation that a session works with, and what a host can see of it and do with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.core.events import EntryAppended, ExtensionError, SessionInfoChanged
from fairlead.core.messages import AssistantMessage
from fairlead.errors import BadCommand, SessionError, SessionLost
from fairlead.session.events import Events, Notify
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.sessions import ConversationStore
from fairlead.session.selection import Selection
from fairlead.stores.store import not_found

if TYPE_CHECKING:
    from fairlead.core.message_updates import UpdateMaker
    from fairlead.core.positions import NumberedEvent, Position
    from fairlead.core.snapshots import SessionInfo
    from fairlead.session.history.log import Log
    from fairlead.session.history.moves import Moves
    from fairlead.session.history.stored import StoredLog


class CurrentConversation:
    """The conversation of a session. A session has one at a time, and can replace it by another.

    Parts of the session that keep something of the conversation register in `on_replace` and `on_move`.
    """

    def __init__(self, conversation: Conversation, selection: Selection, events: Events) -> None:
        self.conversation = conversation
        #: Conversations that the session has left while something of them could not be written.
        self.unsaved: list[Conversation] = []
        #: Conversations that were left and are being released.
        self._closing: list[Conversation] = []
        #: Called to forget what belongs to the conversation that was replaced.
        self.on_replace: list[Callable[[], None]] = []
        #: Called to read again what is kept in the conversation: it is another one, or has moved within its tree.
        self.on_move: list[Callable[[], None]] = []
        #: Called when the conversation can no longer be written, to end its run.
        self.on_lost: Callable[[SessionLost], None] = lambda error: None
        #: Restores the state of a conversation that has begun before. Returns what is wrong with it, in sentences.
        self.resume: Callable[[bool, bool], list[str]] = lambda model, level: []
        self._selection = selection
        self.events = events
        self._opening = asyncio.Lock()
        #: Whether the model and the level of the first conversation are wanted.
        self._wants = (True, True)

    @property
    def log(self) -> Log:
        return self.conversation.log

    @property
    def begun_log(self) -> Log | None:
        """The log; None if the conversation has not begun."""
        return self.conversation.log if self.conversation.has_begun else None

    def load(self, *, model: bool = True, level: bool = True) -> list[str]:
        """Begin to work with the conversation: with its model and its thinking level, if those are wanted.

        Returns what is wrong with it, in sentences.
        """
        conversation, selection = self.conversation, self._selection
        self._wants = (model, level)
        conversation.on_trouble, conversation.on_notice = self._not_written, self._file_changed
        conversation.on_lost = lambda error: self.on_lost(error) if conversation is self.conversation else None
        conversation.on_begin = selection.save
        conversation.on_stored = self._hold_events
        self._hold_events(conversation.stored)
        selection.on_model, selection.on_level = conversation.choose_model, conversation.choose_level
        self.moved()
        return self.resume(model, level) if conversation.has_begun else list(conversation.problems)

    async def open(self) -> list[str]:
        """Open the first conversation in its store, if it has one. Returns what is wrong with it. Raises SessionError."""
        async with self._opening:
            if self.conversation.opener is None:
                return []
            await self.conversation.open()
            for forget in self.on_replace:
                forget()
            model, level = self._wants
            return self.load(model=model, level=level)

    def replace(self, conversation: Conversation) -> list[str]:
        """Work with another conversation. Nothing may be running. Returns what `load` returns."""
        left, self.conversation = self.conversation, conversation
        self.unsaved = [each for each in (*self.unsaved, left) if each is not conversation and not each.close()]
        self._closing = [*self._closing, left]
        for forget in self.on_replace:
            forget()
        return self.load()

    def moved(self) -> None:
        """Have everything that is kept in the conversation read again."""
        for reread in self.on_move:
            reread()

    def flush(self) -> None:
        """Try again to write what could not be written."""
        self.conversation.flush()
        self.unsaved = [conversation for conversation in self.unsaved if not conversation.close()]

    def close(self) -> None:
        """Let other processes have the files."""
        from fairlead.config.memory import session_closed

        for conversation in (*self.unsaved, self.conversation):
            conversation.close()
        if self.begun_log is not None:
            session_closed(self.begun_log.size())

    async def closed(self) -> None:
        """Wait until other processes can have what was closed."""
        for conversation in (*self._closing, *self.unsaved, self.conversation):
            await conversation.closed()
        self._closing = []

    def _hold_events(self, stored: StoredLog | None) -> None:
        """Have events wait until the entries that they tell about are durable."""
        self.events.follow(stored)

    def _not_written(self, error: SessionError) -> None:
        self.events.notify(
            ExtensionError("session", "write", f"{error} What could not be written is kept and will be written later.")
        )

    def _file_changed(self, text: str) -> None:
        self.events.notify(ExtensionError("session", "write", text))


class History:
    """The conversation of a session for its host: what it holds, where it is kept, and how to go to another one.

    Going to another conversation, or to another place in this one, stops everything that runs first, with all its events.
    Methods that do so raise MoveCancelled if an extension blocks it.
    """

    def __init__(
        self, current: CurrentConversation, sessions: ConversationStore, notify: Notify, make_moves: Callable[[], Moves]
    ) -> None:
        #: What is wrong with the conversation that the session began with, in sentences.
        self.problems: list[str] = []
        #: Where conversations are kept.
        self.sessions = sessions
        #: Returns what makes the updates of the answer that is arriving; None if there is none.
        self.answer: Callable[[], UpdateMaker | None] = lambda: None
        #: The id that providers get instead of that of the conversation, if there is one.
        self.provider_id: str | None = None
        self._current = current
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

    async def saved(self, *, everywhere: bool = False) -> list[SessionInfo]:
        """Return the sessions that are saved where this one is, the last changed first.

        Args:
            everywhere: Whether to list those of all working directories. A directory that the user chose has no others.

        Raises:
            SessionError: The directory or the store cannot be listed.
        """
        return await self.sessions.archive.summaries(self.sessions.workspace.cwd, everywhere=everywhere)

    def follow(self, after: Position | None = None) -> AsyncGenerator[NumberedEvent]:
        """Yield what happens after a position, or from now on, until the caller stops: see `fairlead.session.following`."""
        from fairlead.session.following import Follower

        return Follower(self._current, self._current.events, self.answer, after).follow()

    # The store

    async def open(self) -> None:
        """Open the conversation in the agent's store, if it has one and that has not been done.

        Raises SessionInUse if another owner has the session, and SessionError.
        """
        if self._current.conversation.opener is not None:
            for problem in await self._current.open():
                self._notify(ExtensionError("session", "open", problem))

    async def written(self) -> None:
        """Wait until everything so far is durable. Raises SessionLost. In a file it is durable at once."""
        await self._current.conversation.written()

    def when_written(self, action: Callable[[], object]) -> None:
        """Call `action` when everything so far is durable and every event before it was sent: now, unless it must wait."""
        self._current.events.when_written(action)

    async def delete(self, name: str) -> None:
        """Delete another session: the file at a path, or the session of the store with an id. Raises SessionError."""
        archive = self.sessions.archive
        name = archive.resolve(name, self.sessions.workspace.resolve)
        path = archive.path_at(name)
        if path is not None and self._current.conversation.is_kept_in(path):
            raise BadCommand("This session is in use. Switch to another one before you delete it.")
        if not await archive.delete(name):
            raise not_found(name)

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
        from msgspec import UNSET, Raw

        from fairlead.session.history.entries import NOTES, QUEUE, TASKS, TODOS
        from fairlead.session.run.extension_messages import as_json

        if custom_type in (TASKS, TODOS, QUEUE, *NOTES):
            raise BadCommand(f'Entries of type "{custom_type}" are kept by fairlead itself; choose another name.')
        log = self._current.conversation.lasting_log
        entry = log.custom(custom_type, UNSET if data is None else as_json(data))
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
