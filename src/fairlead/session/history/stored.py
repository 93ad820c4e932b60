"""A conversation in a session store: see `fairlead.stores`.

Entries are queued and written by one task, in order, so that no caller waits. What is queued within a few milliseconds is one
append, unless a caller waits for it or it is the result of a tool. `written` waits until the entries so far are durable, and
`Events` holds events back until then. The lease of the session is renewed meanwhile. A session whose lease is lost, or cannot be
renewed in time, stays lost: it takes no more entries, and `on_lost` is called so that the run ends.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from fairlead.errors import SessionError, SessionExists, SessionLost, SessionNotFound, StoreUnavailable
from fairlead.session.history.entries import CALLS, CustomEntry, Entry, NotAnEntry, decode_line, encode_line, role_of
from fairlead.session.history.log import Log
from fairlead.session.history.store import begins, is_worth_keeping
from fairlead.session.session_events import report
from fairlead.stores.headers import VERSION, read_header

if TYPE_CHECKING:
    from fairlead.stores import Lease, SessionStore, StoredLines
    from fairlead.stores.headers import Header

T = TypeVar("T")

#: A lease is renewed when this part of its time has passed.
_RENEW_AFTER = 1 / 3
#: How many seconds entries are collected for one append, unless a caller waits for them.
_COLLECT_SECONDS = 0.01
#: Seconds until a call is repeated that has failed because the store cannot be reached.
_FIRST_DELAY, _LONGEST_DELAY = 0.05, 1.0
#: How many seconds it may take to open or create a session.
_OPENING = 30.0
#: How many entries are read at a time when a session is opened.
_PAGE = 5000

# A clock that continues while the machine sleeps, where there is one: a lease does not wait for it.
_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def clock() -> float:
    """Return the time in seconds, for measuring how long ago something was."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


def new_owner() -> str:
    """Return a name for the owner of leases that no other process has."""
    return f"{socket.gethostname()}/{os.getpid()}/{os.urandom(3).hex()}"


class StoredLog:
    """The sink of a log that a store keeps: see `fairlead.session.history.log.Sink`. It has the methods of a `SessionFile`."""

    #: A stored session has no file.
    path: None = None

    def __init__(self, store: SessionStore, log: Log, owner: str, lease_seconds: float) -> None:
        #: Lines that will not be written any more, because the session is lost.
        self.pending: list[bytes] = []
        #: Whether the session is in the store, or will be as soon as possible.
        self.begun = False
        #: Whether any entry creates the session. Set when a host relies on an entry being stored.
        self.eager = False
        #: Not called: no other program changes a stored session without taking its lease.
        self.on_change: Callable[[str], None] = lambda text: None
        #: Called once, when the session is lost.
        self.on_lost: Callable[[SessionLost], None] = lambda error: None
        #: Called when entries have become durable, and when the session is lost.
        self.on_progress: Callable[[], None] = lambda: None
        self.lost: SessionLost | None = None
        #: The numbers of the last entry that was given to the store, and of the last one that is durable.
        self.queued = self.durable = 0
        self._store = store
        self.log = log
        self._owner = owner
        self._seconds = lease_seconds
        self._lease: Lease | None = None
        #: Whether this object created the session, and whether it deletes it if it stays empty.
        self._made_here = False
        self._deletes_empty = True
        #: When the lease ends, unless it is renewed, by `clock`.
        self._deadline = float("inf")
        self._lines: list[bytes] = []
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._writer: asyncio.Task[None] | None = None
        #: Done when the writer must not collect any longer.
        self._collected: asyncio.Future[None] | None = None
        #: Whether the result of a tool is queued: if it is lost, the model has to find out what the tool has done.
        self._is_urgent = False
        self._keeper: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    # Creating and opening

    @classmethod
    def new(cls, store: SessionStore, log: Log, *, owner: str, lease_seconds: float) -> StoredLog:
        """Store a new conversation, or a fork. It is created with the same entries as the file of a session would be."""
        stored = cls(store, log, owner, lease_seconds)
        log.sink = stored
        if any(begins(entry) for entry in log.entries_with_notes()):
            stored.begin()
        return stored

    @classmethod
    async def open(
        cls,
        store: SessionStore,
        id: str,
        *,
        owner: str,
        lease_seconds: float,
        now_ms: Callable[[], int],
        header: Header | None = None,
    ) -> tuple[StoredLog, list[str]]:
        """Resume a session. With a `header`, create it if it does not exist.

        Returns the session, and a sentence for each problem with it. Raises SessionNotFound, SessionInUse and SessionError.
        """
        while True:
            try:
                return await cls._resume(store, id, owner, lease_seconds, now_ms)
            except SessionNotFound:
                if header is None:
                    raise
            stored = cls(store, Log(header, now_ms=now_ms), owner, lease_seconds)
            stored.log.sink = stored
            with suppress(SessionExists):  # another process was faster: resume that one
                await stored._create([])
                stored.begun = True
                return stored, []

    @classmethod
    async def _resume(
        cls, store: SessionStore, id: str, owner: str, lease_seconds: float, now_ms: Callable[[], int]
    ) -> tuple[StoredLog, list[str]]:
        lease, began = await _acquire(store, lambda: store.open(id, owner=owner, lease_seconds=lease_seconds))
        try:
            log, problems = await read_stored(store, id, now_ms)
        except BaseException:
            with suppress(SessionError):
                await store.release(lease)
            raise
        stored = cls(store, log, owner, lease_seconds)
        stored.begun = True
        stored.queued = stored.durable = lease.last
        log.sink = stored
        stored._own(lease, began)
        return stored, problems

    # As the sink of a log

    def begin(self) -> None:
        """Create the session now with all entries of the log."""
        if not self.begun:
            self.begun = True
            self._lines = self.log.lines()[1:]
            self.queued = len(self._lines)
            self._start()

    def write(self, entry: Entry, line: bytes) -> None:
        """Queue an entry. Raises SessionLost."""
        if self._closing is not None:
            raise SessionError(f"Session {self.log.header.id} is closed.")
        if self.lost is None and clock() >= self._deadline:
            self._lose("its lease has expired")
        if self.lost is not None:
            raise self.lost
        if not self.begun:
            if not (self.eager or begins(entry)):
                return
            self.begin()  # with the entries before this one, which the log has
        self._lines.append(line)
        self.queued += 1
        if role_of(entry) == "toolResult" or (isinstance(entry, CustomEntry) and entry.custom_type == CALLS):
            self._is_urgent = True
            self._stop_collecting()
        self._start()

    def hold(self, line: bytes) -> None:
        """Remember a line that cannot be written any more."""
        self.pending.append(line)

    def flush_pending(self) -> None:
        """Do nothing: what was queued is being written, and what is lost stays lost."""

    @property
    def is_pending(self) -> bool:
        """Whether entries wait until they are durable. False once the session is lost."""
        if self.lost is None and clock() >= self._deadline:
            self._lose("its lease has expired")
        return self.durable < self.queued and self.lost is None

    async def wait_written(self) -> None:
        """Wait until the entries so far are durable. Raises SessionLost."""
        if self.is_pending:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append((self.queued, waiter))
            self._stop_collecting()
            await waiter
        if self.lost is not None:
            raise self.lost

    # The end

    def close(self) -> None:
        """Take no more entries. The lease is released when those so far are written: see `closed`.

        A session that this object created is deleted if it has no more than the choice of a model or a thinking level.
        """
        if self._closing is None and (self._lease is not None or self._writer is not None):
            self._closing = asyncio.create_task(self._finish(), name="fairlead-store-close")

    def keep(self) -> None:
        """Create the session now if it does not exist, and do not delete it when it is closed, even if it is empty."""
        self._deletes_empty = False
        self.begin()

    async def wait_closed(self) -> None:
        """Wait until the session was released."""
        if self._closing is not None:
            await asyncio.wait([self._closing])

    async def _finish(self) -> None:
        with suppress(SessionLost):
            await self.wait_written()
        for task in (self._writer, self._keeper):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        if self._lease is None or self.lost is not None:
            return
        try:
            async with asyncio.timeout(max(0.0, self._deadline - clock())):
                await self._store.release(self._lease)
                if self._made_here and self._deletes_empty and not is_worth_keeping(self.log):
                    await self._store.delete(self._lease.id)
        except (SessionError, TimeoutError):
            pass  # the lease expires by itself
        except Exception as error:  # a bug of the store must not keep the session from closing
            report(error)

    # Writing

    def _start(self) -> None:
        if self._keeper is not None and self._keeper.done() and self.lost is None:  # its event loop has ended
            self._keeper = asyncio.create_task(self._renew(), name="fairlead-store-lease")
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write(), name="fairlead-store-writer")

    async def _write(self) -> None:
        """Write what is queued, until nothing is left."""
        try:
            if self._lease is None:
                await self._create(self._take())
            while self._lines:
                await self._collect()
                await self._append(self._take())
        except asyncio.CancelledError:
            raise
        except SessionLost as error:
            self._lose(error)
        except Exception as error:
            if not isinstance(error, SessionError):
                report(error)  # a bug of the store
            self._lose(f"the store cannot write to it: {error}")
        finally:
            self._writer = None

    async def _collect(self) -> None:
        """Give further entries some time, unless those that are queued cannot wait."""
        if not self._waiters and not self._is_urgent:
            loop = asyncio.get_running_loop()
            self._collected = loop.create_future()
            timer = loop.call_later(_COLLECT_SECONDS, self._stop_collecting)
            try:
                await self._collected
            finally:
                timer.cancel()
                self._collected = None

    def _stop_collecting(self) -> None:
        if self._collected is not None and not self._collected.done():
            self._collected.set_result(None)

    async def _append(self, lines: list[bytes]) -> None:
        lease, after = self._lease, self.durable
        assert lease is not None
        self._advance(await _with_patience(lambda: self._store.append(lease, lines, after=after), self._deadline))

    def _take(self) -> list[bytes]:
        lines, self._lines = self._lines, []
        self._is_urgent = False
        return lines

    async def _create(self, lines: list[bytes]) -> None:
        id, header = self.log.header.id, encode_line(self.log.header)
        lease, began = await _acquire(
            self._store,
            lambda: self._store.create(id, header, owner=self._owner, lease_seconds=self._seconds, lines=lines),
        )
        self._made_here = True
        self._own(lease, began)
        self._advance(len(lines))

    def _advance(self, last: int) -> None:
        """Continue after the entries that have become durable."""
        self.durable = last
        self.on_progress()
        while self._waiters and self._waiters[0][0] <= last:
            _, waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)

    # The lease

    def _own(self, lease: Lease, began: float) -> None:
        """Renew a lease from now on. It was asked for at the time `began`, so it lasts at least from then."""
        self._lease = lease
        self._deadline = began + lease.seconds
        self._keeper = asyncio.create_task(self._renew(), name="fairlead-store-lease")

    async def _renew(self) -> None:
        assert self._lease is not None
        delay = self._lease.seconds * _RENEW_AFTER
        try:
            while self.lost is None:
                await asyncio.sleep(min(delay, max(0.0, self._deadline - clock())))
                began, lease = clock(), self._lease
                self._lease = await _with_patience(lambda: self._store.renew(lease), self._deadline)  # noqa: B023
                self._deadline = began + lease.seconds
        except asyncio.CancelledError:
            raise
        except SessionLost as error:
            self._lose(error)
        except Exception as error:
            if not isinstance(error, SessionError):
                report(error)
            self._lose(f"its lease cannot be renewed: {error}")

    def _lose(self, why: SessionLost | str) -> None:
        """Give up the session: nothing more is written, and no caller waits for it any longer."""
        if self.lost is not None:
            return
        if isinstance(why, str):
            why = SessionLost(f"Session {self.log.header.id} is lost: {why}. Open it again to continue.")
        self.lost = why
        self.pending += self._take()
        self.on_lost(why)
        self.on_progress()
        while self._waiters:
            _, waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)  # `written` raises


async def _acquire(store: SessionStore, call: Callable[[], Awaitable[Lease]]) -> tuple[Lease, float]:
    """Take a lease. Returns it, and a time before it was given, by `clock`."""
    began = clock()
    lease = await _with_patience(call, began + _OPENING)
    if clock() - began > lease.seconds * _RENEW_AFTER:  # the store had to connect first
        began = clock()
        lease = await store.renew(lease)
    return lease, began


async def _with_patience(call: Callable[[], Awaitable[T]], deadline: float) -> T:
    """Call a store, again and again while it cannot be reached. Raises SessionLost at the deadline."""
    delay, problem = _FIRST_DELAY, "the store does not answer."
    while True:
        left = deadline - clock()
        if left <= 0:
            raise SessionLost(f"The session is lost: its lease could not be taken or renewed because {problem}")
        try:
            async with asyncio.timeout(None if left == float("inf") else left):
                return await call()
        except TimeoutError:  # ours, or one of the store
            problem = "the store does not answer."
        except StoreUnavailable as error:
            problem = f"the store could not be reached. {error}"
        await asyncio.sleep(min(delay, max(0.0, deadline - clock())))
        delay = min(delay * 2, _LONGEST_DELAY)


async def read_stored(store: SessionStore, id: str, now_ms: Callable[[], int]) -> tuple[Log, list[str]]:
    """Return the conversation in a store, and a sentence for each problem with it. Raises SessionError."""
    pages: list[StoredLines] = [await store.read(id, 0, _PAGE)]
    while pages[-1].lines and pages[-1].lines[-1].number < pages[-1].last:
        pages.append(await store.read(id, pages[-1].lines[-1].number, _PAGE))
    header = read_header(pages[0].header)
    if header is None:
        raise SessionError(f"Session {id} of the store does not begin with a session header.")
    if header.version != VERSION:
        raise SessionError(f"Session {id} is of version {header.version}; a store keeps sessions of version {VERSION} only.")
    records: list[tuple[Entry, bytes]] = []
    known: set[str] = set()
    gaps: list[int] = []
    unreadable: list[int] = []
    for number, line in (stored for page in pages for stored in page.lines):
        try:
            entry, line = decode_line(line)
        except ValueError as error:
            unreadable.append(number)
            if not isinstance(error, NotAnEntry):
                gaps.append(len(records))
            continue
        if entry.id in known:  # a copy
            unreadable.append(number)
        else:
            known.add(entry.id)
            records.append((entry, line))
    log = Log(header, records, gaps=gaps, now_ms=now_ms)
    log.unreadable = unreadable
    return log, [f"Entry {number} of session {id} cannot be read and was skipped." for number in unreadable]
