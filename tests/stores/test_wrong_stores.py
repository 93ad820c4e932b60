"""The conformance suite notices stores that do not do what the protocol says, also in ways that are easy to overlook."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from fairlead.stores import Lease, MemoryData, MemoryStore, StoredSession
from fairlead.testing import check_store


class TakesABeginningForARepetition(MemoryStore):
    async def append(self, lease: Lease, lines: Sequence[bytes], *, after: int | None = None) -> int:
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
    ],
)
def test_a_wrong_store_fails(store: type[MemoryStore], check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.testing.stores._PATIENCE", 0.5)
    data = MemoryData()
    with pytest.raises((AssertionError, TimeoutError)) as raised:
        check_store(lambda: store(data))
    assert f"failed the check {check!r}" in raised.value.__notes__[0]
