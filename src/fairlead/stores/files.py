"""Sessions as files in a directory, in the format that fairlead and `pi` write: a header, then one entry per line.

The owner of a session holds a lock on its file, which ends with the process. Beside the file, `<name>.lease.<epoch>` says who the
owner is and until when. Only one process can create the file of an epoch, so only one gets it.

A process that is stopped keeps its lock. If its lease has expired, the next owner copies the session to a new file that replaces
the old one, and locks that. When the old owner wakes up, it finds the next epoch and is refused; what it was about to write goes
to a file that no longer has a name. Nothing here waits for a lock that another process holds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fairlead.errors import SessionError, SessionLost, StoreUnavailable
from fairlead.platform.open_files import lock_holder, make_private_folders, try_lock
from fairlead.stores.file_leases import create_lease, lease_epochs, lease_path, newest_lease, process_of, write_lease
from fairlead.stores.headers import BINARY, TITLE
from fairlead.stores.paths import id_in_name
from fairlead.stores.sql import Job, Worker
from fairlead.stores.store import (
    Lease,
    StoredLine,
    StoredLines,
    StoredSession,
    check_id,
    check_lines,
    exists,
    explain_loss,
    make_in_use_error,
    make_lost_error,
    make_not_found_error,
)


class _Owned(Struct):
    """A session that this store has the lease of."""

    lease: Lease
    path: Path
    handle: int
    #: The file of the lease.
    lease_path: Path
    #: The size of the session file after the last append, and the number of its last entry.
    size: int
    last: int


class FileStore:
    """A `SessionStore` of session files in a directory, which is created if it does not exist.

    A session that was created here has the file `<id>.jsonl`. Files with other names are found by the id at the end, as fairlead
    and pi write it. With the durability `fsync`, entries also survive a power cut.
    """

    def __init__(self, folder: str | Path, *, durability: Literal["flush", "fsync"] = "flush") -> None:
        self.folder = Path(folder).absolute()
        self._durability = durability
        self._owned: dict[tuple[str, int], _Owned] = {}
        self._worker: Worker[None] = Worker("fairlead-files", self._do_all, self._let_go)

    async def create(self, id: str, header: bytes, *, owner: str, lease_seconds: float, lines: Sequence[bytes] = ()) -> Lease:
        check_id(id)
        check_lines([header, *lines])

        def create(_: None) -> Lease:
            path = self._add(id, header, lines)
            return self._take(id, path, owner, lease_seconds)

        return await self._worker.do(create)

    async def open(self, id: str, *, owner: str, lease_seconds: float) -> Lease:
        return await self._worker.do(lambda _: self._take(id, self._find(id), owner, lease_seconds))

    async def renew(self, lease: Lease) -> Lease:
        def renew(_: None) -> Lease:
            owned = self._check(lease)
            owned.lease = replace(owned.lease, expires_at=time.time() + lease.seconds, last=owned.last)
            write_lease(owned.lease_path, owned.lease.expires_at, lease.owner)
            self._check(lease)
            return owned.lease

        return await self._worker.do(renew)

    async def release(self, lease: Lease) -> None:
        def release(_: None) -> None:
            owned = self._owned.pop((lease.id, lease.epoch), None)
            if owned is not None:
                with suppress(OSError):
                    write_lease(owned.lease_path, 0, "")
                os.close(owned.handle)

        await self._worker.do(release)

    async def append(self, lease: Lease, lines: Sequence[bytes], *, after: int | None = None) -> int:
        check_lines(lines)
        return await self._worker.do(lambda _: self._append(lease, list(lines), after))

    async def read(self, id: str, after: int = 0, limit: int | None = None) -> StoredLines:
        def read(_: None) -> StoredLines:
            path = self._find(id)
            header, lines = _split(_contents(id, path), id)
            end = None if limit is None else after + limit
            found = [StoredLine(after + 1 + index, line) for index, line in enumerate(lines[after:end])]
            owner, expires_at = newest_lease(path)
            return StoredLines(header, found, len(lines), *((owner, expires_at) if expires_at > time.time() else ("", 0.0)))

        return await self._worker.do(read)

    async def list(self, *, after: str = "", limit: int | None = None) -> Sequence[StoredSession]:
        def list_all(_: None) -> list[StoredSession]:
            found = {_id_of(path): path for path in self._files()}
            sessions = (self._describe(id, found[id]) for id in sorted(found) if id > after)
            known = (session for session in sessions if session is not None)
            return list(known) if limit is None else [session for _, session in zip(range(limit), known, strict=False)]

        return await self._worker.do(list_all)

    async def fork(self, id: str, new_id: str, header: bytes, up_to: int | None = None) -> int:
        check_id(new_id)
        check_lines([header])

        def fork(_: None) -> int:
            lines = _split(_contents(id, self._find(id)), id)[1]
            self._add(new_id, header, lines[:up_to])
            return len(lines[:up_to])

        return await self._worker.do(fork)

    async def delete(self, id: str) -> None:
        def delete(_: None) -> None:
            path = self._find(id)
            lease = self._take(id, path, "a process that deletes it", 60)
            owned = self._owned.pop((id, lease.epoch))
            try:
                path.unlink()
                for epoch in lease_epochs(path):
                    lease_path(path, epoch).unlink(missing_ok=True)
            finally:
                os.close(owned.handle)

        await self._worker.do(delete)

    async def close(self) -> None:
        await self._worker.close()

    # The thread

    def _do_all(self, jobs: list[Job[None]]) -> None:
        for job in jobs:
            job.do(None)
            if isinstance(job.error, OSError):
                reason = job.error.strerror or str(job.error)
                job.error = StoreUnavailable(f"Cannot use the sessions in {self.folder}: {reason}.")
            job.answer()

    def _let_go(self) -> None:
        for owned in self._owned.values():
            os.close(owned.handle)
        self._owned.clear()

    # Files

    def _files(self) -> Iterator[Path]:
        with suppress(FileNotFoundError), os.scandir(self.folder) as items:
            for item in items:
                if item.name.endswith(".jsonl") and not item.name.startswith("."):
                    yield Path(item.path)

    def _find(self, id: str) -> Path:
        check_id(id)
        path = self.folder / f"{id}.jsonl"
        if path.exists():
            return path
        found = next((path for path in self._files() if _id_of(path) == id), None)
        if found is None:
            raise make_not_found_error(id)
        return found

    def _add(self, id: str, header: bytes, lines: Sequence[bytes]) -> Path:
        """Write a complete file, then give it its name. Raises SessionExists."""
        make_private_folders(self.folder)
        path = self.folder / f"{id}.jsonl"
        if any(_id_of(other) == id for other in self._files()):
            raise exists(id)
        temporary = self._write_new(b"\n".join([header, *lines, b""]))
        try:
            os.link(temporary, path)  # which fails if a file with this name exists
        except FileExistsError:
            raise exists(id) from None
        finally:
            temporary.unlink()
        self._sync_folder()
        return path

    def _write_new(self, data: bytes) -> Path:
        """Write a file with a name that no listing mistakes for a session."""
        path = self.folder / f".fairlead-{os.urandom(8).hex()}.tmp"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o600)
        try:
            _write(handle, data)
            os.fsync(handle)
        finally:
            os.close(handle)
        return path

    def _sync_folder(self) -> None:
        if self._durability == "fsync" and os.name != "nt":
            handle = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def _describe(self, id: str, path: Path) -> StoredSession | None:
        try:
            header, lines = _split(_contents(id, path), id)
            status = path.stat()
        except (SessionError, OSError):  # it is something else, or was deleted meanwhile
            return None
        owner = next((owner for owner, expires_at in [newest_lease(path)] if expires_at > time.time()), "")
        return StoredSession(id, header, len(lines), _find_created_at(header, status), status.st_mtime, owner)

    # Leases

    def _take(self, id: str, path: Path, owner: str, seconds: float) -> Lease:
        """Take the lease of a session. Raises SessionInUse."""
        handle, is_locked = _open_locked(path)
        claim: Path | None = None
        try:
            former, expires_at = newest_lease(path)
            if not is_locked and expires_at <= 0:  # a session without a store, which has no lease
                raise make_in_use_error(id, "")
            if not is_locked and expires_at > time.time():
                raise make_in_use_error(id, former, expires_at)
            if not is_locked and lock_holder(handle) not in (None, process_of(path)):
                raise make_in_use_error(id, "")  # its last owner with a lease is gone, and a session without a store uses it
            before = max(lease_epochs(path), default=0)
            epoch = before + 1 if before else int(time.time() * 1e6)
            lease = Lease(id, epoch, owner, time.time() + seconds, seconds)
            claim = create_lease(path, lease, former)
            if not is_locked:
                if newest_lease(path, before)[1] > time.time():  # it was renewed at the last moment
                    raise make_in_use_error(id, former)
                os.close(handle)
                handle = -1
                handle = self._replace(id, path)
            for old in lease_epochs(path):
                if old < epoch:
                    lease_path(path, old).unlink(missing_ok=True)
            size, last = _cut_torn_line(handle, id)
        except BaseException:
            if handle >= 0:
                os.close(handle)
            if claim is not None:
                with suppress(OSError):
                    write_lease(claim, 0, "")
            raise
        lease = replace(lease, last=last)
        self._owned[id, epoch] = _Owned(lease, path, handle, claim, size, last)
        return lease

    def _replace(self, id: str, path: Path) -> int:
        """Replace a file by a copy of its complete lines, which this process has locked. Returns its handle."""
        data = _contents(id, path)
        temporary = self._write_new(data[: data.rfind(b"\n") + 1])
        handle, _ = _open_locked(temporary)
        try:
            temporary.replace(path)
        except BaseException:
            os.close(handle)
            temporary.unlink(missing_ok=True)
            raise
        self._sync_folder()
        return handle

    def _check(self, lease: Lease) -> _Owned:
        """Return the session of a lease. Raises SessionLost if the lease is not valid any more."""
        owned = self._owned.get((lease.id, lease.epoch))
        if owned is None:
            raise make_lost_error(lease.id, "this lease was released, or is not from this store")
        try:
            if owned.lease.expires_at <= time.time():
                raise explain_loss(lease, lease.epoch, "")
            # In this order: the next owner creates its lease before it deletes ours.
            if lease_path(owned.path, lease.epoch + 1).exists() or not owned.lease_path.exists():
                raise explain_loss(lease, -1, newest_lease(owned.path)[0])
            if not os.path.samestat(os.fstat(owned.handle), owned.path.stat()):
                raise make_lost_error(lease.id, f"{owned.path} was replaced")
        except FileNotFoundError:
            self._lose(owned)
            raise make_lost_error(lease.id, f"{owned.path} was deleted") from None
        except SessionLost:
            self._lose(owned)
            raise
        return owned

    def _lose(self, owned: _Owned) -> None:
        if self._owned.pop((owned.lease.id, owned.lease.epoch), None) is not None:
            os.close(owned.handle)

    def _append(self, lease: Lease, lines: list[bytes], after: int | None) -> int:
        owned = self._check(lease)
        if after is not None and after != owned.last:
            _, present = _split(_contents(lease.id, owned.path), lease.id)
            if present[after:] == lines:
                return owned.last
            raise make_lost_error(lease.id, f"it has {owned.last} entries, and not {after}")
        if not lines:
            return owned.last
        if os.fstat(owned.handle).st_size != owned.size:
            self._lose(owned)
            raise make_lost_error(lease.id, f"another program has changed {owned.path}")
        data = b"\n".join([*lines, b""])
        try:
            _write(owned.handle, data)
            if self._durability == "fsync":
                os.fsync(owned.handle)
        except OSError:
            os.ftruncate(owned.handle, owned.size)
            raise
        # Again: an owner that was stopped before the write has written to a file that may have been replaced meanwhile.
        owned = self._check(lease)
        owned.size += len(data)
        owned.last += len(lines)
        return owned.last


def _id_of(path: Path) -> str:
    """Return the id in the name of a session file: what follows the time, or all of it."""
    return id_in_name(path) or path.stem


def _contents(id: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise make_not_found_error(id) from None


def _split(data: bytes, id: str) -> tuple[bytes, list[bytes]]:
    """Return the header and the entries of a file, without a last line that is incomplete."""
    lines = [line for line in data[: data.rfind(b"\n") + 1].split(b"\n") if line.strip()]
    if lines and lines[0].startswith(TITLE):
        lines.pop(0)
    if not lines:
        raise SessionError(f"The file of session {id} has no header.")
    return lines[0], lines[1:]


def _cut_torn_line(handle: int, id: str) -> tuple[int, int]:
    """Remove a last line that a crash has left incomplete. Returns the size of the file and the number of its last entry."""
    size = os.fstat(handle).st_size
    data = b""
    while len(data) < size:
        data += os.pread(handle, size - len(data), len(data))
    complete = data.rfind(b"\n") + 1
    if complete < size:
        os.ftruncate(handle, complete)
    return complete, len(_split(data, id)[1])


def _write(handle: int, data: bytes) -> None:
    written = 0
    while written < len(data):
        written += os.write(handle, data[written:] if written else data)


def _open_locked(path: Path) -> tuple[int, bool]:
    """Open a file, and lock it unless another process has. Returns its handle, and whether it is locked."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_APPEND | BINARY)
        try:
            is_locked = try_lock(handle) is not False
            # The process that held the lock before may have replaced the file that is open here.
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle, is_locked
        except FileNotFoundError:
            pass  # it was replaced or deleted just now: opening it again says which
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


class _Header(Struct):
    timestamp: datetime


def _find_created_at(header: bytes, status: os.stat_result) -> float:
    """Return when a session was created, as its header says: the file itself only says when it changed."""
    with suppress(msgspec.DecodeError, UnicodeDecodeError, OverflowError):
        return msgspec.json.decode(header, type=_Header).timestamp.timestamp()
    return min(status.st_ctime, status.st_mtime)
