"""Bounds and mends what an MCP server sends.

A server must not fill the memory: this limits how much it may send at once, and how much without being answered or asked. Results
of tool calls that break the protocol are mended, because the `mcp` package would refuse them as a whole."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Self, cast

import msgspec

from fairlead.core.lenient import json_data
from fairlead.extend.mcp import sdk

if TYPE_CHECKING:
    import httpx2
    from mcp.client import Transport


#: The calls whose answer has not come.
_MOST_CALLS = 10_000


class ResultMender:
    """Looks at the messages of one connection."""

    def __init__(self) -> None:
        self._calls: dict[Any, None] = {}

    def on_send(self, item: Any) -> None:
        """Note a request that calls a tool."""
        message = getattr(item, "message", None)
        if getattr(message, "method", None) == "tools/call" and (id := getattr(message, "id", None)) is not None:
            self._calls[id] = None
            if len(self._calls) > _MOST_CALLS:
                del self._calls[next(iter(self._calls))]

    def mend(self, item: Any) -> None:
        """Bring the result in a message into the form of the protocol, if it answers a call."""
        message = getattr(item, "message", None)
        result = getattr(message, "result", None)
        if getattr(message, "id", None) in self._calls and not hasattr(message, "method"):
            del self._calls[cast("Any", message).id]
            if isinstance(result, dict):
                _mend(cast("dict[str, Any]", result))


def _mend(result: dict[str, Any]) -> None:
    if "inputRequests" in result:
        return
    content = result.get("content")
    blocks = cast("list[Any]", content) if isinstance(content, list) else [] if content is None else [content]
    result["content"] = [block if _is_valid(block) else {"type": "text", "text": _as_text(block)} for block in blocks]
    structured = json_data(result.pop("structuredContent", None))
    if structured is not None:
        result["structuredContent"] = structured if isinstance(structured, dict) else {"result": structured}
    if not isinstance(result.get("isError", False), bool):
        result["isError"] = bool(result["isError"])
    if not isinstance(result.get("_meta", {}), dict):
        del result["_meta"]


def _as_text(block: Any) -> str:
    return block if isinstance(block, str) else msgspec.json.encode(json_data(block)).decode()


def _is_valid(block: Any) -> bool:
    try:
        _block_type().validate_python(block, by_name=False)
    except ValueError:
        return False
    return True


@cache
def _block_type() -> Any:
    return sdk.TypeAdapter(sdk.types.ContentBlock)


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
        self.mender = ResultMender()
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

    def on_receive(self, item: Any) -> None:
        """Note what has arrived. Raises Flooded."""
        self.count()
        message = getattr(item, "message", None)
        if isinstance(message, sdk.JSONRPCRequest):
            self._open[str(message.id)] += 1
            if self._open.total() >= MOST_REQUESTS:
                self._has_room.clear()
        elif isinstance(message, sdk.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._on_answer((message.params or {}).get("requestId"))

    def on_send(self, item: Any) -> None:
        """Note what has been sent."""
        if isinstance(item.message, sdk.JSONRPCResponse | sdk.JSONRPCError):
            self._on_answer(item.message.id)

    def _on_answer(self, id: Any) -> None:
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
            self._limits.on_receive(item)
            self._limits.mender.mend(item)
        except Flooded:
            raise StopAsyncIteration from None
        return item


class _Outgoing(_Wrapped):
    async def send(self, item: Any, /) -> None:
        self._limits.mender.on_send(item)
        await self._stream.send(item)
        self._limits.on_send(item)


def _body_class() -> Any:
    """Return the class of bodies with a limit. Made when it is first used, since its base takes long to import."""

    class LimitedBody(sdk.httpx2.AsyncByteStream):
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
