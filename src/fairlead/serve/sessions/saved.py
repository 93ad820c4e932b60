"""Where the sessions of a user are saved: in files of this machine, or in the store of a fleet."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from fairlead.errors import SessionNotFound
from fairlead.protocol.http import objects as o
from fairlead.protocol.http.fleet import JobEvent, JobResult
from fairlead.serve.refusals import bad_request
from fairlead.stores import SessionStore
from fairlead.stores.paths import iso
from fairlead.wire.acp.narrator import short_title
from fairlead.wire.acp.saved import stored_page
from fairlead.wire.acp.store import SessionStore as SessionFolders
from fairlead.wire.jsonrpc import BadParams


class FleetJobs(Protocol):
    """The jobs of a fleet, as far as its sessions need them. `fairlead.jobs.Jobs` implements it."""

    async def list(self, *, session: str | None = None) -> list[JobResult]:
        """Return the jobs of a session, in the order in which they were submitted."""
        ...

    async def prompt(self, session: str, prompt: str, *, id: str | None = None) -> JobResult:
        """Send a prompt to a session. With the same id it is sent once."""
        ...

    def events(self, id: str, *, after: int | None = 0) -> AsyncGenerator[JobEvent]:
        """Yield the events of a job after a number until it has ended. None: only new ones."""
        ...

    async def cancel(self, *ids: str) -> list[JobResult]:
        """Cancel jobs."""
        ...

    async def retry(self, *ids: str) -> list[JobResult]:
        """Queue jobs again that failed, were cancelled or are parked. They continue where they ended."""
        ...


class Fleet(Struct, frozen=True):
    """The fleet whose sessions a server serves."""

    store: SessionStore
    jobs: FleetJobs
    #: The name of this server, for the leases of sessions.
    owner: str


class SavedSessions(Protocol):
    """The saved sessions of a user."""

    async def page(self, cwd: str | None, cursor: str | None) -> tuple[list[o.SessionSummary], str | None]:
        """Return sessions, last changed first, from a cursor on, and the cursor of the next page.

        Raises Refusal if the cursor or the working directory is malformed, and SessionError.
        """
        ...

    async def delete(self, session_id: str) -> bool:
        """Delete a session. Returns False if there is none. Raises SessionError if it is in use."""
        ...


class SessionFiles:
    """Implements `SavedSessions` with files. `cwd` is where their directory is looked for first."""

    def __init__(self, folders: SessionFolders, cwd: Path) -> None:
        self._folders = folders
        self._cwd = cwd

    async def page(self, cwd: str | None, cursor: str | None) -> tuple[list[o.SessionSummary], str | None]:
        try:
            saved, next_cursor = await asyncio.to_thread(self._folders.page, cwd, cursor)
        except BadParams as error:
            raise bad_request(f"{error}.") from None
        found = [
            o.SessionSummary(
                id=info.session_id,
                cwd=info.cwd,
                title=info.title or None,
                updated_at=info.updated_at or None,
                status="saved",
            )
            for info in saved
        ]
        return found, next_cursor

    async def find(self, session_id: str) -> tuple[Path, Path | None] | None:
        """Return the file of a session, and its working directory if that exists; None if there is no such session."""
        path = await asyncio.to_thread(self._folders.find, session_id, self._cwd)
        return None if path is None else (path, await asyncio.to_thread(_saved_folder, path))

    async def delete(self, session_id: str) -> bool:
        from fairlead.stores.deleting import delete_session

        path = await asyncio.to_thread(self._folders.find, session_id, self._cwd)
        if path is not None:
            await asyncio.to_thread(delete_session, path)
        return path is not None


class StoredSessions:
    """Implements `SavedSessions` with a store."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    async def page(self, cwd: str | None, cursor: str | None) -> tuple[list[o.SessionSummary], str | None]:
        try:
            page, next_cursor = await stored_page(self._store, cwd, cursor)
        except BadParams as error:
            raise bad_request(f"{error}.") from None
        found = [
            o.SessionSummary(
                id=info.id,
                cwd=info.cwd,
                title=info.name or short_title(info.first_message) or None,
                updated_at=iso(info.modified),
                status="saved",
                owner=session.owner or None,
            )
            for session, info in page
        ]
        return found, next_cursor

    async def delete(self, session_id: str) -> bool:
        try:
            await self._store.delete(session_id)
        except SessionNotFound:
            return False
        return True


def _saved_folder(path: Path) -> Path | None:
    """Return the working directory of a saved session if it still exists."""
    from fairlead.stores.listing import describe

    with suppress(OSError, ValueError):
        cwd = describe(path, 0).cwd
        if cwd and os.path.isdir(cwd):
            return Path(cwd)
    return None
