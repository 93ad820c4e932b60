"""The conformance suite for session stores: what every `fairlead.stores.SessionStore` has to do.

    from fairlead.testing import check_store

    def test_my_store(tmp_path):
        check_store(lambda: MyStore(tmp_path / "sessions"))

`check_store` runs all checks. `STORE_CHECKS` are the checks themselves, to be run one by one:

    @pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
    def test_my_store(check, tmp_path):
        check_store(lambda: MyStore(tmp_path / "sessions"), check)

Each check calls the function once for every process that it plays, and all of the stores must share their sessions. The checks
use new ids, so they may run on a store that has other sessions.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias, TypeVar

from fairlead.errors import SessionError, SessionExists, SessionInUse, SessionLost, SessionNotFound
from fairlead.stores import Lease, SessionStore

E = TypeVar("E", bound=Exception)
#: Makes a store. All stores that it makes share their sessions.
MakeStore: TypeAlias = Callable[[], SessionStore]
Check: TypeAlias = Callable[[MakeStore], Coroutine[Any, Any, None]]

#: Seconds of a lease that stays valid during a check, and of one that the check waits for.
_LONG, _SHORT = 60.0, 0.05
_HEADER = b'{"type":"session","version":3,"id":"check","timestamp":"2026-01-31T12:00:00.000Z"}'
#: How long a check waits for a lease to expire.
_PATIENCE = 10.0


def check_store(make: MakeStore, *checks: Check) -> None:
    """Run the checks, or all of them, on an event loop each.

    Raises AssertionError, or what the store raised, if the store fails one. A note of the error names the check.
    """
    for check in checks or STORE_CHECKS:
        try:
            asyncio.run(check(make))
        except Exception as error:
            error.add_note(f"The store failed the check {check.__name__!r} of fairlead.testing.STORE_CHECKS.")
            raise


# The life of a session


async def creates_and_reads_sessions(make: MakeStore) -> None:
    async with _store(make) as store:
        id = _id()
        lease = await store.create(id, _HEADER, owner="a", lease_seconds=_LONG)
        assert (lease.id, lease.owner, lease.seconds, lease.last) == (id, "a", _LONG, 0), lease
        empty = await store.read(id)
        assert (empty.header, empty.lines, empty.last) == (_HEADER, [], 0), empty
        assert await store.append(lease, [b"1"]) == 1
        assert await store.append(lease, [b"2", b"3"]) == 3
        found = await store.read(id)
        assert [tuple(line) for line in found.lines] == [(1, b"1"), (2, b"2"), (3, b"3")], found
        assert found.last == 3, found


async def creates_a_session_with_entries(make: MakeStore) -> None:
    async with _store(make) as store:
        lease = await store.create(_id(), _HEADER, owner="a", lease_seconds=_LONG, lines=[b"1", b"2"])
        assert lease.last == 2, lease
        assert await store.append(lease, [b"3"], after=2) == 3
        assert await _lines(store, lease.id) == [b"1", b"2", b"3"]
        for bad in ([b"1", b"two\nlines"], [b""]):
            id = _id()
            await _raises(ValueError, store.create(id, _HEADER, owner="a", lease_seconds=_LONG, lines=bad))
            await _raises(SessionNotFound, store.read(id))


async def refuses_a_second_session_with_the_same_id(make: MakeStore) -> None:
    async with _store(make) as store:
        lease = await _created(store, [b"1"])
        await _raises(SessionExists, store.create(lease.id, _HEADER, owner="b", lease_seconds=_LONG))
        await store.release(lease)
        await _raises(SessionExists, store.create(lease.id, _HEADER, owner="b", lease_seconds=_LONG))
        assert await _lines(store, lease.id) == [b"1"]


async def gives_an_id_to_one_of_many_creators(make: MakeStore) -> None:
    async with _store(make) as first, _store(make) as second:
        id = _id()
        calls = [each.create(id, _HEADER, owner="a", lease_seconds=_LONG) for each in (first, second) * 5]
        results = await asyncio.gather(*calls, return_exceptions=True)
        leases = [result for result in results if isinstance(result, Lease)]
        others = [result for result in results if not isinstance(result, Lease)]
        assert len(leases) == 1, results
        assert all(isinstance(error, SessionExists | SessionInUse) for error in others), results


async def reads_from_a_cursor(make: MakeStore) -> None:
    async with _store(make) as store:
        lease = await _created(store, [b"%d" % number for number in range(1, 11)])
        for after, limit, expected in [
            (0, 3, [1, 2, 3]),
            (3, 3, [4, 5, 6]),
            (9, 3, [10]),
            (10, None, []),
            (99, 5, []),
            (0, 0, []),
        ]:
            found = await store.read(lease.id, after, limit)
            assert [line.number for line in found.lines] == expected, (after, limit, found)
            assert [line.line for line in found.lines] == [b"%d" % number for number in expected]
            assert (found.last, found.header) == (10, _HEADER)


async def knows_which_sessions_do_not_exist(make: MakeStore) -> None:
    async with _store(make) as store:
        id = _id()
        await _raises(SessionNotFound, store.read(id))
        await _raises(SessionNotFound, store.open(id, owner="a", lease_seconds=_LONG))
        await _raises(SessionNotFound, store.delete(id))
        await _raises(SessionNotFound, store.fork(id, _id(), _HEADER))


async def lists_sessions_in_the_order_of_their_ids(make: MakeStore) -> None:
    async with _store(make) as store:
        prefix = _id()
        ids = [f"{prefix}-{number}" for number in range(5)]
        lease: Lease | None = None
        for id in reversed(ids):
            lease = await store.create(id, _HEADER, owner="a", lease_seconds=_LONG, lines=[b"1", b"2"])
        assert lease is not None
        await store.release(lease)
        found = [session for session in await store.list() if session.id.startswith(prefix)]
        assert [session.id for session in found] == ids
        assert [session.owner for session in found] == ["", "a", "a", "a", "a"], found
        assert {(session.header, session.last) for session in found} == {(_HEADER, 2)}
        assert all(0 < session.created_at <= session.changed_at + 1 for session in found), found
        page = await store.list(after=ids[1], limit=2)
        assert [session.id for session in page] == ids[2:4], page


async def lists_when_sessions_were_created_and_changed(make: MakeStore) -> None:
    async with _store(make) as store:
        lease = await _created(store, [b"1"])
        (before,) = [session for session in await store.list() if session.id == lease.id]
        await asyncio.sleep(0.05)
        await store.append(lease, [b"2"])
        (after,) = [session for session in await store.list() if session.id == lease.id]
        assert after.changed_at > before.changed_at and after.created_at == before.created_at, (before, after)


async def forks_sessions(make: MakeStore) -> None:
    async with _store(make) as store:
        lease = await _created(store, [b"1", b"2", b"3"])
        whole, part = _id(), _id()
        other = b'{"type":"session","version":3,"id":"fork"}'
        assert await store.fork(lease.id, whole, other) == 3
        assert await store.fork(lease.id, part, other, 2) == 2
        assert await _lines(store, whole) == [b"1", b"2", b"3"]
        assert await _lines(store, part) == [b"1", b"2"]
        assert (await store.read(part)).header == other
        await _raises(SessionExists, store.fork(lease.id, part, other))
        copy = await store.open(part, owner="b", lease_seconds=_LONG)
        assert copy.last == 2
        assert await store.append(copy, [b"x"], after=2) == 3
        assert await _lines(store, lease.id) == [b"1", b"2", b"3"]
        await store.append(lease, [b"4"])
        assert await _lines(store, whole) == [b"1", b"2", b"3"], "what is appended later is not in the copy"


async def deletes_sessions_that_are_not_in_use(make: MakeStore) -> None:
    async with _store(make) as store, _store(make) as other:
        lease = await _created(store, [b"1"])
        assert (await _raises(SessionInUse, other.delete(lease.id))).owner == "a"
        await store.release(lease)
        await other.delete(lease.id)
        await _raises(SessionNotFound, store.read(lease.id))
        await _raises(SessionLost, store.append(lease, [b"2"]))
        again = await store.create(lease.id, _HEADER, owner="a", lease_seconds=_LONG)
        assert await _lines(store, lease.id) == []
        assert again.epoch > lease.epoch, "an owner from before must not pass for the present one"
        await _raises(SessionLost, other.append(lease, [b"2"]))


# Leases


async def lets_one_owner_write(make: MakeStore) -> None:
    async with _store(make) as first, _store(make) as second:
        lease = await _created(first)
        for store in (first, second):
            error = await _raises(SessionInUse, store.open(lease.id, owner="b", lease_seconds=_LONG))
            assert error.owner == "a" and "a" in str(error), error
            assert error.expires_at is not None and abs(error.expires_at - lease.expires_at) < 0.001, error.expires_at
            held = await store.read(lease.id)
            assert held.owner == "a" and abs(held.expires_at - lease.expires_at) < 0.001, held
        await first.release(lease)
        free = await second.read(lease.id)
        assert (free.owner, free.expires_at) == ("", 0.0), free
        taken = await second.open(lease.id, owner="b", lease_seconds=_LONG)
        assert taken.epoch > lease.epoch, (taken, lease)
        await _raises(SessionLost, first.append(lease, [b"late"]))
        await _raises(SessionLost, first.renew(lease))
        assert await second.append(taken, [b"1"]) == 1
        await first.release(lease)  # which must not end the lease of the other
        assert await second.append(taken, [b"2"]) == 2
        assert await _lines(first, lease.id) == [b"1", b"2"]


async def gives_an_expired_lease_to_the_next_owner(make: MakeStore) -> None:
    async with _store(make) as first, _store(make) as second:
        lease = await _created(first, [b"1"], seconds=_SHORT)
        taken = await _reopened(second, lease.id)
        assert taken.last == 1 and taken.epoch > lease.epoch, (taken, lease)
        await _raises(SessionLost, first.append(lease, [b"late"]))
        await _raises(SessionLost, first.renew(lease))
        assert await second.append(taken, [b"2"], after=1) == 2
        assert await _lines(first, lease.id) == [b"1", b"2"]
        assert (taken.id, taken.owner, taken.seconds) == (lease.id, "b", _LONG), taken
        assert abs((await second.read(lease.id)).expires_at - taken.expires_at) < 1, "the owner knows when its lease expires"
        await second.release(taken)
        short = await second.open(lease.id, owner="b", lease_seconds=_SHORT)
        await _reopened(first, short.id)  # also a lease of an old session expires


async def refuses_an_expired_lease_that_no_other_owner_has_taken(make: MakeStore) -> None:
    async with _store(make) as store:
        lease = await _created(store, seconds=_SHORT)
        await _expired(store, lease)
        await _raises(SessionLost, store.append(lease, [b"late"]))
        await _raises(SessionLost, store.renew(lease))
        assert (await store.read(lease.id)).owner == ""
        assert await _lines(store, lease.id) == []
        again = await store.open(lease.id, owner="a", lease_seconds=_LONG)
        assert await store.append(again, [b"1"]) == 1


async def keeps_a_lease_that_is_renewed(make: MakeStore) -> None:
    async with _store(make) as first, _store(make) as second:
        lease = await _created(first, seconds=3.0)
        for _ in range(7):
            await asyncio.sleep(0.5)
            renewed = await first.renew(lease)
            assert renewed.epoch == lease.epoch and renewed.expires_at >= lease.expires_at, renewed
            lease = renewed
            await _raises(SessionInUse, second.open(lease.id, owner="b", lease_seconds=_LONG))
        assert await first.append(lease, [b"1"]) == 1
        assert (await first.renew(lease)).last == 1


async def gives_a_lease_to_one_of_many_owners(make: MakeStore) -> None:
    async with _store(make) as first, _store(make) as second:
        lease = await _created(first)
        await first.release(lease)
        calls = [each.open(lease.id, owner=f"{number}", lease_seconds=_LONG) for number, each in enumerate((first, second) * 5)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        leases = [result for result in results if isinstance(result, Lease)]
        assert len(leases) == 1, results
        assert all(isinstance(result, Lease | SessionInUse) for result in results), results


# Appending


async def appends_all_or_nothing(make: MakeStore) -> None:
    async with _store(make) as store:
        lease = await _created(store)
        for bad in ([b"1", b"two\nlines"], [b"1", b""]):
            await _raises(ValueError, store.append(lease, bad))
        assert await _lines(store, lease.id) == []
        assert await store.append(lease, []) == 0
        assert await store.append(lease, [b"1"]) == 1


async def recognises_an_append_that_is_repeated(make: MakeStore) -> None:
    async with _store(make) as store:
        lease = await _created(store, [b"1"])
        for _ in range(3):
            assert await store.append(lease, [b"2", b"3"], after=1) == 3
        await _raises(SessionLost, store.append(lease, [b"other"], after=1))
        await _raises(SessionLost, store.append(lease, [b"2"], after=1))  # only the first of the entries that follow
        await _raises(SessionLost, store.append(lease, [b"2", b"3", b"4"], after=1))
        await _raises(SessionLost, store.append(lease, [b"5"], after=4))
        assert await _lines(store, lease.id) == [b"1", b"2", b"3"]


async def keeps_the_order_of_appends(make: MakeStore) -> None:
    async with _store(make) as store:
        lease = await _created(store)
        lines = [b"%d" % number for number in range(100)]
        numbers = await asyncio.gather(*(store.append(lease, [line]) for line in lines))
        assert numbers == list(range(1, 101)), numbers
        assert await _lines(store, lease.id) == lines


async def keeps_every_byte(make: MakeStore) -> None:
    async with _store(make) as store:
        huge = b'{"text":"' + os.urandom(1 << 22).hex().encode() + b'"}'  # 8 MiB
        lines = ["ünïcödé 🚢 \u2028 \x7f \t".encode(), b"\\u0000\\ud800", b"\xff\xfe not UTF-8", b"'; --", b"%s {} \\", huge]
        lease = await _created(store, lines[:1])
        await store.append(lease, lines[1:])
        assert await _lines(store, lease.id) == lines
        assert (await store.read(lease.id, len(lines) - 1)).lines[0].line == huge


async def keeps_thousands_of_entries(make: MakeStore) -> None:
    async with _store(make) as store:
        lease = await _created(store)
        expected: list[bytes] = []
        for start in range(0, 5000, 500):
            lines = [b'{"number":%d}' % number for number in range(start, start + 500)]
            expected += lines
            assert await store.append(lease, lines, after=start) == start + 500
        assert await _lines(store, lease.id) == expected
        page = await store.read(lease.id, 4000, 10)
        assert [line.line for line in page.lines] == expected[4000:4010]


async def appends_to_several_sessions_at_once(make: MakeStore) -> None:
    async with _store(make) as first, _store(make) as second:
        stores = [first, second] * 4
        leases = [await _created(store) for store in stores]

        async def fill(store: SessionStore, lease: Lease) -> None:
            for number in range(20):
                assert await store.append(lease, [b"%d" % number], after=number) == number + 1
                if number % 5 == 0:
                    lease = await store.renew(lease)

        await asyncio.gather(*(fill(store, lease) for store, lease in zip(stores, leases, strict=True)))
        for lease in leases:
            assert await _lines(second, lease.id) == [b"%d" % number for number in range(20)]


async def survives_a_cancelled_append(make: MakeStore) -> None:
    async with _store(make) as store:
        lease = await _created(store)
        batch = [b"a" * 100_000, b"b" * 100_000]
        for pauses in range(4):
            task = asyncio.ensure_future(store.append(lease, batch))
            for _ in range(pauses):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        last = await store.append(lease, [b"end"])
        lines = await _lines(store, lease.id)
        assert len(lines) == last, "numbers have no gaps"
        assert lines == batch * (len(lines) // 2) + [b"end"], "each append is complete or absent"


# Stores


async def refuses_work_after_it_was_closed(make: MakeStore) -> None:
    store = make()
    lease = await _created(store)
    await store.close()
    await store.close()
    await _raises(SessionError, store.append(lease, [b"1"]))
    await _raises(SessionError, store.read(lease.id))
    await _raises(SessionError, store.create(_id(), _HEADER, owner="a", lease_seconds=_LONG))


async def finishes_what_was_begun_before_it_is_closed(make: MakeStore) -> None:
    store = make()
    lease = await _created(store)
    appends = [asyncio.ensure_future(store.append(lease, [b"%d" % number])) for number in range(10)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*appends)
    async with _store(make) as again:
        assert await _lines(again, lease.id) == [b"%d" % number for number in range(10)]


async def keeps_sessions_when_it_is_opened_again(make: MakeStore) -> None:
    async with _store(make) as store:
        lease = await _created(store, [b"1"])
        await store.append(lease, [b"2"])
        await store.release(lease)
    async with _store(make) as again:
        taken = await again.open(lease.id, owner="b", lease_seconds=_LONG)
        assert (taken.last, taken.epoch > lease.epoch) == (2, True), taken
        assert await again.append(taken, [b"3"], after=2) == 3
        assert await _lines(again, lease.id) == [b"1", b"2", b"3"]


async def works_on_another_event_loop(make: MakeStore) -> None:
    store = make()
    try:
        lease = await _created(store)
        assert await asyncio.to_thread(lambda: asyncio.run(_append_once(store, lease))) == 1
        assert await store.append(lease, [b"2"]) == 2
    finally:
        await store.close()


async def _append_once(store: SessionStore, lease: Lease) -> int:
    return await store.append(lease, [b"1"])


#: All checks, in the order in which it is best to make them pass.
STORE_CHECKS: tuple[Check, ...] = (
    creates_and_reads_sessions,
    creates_a_session_with_entries,
    refuses_a_second_session_with_the_same_id,
    reads_from_a_cursor,
    knows_which_sessions_do_not_exist,
    lists_sessions_in_the_order_of_their_ids,
    lists_when_sessions_were_created_and_changed,
    forks_sessions,
    deletes_sessions_that_are_not_in_use,
    lets_one_owner_write,
    gives_an_expired_lease_to_the_next_owner,
    refuses_an_expired_lease_that_no_other_owner_has_taken,
    keeps_a_lease_that_is_renewed,
    gives_an_id_to_one_of_many_creators,
    gives_a_lease_to_one_of_many_owners,
    appends_all_or_nothing,
    recognises_an_append_that_is_repeated,
    keeps_the_order_of_appends,
    keeps_every_byte,
    keeps_thousands_of_entries,
    appends_to_several_sessions_at_once,
    survives_a_cancelled_append,
    refuses_work_after_it_was_closed,
    finishes_what_was_begun_before_it_is_closed,
    keeps_sessions_when_it_is_opened_again,
    works_on_another_event_loop,
)


# Inside


def _id() -> str:
    return f"check-{os.urandom(8).hex()}"


@asynccontextmanager
async def _store(make: MakeStore) -> AsyncGenerator[SessionStore]:
    store = make()
    try:
        yield store
    finally:
        await store.close()


async def _created(store: SessionStore, lines: list[bytes] | None = None, seconds: float = _LONG) -> Lease:
    return await store.create(_id(), _HEADER, owner="a", lease_seconds=seconds, lines=lines or [])


async def _lines(store: SessionStore, id: str) -> list[bytes]:
    found = await store.read(id)
    assert [line.number for line in found.lines] == list(range(1, found.last + 1)), "numbers have no gaps"
    return [line.line for line in found.lines]


async def _reopened(store: SessionStore, id: str) -> Lease:
    """Open a session as soon as its lease has expired."""
    async with asyncio.timeout(_PATIENCE):
        while True:
            try:
                return await store.open(id, owner="b", lease_seconds=_LONG)
            except SessionInUse:
                await asyncio.sleep(0.01)


async def _expired(store: SessionStore, lease: Lease) -> None:
    """Wait until a lease has expired by the clock of the store."""
    async with asyncio.timeout(_PATIENCE):
        while any(session.owner for session in await store.list() if session.id == lease.id):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def _raises(kind: type[E], call: Awaitable[object]) -> E:
    try:
        result = await call
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}, but the call returned {result!r}")
