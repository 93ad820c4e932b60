"""What the checks of session stores share."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, TypeVar

from fairlead.errors import SessionInUse
from fairlead.stores import Lease, SessionStore

E = TypeVar("E", bound=Exception)
#: Makes a store. All stores that it makes share their sessions.
MakeStore: TypeAlias = Callable[[], SessionStore]
Check: TypeAlias = Callable[[MakeStore], Coroutine[Any, Any, None]]

#: The first owner of every session. No other word of an error contains the name.
OWNER = "owner-of-check"
#: Seconds of a lease that stays valid during a check, and of one that the check waits for.
LONG, SHORT = 60.0, 0.05
HEADER = b'{"type":"session","version":3,"id":"check","timestamp":"2026-01-31T12:00:00.000Z"}'
#: How many seconds a check waits for a lease to expire.
PATIENCE = 10.0


def new_id() -> str:
    return f"check-{os.urandom(8).hex()}"


@asynccontextmanager
async def opened(make: MakeStore) -> AsyncGenerator[SessionStore]:
    store = make()
    try:
        yield store
    finally:
        await store.close()


async def created(store: SessionStore, lines: list[bytes] | None = None, seconds: float = LONG) -> Lease:
    return await store.create(new_id(), HEADER, owner=OWNER, lease_seconds=seconds, lines=lines or [])


async def lines_of(store: SessionStore, id: str) -> list[bytes]:
    found = await store.read(id)
    assert [line.number for line in found.lines] == list(range(1, found.last + 1)), "numbers have no gaps"
    return [line.line for line in found.lines]


async def reopened(store: SessionStore, id: str) -> Lease:
    """Open a session as soon as its lease has expired."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await store.open(id, owner="b", lease_seconds=LONG)
            except SessionInUse:
                await asyncio.sleep(0.01)


async def wait_until_expired(store: SessionStore, lease: Lease) -> None:
    """Wait until a lease has expired by the clock of the store."""
    async with asyncio.timeout(PATIENCE):
        while any(session.owner for session in await store.list() if session.id == lease.id):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def raises(kind: type[E], call: Awaitable[object]) -> E:
    try:
        result = await call
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}, but the call returned {result!r}")
