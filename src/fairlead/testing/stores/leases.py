"""The checks of leases: one owner at a time may write to a session."""

from __future__ import annotations

import asyncio

from fairlead.errors import SessionInUse, SessionLost
from fairlead.stores import Lease
from fairlead.testing.stores.support import (
    LONG,
    OWNER,
    SHORT,
    MakeStore,
    created,
    lines_of,
    opened,
    raises,
    reopened,
    wait_until_expired,
)


async def lets_one_owner_write(make: MakeStore) -> None:
    async with opened(make) as first, opened(make) as second:
        lease = await created(first)
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
    async with opened(make) as first, opened(make) as second:
        lease = await created(first, [b"1"], seconds=SHORT)
        taken = await reopened(second, lease.id)
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
        await reopened(first, short.id)  # also a lease of an old session expires


async def refuses_an_expired_lease_that_no_other_owner_has_taken(make: MakeStore) -> None:
    async with opened(make) as store:
        lease = await created(store, seconds=SHORT)
        await wait_until_expired(store, lease)
        await raises(SessionLost, store.append(lease, [b"late"]))
        await raises(SessionLost, store.renew(lease))
        assert (await store.read(lease.id)).owner == ""
        assert await lines_of(store, lease.id) == []
        again = await store.open(lease.id, owner=OWNER, lease_seconds=LONG)
        assert await store.append(again, [b"1"]) == 1


async def keeps_a_lease_that_is_renewed(make: MakeStore) -> None:
    async with opened(make) as first, opened(make) as second:
        lease = await created(first, seconds=3.0)
        for _ in range(7):
            await asyncio.sleep(0.5)
            renewed = await first.renew(lease)
            assert renewed.epoch == lease.epoch and renewed.expires_at >= lease.expires_at, renewed
            lease = renewed
            await raises(SessionInUse, second.open(lease.id, owner="b", lease_seconds=LONG))
        assert await first.append(lease, [b"1"]) == 1
        assert (await first.renew(lease)).last == 1


async def gives_a_lease_to_one_of_many_owners(make: MakeStore) -> None:
    async with opened(make) as first, opened(make) as second:
        lease = await created(first)
        await first.release(lease)
        calls = [each.open(lease.id, owner=f"{number}", lease_seconds=LONG) for number, each in enumerate((first, second) * 5)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        leases = [result for result in results if isinstance(result, Lease)]
        assert len(leases) == 1, results
        assert all(isinstance(result, Lease | SessionInUse) for result in results), results


async def writes_nothing_of_an_owner_after_the_next_one_has_the_lease(make: MakeStore) -> None:
    async with opened(make) as first, opened(make) as second:
        for pauses in range(8):
            lease = await created(first)
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
