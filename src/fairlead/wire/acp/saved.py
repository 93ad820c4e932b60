"""The saved sessions of a client: in files, or in a session store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from fairlead.core.snapshots import SessionInfo as Listed
from fairlead.errors import SessionNotFound
from fairlead.protocol.acp.sessions import SessionInfo
from fairlead.stores.paths import is_subagent_id
from fairlead.wire.acp.store import PAGE, SessionStore, cursor_of, info_of, is_shown, position_in
from fairlead.wire.jsonrpc import BadParams
from fairlead.wire.many_sessions import Common

if TYPE_CHECKING:
    from fairlead import stores
    from fairlead.session.history.conversation import Conversation
    from fairlead.session.history.sessions import ConversationStore
    from fairlead.stores import StoredSession

    Opener = Callable[[ConversationStore], Conversation]


class SavedSessions(Protocol):
    """Finds, lists and deletes saved sessions."""

    async def page(self, cwd: str | None, cursor: str | None) -> tuple[list[SessionInfo], str | None]:
        """Return sessions, last changed first, from a cursor on, and the cursor of the next page.

        Raises BadParams for a cursor that no page gave and a `cwd` that is not an absolute path, and SessionError.
        """
        ...

    async def find(self, session_id: str, cwd: Path) -> Opener | None:
        """Return what opens the session with exactly this id; None if there is none. Raises SessionError."""
        ...

    async def delete(self, session_id: str, cwd: Path, path: Path | None) -> bool:
        """Delete a session, whose file is at `path` if that is known. Returns False if there is none. Raises SessionError."""
        ...


def saved_sessions(common: Common) -> SavedSessions:
    """Return the saved sessions that the options choose, as `Agent` does."""
    store = common.base.store
    return SessionFiles(SessionStore.of(common)) if store is None else StoredSessions(store)


class SessionFiles:
    """Implements `SavedSessions` with files."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    async def page(self, cwd: str | None, cursor: str | None) -> tuple[list[SessionInfo], str | None]:
        return await asyncio.to_thread(self._store.page, cwd, cursor)

    async def find(self, session_id: str, cwd: Path) -> Opener | None:
        path = await asyncio.to_thread(self._store.find, session_id, cwd)
        return None if path is None else lambda sessions: sessions.open(str(path))

    async def delete(self, session_id: str, cwd: Path, path: Path | None) -> bool:
        from fairlead.stores.deleting import delete_session

        def delete() -> bool:
            file = path if path is not None and path.exists() else self._store.find(session_id, cwd)
            if file is not None:
                delete_session(file)
            return file is not None

        return await asyncio.to_thread(delete)


class StoredSessions:
    """Implements `SavedSessions` with a session store."""

    def __init__(self, store: stores.SessionStore) -> None:
        self._store = store

    async def page(self, cwd: str | None, cursor: str | None) -> tuple[list[SessionInfo], str | None]:
        found, next_cursor = await stored_page(self._store, cwd, cursor)
        return [info_of(info) for _, info in found if is_shown(info)], next_cursor

    async def find(self, session_id: str, cwd: Path) -> Opener | None:
        try:
            await self._store.read(session_id, 0, 1)
        except SessionNotFound:
            return None
        return lambda sessions: sessions.open(session_id)

    async def delete(self, session_id: str, cwd: Path, path: Path | None) -> bool:
        try:
            await self._store.delete(session_id)
        except SessionNotFound:
            return False
        return True


async def stored_page(
    store: stores.SessionStore, cwd: str | None, cursor: str | None
) -> tuple[list[tuple[StoredSession, Listed]], str | None]:
    """Return sessions of a store, last changed first, from a cursor on, and the cursor of the next page.

    Raises BadParams for a cursor that no page gave and a `cwd` that is not an absolute path, and SessionError.
    """
    from fairlead.session.history.store_archive import describe_stored, sessions_of
    from fairlead.stores.headers import read_header

    folder = None if cwd is None else _normal_folder(cwd)
    start = None if cursor is None else position_in(cursor)
    places: list[tuple[tuple[int, str], StoredSession]] = []
    async for session in sessions_of(store):
        place = -int(session.changed_at * 1000), session.id
        header = read_header(session.header)
        is_wanted = header is not None and folder in (None, header.cwd)
        if is_wanted and not is_subagent_id(session.id) and (start is None or place > start):
            places.append((place, session))
    places.sort(key=lambda each: each[0])
    found: list[tuple[StoredSession, Listed]] = []
    for _, session in places[:PAGE]:
        try:
            found.append((session, await describe_stored(store, session)))
        except SessionNotFound:  # it was deleted meanwhile
            continue
    return found, cursor_of(places[PAGE - 1][0]) if len(places) > PAGE else None


def _normal_folder(cwd: str) -> str:
    """Return the path of a directory as headers have it. Raises BadParams."""
    if not os.path.isabs(cwd):  # noqa: PTH117
        raise BadParams(f"cwd: expected an absolute path, found {cwd!r}")
    return os.path.normpath(cwd)
