"""What the clients for programs that block have in common: an async client on its own thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from fairlead.client.connection import Connection
from fairlead.client.event_base import Event
from fairlead.client.event_stream import EventStream, calling_thread
from fairlead.client.runs import RunStream
from fairlead.errors import ClientError

T = TypeVar("T")
C = TypeVar("C", bound=Connection[Any])


class SyncEvents(Iterator[Event]):
    """Events, one after another. `close` ends the iteration early."""

    def __init__(self, client: SyncConnection[Any], stream: EventStream[Event] | RunStream) -> None:
        self._client = client
        self._stream = stream
        self._ready: list[Event] = []

    def __next__(self) -> Event:
        if not self._ready:
            self._ready = self._client.do(self._stream.batch())[::-1]  # many per change of thread
            if not self._ready:
                raise StopIteration
        return self._ready.pop()

    def close(self) -> None:
        """Stop reading. The events that are left are dropped."""
        self._ready = []
        if isinstance(self._stream, EventStream):
            self._client.do(self._stream.aclose())


class SyncConnection(Generic[C]):
    """An async client of type `C` on its own thread. Several threads may use it."""

    def __init__(self, client: Callable[[], C]) -> None:
        """Run the client that `client` makes, on a new thread. `start` is the usual way."""
        self._make = client
        self._client: C | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    # Its life

    def __enter__(self) -> Self:
        """Start the agent. Raises AgentGone if that is not possible."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fairlead-client", daemon=True)
        self._thread.start()

        async def enter() -> C:
            return await self._make().__aenter__()

        try:
            self._client = self.do(enter())
        except BaseException:
            self._end_thread()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> int | None:
        """End the agent, as `stop` of the async client does. Returns its exit code."""
        code = None
        if self._client is not None and self._thread is not None:
            code = self.do(self._client.stop())
        self._end_thread()
        return code

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the thread of the client and return its result. Ctrl-C cancels it."""
        if self._loop is None or self._thread is None:
            work.close()
            raise ClientError("The client is not running. Use it in `with`.")
        if threading.current_thread() is self._thread:
            work.close()
            raise ClientError("A coroutine function cannot use the blocking client that calls it. Make it a plain function.")
        number = threading.get_ident()

        async def as_this_thread() -> T:
            calling_thread.set(number)
            return await work

        future = asyncio.run_coroutine_threadsafe(as_this_thread(), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def events(self) -> SyncEvents:
        """Return an iterator of all events from now on, as `events` of the async client does."""

        async def begin() -> EventStream[Event]:
            return self._agent.events()

        return SyncEvents(self, self.do(begin()))

    # Inside

    @property
    def _agent(self) -> C:
        if self._client is None:
            raise ClientError("The client is not running. Use it in `with`.")
        return self._client

    def _end_thread(self) -> None:
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self._thread = None
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
