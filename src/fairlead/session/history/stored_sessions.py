"""Lists the sessions of a store."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from fairlead.core.snapshots import SessionInfo
from fairlead.stores import SessionStore, StoredSession
from fairlead.stores.headers import milliseconds, read_header
from fairlead.stores.summaries import describe_lines

#: How many sessions are listed at a time, and how many entries at the beginning and the end of each are read.
_PAGE, _ENTRIES = 500, 50


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


async def list_stored(store: SessionStore) -> list[SessionInfo]:
    """Return the sessions of a store, the last changed first. The `path` of each is its id."""
    found = [await describe_stored(store, session) async for session in sessions_of(store)]
    return sorted(found, key=lambda info: info.modified, reverse=True)


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
