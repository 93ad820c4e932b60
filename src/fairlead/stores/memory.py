"""Sessions in the memory of this process: for tests, and for sessions that need not last."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from fairlead.stores.store import (
    Lease,
    StoredLine,
    StoredLines,
    StoredSession,
    check_id,
    check_lines,
    exists,
    explain_loss,
    make_closed_error,
    make_in_use_error,
    make_lost_error,
    make_not_found_error,
)


class _Session(Struct):
    header: bytes
    lines: list[bytes]
    epoch: int
    created_at: float
    changed_at: float
    owner: str = ""
    expires_at: float = 0.0


class MemoryData:
    """What several `MemoryStore`s share, as several processes share a database."""

    def __init__(self) -> None:
        self.sessions: dict[str, _Session] = {}


class MemoryStore:
    """A `SessionStore` in memory. `data` is shared with other stores; None: this store has its own."""

    def __init__(self, data: MemoryData | None = None, *, now: Callable[[], float] = time.time) -> None:
        self._sessions = (data or MemoryData()).sessions
        self._now = now
        self._is_closed = False

    async def create(self, id: str, header: bytes, *, owner: str, lease_seconds: float, lines: Sequence[bytes] = ()) -> Lease:
        self._add(id, header, list(lines))
        session = self._sessions[id]
        session.owner, session.expires_at = owner, self._now() + lease_seconds
        return Lease(id, session.epoch, owner, session.expires_at, lease_seconds, len(lines))

    async def open(self, id: str, *, owner: str, lease_seconds: float) -> Lease:
        session = self._free(id)
        session.epoch += 1
        session.owner, session.expires_at = owner, self._now() + lease_seconds
        return Lease(id, session.epoch, owner, session.expires_at, lease_seconds, len(session.lines))

    async def renew(self, lease: Lease) -> Lease:
        session = self._find_owned(lease)
        session.expires_at = self._now() + lease.seconds
        return Lease(lease.id, lease.epoch, lease.owner, session.expires_at, lease.seconds, len(session.lines))

    async def release(self, lease: Lease) -> None:
        self._check()
        session = self._sessions.get(lease.id)
        if session is not None and session.epoch == lease.epoch:
            session.owner, session.expires_at = "", 0.0

    async def append(self, lease: Lease, lines: Sequence[bytes], *, after: int | None = None) -> int:
        check_lines(lines)
        session = self._find_owned(lease)
        if after is not None and after != len(session.lines):
            if session.lines[after:] == list(lines):
                return len(session.lines)
            raise make_lost_error(lease.id, f"it has {len(session.lines)} entries, and not {after}")
        if lines:
            session.lines.extend(lines)
            session.changed_at = self._now()
        return len(session.lines)

    async def read(self, id: str, after: int = 0, limit: int | None = None) -> StoredLines:
        session = self._get(id)
        end = None if limit is None else after + limit
        found = [StoredLine(after + 1 + index, line) for index, line in enumerate(session.lines[after:end])]
        owner, expires_at = (session.owner, session.expires_at) if session.expires_at > self._now() else ("", 0.0)
        return StoredLines(session.header, found, len(session.lines), owner, expires_at)

    async def list(self, *, after: str = "", limit: int | None = None) -> Sequence[StoredSession]:
        self._check()
        ids = sorted(id for id in self._sessions if id > after)[:limit]
        return [self._describe(id, self._sessions[id]) for id in ids]

    async def fork(self, id: str, new_id: str, header: bytes, up_to: int | None = None) -> int:
        copied = self._get(id).lines[:up_to]
        self._add(new_id, header, copied)
        return len(copied)

    async def delete(self, id: str) -> None:
        self._free(id)
        del self._sessions[id]

    async def close(self) -> None:
        self._is_closed = True

    # Inside

    def _check(self) -> None:
        if self._is_closed:
            raise make_closed_error()

    def _add(self, id: str, header: bytes, lines: list[bytes]) -> None:
        self._check()
        check_id(id)
        check_lines([header, *lines])
        if id in self._sessions:
            raise exists(id)
        now = self._now()
        # A session that is deleted and created again continues with higher epochs, so that an old owner is refused.
        self._sessions[id] = _Session(header, lines, int(now * 1e6), now, now)

    def _get(self, id: str) -> _Session:
        self._check()
        session = self._sessions.get(id)
        if session is None:
            raise make_not_found_error(id)
        return session

    def _free(self, id: str) -> _Session:
        session = self._get(id)
        if session.expires_at > self._now():
            raise make_in_use_error(id, session.owner, session.expires_at)
        return session

    def _find_owned(self, lease: Lease) -> _Session:
        self._check()
        session = self._sessions.get(lease.id)
        if session is None:
            raise explain_loss(lease, None, "")
        if session.epoch != lease.epoch or session.expires_at <= self._now():
            raise explain_loss(lease, session.epoch, session.owner)
        return session

    def _describe(self, id: str, session: _Session) -> StoredSession:
        owner = session.owner if session.expires_at > self._now() else ""
        return StoredSession(id, session.header, len(session.lines), session.created_at, session.changed_at, owner)
