"""What a store does: the protocol, and the values that its methods take and return.

A store knows lines of bytes, ids and numbers. It does not know what an entry is. The entries of a session are numbered from 1, in
the order in which they were appended; the header has no number.
"""

import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

from fairlead.errors import SessionError, SessionExists, SessionInUse, SessionLost, SessionNotFound

#: Characters that an id may have: those that every store can keep, also as the name of a file.
LONGEST_ID = 128


class Lease(Struct, frozen=True):
    """The right of one owner to append to a session, until it expires."""

    id: str
    #: Rises with each owner. An append with an older epoch than that of the session fails.
    epoch: int
    owner: str
    #: When it expires, in seconds since 1970 by the clock of the store.
    expires_at: float
    #: For how many seconds it was given, and is given by each renewal.
    seconds: float
    #: The number of the last entry when the lease was given; 0 if there was none.
    last: int = 0


class StoredLine(NamedTuple):
    """One entry of a session."""

    number: int
    line: bytes


class StoredLines(Struct):
    """What `SessionStore.read` returns."""

    header: bytes
    lines: list[StoredLine]
    #: The number of the last entry of the session, also if it is not among `lines`.
    last: int
    #: Who has its lease, and when that expires, in seconds since 1970 by the clock of the store; empty and 0 if it is free.
    owner: str = ""
    expires_at: float = 0.0


class StoredSession(Struct):
    """A session in a listing."""

    id: str
    header: bytes
    #: The number of its last entry.
    last: int
    #: When it was created and changed, in seconds since 1970 by the clock of the store.
    created_at: float
    changed_at: float
    #: Who has its lease; empty if it is free.
    owner: str = ""


@runtime_checkable
class SessionStore(Protocol):
    """Keeps sessions. All methods may be called on any event loop, and none of them blocks it.

    Every method raises StoreUnavailable if the store cannot be reached at the moment, and SessionError if it was closed. A call
    that is cancelled has taken effect as a whole or not at all.
    """

    async def create(self, id: str, header: bytes, *, owner: str, lease_seconds: float, lines: Sequence[bytes] = ()) -> Lease:
        """Create a session with a header and its first entries, and give its lease to `owner`.

        Raises SessionExists if there is a session with this id, and ValueError if a line is empty or contains a line end.
        """
        ...

    async def open(self, id: str, *, owner: str, lease_seconds: float) -> Lease:
        """Give the lease of a session to `owner`, if it is free or has expired. Its epoch is higher than every one before.

        Raises SessionInUse, which names the other owner, and SessionNotFound.
        """
        ...

    async def renew(self, lease: Lease) -> Lease:
        """Return the lease with a new time, counted from now. Raises SessionLost if it has expired or was taken."""
        ...

    async def release(self, lease: Lease) -> None:
        """End a lease, so that another owner can open the session at once. A lease that is lost already is ignored."""
        ...

    async def append(self, lease: Lease, lines: Sequence[bytes], *, after: int | None = None) -> int:
        """Append entries, all or none. They are durable when this returns. Returns the number of the last entry.

        Args:
            lease: The lease of the session.
            lines: The entries, without line ends.
            after: The number of the last entry that the caller knows. An append that is repeated with the same number, because
                the answer to the first one was lost, is recognised and not written twice. None: append after the last entry.

        Raises:
            SessionLost: The lease has expired or was taken, the session was deleted, or other entries follow `after`.
            ValueError: A line is empty or contains a line end. Nothing was written.
        """
        ...

    async def read(self, id: str, after: int = 0, limit: int | None = None) -> StoredLines:
        """Return the header, the entries that follow the number `after`, at most `limit`, and the owner. It needs no lease.

        Raises SessionNotFound.
        """
        ...

    async def list(self, *, after: str = "", limit: int | None = None) -> Sequence[StoredSession]:
        """Return the sessions in the order of their ids; only those that follow the id `after`, and at most `limit`."""
        ...

    async def fork(self, id: str, new_id: str, header: bytes, up_to: int | None = None) -> int:
        """Copy the entries up to a number, or all of them, to a new session, which has no owner.

        Returns the number of the last entry that was copied. Raises SessionNotFound, and SessionExists.
        """
        ...

    async def delete(self, id: str) -> None:
        """Delete a session. Raises SessionInUse while it has an owner, and SessionNotFound."""
        ...

    async def close(self) -> None:
        """Close the store after what was begun. Leases stay as they are. Closing it again does nothing."""
        ...


def check_lines(lines: Sequence[bytes]) -> None:
    """Raise ValueError if a line is empty or contains a line end."""
    for line in lines:
        if not line or b"\n" in line:
            raise ValueError("A line of a session must have content and no line end.")


def check_id(id: str) -> None:
    """Raise SessionError if a store cannot keep an id."""
    plain = id.replace("-", "").replace("_", "").replace(".", "")
    if not (len(id) <= LONGEST_ID and id[:1].isalnum() and plain.isalnum() and plain.isascii()):
        raise SessionError(
            f"A session id has at most {LONGEST_ID} letters, digits, '-', '_' and '.', and begins with a letter or a digit:"
            f" {id!r} cannot be used."
        )


def make_closed_error() -> SessionError:
    return SessionError("The session store is closed.")


def exists(id: str) -> SessionExists:
    return SessionExists(f"There is a session {id} already.")


def make_not_found_error(id: str) -> SessionNotFound:
    return SessionNotFound(f"There is no session {id}.")


def make_in_use_error(id: str, owner: str, expires_at: float | None = None) -> SessionInUse:
    """The error for a session that another owner has, until its lease expires if that is known."""
    text = f"Session {id} is in use by {owner or 'another process'}."
    if expires_at is not None:
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(expires_at))
        text += f" Its lease expires at {moment} UTC unless it is renewed."
    return SessionInUse(text, owner, expires_at)


def make_lost_error(id: str, why: str) -> SessionLost:
    return SessionLost(f"Session {id} is lost: {why}. Nothing more can be written to it here; open it again to continue.")


def explain_loss(lease: Lease, epoch: int | None, owner: str) -> SessionLost:
    """The reason why a lease is not valid. `epoch` and `owner` are those of the session; None if it does not exist."""
    if epoch is None:
        return make_lost_error(lease.id, "it was deleted")
    if epoch != lease.epoch:
        return make_lost_error(lease.id, f"{owner or 'another owner'} has opened it since")
    return make_lost_error(lease.id, "its lease has expired")
