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

from fairlead.errors import SessionError, SessionExists, SessionInUse, SessionLost, SessionNotFound
from fairlead.stores import Lease, SessionStore
from fairlead.testing.store_writes import (
    HEADER,
    LONG,
    OWNER,
    Check,
    MakeStore,
    appends_entries_atomically,
    appends_to_several_sessions_at_once,
    create_session,
    gives_a_lease_to_one_of_many_owners,
    gives_an_expired_lease_to_the_next_owner,
    keeps_a_lease_that_is_renewed,
    keeps_every_byte,
    keeps_the_order_of_appends,
    keeps_thousands_of_entries,
    lets_one_owner_write,
    lines_of,
    new_id,
    open_store,
    raises,
    recognises_an_append_that_is_repeated,
    refuses_an_expired_lease_that_no_other_owner_has_taken,
    rejects_writes_of_a_former_owner,
    survives_a_cancelled_append,
)


async def creates_and_reads_sessions(make: MakeStore) -> None:
    async with open_store(make) as store:
        id = new_id()
        lease = await store.create(id, HEADER, owner=OWNER, lease_seconds=LONG)
        assert (lease.id, lease.owner, lease.seconds, lease.last) == (id, OWNER, LONG, 0), lease
        empty = await store.read(id)
        assert (empty.header, empty.lines, empty.last) == (HEADER, [], 0), empty
        assert await store.append(lease, [b"1"]) == 1
        assert await store.append(lease, [b"2", b"3"]) == 3
        found = await store.read(id)
        assert [tuple(line) for line in found.lines] == [(1, b"1"), (2, b"2"), (3, b"3")], found
        assert found.last == 3, found


async def creates_a_session_with_entries(make: MakeStore) -> None:
    async with open_store(make) as store:
        lease = await store.create(new_id(), HEADER, owner=OWNER, lease_seconds=LONG, lines=[b"1", b"2"])
        assert lease.last == 2, lease
        assert await store.append(lease, [b"3"], after=2) == 3
        assert await lines_of(store, lease.id) == [b"1", b"2", b"3"]
        for bad in ([b"1", b"two\nlines"], [b""]):
            id = new_id()
            await raises(ValueError, store.create(id, HEADER, owner=OWNER, lease_seconds=LONG, lines=bad))
            await raises(SessionNotFound, store.read(id))


async def refuses_a_second_session_with_the_same_id(make: MakeStore) -> None:
    async with open_store(make) as store:
        lease = await create_session(store, [b"1"])
        await raises(SessionExists, store.create(lease.id, HEADER, owner="b", lease_seconds=LONG))
        await store.release(lease)
        await raises(SessionExists, store.create(lease.id, HEADER, owner="b", lease_seconds=LONG))
        assert await lines_of(store, lease.id) == [b"1"]


async def gives_an_id_to_one_of_many_creators(make: MakeStore) -> None:
    async with open_store(make) as first, open_store(make) as second:
        id = new_id()
        calls = [each.create(id, HEADER, owner=OWNER, lease_seconds=LONG) for each in (first, second) * 5]
        results = await asyncio.gather(*calls, return_exceptions=True)
        leases = [result for result in results if isinstance(result, Lease)]
        others = [result for result in results if not isinstance(result, Lease)]
        assert len(leases) == 1, results
        assert all(isinstance(error, SessionExists | SessionInUse) for error in others), results


async def reads_from_a_cursor(make: MakeStore) -> None:
    async with open_store(make) as store:
        lease = await create_session(store, [b"%d" % number for number in range(1, 11)])
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
            assert (found.last, found.header) == (10, HEADER)


async def knows_which_sessions_do_not_exist(make: MakeStore) -> None:
    async with open_store(make) as store:
        id = new_id()
        await raises(SessionNotFound, store.read(id))
        await raises(SessionNotFound, store.open(id, owner=OWNER, lease_seconds=LONG))
        await raises(SessionNotFound, store.delete(id))
        await raises(SessionNotFound, store.fork(id, new_id(), HEADER))


async def lists_sessions_in_the_order_of_their_ids(make: MakeStore) -> None:
    async with open_store(make) as store:
        prefix = new_id()
        ids = [f"{prefix}-{end}" for end in "01Bac"]  # by the numbers of their characters, not as in a dictionary
        lease: Lease | None = None
        for id in reversed(ids):
            lease = await store.create(id, HEADER, owner=OWNER, lease_seconds=LONG, lines=[b"1", b"2"])
        assert lease is not None
        await store.release(lease)
        found = [session for session in await store.list() if session.id.startswith(prefix)]
        assert [session.id for session in found] == ids
        assert [session.owner for session in found] == ["", OWNER, OWNER, OWNER, OWNER], found
        assert {(session.header, session.last) for session in found} == {(HEADER, 2)}
        assert all(0 < session.created_at <= session.changed_at + 1 for session in found), found
        page = await store.list(after=ids[1], limit=2)
        assert [session.id for session in page] == ids[2:4], page
        assert list(await store.list(limit=0)) == []


async def lists_when_sessions_were_created_and_changed(make: MakeStore) -> None:
    async with open_store(make) as store:
        lease = await create_session(store, [b"1"])
        (before,) = [session for session in await store.list() if session.id == lease.id]
        await asyncio.sleep(0.05)
        await store.append(lease, [b"2"])
        (after,) = [session for session in await store.list() if session.id == lease.id]
        assert after.changed_at > before.changed_at and after.created_at == before.created_at, (before, after)
        await asyncio.sleep(0.05)
        await store.release(await store.renew(lease))
        await store.open(lease.id, owner="b", lease_seconds=LONG)
        (taken,) = [session for session in await store.list() if session.id == lease.id]
        assert taken.changed_at == after.changed_at, "who has the lease is not a change of the session"


async def forks_sessions(make: MakeStore) -> None:
    async with open_store(make) as store:
        lease = await create_session(store, [b"1", b"2", b"3"])
        whole, part, nothing = new_id(), new_id(), new_id()
        other = b'{"type":"session","version":3,"id":"fork"}'
        assert await store.fork(lease.id, whole, other) == 3
        assert await store.fork(lease.id, part, other, 2) == 2
        assert await store.fork(lease.id, nothing, other, 0) == 0
        assert await store.fork(lease.id, new_id(), other, 99) == 3
        assert await lines_of(store, nothing) == []
        assert await lines_of(store, whole) == [b"1", b"2", b"3"]
        assert await lines_of(store, part) == [b"1", b"2"]
        assert (await store.read(part)).header == other
        await raises(SessionExists, store.fork(lease.id, part, other))
        copy = await store.open(part, owner="b", lease_seconds=LONG)
        assert copy.last == 2
        assert await store.append(copy, [b"x"], after=2) == 3
        assert await lines_of(store, lease.id) == [b"1", b"2", b"3"]
        await store.append(lease, [b"4"])
        assert await lines_of(store, whole) == [b"1", b"2", b"3"], "what is appended later is not in the copy"


async def deletes_sessions_that_are_not_in_use(make: MakeStore) -> None:
    async with open_store(make) as store, open_store(make) as other:
        lease = await create_session(store, [b"1"])
        assert (await raises(SessionInUse, other.delete(lease.id))).owner == OWNER
        await store.release(lease)
        await other.delete(lease.id)
        await raises(SessionNotFound, store.read(lease.id))
        await raises(SessionLost, store.append(lease, [b"2"]))
        again = await store.create(lease.id, HEADER, owner=OWNER, lease_seconds=LONG)
        assert await lines_of(store, lease.id) == []
        assert again.epoch > lease.epoch, "an owner from before must not pass for the present one"
        await raises(SessionLost, other.append(lease, [b"2"]))


# Closing the store


async def refuses_work_after_it_was_closed(make: MakeStore) -> None:
    store = make()
    lease = await create_session(store)
    await store.close()
    await store.close()
    await raises(SessionError, store.append(lease, [b"1"]))
    await raises(SessionError, store.read(lease.id))
    await raises(SessionError, store.create(new_id(), HEADER, owner=OWNER, lease_seconds=LONG))


async def finishes_pending_writes_before_it_closes(make: MakeStore) -> None:
    store = make()
    lease = await create_session(store)
    appends = [asyncio.ensure_future(store.append(lease, [b"%d" % number])) for number in range(10)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*appends)
    async with open_store(make) as again:
        assert await lines_of(again, lease.id) == [b"%d" % number for number in range(10)]


async def keeps_sessions_when_it_is_opened_again(make: MakeStore) -> None:
    async with open_store(make) as store:
        lease = await create_session(store, [b"1"])
        await store.append(lease, [b"2"])
        await store.release(lease)
    async with open_store(make) as again:
        taken = await again.open(lease.id, owner="b", lease_seconds=LONG)
        assert (taken.last, taken.epoch > lease.epoch) == (2, True), taken
        assert await again.append(taken, [b"3"], after=2) == 3
        assert await lines_of(again, lease.id) == [b"1", b"2", b"3"]


async def works_on_another_event_loop(make: MakeStore) -> None:
    store = make()
    try:
        lease = await create_session(store)
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
    rejects_writes_of_a_former_owner,
    appends_entries_atomically,
    recognises_an_append_that_is_repeated,
    keeps_the_order_of_appends,
    keeps_every_byte,
    keeps_thousands_of_entries,
    appends_to_several_sessions_at_once,
    survives_a_cancelled_append,
    refuses_work_after_it_was_closed,
    finishes_pending_writes_before_it_closes,
    keeps_sessions_when_it_is_opened_again,
    works_on_another_event_loop,
)


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
