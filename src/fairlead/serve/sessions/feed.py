"""The numbered events of one session, and the clients that listen to them.

All listeners read from one ring of encoded events, so that a listener costs no more than its position. The ring is bounded in
events and in bytes. A listener that falls out of it was too slow: it is dropped, and never holds up the others.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Literal, Self, TypeAlias

from msgspec import Struct

#: The WebSocket close codes for a listener that was too slow, and for one whose session ends with the server.
TOO_SLOW, GOING_AWAY = 4408, 1001
#: Seconds that listeners have to take events before the bounds of the ring are enforced: many may be sent at the same moment.
GRACE = 0.1
#: How many bytes a listener takes at a time, at least one event. They are sent together: a network that cuts connections early
#: must let some of them through.
BATCH = 1 << 13
#: How many events are compressed together, and how many bytes they may have: compressing more would hold up all sessions.
BLOCK, MOST_COMPRESSED = 16, 1 << 16
#: How many of the newest events are always as they are. Clients that keep up read only these.
FRESH = 4
#: Between the events of a block. No JSON has this byte.
_BETWEEN = b"\0"

EndReason: TypeAlias = Literal["slow", "closed"]


class Ended(Exception):
    """A listener gets no more events. `code` is the code that closes a WebSocket."""

    def __init__(self, reason: EndReason) -> None:
        super().__init__(
            "The client reads too slowly. Connect again to resynchronise." if reason == "slow" else "The session was closed."
        )
        self.reason: EndReason = reason
        self.code = TOO_SLOW if reason == "slow" else GOING_AWAY


class RingBounds(Struct, frozen=True):
    """How much a ring holds."""

    events: int = 4096
    size: int = 2 << 20


class _Block(Struct, frozen=True):
    """Events that follow each other, as one piece of memory."""

    data: bytes
    is_compressed: bool

    @classmethod
    def of(cls, events: list[bytes]) -> Self:
        joined = _BETWEEN.join(events)
        if len(joined) > MOST_COMPRESSED:
            return cls(joined, False)
        # The usual sizes of the compressor's tables would cost more than the compression of so little.
        compressor = zlib.compressobj(level=1, wbits=13, memLevel=6)
        return cls(compressor.compress(joined) + compressor.flush(), True)

    def events(self) -> list[bytes]:
        return (zlib.decompress(self.data) if self.is_compressed else self.data).split(_BETWEEN)


class _Ring:
    """Events in order. Only the newest stay as they are: the others are hardly ever read again, and are much alike."""

    __slots__ = ("_blocks", "_newest", "_oldest", "size")

    def __init__(self) -> None:
        # Lists, because they are short, and an empty deque takes ten times the memory.
        self._oldest: list[bytes] = []
        self._blocks: list[_Block] = []
        self._newest: list[bytes] = []
        #: The bytes of all events.
        self.size = 0

    def __len__(self) -> int:
        return len(self._oldest) + len(self._blocks) * BLOCK + len(self._newest)

    def append(self, event: bytes) -> None:
        self.size += len(event)
        self._newest.append(event)
        if len(self._newest) == BLOCK + FRESH:
            self._blocks.append(_Block.of(self._newest[:BLOCK]))
            del self._newest[:BLOCK]

    def drop_oldest(self) -> None:
        if not self._oldest:
            if self._blocks:
                self._oldest = self._blocks.pop(0).events()
            else:
                self._oldest, self._newest = self._newest, []
        self.size -= len(self._oldest.pop(0))

    def since(self, index: int) -> Iterator[bytes]:
        """Return the events from an index on. The oldest has the index 0."""
        yield from self._oldest[index:]
        index = max(0, index - len(self._oldest))
        for block in self._blocks[index // BLOCK :]:
            yield from block.events()[index % BLOCK :]
            index = 0
        yield from self._newest[max(0, index - len(self._blocks) * BLOCK) :]


class Feed:
    """The events of one session. Numbers rise by one, and no feed of the same session ever uses a number again."""

    def __init__(self, bounds: RingBounds | None = None) -> None:
        self.bounds = bounds or RingBounds()
        # Microseconds since the epoch: higher than every number of an earlier feed, and exact in JavaScript.
        self.last = time.time_ns() // 1000
        #: How many listeners were dropped because they were too slow.
        self.dropped = 0
        #: None without events, because most sessions are idle.
        self._ring: _Ring | None = None
        self._oldest = self.last + 1
        self._listeners: list[Listener] = []
        self._trim: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def publish(self, event: bytes) -> int:
        """Add an event, encoded as JSON, and return its number."""
        self.last += 1
        if self._ring is None:
            self._ring = _Ring()
        self._ring.append(event)
        if self._trim is None and self._is_too_large(self._ring):
            self._trim = asyncio.get_running_loop().call_later(GRACE, self._enforce_bounds)
        for listener in self._listeners:
            listener.wake()
        return self.last

    def listen(self, after: int | None = None) -> Listener:
        """Listen to the events after a number, or from now on. `Listener.has_gap` says that some of them are gone."""
        has_gap = after is not None and not self._oldest - 1 <= after <= self.last
        listener = Listener(self, self.last if after is None or has_gap else after, has_gap=has_gap)
        if self._is_closed:
            listener.end("closed")
        else:
            self._listeners.append(listener)
        return listener

    def take(self, after: int) -> list[tuple[int, bytes]] | None:
        """Return the next events after a number, up to a size. None if they are no longer there."""
        if after < self._oldest - 1:
            return None
        taken: list[tuple[int, bytes]] = []
        if self._ring is None:
            return taken
        size = 0
        for number, event in enumerate(self._ring.since(after + 1 - self._oldest), after + 1):
            size += len(event)
            if taken and size > BATCH:
                break
            taken.append((number, event))
        return taken

    def forget(self, listener: Listener) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    def clear(self) -> None:
        """Drop all events, to save memory. Clients that come back fetch a snapshot."""
        self._ring = None
        self._oldest = self.last + 1
        self._drop_the_slow()

    def close(self) -> None:
        """End all listeners. They still get the events so far."""
        self._is_closed = True
        if self._trim is not None:
            self._trim.cancel()
        if not self._listeners:
            self.clear()  # a closed session may wait for the garbage collector for a while
        for listener in list(self._listeners):
            listener.end("closed")

    def _is_too_large(self, ring: _Ring) -> bool:
        return ring.size > self.bounds.size or len(ring) > self.bounds.events

    def _enforce_bounds(self) -> None:
        if self._trim is not None:
            self._trim.cancel()
            self._trim = None
        ring = self._ring
        while ring is not None and len(ring) > 1 and self._is_too_large(ring):
            ring.drop_oldest()
            self._oldest += 1
        self._drop_the_slow()

    def _drop_the_slow(self) -> None:
        for listener in list(self._listeners):
            if listener.position < self._oldest - 1:
                self.dropped += 1
                listener.end("slow")


class Listener:
    """One client of a feed. Use it with `with`, so that it is forgotten."""

    def __init__(self, feed: Feed, position: int, *, has_gap: bool) -> None:
        self._feed = feed
        #: The number of the last event that was taken.
        self.position = position
        #: Whether events were missed before this listener began.
        self.has_gap = has_gap
        #: Set when there may be something to take. A future takes less memory than an event of asyncio.
        self._news: asyncio.Future[None] | None = None
        self._end: EndReason | None = None
        #: Called when the listener is dropped, for a sender that is stuck.
        self.on_dropped: Callable[[], object] | None = None

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self._feed.forget(self)

    def wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def end(self, reason: EndReason) -> None:
        """Send no more events. A listener that is not slow still gets those so far."""
        self._feed.forget(self)
        self._end = reason
        self.wake()
        if reason == "slow" and self.on_dropped is not None:
            self.on_dropped()

    async def next(self) -> list[tuple[int, bytes]]:
        """Wait for events and return them with their numbers. Raises Ended."""
        while True:
            if self._end == "slow":
                raise Ended("slow")
            taken = self._feed.take(self.position)
            if taken is None:
                self.end("slow")
            elif taken:
                self.position = taken[-1][0]
                return taken
            elif self._end is not None:
                raise Ended(self._end)
            else:
                self._news = asyncio.get_running_loop().create_future()
                await self._news
