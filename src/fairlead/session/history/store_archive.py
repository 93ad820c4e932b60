"""Sessions in a session store: see `fairlead.stores`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from fairlead.core.snapshots import SessionInfo
from fairlead.errors import SessionError, SessionNotFound
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.file_archive import usable_id
from fairlead.session.history.stored import StoredLog, read_stored
from fairlead.stores.headers import describe_lines, milliseconds, new_header, read_header
from fairlead.stores.paths import is_subagent_id, new_session_id, new_subagent_id
from fairlead.stores.store import SessionStore, StoredSession, check_id

if TYPE_CHECKING:
    from fairlead.session.history.archive import Archive, Place, Saved
    from fairlead.session.history.current import ConversationStore
    from fairlead.session.history.log import Log

#: How many sessions are listed at a time, and how many entries at the beginning and the end of each are read.
_PAGE, _ENTRIES = 500, 50


class StoreArchive(Struct):
    """Implements `Archive` with a store, under the name `owner` and with leases of so many seconds."""

    store: SessionStore
    owner: str = ""
    lease_seconds: float = 15.0

    @property
    def keeps(self) -> bool:
        return True

    def in_folder(self, folder: Path, file_of: Callable[[str], Path]) -> Archive:
        return self

    # Looking

    async def summaries(self, cwd: Path, *, everywhere: bool) -> list[SessionInfo]:
        found = [await describe_stored(self.store, session) async for session in sessions_of(self.store)]
        return sorted(found, key=lambda info: info.modified, reverse=True)

    async def page(
        self, cwd: str | None, after: Place | None, size: int, wants: Callable[[SessionInfo], bool]
    ) -> tuple[Sequence[Saved], Place | None]:
        places: list[tuple[Place, StoredSession]] = []
        async for session in sessions_of(self.store):
            place = -int(session.changed_at * 1000), session.id
            header = read_header(session.header)
            is_wanted = header is not None and cwd in (None, header.cwd)
            if is_wanted and not is_subagent_id(session.id) and (after is None or place > after):
                places.append((place, session))
        places.sort(key=lambda each: each[0])
        found: list[Saved] = []
        for _, session in places[:size]:
            try:
                info = await describe_stored(self.store, session)
            except SessionNotFound:  # it was deleted meanwhile
                continue
            if info.problem is None and wants(info):
                found.append((info, session.owner))
        return found, places[size - 1][0] if len(places) > size else None

    async def find(self, session_id: str, cwd: Path) -> str | None:
        name = storable_id(session_id)
        try:
            await self.store.read(name, 0, 1)
        except SessionNotFound:
            return None
        return name

    def name_for(self, session_id: str) -> str:
        return storable_id(session_id)

    async def folder_of(self, name: str) -> Path | None:
        header = read_header((await self.store.read(name, 0, 1)).header)
        exists = header is not None and await asyncio.to_thread(os.path.isdir, header.cwd)
        return Path(header.cwd) if header is not None and exists else None

    async def delete(self, name: str) -> bool:
        try:
            await self.store.delete(name)
        except SessionNotFound:
            return False
        return True

    def resolve(self, name: str, resolve: Callable[[str], Path]) -> str:
        return name

    def path_at(self, name: str) -> Path | None:
        return None

    def is_at(self, conversation: Conversation, name: str) -> bool:
        return conversation.id == name and not conversation.is_lost

    def name_of(self, conversation: Conversation) -> str | None:
        return conversation.id

    # Opening

    def open_chosen(self, sessions: ConversationStore, name: str) -> Conversation:
        return self.open(sessions, name)

    def latest(self, sessions: ConversationStore) -> Conversation | None:
        """Open the session that changed last, or a new one."""

        async def open() -> tuple[StoredLog, list[str]]:
            return await self._open(sessions, await latest_stored(self.store) or new_session_id(), True)

        return Conversation.open_later("", open)

    def open_with_id(self, sessions: ConversationStore, session_id: str) -> Conversation:
        return self.open_or_new(sessions, usable_id(session_id), session_id)[0]

    def open(self, sessions: ConversationStore, name: str) -> Conversation:
        return Conversation.open_later(name, partial(self._open, sessions, name, False))

    def open_or_new(self, sessions: ConversationStore, name: str, session_id: str | None = None) -> tuple[Conversation, bool]:
        """Open a session. It may be new only if an id is given."""
        return Conversation.open_later(name, partial(self._open, sessions, name, session_id is not None)), False

    async def _open(self, sessions: ConversationStore, id: str, may_create: bool) -> tuple[StoredLog, list[str]]:
        header = new_header(id, str(sessions.workspace.cwd), sessions.now_ms()) if may_create else None
        return await StoredLog.open(
            self.store, id, owner=self.owner, lease_seconds=self.lease_seconds, now_ms=sessions.now_ms, header=header
        )

    def copy(self, sessions: ConversationStore, name: str, *, finds: bool = False) -> Conversation:
        async def open() -> tuple[StoredLog, list[str]]:
            log, problems = await read_stored(self.store, name, sessions.now_ms)
            conversation = sessions.fork_log(log, name, None)
            assert conversation.stored is not None
            return conversation.stored, problems

        return Conversation.open_later("", open)

    def begin(self, sessions: ConversationStore) -> Conversation:
        id = new_session_id()
        return self.open_or_new(sessions, id, id)[0]

    def latest_in(self, sessions: ConversationStore, folder: Path) -> Path | None:
        raise SessionError("The sessions of this agent are in a store, not in a folder.")

    def use(self, folder: Path) -> None:
        raise SessionError("The sessions of this agent are in a store, not in a folder.")

    # Writing

    def place(self, cwd: Path) -> Path | None:
        return None

    def path_of_new(self, folder: Path | None, session_id: str, now_ms: int) -> Path | None:
        return None

    def sink(self, log: Log, path: Path | None) -> StoredLog:
        return StoredLog.new(self.store, log, owner=self.owner, lease_seconds=self.lease_seconds)

    def for_subagents(self, parent: Conversation) -> tuple[Archive, str | None, str | None]:
        return self, parent.id, new_subagent_id()


async def sessions_of(store: SessionStore) -> AsyncGenerator[StoredSession]:
    """Yield all sessions of a store."""
    after = ""
    while page := await store.list(after=after, limit=_PAGE):
        for session in page:
            yield session
        after = page[-1].id


async def latest_stored(store: SessionStore) -> str | None:
    """Return the id of the session that changed last; None if there is none."""
    latest: StoredSession | None = None
    async for session in sessions_of(store):
        if session.last and (latest is None or session.changed_at > latest.changed_at):
            latest = session
    return None if latest is None else latest.id


async def describe_stored(store: SessionStore, session: StoredSession) -> SessionInfo:
    """Return what a list says about a session of a store. Its `path` is its id. Raises SessionError."""
    info = SessionInfo(session.id, session.id, modified=int(session.changed_at * 1000))
    header = read_header(session.header)
    if header is None:
        info.problem = f"Session {session.id} of the store does not begin with a session header."
        return info
    info.cwd, info.parent_session, info.created = header.cwd, header.parent_session, milliseconds(header.timestamp)
    lines = (await store.read(session.id, 0, _ENTRIES)).lines
    if session.last > _ENTRIES:
        lines += (await store.read(session.id, max(_ENTRIES, session.last - _ENTRIES))).lines
    count = describe_lines(info, (line.line for line in lines))
    info.message_count = count if session.last <= 2 * _ENTRIES else None
    return info


def storable_id(session_id: str) -> str:
    """Return the id of a session in a store: the same, or its hash if a store cannot keep it."""
    try:
        check_id(session_id)
    except SessionError:
        return sha256(session_id.encode()).hexdigest()
    return session_id
