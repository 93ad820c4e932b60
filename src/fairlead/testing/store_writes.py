"""The checks of writing to a session: leases, which let one owner at a time write, and appends. And what all checks share."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias, TypeVar

from fairlead.errors import SessionInUse, SessionLost
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
async def open_store(make: MakeStore) -> AsyncGenerator[SessionStore]:
    store = make()
    try:
        yield store
    finally:
        await store.close()


async def create_session(store: SessionStore, lines: list[bytes] | None = None, seconds: float = LONG) -> Lease:
    return await store.create(new_id(), HEADER, owner=OWNER, lease_seconds=seconds, lines=lines or [])


async def lines_of(store: SessionStore, id: str) -> list[bytes]:
    found = await store.read(id)
    assert [line.number for line in found.lines] == list(range(1, found.last + 1)), "numbers have no gaps"
    return [line.line for line in found.lines]


async def reopen(store: SessionStore, id: str) -> Lease:
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


# Leases


async def lets_one_owner_write(make: MakeStore) -> None:
    async with open_store(make) as first, open_store(make) as second:
        lease = await create_session(first)
        for store in (first, second):
            error = await raises(SessionInUse, store.open(lease.id, owner="b", lease_seconds=LONG))
            assert error.owner == OWNER, f"SessionInUse has to carry the owner, which is {OWNER!r}, got {error.owner!r}"
            assert OWNER in str(error), f"the text of SessionInUse has to name the owner, {OWNER!r}, got {str(error)!r}"
            assert error.expires_at is not None and abs(error.expires_at - lease.expires_at) < 0.001, error.expires_at
            held = await store.read(lease.id)
            assert held.owner == OWNER and abs(held.expires_at - lease.expires_at) < 0.001, held
        await first.release(lease)
        free = await second.read(lease.id)
        assert (free.owner, free.expires_at) == ("", 0.0), free
        taken = await second.open(lease.id, owner="b", lease_seconds=LONG)
        assert taken.epoch > lease.epoch, (taken, lease)
        await raises(SessionLost, first.append(lease, [b"late"]))
        await raises(SessionLost, first.renew(lease))
        assert await second.append(taken, [b"1"]) == 1
        await first.release(lease)  # which must not end the lease of the other
        assert await second.append(taken, [b"2"]) == 2
        for store in (first, second):  # names need not be unique
            await raises(SessionInUse, store.open(lease.id, owner="b", lease_seconds=LONG))
        await second.release(taken)
        again = await second.open(lease.id, owner="b", lease_seconds=LONG)
        await second.release(taken)
        assert await second.append(again, [b"3"]) == 3, "a lease of the same owner from before ends nothing"
        assert await lines_of(first, lease.id) == [b"1", b"2", b"3"]


async def gives_an_expired_lease_to_the_next_owner(make: MakeStore) -> None:
    async with open_store(make) as first, open_store(make) as second:
        lease = await create_session(first, [b"1"], seconds=SHORT)
        taken = await reopen(second, lease.id)
        assert taken.last == 1 and taken.epoch > lease.epoch, (taken, lease)
        await raises(SessionLost, first.append(lease, [b"late"]))
        await raises(SessionLost, first.renew(lease))
        assert await second.append(taken, [b"2"], after=1) == 2
        await raises(SessionLost, first.append(lease, [b"2"], after=1))  # the entry is there, but from another owner
        await raises(SessionLost, first.append(lease, []))
        assert await lines_of(first, lease.id) == [b"1", b"2"]
        assert (taken.id, taken.owner, taken.seconds) == (lease.id, "b", LONG), taken
        assert abs((await second.read(lease.id)).expires_at - taken.expires_at) < 1, "the owner knows when its lease expires"
        await second.release(taken)
        short = await second.open(lease.id, owner="b", lease_seconds=SHORT)
        await reopen(first, short.id)  # also a lease of an old session expires


async def refuses_an_expired_lease_that_no_other_owner_has_taken(make: MakeStore) -> None:
    async with open_store(make) as store:
        lease = await create_session(store, seconds=SHORT)
        await wait_until_expired(store, lease)
        await raises(SessionLost, store.append(lease, [b"late"]))
        await raises(SessionLost, store.renew(lease))
        assert (await store.read(lease.id)).owner == ""
        assert await lines_of(store, lease.id) == []
        again = await store.open(lease.id, owner=OWNER, lease_seconds=LONG)
        assert await store.append(again, [b"1"]) == 1


async def keeps_a_lease_that_is_renewed(make: MakeStore) -> None:
    async with open_store(make) as first, open_store(make) as second:
        lease = await create_session(first, seconds=3.0)
        for _ in range(7):
            await asyncio.sleep(0.5)
            renewed = await first.renew(lease)
            assert renewed.epoch == lease.epoch and renewed.expires_at >= lease.expires_at, renewed
            lease = renewed
            await raises(SessionInUse, second.open(lease.id, owner="b", lease_seconds=LONG))
        assert await first.append(lease, [b"1"]) == 1
        assert (await first.renew(lease)).last == 1


async def gives_a_lease_to_one_of_many_owners(make: MakeStore) -> None:
    async with open_store(make) as first, open_store(make) as second:
        lease = await create_session(first)
        await first.release(lease)
        calls = [each.open(lease.id, owner=f"{number}", lease_seconds=LONG) for number, each in enumerate((first, second) * 5)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        leases = [result for result in results if isinstance(result, Lease)]
        assert len(leases) == 1, results
        assert all(isinstance(result, Lease | SessionInUse) for result in results), results


async def rejects_writes_of_a_former_owner(make: MakeStore) -> None:
    async with open_store(make) as first, open_store(make) as second:
        for pauses in range(8):
            lease = await create_session(first)
            lines = [b"%d" % number for number in range(10)]
            late = [asyncio.ensure_future(first.append(lease, [line])) for line in lines]
            for _ in range(pauses):
                await asyncio.sleep(0)
            await first.release(lease)
            taken = await second.open(lease.id, owner="b", lease_seconds=LONG)
            results = await asyncio.gather(*late, return_exceptions=True)
            assert all(isinstance(result, int | SessionLost) for result in results), results
            assert sum(isinstance(result, int) for result in results) == taken.last, (results, taken)
            assert await second.append(taken, [b"next"], after=taken.last) == taken.last + 1
            assert await lines_of(second, lease.id) == [*lines[: taken.last], b"next"]


# Appends


async def appends_entries_atomically(make: MakeStore) -> None:
    async with open_store(make) as store:
        lease = await create_session(store)
        for bad in ([b"1", b"two\nlines"], [b"1", b""]):
            await raises(ValueError, store.append(lease, bad))
        assert await lines_of(store, lease.id) == []
        assert await store.append(lease, []) == 0
        assert await store.append(lease, [b"1"]) == 1


async def recognises_an_append_that_is_repeated(make: MakeStore) -> None:
    async with open_store(make) as store:
        lease = await create_session(store, [b"1"])
        for _ in range(3):
            assert await store.append(lease, [b"2", b"3"], after=1) == 3
        await raises(SessionLost, store.append(lease, [b"other"], after=1))
        await raises(SessionLost, store.append(lease, [b"2"], after=1))  # only the first of the entries that follow
        await raises(SessionLost, store.append(lease, [b"2", b"3", b"4"], after=1))
        await raises(SessionLost, store.append(lease, [b"5"], after=4))
        assert await lines_of(store, lease.id) == [b"1", b"2", b"3"]


async def keeps_the_order_of_appends(make: MakeStore) -> None:
    async with open_store(make) as store:
        lease = await create_session(store)
        lines = [b"%d" % number for number in range(100)]
        numbers = await asyncio.gather(*(store.append(lease, [line]) for line in lines))
        assert numbers == list(range(1, 101)), numbers
        assert await lines_of(store, lease.id) == lines


async def keeps_every_byte(make: MakeStore) -> None:
    async with open_store(make) as store:
        huge = b'{"text":"' + os.urandom(1 << 22).hex().encode() + b'"}'  # 8 MiB
        lines = [
            "ünïcödé 🚢 \u2028 \x7f \t".encode(),
            b"\\u0000\\ud800",
            b"\xff\xfe not UTF-8",
            b"'; --",
            b"%s {} \\",
            b" \t around \t ",
            huge,
        ]
        lease = await create_session(store, lines[:1])
        await store.append(lease, lines[1:])
        assert await lines_of(store, lease.id) == lines
        assert (await store.read(lease.id, len(lines) - 1)).lines[0].line == huge


async def keeps_thousands_of_entries(make: MakeStore) -> None:
    async with open_store(make) as store:
        lease = await create_session(store)
        expected: list[bytes] = []
        for start in range(0, 5000, 500):
            lines = [b'{"number":%d}' % number for number in range(start, start + 500)]
            expected += lines
            assert await store.append(lease, lines, after=start) == start + 500
        assert await lines_of(store, lease.id) == expected
        page = await store.read(lease.id, 4000, 10)
        assert [line.line for line in page.lines] == expected[4000:4010]


async def appends_to_several_sessions_at_once(make: MakeStore) -> None:
    async with open_store(make) as first, open_store(make) as second:
        stores = [first, second] * 4
        leases = [await create_session(store) for store in stores]

        async def fill(store: SessionStore, lease: Lease) -> None:
            for number in range(20):
                assert await store.append(lease, [b"%d" % number], after=number) == number + 1
                if number % 5 == 0:
                    lease = await store.renew(lease)

        await asyncio.gather(*(fill(store, lease) for store, lease in zip(stores, leases, strict=True)))
        for lease in leases:
            assert await lines_of(second, lease.id) == [b"%d" % number for number in range(20)]


async def survives_a_cancelled_append(make: MakeStore) -> None:
    async with open_store(make) as store:
        lease = await create_session(store)
        batch = [b"a" * 100_000, b"b" * 100_000]
        for pauses in range(4):
            task = asyncio.ensure_future(store.append(lease, batch))
            for _ in range(pauses):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        last = await store.append(lease, [b"end"])
        lines = await lines_of(store, lease.id)
        assert len(lines) == last, "numbers have no gaps"
        assert lines == batch * (len(lines) // 2) + [b"end"], "each append is complete or absent"
