"""The numbered events of one session, and the clients that listen to them.

All listeners read from one ring of encoded events, so that a listener costs no more than its position. The ring is bounded in
events and in bytes. A listener that falls out of it was too slow: it is dropped, and never holds up the others.
"""

from __future__ import annotations

import asyncio
import time
from typing import Literal, TypeAlias

from msgspec import Struct

#: The WebSocket close codes for a listener that was too slow, and for one whose session ends with the server.
TOO_SLOW, GOING_AWAY = 4408, 1001
#: Seconds that listeners have to take events before the bounds of the ring are enforced: many may be sent at the same moment.
GRACE = 0.1
#: How many bytes a listener takes at a time, at least one event.
BATCH = 1 << 16

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


class Feed:
    """The events of one session. Numbers rise by one, and no feed of the same session ever uses a number again."""

    def __init__(self, bounds: RingBounds | None = None) -> None:
        self.bounds = bounds or RingBounds()
        # Microseconds since the epoch: higher than every number of an earlier feed, and exact in JavaScript.
        self.last = time.time_ns() // 1000
        #: How many listeners were dropped because they were too slow.
        self.dropped = 0
        self._ring: dict[int, bytes] = {}
        self._oldest = self.last + 1
        self._size = 0
        self._listeners: set[Listener] = set()
        self._trim: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def publish(self, event: bytes) -> int:
        """Add an event, encoded as JSON, and return its number."""
        self.last += 1
        self._ring[self.last] = event
        self._size += len(event)
        if self._trim is None and (len(self._ring) > self.bounds.events or self._size > self.bounds.size):
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
            self._listeners.add(listener)
        return listener

    def take(self, after: int) -> list[tuple[int, bytes]] | None:
        """Return the next events after a number, up to a size. None if they are no longer there."""
        if after < self._oldest - 1:
            return None
        taken: list[tuple[int, bytes]] = []
        size = 0
        for number in range(after + 1, self.last + 1):
            event = self._ring[number]
            size += len(event)
            if taken and size > BATCH:
                break
            taken.append((number, event))
        return taken

    def forget(self, listener: Listener) -> None:
        self._listeners.discard(listener)

    def clear(self) -> None:
        """Drop all events, to save memory. Clients that come back fetch a snapshot."""
        self._ring.clear()
        self._size = 0
        self._oldest = self.last + 1
        self._drop_the_slow()

    def close(self) -> None:
        """End all listeners. They still get the events so far."""
        self._is_closed = True
        if self._trim is not None:
            self._trim.cancel()
        for listener in list(self._listeners):
            listener.end("closed")

    def _enforce_bounds(self) -> None:
        if self._trim is not None:
            self._trim.cancel()
            self._trim = None
        while len(self._ring) > 1 and (len(self._ring) > self.bounds.events or self._size > self.bounds.size):
            self._size -= len(self._ring.pop(self._oldest))
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
        self._awake = asyncio.Event()
        self._end: EndReason | None = None
        #: Set when the listener was dropped, for a sender that is stuck.
        self.dropped = asyncio.Event()

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self._feed.forget(self)

    def wake(self) -> None:
        self._awake.set()

    def end(self, reason: EndReason) -> None:
        """Send no more events. A listener that is not slow still gets those so far."""
        self._feed.forget(self)
        self._end = reason
        self._awake.set()
        if reason == "slow":
            self.dropped.set()

    async def next(self) -> list[tuple[int, bytes]]:
        """Wait for events and return them with their numbers. Raises Ended."""
        while True:
            if self._end == "slow":
                raise Ended("slow")
            self._awake.clear()
            taken = self._feed.take(self.position)
            if taken is None:
                self.end("slow")
            elif taken:
                self.position = taken[-1][0]
                return taken
            elif self._end is not None:
                raise Ended(self._end)
            else:
                await self._awake.wait()
