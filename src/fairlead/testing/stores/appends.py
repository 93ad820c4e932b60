"""The checks of appending to a session."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

from fairlead.errors import SessionLost
from fairlead.stores import Lease, SessionStore
from fairlead.testing.stores.support import MakeStore, created, lines_of, opened, raises


async def appends_all_or_nothing(make: MakeStore) -> None:
    async with opened(make) as store:
        lease = await created(store)
        for bad in ([b"1", b"two\nlines"], [b"1", b""]):
            await raises(ValueError, store.append(lease, bad))
        assert await lines_of(store, lease.id) == []
        assert await store.append(lease, []) == 0
        assert await store.append(lease, [b"1"]) == 1


async def recognises_an_append_that_is_repeated(make: MakeStore) -> None:
    async with opened(make) as store:
        lease = await created(store, [b"1"])
        for _ in range(3):
            assert await store.append(lease, [b"2", b"3"], after=1) == 3
        await raises(SessionLost, store.append(lease, [b"other"], after=1))
        await raises(SessionLost, store.append(lease, [b"2"], after=1))  # only the first of the entries that follow
        await raises(SessionLost, store.append(lease, [b"2", b"3", b"4"], after=1))
        await raises(SessionLost, store.append(lease, [b"5"], after=4))
        assert await lines_of(store, lease.id) == [b"1", b"2", b"3"]


async def keeps_the_order_of_appends(make: MakeStore) -> None:
    async with opened(make) as store:
        lease = await created(store)
        lines = [b"%d" % number for number in range(100)]
        numbers = await asyncio.gather(*(store.append(lease, [line]) for line in lines))
        assert numbers == list(range(1, 101)), numbers
        assert await lines_of(store, lease.id) == lines


async def keeps_every_byte(make: MakeStore) -> None:
    async with opened(make) as store:
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
        lease = await created(store, lines[:1])
        await store.append(lease, lines[1:])
        assert await lines_of(store, lease.id) == lines
        assert (await store.read(lease.id, len(lines) - 1)).lines[0].line == huge


async def keeps_thousands_of_entries(make: MakeStore) -> None:
    async with opened(make) as store:
        lease = await created(store)
        expected: list[bytes] = []
        for start in range(0, 5000, 500):
            lines = [b'{"number":%d}' % number for number in range(start, start + 500)]
            expected += lines
            assert await store.append(lease, lines, after=start) == start + 500
        assert await lines_of(store, lease.id) == expected
        page = await store.read(lease.id, 4000, 10)
        assert [line.line for line in page.lines] == expected[4000:4010]


async def appends_to_several_sessions_at_once(make: MakeStore) -> None:
    async with opened(make) as first, opened(make) as second:
        stores = [first, second] * 4
        leases = [await created(store) for store in stores]

        async def fill(store: SessionStore, lease: Lease) -> None:
            for number in range(20):
                assert await store.append(lease, [b"%d" % number], after=number) == number + 1
                if number % 5 == 0:
                    lease = await store.renew(lease)

        await asyncio.gather(*(fill(store, lease) for store, lease in zip(stores, leases, strict=True)))
        for lease in leases:
            assert await lines_of(second, lease.id) == [b"%d" % number for number in range(20)]


async def survives_a_cancelled_append(make: MakeStore) -> None:
    async with opened(make) as store:
        lease = await created(store)
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
