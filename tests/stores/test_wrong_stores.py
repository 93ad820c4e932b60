"""The conformance suite notices stores that do not do what the protocol says, also in ways that are easy to overlook."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from fairlead.errors import SessionInUse, SessionLost
from fairlead.stores import Lease, MemoryData, MemoryStore, StoredSession
from fairlead.testing import check_store


class TakesABeginningForARepetition(MemoryStore):
    async def append(self, lease: Lease, lines: Sequence[bytes], *, after: int | None = None) -> int:
        self._find_owned(lease)
        if after is not None and lines:
            found = await self.read(lease.id, after)
            if [each.line for each in found.lines[: len(lines)]] == list(lines):
                return found.last
        return await super().append(lease, lines, after=after)


class ChecksNoFirstLines(MemoryStore):
    async def create(self, id: str, header: bytes, *, owner: str, lease_seconds: float, lines: Sequence[bytes] = ()) -> Lease:
        made = await super().create(id, header, owner=owner, lease_seconds=lease_seconds)
        self._sessions[id].lines.extend(lines)
        return replace(made, last=len(lines))


class ForgetsWhenASessionChanged(MemoryStore):
    async def list(self, *, after: str = "", limit: int | None = None) -> Sequence[StoredSession]:
        return [replace(each, changed_at=each.created_at) for each in await super().list(after=after, limit=limit)]


class TakesAChangeForACreation(MemoryStore):
    async def list(self, *, after: str = "", limit: int | None = None) -> Sequence[StoredSession]:
        return [replace(each, created_at=each.changed_at) for each in await super().list(after=after, limit=limit)]


class SharesTheEntriesOfAFork(MemoryStore):
    async def fork(self, id: str, new_id: str, header: bytes, up_to: int | None = None) -> int:
        last = await super().fork(id, new_id, header, up_to)
        if up_to is None:
            self._sessions[new_id].lines = self._sessions[id].lines
        return last


class ForgetsTheLastEntryInARenewal(MemoryStore):
    async def renew(self, lease: Lease) -> Lease:
        return replace(await super().renew(lease), last=0)


class GivesEveryOwnerAnHour(MemoryStore):
    async def open(self, id: str, *, owner: str, lease_seconds: float) -> Lease:
        return replace(await super().open(id, owner=owner, lease_seconds=3600), seconds=lease_seconds)


class DoesNotSayWhenALeaseExpires(MemoryStore):
    async def open(self, id: str, *, owner: str, lease_seconds: float) -> Lease:
        return replace(await super().open(id, owner=owner, lease_seconds=lease_seconds), expires_at=0.0)


class DoesNotSayHowLongALeaseLasts(MemoryStore):
    async def open(self, id: str, *, owner: str, lease_seconds: float) -> Lease:
        return replace(await super().open(id, owner=owner, lease_seconds=lease_seconds), seconds=0.0)


class ChecksTheEpochBeforeItWrites(MemoryStore):
    async def append(self, lease: Lease, lines: Sequence[bytes], *, after: int | None = None) -> int:
        session = self._find_owned(lease)
        await asyncio.sleep(0.01)
        return await super().append(replace(lease, epoch=session.epoch), lines, after=after)


class TakesTheEntryOfAnotherOwnerForARepetition(MemoryStore):
    async def append(self, lease: Lease, lines: Sequence[bytes], *, after: int | None = None) -> int:
        session = self._sessions.get(lease.id)
        if session is not None and after is not None and lines and session.lines[after:] == list(lines):
            return len(session.lines)
        return await super().append(lease, lines, after=after)


class ChecksNoLeaseIfThereIsNothingToWrite(MemoryStore):
    async def append(self, lease: Lease, lines: Sequence[bytes], *, after: int | None = None) -> int:
        return await super().append(lease, lines, after=after) if lines else len(self._sessions[lease.id].lines)


class KnowsOwnersByTheirNames(MemoryStore):
    async def release(self, lease: Lease) -> None:
        session = self._sessions.get(lease.id)
        if session is not None and session.owner == lease.owner:
            session.owner, session.expires_at = "", 0.0


class LetsAnOwnerOpenASessionTwice(MemoryStore):
    async def open(self, id: str, *, owner: str, lease_seconds: float) -> Lease:
        session = self._sessions.get(id)
        if session is not None and session.owner == owner:
            session.expires_at = 0.0
        return await super().open(id, owner=owner, lease_seconds=lease_seconds)


class TakesALeaseForAChange(MemoryStore):
    async def open(self, id: str, *, owner: str, lease_seconds: float) -> Lease:
        lease = await super().open(id, owner=owner, lease_seconds=lease_seconds)
        self._sessions[id].changed_at = self._now()
        return lease


class CopiesEverythingInsteadOfNothing(MemoryStore):
    async def fork(self, id: str, new_id: str, header: bytes, up_to: int | None = None) -> int:
        return await super().fork(id, new_id, header, up_to or None)


class RemovesSpaces(MemoryStore):
    async def append(self, lease: Lease, lines: Sequence[bytes], *, after: int | None = None) -> int:
        return await super().append(lease, [line.strip() or line for line in lines], after=after)


class ListsEverythingInsteadOfNothing(MemoryStore):
    async def list(self, *, after: str = "", limit: int | None = None) -> Sequence[StoredSession]:
        return await super().list(after=after, limit=limit or None)


class ListsAsInADictionary(MemoryStore):
    async def list(self, *, after: str = "", limit: int | None = None) -> Sequence[StoredSession]:
        found = [each for each in await super().list() if each.id.lower() > after.lower()]
        return sorted(found, key=lambda each: each.id.lower())[:limit]


@pytest.mark.parametrize(
    ("store", "check"),
    [
        (TakesABeginningForARepetition, "recognises_an_append_that_is_repeated"),
        (ChecksNoFirstLines, "creates_a_session_with_entries"),
        (ForgetsWhenASessionChanged, "lists_when_sessions_were_created_and_changed"),
        (TakesAChangeForACreation, "lists_when_sessions_were_created_and_changed"),
        (SharesTheEntriesOfAFork, "forks_sessions"),
        (ForgetsTheLastEntryInARenewal, "keeps_a_lease_that_is_renewed"),
        (GivesEveryOwnerAnHour, "gives_an_expired_lease_to_the_next_owner"),
        (DoesNotSayWhenALeaseExpires, "gives_an_expired_lease_to_the_next_owner"),
        (DoesNotSayHowLongALeaseLasts, "gives_an_expired_lease_to_the_next_owner"),
        (ChecksTheEpochBeforeItWrites, "rejects_writes_of_a_former_owner"),
        (TakesTheEntryOfAnotherOwnerForARepetition, "gives_an_expired_lease_to_the_next_owner"),
        (ChecksNoLeaseIfThereIsNothingToWrite, "gives_an_expired_lease_to_the_next_owner"),
        (KnowsOwnersByTheirNames, "lets_one_owner_write"),
        (LetsAnOwnerOpenASessionTwice, "lets_one_owner_write"),
        (TakesALeaseForAChange, "lists_when_sessions_were_created_and_changed"),
        (CopiesEverythingInsteadOfNothing, "forks_sessions"),
        (RemovesSpaces, "keeps_every_byte"),
        (ListsEverythingInsteadOfNothing, "lists_sessions_in_the_order_of_their_ids"),
        (ListsAsInADictionary, "lists_sessions_in_the_order_of_their_ids"),
    ],
)
def test_a_wrong_store_fails(store: type[MemoryStore], check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.testing.store_writes.PATIENCE", 0.5)
    data = MemoryData()
    with pytest.raises((AssertionError, TimeoutError, SessionLost)) as raised:
        check_store(lambda: store(data))
    assert f"failed the check {check!r}" in raised.value.__notes__[0]


class NamesNoOwner(MemoryStore):
    async def open(self, id: str, *, owner: str, lease_seconds: float) -> Lease:
        try:
            return await super().open(id, owner=owner, lease_seconds=lease_seconds)
        except SessionInUse as error:
            raise SessionInUse("has another owner", error.owner, error.expires_at) from None


def test_an_error_that_does_not_name_the_owner_is_explained() -> None:
    data = MemoryData()
    expected = "the text of SessionInUse has to name the owner, 'owner-of-check', got 'has another owner'"
    with pytest.raises(AssertionError, match=expected):
        check_store(lambda: NamesNoOwner(data))
