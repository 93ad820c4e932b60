"""Keeps an MCP server from filling the memory: how much it may send at once, and how much without being answered or asked."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self, cast

if TYPE_CHECKING:
    import httpx2
    from mcp.client import Transport

#: The most bytes of one message.
MOST_BYTES = 32 * 1024 * 1024
#: The most requests of a server that have no answer yet, and seconds to wait until it reads the answers.
MOST_REQUESTS, _PATIENCE = 64, 5.0
#: How many messages a second a server may send for any time, and how many more it may send at once. Servers report the progress
#: of a call a few times a second.
MESSAGES_PER_SECOND, _BURST = 100, 10_000


class Flooded(Exception):
    """A server has sent too much. The connection is closed."""


class Limits:
    """What one connection may receive. `give_up` closes it, and gets the reason as the end of a sentence."""

    def __init__(self, give_up: Callable[[str], None]) -> None:
        self._give_up = give_up
        #: How many requests with each id have no answer.
        self._open: Counter[str] = Counter()
        self._has_room = asyncio.Event()
        self._has_room.set()
        #: How many messages are above the rate, and when that was computed.
        self._surplus = 0.0
        self._counted_at = time.monotonic()

    def refuse(self, reason: str) -> Flooded:
        """Close the connection, and return the error to raise."""
        self._give_up(reason)
        return Flooded(reason)

    def count(self, messages: int = 1) -> None:
        """Note that messages have arrived. Raises Flooded."""
        now = time.monotonic()
        self._surplus = max(0.0, self._surplus - (now - self._counted_at) * MESSAGES_PER_SECOND) + messages
        self._counted_at = now
        if self._surplus > _BURST:
            raise self.refuse(f"it keeps sending more than {MESSAGES_PER_SECOND} messages a second")

    async def wait_for_room(self) -> None:
        """Wait until few enough requests have no answer. Raises Flooded."""
        if self._has_room.is_set():
            return
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._has_room.wait()
        except TimeoutError:
            raise self.refuse(f"it sent {MOST_REQUESTS} requests and did not read the answers") from None

    def received(self, item: Any) -> None:
        """Note what has arrived. Raises Flooded."""
        from mcp.types import JSONRPCNotification, JSONRPCRequest

        self.count()
        message = getattr(item, "message", None)
        if isinstance(message, JSONRPCRequest):
            self._open[str(message.id)] += 1
            if self._open.total() >= MOST_REQUESTS:
                self._has_room.clear()
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._answered((message.params or {}).get("requestId"))

    def sent(self, item: Any) -> None:
        """Note what has been sent."""
        from mcp.types import JSONRPCError, JSONRPCResponse

        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._answered(item.message.id)

    def _answered(self, id: Any) -> None:
        key = str(id)
        if self._open[key] > 1:
            self._open[key] -= 1
        else:
            del self._open[key]
        if self._open.total() < MOST_REQUESTS:
            self._has_room.set()

    def transport(self, transport: Transport) -> Transport:
        """Return a transport whose messages are counted."""
        return cast("Transport", self._streams(transport))

    @asynccontextmanager
    async def _streams(self, transport: Transport) -> AsyncGenerator[tuple[_Incoming, _Outgoing]]:
        async with transport as (incoming, outgoing):
            yield _Incoming(incoming, self), _Outgoing(outgoing, self)

    async def hold(self, response: httpx2.Response) -> None:
        """Limit the body of an HTTP response, as an event hook. Raises Flooded if it is compressed, which hides its size."""
        if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            raise self.refuse("it compressed an answer although it was asked not to")
        is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        response.stream = _body_class()(response.stream, is_stream, self)


class _Wrapped:
    """One direction of a transport."""

    def __init__(self, stream: Any, limits: Limits) -> None:
        self._stream = stream
        self._limits = limits

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *given: Any) -> bool | None:
        return await self._stream.__aexit__(*given)


class _Incoming(_Wrapped):
    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return await self._next(self._stream.__anext__)

    async def receive(self) -> Any:
        return await self._next(self._stream.receive)

    async def _next(self, take: Callable[[], Any]) -> Any:
        """Return the next message. After a flood there is none."""
        try:
            await self._limits.wait_for_room()
            item = await take()
            self._limits.received(item)
        except Flooded:
            raise StopAsyncIteration from None
        return item


class _Outgoing(_Wrapped):
    async def send(self, item: Any, /) -> None:
        await self._stream.send(item)
        self._limits.sent(item)


def _body_class() -> Any:
    """Return the class of bodies with a limit. Made when it is first used, since its base takes long to import."""
    import httpx2

    class LimitedBody(httpx2.AsyncByteStream):
        def __init__(self, body: Any, is_stream: bool, limits: Limits) -> None:
            self._body = body
            self._is_stream = is_stream
            self._limits = limits

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in self._body:
                size += len(chunk)
                if self._is_stream:
                    # An event ends with an empty line. One that the network splits is counted with the next.
                    events = chunk.count(b"\n\n") + chunk.count(b"\r\n\r\n") + chunk.count(b"\r\r")
                    if events:
                        self._limits.count(events)
                        size = len(chunk)
                if size >= MOST_BYTES:
                    raise self._limits.refuse(f"it sent a message of more than {MOST_BYTES >> 20} MiB")
                yield chunk

        async def aclose(self) -> None:
            await self._body.aclose()

    return LimitedBody
