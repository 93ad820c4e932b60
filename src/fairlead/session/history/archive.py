"""Where sessions are kept. There are two kinds of archives: files, which are the default, and session stores.

A name is the path of a session's file or, in a store, its id. This module declares types only: a start does not load it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from fairlead.core.snapshots import SessionInfo
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.current import ConversationStore
from fairlead.session.history.log import Log
from fairlead.session.history.store import SessionFile
from fairlead.session.history.stored import StoredLog

#: A place in a list, the last changed session first: the negative time of its change, and its name.
Place: TypeAlias = tuple[int, str]
#: A session in an archive, and who has its lease; an empty string if there is none.
Saved: TypeAlias = tuple[SessionInfo, str]


class Archive(Protocol):
    """Where the sessions of an agent are kept, or of a user."""

    @property
    def keeps(self) -> bool:
        """Whether new sessions are saved."""
        ...

    def in_folder(self, folder: Path, file_of: Callable[[str], Path]) -> Archive:
        """Return an archive with files in its own folder, each named by the id of its session."""
        ...

    # Looking

    async def summaries(self, cwd: Path, *, everywhere: bool) -> list[SessionInfo]:
        """Return the sessions of a working directory or of all, the last changed first. Raises SessionError."""
        ...

    async def page(
        self, cwd: str | None, after: Place | None, size: int, wants: Callable[[SessionInfo], bool]
    ) -> tuple[Sequence[Saved], Place | None]:
        """Return the sessions after a place, at most `size`, and the place after which the next page begins.

        `cwd` is the working directory that they have, as a header has it; None for all. Sessions of sub-agents are left out, and
        those that `wants` refuses. Raises SessionError.
        """
        ...

    async def find(self, session_id: str, cwd: Path) -> str | None:
        """Return the name of the session with exactly this id; None if there is none. Raises SessionError."""
        ...

    def name_for(self, session_id: str) -> str:
        """Return the name of the session with an id that its host has chosen."""
        ...

    async def folder_of(self, name: str) -> Path | None:
        """Return the working directory of a session if it exists on this machine. Raises SessionError."""
        ...

    async def delete(self, name: str) -> bool:
        """Delete a session. Returns False if there is none. Raises SessionError."""
        ...

    def resolve(self, name: str, resolve: Callable[[str], Path]) -> str:
        """Return the name that a host means; `resolve` makes paths absolute. Raises SessionError for forbidden ones."""
        ...

    def path_at(self, name: str) -> Path | None:
        """Return the file with a name; None if sessions have none."""
        ...

    def is_at(self, conversation: Conversation, name: str) -> bool:
        """Whether a conversation is the one with a name, and can still be written."""
        ...

    def name_of(self, conversation: Conversation) -> str | None:
        """Return the name of a conversation, which may not be saved yet; None if it never will be."""
        ...

    # Opening. What is returned may have to be opened: see `Conversation.open`.

    def open_chosen(self, sessions: ConversationStore, name: str) -> Conversation:
        """Open the session that a user names when an agent begins. Raises SessionError."""
        ...

    def latest(self, sessions: ConversationStore) -> Conversation | None:
        """Open the session that changed last; None if there is none. Raises SessionError."""
        ...

    def open_with_id(self, sessions: ConversationStore, session_id: str) -> Conversation:
        """Open the session with an id, or begin it. Raises SessionError."""
        ...

    def open(self, sessions: ConversationStore, name: str) -> Conversation:
        """Open a session to resume it. Raises SessionError."""
        ...

    def open_or_new(self, sessions: ConversationStore, name: str, session_id: str | None = None) -> tuple[Conversation, bool]:
        """Open a session, or begin it with an id. Returns it, and whether it is known to be new. Raises SessionError."""
        ...

    def copy(self, sessions: ConversationStore, name: str, *, finds: bool = False) -> Conversation:
        """Begin a session with all that another one has, which may be in use.

        With `finds`, the name is one that a user gives. Raises SessionError.
        """
        ...

    def begin(self, sessions: ConversationStore) -> Conversation:
        """Begin a session that others find from the beginning, if they may find it at all."""
        ...

    def latest_in(self, sessions: ConversationStore, folder: Path) -> Path | None:
        """Return the session of another folder that changed last; None if there is none. Raises SessionError."""
        ...

    def use(self, folder: Path) -> None:
        """Keep new sessions in another folder."""
        ...

    # Writing

    def place(self, cwd: Path) -> Path | None:
        """Return the folder for the files of new sessions; None if they get none."""
        ...

    def path_of_new(self, folder: Path | None, session_id: str, now_ms: int) -> Path | None:
        """Return the file of a new session; None if it gets none."""
        ...

    def sink(self, log: Log, path: Path | None) -> SessionFile | StoredLog | None:
        """Return what keeps a new conversation; None if it is in memory only. Raises SessionError."""
        ...

    def for_subagents(self, parent: Conversation) -> tuple[Archive, str | None, str | None]:
        """Return the archive for the sub-agents of a session, the name of that session, and the id of the next one of these."""
        ...
