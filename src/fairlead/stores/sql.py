"""What SQLite and Postgres have in common as session stores: the tables, and the statements that both understand.

In a statement, `:name` is a value, and `:now` is the time in seconds since 1970 by the clock of the store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, LiteralString, TypeAlias

from fairlead.errors import SessionError
from fairlead.stores.store import Lease, StoredLine, StoredLines, StoredSession, in_use, lost, not_found, why_lost

#: Runs a statement, and returns all its rows.
Run: TypeAlias = Callable[[LiteralString, dict[str, Any]], Sequence[Sequence[Any]]]

#: The tables. `{key}`, `{text}`, `{bytes}`, `{number}`, `{time}` and `{parent}` are the types of the database.
TABLES: LiteralString = """
CREATE TABLE IF NOT EXISTS fairlead_sessions (
    key {key}, id {text} NOT NULL UNIQUE, header {bytes} NOT NULL, last {number} NOT NULL, epoch {number} NOT NULL,
    owner text NOT NULL, expires_at {time} NOT NULL, created_at {time} NOT NULL, changed_at {time} NOT NULL
);
CREATE TABLE IF NOT EXISTS fairlead_entries (
    session {parent}, number {number} NOT NULL, line {bytes} NOT NULL, PRIMARY KEY (session, number)
);
"""
RENEW: LiteralString = (
    "UPDATE fairlead_sessions SET expires_at = :now + :seconds WHERE id = :id AND epoch = :epoch AND expires_at > :now"
    " RETURNING expires_at, last"
)
RELEASE: LiteralString = "UPDATE fairlead_sessions SET expires_at = 0, owner = '' WHERE id = :id AND epoch = :epoch RETURNING 1"
_DELETE: LiteralString = "DELETE FROM fairlead_sessions WHERE id = :id AND expires_at <= :now RETURNING key"
_SESSION: LiteralString = (
    "SELECT key, header, last, epoch, owner, expires_at, expires_at > :now FROM fairlead_sessions WHERE id = :id"
)
_LINES: LiteralString = (
    "SELECT number, line FROM fairlead_entries WHERE session = :key AND number > :after AND number <= :last"
    " ORDER BY number LIMIT :limit"
)
_LIST: LiteralString = (
    "SELECT id, header, last, created_at, changed_at, CASE WHEN expires_at > :now THEN owner ELSE '' END"
    " FROM fairlead_sessions WHERE id > :after ORDER BY id LIMIT :limit"
)


class SqlSessions:
    """The sessions in a database. `no_limit` is what its LIMIT takes for all rows."""

    def __init__(self, run: Run, no_limit: int | None) -> None:
        self._run = run
        self._no_limit = no_limit

    def read(self, id: str, after: int, limit: int | None) -> StoredLines:
        """Do what `SessionStore.read` does."""
        found = self._session(id)
        if found is None:
            raise not_found(id)
        key, header, last, _, owner, expires_at, is_owned = found
        values = {"key": key, "after": after, "last": last, "limit": self._limit(limit)}
        lines = [StoredLine(*line) for line in self._run(_LINES, values)]
        return StoredLines(header, lines, last, *((owner, expires_at) if is_owned else ("", 0.0)))

    def list_after(self, after: str, limit: int | None) -> list[StoredSession]:
        """Do what `SessionStore.list` does."""
        return [StoredSession(*row) for row in self._run(_LIST, {"after": after, "limit": self._limit(limit)})]

    def delete(self, id: str) -> int:
        """Delete the row of a session, and return its key. Raises SessionInUse and SessionNotFound."""
        rows = self._run(_DELETE, {"id": id})
        if not rows:
            raise self.why_not_free(id)
        return rows[0][0]

    def renewed(self, lease: Lease, row: Sequence[Any] | None) -> Lease:
        """Return a lease with the new time in the row of `RENEW`. Raises SessionLost if there is no row."""
        if row is None:
            raise self.why_lost(lease)
        return Lease(lease.id, lease.epoch, lease.owner, row[0], lease.seconds, row[1])

    def appended_before(self, lease: Lease, lines: list[bytes], after: int | None) -> int:
        """Return the last number if an append has taken effect before. Raises SessionLost if not."""
        found = self._session(lease.id)
        if found is None or found[3] != lease.epoch or not found[6] or after is None:
            raise _lost(lease, found)
        values = {"key": found[0], "after": after, "last": found[2], "limit": self._no_limit}
        if [line for _, line in self._run(_LINES, values)] == lines:
            return found[2]
        raise lost(lease.id, f"it has {found[2]} entries, and not {after}")

    def why_not_free(self, id: str) -> SessionError:
        """Return the reason why the lease of a session could not be taken."""
        found = self._session(id)
        return not_found(id) if found is None else in_use(id, found[4], found[5])

    def why_lost(self, lease: Lease) -> SessionError:
        """Return the reason why a lease is not valid."""
        return _lost(lease, self._session(lease.id))

    def _session(self, id: str) -> Sequence[Any] | None:
        rows = self._run(_SESSION, {"id": id})
        return rows[0] if rows else None

    def _limit(self, limit: int | None) -> int | None:
        return self._no_limit if limit is None else limit


def _lost(lease: Lease, found: Sequence[Any] | None) -> SessionError:
    return why_lost(lease, None if found is None else found[3], "" if found is None else found[4])
