"""The conversation that a session works with: what a host can see of it and do with it, and how others are created and opened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from fairlead.core.events import ExtensionError
from fairlead.errors import ConfigError, SessionError, SessionLost
from fairlead.platform import process
from fairlead.session.history import run_log
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.entries import QUEUE
from fairlead.session.history.file_archive import FileArchive, make_folder
from fairlead.session.history.log import Log
from fairlead.session.selection import Selection
from fairlead.session.session_events import Events
from fairlead.stores.headers import new_header
from fairlead.stores.paths import new_session_id
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from fairlead.session.history.archive import Archive
    from fairlead.session.history.store import SessionFile
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
        conversation.on_trouble, conversation.on_notice = self._report_write_error, self._report_file_change
        conversation.on_lost = lambda error: self.on_lost(error) if conversation is self.conversation else None
        conversation.on_begin = selection.save
        conversation.on_stored = self._hold_events
        self._hold_events(conversation.stored)
        selection.on_model, selection.on_level = conversation.choose_model, conversation.choose_level
        self.reload()
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

    def reload(self) -> None:
        """Have everything that is kept in the conversation read again."""
        for reread in self.on_move:
            reread()

    def flush(self) -> None:
        """Try again to write what could not be written."""
        self.conversation.flush()
        self.unsaved = [conversation for conversation in self.unsaved if not conversation.close()]

    def close(self) -> None:
        """Let other processes have the files."""
        for conversation in (*self.unsaved, self.conversation):
            conversation.close()
        if self.begun_log is not None:
            process.session_closed(self.begun_log.size())

    async def wait_closed(self) -> None:
        """Wait until other processes can have what was closed."""
        for conversation in (*self._closing, *self.unsaved, self.conversation):
            await conversation.wait_closed()
        self._closing = []

    def _hold_events(self, stored: StoredLog | None) -> None:
        """Have events wait until the entries that they tell about are durable."""
        self.events.follow(stored)

    def _report_write_error(self, error: SessionError) -> None:
        self.events.notify(
            ExtensionError("session", "write", f"{error} What could not be written is kept and will be written later.")
        )

    def _report_file_change(self, text: str) -> None:
        self.events.notify(ExtensionError("session", "write", text))


class ConversationStore(Struct, kw_only=True):
    """The conversations of one agent. Names are those of its archive."""

    workspace: Workspace
    now_ms: Callable[[], int]
    #: Where they are kept: by default nowhere, although an explicit path may be anywhere.
    archive: Archive = field(default_factory=FileArchive)

    def place(self) -> Path | None:
        """Return the folder for the files of new conversations; None if they get none."""
        return self.archive.place(self.workspace.cwd)

    def new(self, *, id: str | None = None, parent: str | None = None, path: Path | None = None) -> Conversation:
        """A new conversation. Its file is written with the first message; the folder for it is made now."""
        session_id, now = id or new_session_id(), self.now_ms()
        if path is None:
            folder = self.place()
            path = self.archive.path_of_new(folder, session_id, now)
            if folder is not None:
                make_folder(folder)
        cwd = self.workspace.cwd

        def begin() -> tuple[Log, SessionFile | StoredLog | None]:
            log = Log(new_header(session_id, str(cwd), now, parent), now_ms=self.now_ms)
            return log, self.archive.sink(log, path)

        return Conversation(session_id, path, begin)

    def begin(self) -> Conversation:
        """A new conversation that others find from the beginning, if a store keeps it. It may have to be opened."""
        return self.archive.begin(self)

    def begin_with(self, *, session: str | None, resume: bool, fork: str | None, session_id: str | None) -> Conversation | None:
        """Return the conversation that an agent begins with; None for a new one. It may have to be opened.

        Args:
            session: The name of a session to resume, as a user gives it.
            resume: Whether to resume the latest session.
            fork: The name of a session to copy, as a user gives it.
            session_id: The exact id of a session to resume, or to create.

        Raises:
            SessionError: There is no such session, or it cannot be used.
            ConfigError: The arguments ask for different sessions, or the id cannot be used.
        """
        wanted = {
            "--session": session is not None,
            "--continue": resume and session is None,  # a session that is named is resumed anyway
            "--fork": fork is not None,
            "--session-id": session_id is not None,
        }
        names = [name for name, is_given in wanted.items() if is_given]
        if len(names) > 1:
            raise ConfigError(f"{' and '.join(names)} ask for different sessions. Give one of them.")
        if fork is not None:
            return self.archive.copy(self, fork, finds=True)
        if session_id is not None:
            return self.archive.open_with_id(self, session_id)
        if session is not None:
            return self.archive.open_chosen(self, session)
        return self.archive.latest(self) if resume else None

    def open(self, name: str) -> Conversation:
        """Open a conversation to resume it. It may have to be opened with `Conversation.open`. Raises SessionError."""
        return self.archive.open(self, name)

    def open_or_new(self, name: str, session_id: str | None = None) -> tuple[Conversation, bool]:
        """Open a conversation, or begin one with an id. Returns whether it is new. A file that is blank gets a new one."""
        return self.archive.open_or_new(self, name, session_id)

    def fork(self, source: Conversation, before: str | None = None, at: str | None = None) -> Conversation:
        """A new conversation with everything up to where `source` stands, or before or up to one of its entries."""
        folder = source.path.parent if source.path else self.place()
        return self.fork_log(source.log, self.name_of(source), folder, before, at)

    def copy(self, name: str) -> Conversation:
        """A new conversation with everything that another one holds, which may be in use. Raises SessionError."""
        return self.archive.copy(self, name)

    def fork_log(
        self, source: Log, parent: str | None, folder: Path | None, before: str | None = None, at: str | None = None
    ) -> Conversation:
        """A new conversation with what a log holds, for the record from `parent`. A file gets into `folder`."""
        session_id, now = new_session_id(), self.now_ms()
        log = source.fork(new_header(session_id, str(self.workspace.cwd), now, parent), before, at)
        if run_log.find_undelivered(log):
            log.note(QUEUE, run_log.FORKED)
        return Conversation.of(log, self.archive.sink(log, self.archive.path_of_new(folder, session_id, now)))

    def name_of(self, conversation: Conversation) -> str | None:
        """What other conversations call this one; None if it is not saved."""
        return self.archive.name_of(conversation) if conversation.is_saved else None
