"""Creates, opens and forks the conversations of one agent, in its archive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from fairlead.errors import ConfigError
from fairlead.session.history import run_log
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.entries import QUEUE
from fairlead.session.history.file_archive import FileArchive, make_folder
from fairlead.session.history.log import Log
from fairlead.stores.headers import new_header
from fairlead.stores.paths import new_session_id
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from fairlead.session.history.archive import Archive
    from fairlead.session.history.store import SessionFile
    from fairlead.session.history.stored import StoredLog


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
