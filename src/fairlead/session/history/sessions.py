"""Creates, opens and forks conversations, in files or in memory."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from fairlead.config.private_files import make_folders
from fairlead.errors import SessionError
from fairlead.session.history.conversation import Conversation
from fairlead.stores.paths import Durability, id_in_name, iso, new_session_id, session_folder, session_path
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from fairlead.session.history.log import Log
    from fairlead.session.history.store import SessionFile
    from fairlead.session.history.stored import StoredLog
    from fairlead.stores import SessionStore


class ConversationStore(Struct, kw_only=True):
    """Where the conversations of one agent are kept. An explicit path may be anywhere."""

    workspace: Workspace
    now_ms: Callable[[], int]
    #: Has a folder for each working directory; None: conversations are not kept.
    root: Path | None = None
    #: One folder for all working directories, instead.
    folder: Path | None = None
    #: The user's directory, if folders get the names that omp gives them: see `session_folder`.
    user: Path | None = None
    durability: Durability = "flush"
    #: Keeps the conversations instead of files, under the name `owner` and with leases of so many seconds; None: files do.
    store: SessionStore | None = None
    owner: str = ""
    lease_seconds: float = 15.0
    #: The directory that every session file must lie in; None: they may be anywhere.
    bound: Path | None = None

    def check(self, path: Path) -> None:
        """Raise SessionError if a file or directory lies outside `bound`. Links are resolved."""
        if self.bound is not None and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.bound)):
            raise SessionError(f"{path} is outside the directory of your sessions.")

    def place(self) -> Path | None:
        """The directory for new conversations; None if they are not kept."""
        if self.folder is not None:
            return self.folder
        return self.place_below(self.root) if self.root is not None else None

    def place_below(self, root: Path) -> Path:
        """Return the folder for the sessions of the working directory."""
        return session_folder(root, self.workspace.cwd, self.user)

    def new(self, *, id: str | None = None, parent: str | None = None, path: Path | None = None) -> Conversation:
        """A new conversation. Its file is written with the first message; the folder for it is made now."""
        session_id, now = id or new_session_id(), self.now_ms()
        if path is None:
            folder = self.place()
            path = self._path(folder, session_id, now)
            if folder is not None:
                _make_folder(folder)
        cwd = self.workspace.cwd

        def begin() -> tuple[Log, SessionFile | StoredLog | None]:
            from fairlead.session.history.log import Log
            from fairlead.stores.headers import new_header

            return self._kept(Log(new_header(session_id, str(cwd), now, parent), now_ms=self.now_ms), path)

        return Conversation(session_id, path, begin)

    def open(self, path: Path) -> Conversation:
        """The conversation in a file, to be resumed. Raises SessionError."""
        self.check(path)
        from fairlead.session.history.store import SessionFile

        file, log, problems = SessionFile.open(path, durability=self.durability)
        conversation = Conversation.of(log, file)
        conversation.problems = problems
        return conversation

    def open_or_new(self, path: Path) -> tuple[Conversation, bool]:
        """The conversation in a file, and whether it is new: a file that does not exist, or is blank, gets a new one."""
        from fairlead.stores.headers import is_blank_file

        self.check(path)
        try:
            path.stat()
        except FileNotFoundError:
            _make_folder(path.parent)
            return self.new(path=path), True
        except OSError:
            pass  # opening it says what is wrong
        if is_blank_file(path):
            return self.new(id=id_in_name(path), path=path), True
        return self.open(path), False

    def fork(self, source: Conversation, before: str | None = None, at: str | None = None) -> Conversation:
        """A new conversation with everything up to where `source` stands, or before or up to one of its entries."""
        return self._fork(source.log, self.name_of(source), source.path.parent if source.path else self.place(), before, at)

    def fork_file(self, path: Path) -> Conversation:
        """A new conversation with everything that a file holds, which may be in use."""
        from fairlead.session.history.reading import read_session

        self.check(path)
        log, problems = read_session(path)
        conversation = self._fork(log, str(path), self.place())
        conversation.problems = problems
        return conversation

    def _fork(
        self, source: Log, parent: str | None, folder: Path | None, before: str | None = None, at: str | None = None
    ) -> Conversation:
        from fairlead.session.history.entries import QUEUE
        from fairlead.session.history.queue_log import FORKED, undelivered
        from fairlead.stores.headers import new_header

        session_id, now = new_session_id(), self.now_ms()
        header = new_header(session_id, str(self.workspace.cwd), now, parent)
        log = source.forked(header, before, at)
        if undelivered(log):
            log.custom(QUEUE, FORKED)
        return Conversation.of(*self._kept(log, self._path(folder, session_id, now)))

    def _path(self, folder: Path | None, session_id: str, now: int) -> Path | None:
        return session_path(folder, session_id, iso(now)) if folder is not None else None

    def name_of(self, conversation: Conversation) -> str | None:
        """What other conversations call this one: its file, or its id in the store; None if it is not saved."""
        if not conversation.is_saved:
            return None
        return conversation.id if self.store is not None else str(conversation.path)

    # In a store

    def stored(self, id: str, *, create: bool = False) -> Conversation:
        """The conversation in the store with this id, to be opened with `Conversation.open`. With `create` it may be new."""

        async def open() -> tuple[StoredLog, list[str]]:
            from fairlead.session.history.stored import StoredLog
            from fairlead.stores.headers import new_header

            assert self.store is not None
            open_stored = partial(
                StoredLog.open, self.store, owner=self.owner, lease_seconds=self.lease_seconds, now_ms=self.now_ms
            )
            if not create:
                return await open_stored(id)
            return await open_stored(id, header=new_header(id, str(self.workspace.cwd), self.now_ms()))

        return self._opened_later(id, open)

    def latest_stored(self) -> Conversation:
        """The conversation in the store that changed last, or a new one, to be opened with `Conversation.open`."""

        async def open() -> tuple[StoredLog, list[str]]:
            from fairlead.session.history.stored_sessions import latest_stored

            assert self.store is not None
            conversation = self.stored(await latest_stored(self.store) or new_session_id(), create=True)
            assert conversation.opener is not None
            return await conversation.opener()

        return self._opened_later("", open)

    def fork_stored(self, id: str) -> Conversation:
        """A new conversation with everything that one of the store holds, which may be in use; to be opened likewise."""

        async def open() -> tuple[StoredLog, list[str]]:
            from fairlead.session.history.stored import read_stored

            assert self.store is not None
            log, problems = await read_stored(self.store, id, self.now_ms)
            conversation = self._fork(log, id, None)
            assert conversation.stored is not None
            return conversation.stored, problems

        return self._opened_later("", open)

    def _opened_later(self, id: str, opener: Callable[[], Awaitable[tuple[StoredLog, list[str]]]]) -> Conversation:
        def begin() -> tuple[Log, None]:
            raise SessionError("The session is not open yet. Use `async with agent:`, or `await agent.open()`.")

        conversation = Conversation(id, None, begin)
        conversation.opener = opener
        return conversation

    def _kept(self, log: Log, path: Path | None) -> tuple[Log, SessionFile | StoredLog | None]:
        if self.store is not None:
            from fairlead.session.history.stored import StoredLog

            return log, StoredLog.new(self.store, log, owner=self.owner, lease_seconds=self.lease_seconds)
        if path is None:
            return log, None
        from fairlead.session.history.store import SessionFile

        return log, SessionFile.create(path, log, durability=self.durability)


def _make_folder(folder: Path) -> None:
    """Make the folder of a session file, since hosts look into it as soon as they know the name of the file.

    If that fails, the first write says why.
    """
    if not os.path.isdir(folder):  # Path.is_dir may raise
        with suppress(OSError):
            make_folders(folder)
