"""Sessions in files, which are the default."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from fairlead.errors import ConfigError, SessionError
from fairlead.platform.open_files import make_private_folders
from fairlead.session.history import reading
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.store import SessionFile
from fairlead.stores import listing
from fairlead.stores.deleting import delete_session
from fairlead.stores.folders import SessionFolders
from fairlead.stores.headers import header_of, is_blank_file
from fairlead.stores.paths import Durability, id_in_name, iso, session_path

if TYPE_CHECKING:
    from fairlead.core.snapshots import SessionInfo
    from fairlead.session.history.archive import Archive, Place, Saved
    from fairlead.session.history.current import ConversationStore
    from fairlead.session.history.log import Log


class FileArchive(Struct, kw_only=True):
    """Implements `Archive` with files."""

    folders: SessionFolders = field(default_factory=SessionFolders)
    durability: Durability = "flush"
    #: The directory that every session file must lie in; None: they may be anywhere.
    bound: Path | None = None
    #: Has the folders in which users' sessions are looked for, also if none are saved.
    root: Path | None = None
    #: Whether the session with which an agent begins is copied to memory, and its file left alone.
    copies: bool = False
    #: Returns the file of the session with an id, if ids name files. A blank file is then no session.
    file_of: Callable[[str], Path] | None = None

    @property
    def keeps(self) -> bool:
        return self.folders.place(Path()) is not None

    def in_folder(self, folder: Path, file_of: Callable[[str], Path]) -> Archive:
        folders = SessionFolders(folder=folder)
        return FileArchive(folders=folders, durability=self.durability, bound=self.bound, file_of=file_of)

    def check(self, path: Path) -> None:
        """Raise SessionError if a file or directory lies outside `bound`. Links are resolved."""
        if self.bound is not None and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.bound)):
            raise SessionError(f"{path} is outside the directory of your sessions.")

    # Looking

    async def summaries(self, cwd: Path, *, everywhere: bool) -> list[SessionInfo]:
        return await asyncio.to_thread(self._list, cwd, everywhere)

    def _list(self, cwd: Path, everywhere: bool) -> list[SessionInfo]:
        folder, root = self.place(cwd), self.folders.above
        if folder is None:
            return []
        return listing.list_all_sessions(root) if everywhere and root is not None else listing.list_sessions(folder)

    async def page(
        self, cwd: str | None, after: Place | None, size: int, wants: Callable[[SessionInfo], bool]
    ) -> tuple[Sequence[Saved], Place | None]:
        return await asyncio.to_thread(self._page, cwd, after, size, wants)

    def _page(
        self, cwd: str | None, after: Place | None, size: int, wants: Callable[[SessionInfo], bool]
    ) -> tuple[Sequence[Saved], Place | None]:
        files = self.folders.newest_first(None if cwd is None else Path(cwd))
        found: list[Saved] = []
        last = (0, "")
        for place in sorted((-changed, str(path)) for changed, path in files):
            if after is not None and place <= after:
                continue
            info = listing.describe(Path(place[1]), -place[0])
            if info.problem is not None or not wants(info) or cwd not in (None, info.cwd):
                continue
            if len(found) == size:
                return found, last
            found.append((info, ""))
            last = place
        return found, None

    async def find(self, session_id: str, cwd: Path) -> str | None:
        path = await asyncio.to_thread(self._find_id, session_id, cwd)
        return None if path is None else str(path)

    def _find_id(self, session_id: str, cwd: Path) -> Path | None:
        if self.file_of is None:
            return self.folders.find(session_id, cwd)
        path = self.file_of(session_id)
        return path if os.path.exists(path) and not is_blank_file(path) else None

    def name_for(self, session_id: str) -> str:
        assert self.file_of is not None
        return str(self.file_of(session_id))

    async def folder_of(self, name: str) -> Path | None:
        def folder() -> Path | None:
            header = header_of(Path(name))
            with suppress(OSError, ValueError):
                if header is not None and header.cwd and os.path.isdir(header.cwd):
                    return Path(header.cwd)
            return None

        return await asyncio.to_thread(folder)

    async def delete(self, name: str) -> bool:
        return await asyncio.to_thread(self._delete, Path(name))

    def _delete(self, path: Path) -> bool:
        is_named_by_id = self.file_of is not None
        if is_named_by_id and not os.path.exists(path):
            return False
        delete_session(path, also_blank=is_named_by_id)
        return True

    def resolve(self, name: str, resolve: Callable[[str], Path]) -> str:
        path = resolve(name)
        self.check(path)
        return str(path)

    def path_at(self, name: str) -> Path | None:
        return Path(name)

    def is_at(self, conversation: Conversation, name: str) -> bool:
        return conversation.is_kept_in(Path(name))

    def name_of(self, conversation: Conversation) -> str | None:
        return None if conversation.path is None else str(conversation.path)

    # Opening

    def open_chosen(self, sessions: ConversationStore, name: str) -> Conversation:
        return self._begin_with(sessions, self._find(sessions, name))

    def latest(self, sessions: ConversationStore) -> Conversation | None:
        folder = self._find_search_folder(sessions)
        path = listing.latest_session(folder) if folder is not None else None
        return None if path is None else self._begin_with(sessions, path)

    def open_with_id(self, sessions: ConversationStore, session_id: str) -> Conversation:
        folder = self._find_search_folder(sessions)
        path = listing.session_with_id(session_id, folder) if folder is not None else None
        return sessions.new(id=usable_id(session_id)) if path is None else self._begin_with(sessions, path)

    def open(self, sessions: ConversationStore, name: str) -> Conversation:
        path = Path(name)
        self.check(path)
        file, log, problems = SessionFile.open(path, durability=self.durability)
        conversation = Conversation.of(log, file)
        conversation.problems = problems
        return conversation

    def open_or_new(self, sessions: ConversationStore, name: str, session_id: str | None = None) -> tuple[Conversation, bool]:
        """Open the session in a file, or begin one in a file that does not exist or is blank."""
        path = Path(name)
        self.check(path)
        try:
            path.stat()
        except FileNotFoundError:
            _prove_writable(path)
            return sessions.new(id=session_id, path=path), True
        except OSError:
            pass  # opening it says what is wrong
        if is_blank_file(path):
            return sessions.new(id=session_id or id_in_name(path), path=path), True
        conversation = self.open(sessions, name)
        if session_id not in (None, conversation.id):
            conversation.close()
            raise SessionError(f'{path} holds another session than "{session_id}".')
        return conversation, False

    def copy(self, sessions: ConversationStore, name: str, *, finds: bool = False) -> Conversation:
        path = self._find(sessions, name) if finds else Path(name)
        self.check(path)
        log, problems = reading.read_session(path)
        conversation = sessions.fork_log(log, str(path), self.place(sessions.workspace.cwd))
        conversation.problems = problems
        return conversation

    def begin(self, sessions: ConversationStore) -> Conversation:
        return sessions.new()

    def latest_in(self, sessions: ConversationStore, folder: Path) -> Path | None:
        if os.path.exists(folder) and not os.path.isdir(folder):
            raise SessionError(f"{folder} is not a folder: no session can be kept there.")
        self.check(folder)
        return listing.latest_session(folder)

    def use(self, folder: Path) -> None:
        self.folders.folder = folder

    def _begin_with(self, sessions: ConversationStore, path: Path) -> Conversation:
        return self.copy(sessions, str(path)) if self.copies else self.open_or_new(sessions, str(path))[0]

    def _find(self, sessions: ConversationStore, name: str) -> Path:
        return listing.find_session(name, self._find_search_folder(sessions), self.root)

    def _find_search_folder(self, sessions: ConversationStore) -> Path | None:
        """Return the folder in which sessions are looked for first."""
        cwd = sessions.workspace.cwd
        folder = self.place(cwd)
        return self.folders.below(self.root, cwd) if folder is None and self.root is not None else folder

    # Writing

    def place(self, cwd: Path) -> Path | None:
        return self.folders.place(cwd)

    def path_of_new(self, folder: Path | None, session_id: str, now_ms: int) -> Path | None:
        return session_path(folder, session_id, iso(now_ms)) if folder is not None else None

    def sink(self, log: Log, path: Path | None) -> SessionFile | None:
        if path is None:
            return None
        return SessionFile.create(path, log, durability=self.durability)

    def for_subagents(self, parent: Conversation) -> tuple[Archive, str | None, str | None]:
        return FileArchive(durability=self.durability), self.name_of(parent), None


def make_folder(folder: Path) -> None:
    """Make the folder of a session file, since hosts look into it as soon as they know the name of the file.

    If that fails, the first write says why.
    """
    if not os.path.isdir(folder):  # Path.is_dir may raise
        with suppress(OSError):
            make_private_folders(folder)


def _prove_writable(path: Path) -> None:
    """Make the folder of a session file that does not exist yet. Raises SessionError if the file could not be created in it."""
    try:
        make_private_folders(path.parent)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        path.unlink()
    except OSError as error:
        raise SessionError(f"Cannot create session file {path}: {error.strerror or error}.") from error


#: Characters of an id: what a file's name has room for, and more than any program of the family uses.
LONGEST_ID = 128


def usable_id(session_id: str) -> str:
    """Return an id that can be part of a file name. Raises ConfigError."""
    plain = session_id.replace("-", "").replace("_", "").replace(".", "")
    if len(session_id) <= LONGEST_ID and session_id[:1].isalnum() and plain.isalnum() and plain.isascii():
        return session_id
    raise ConfigError(
        f"--session-id: expected at most {LONGEST_ID} letters, digits, '-', '_' or '.', the first one a letter or a digit, "
        f"got {session_id!r}."
    )
