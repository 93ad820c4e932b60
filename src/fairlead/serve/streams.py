"""Sends the events of a session to one client, as server-sent events or over a WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from fairlead.protocol.http.http_events import Resync
from fairlead.serve.guard import Receive, Scope, Send
from fairlead.serve.sessions.feed import Ended, Listener

#: Seconds without an event after which a comment shows that the connection still works.
HEARTBEAT = 15.0
#: Milliseconds after which a browser connects again.
RETRY = 1000
#: Seconds that a slow WebSocket has to read the reason why it is closed.
FAREWELL = 5.0


class EventStream:
    """A response with server-sent events. It ends when the client leaves, reads too slowly, or the session is closed."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._listener:
            await self._stream(scope, receive, send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

        async def write(data: list[bytes]) -> None:
            await send({"type": "http.response.body", "body": b"".join(data), "more_body": True})

        async def wait_for_disconnect() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        ended = await _pump(self._listener, write, wait_for_disconnect, b"retry: %d\n\n" % RETRY, _format_event, b":\n\n")
        if ended is not None and ended.reason == "slow":
            scope["state"]["abort"]()  # what is buffered would never leave
            await wait_for_disconnect()
        elif ended is not None:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def send_over_websocket(listener: Listener, scope: Scope, receive: Receive, send: Send) -> None:
    """Send events over a WebSocket that has been accepted. What the client sends is ignored."""

    async def write(data: list[bytes]) -> None:
        for each in data:
            await send({"type": "websocket.send", "text": each.decode()})

    async def wait_for_disconnect() -> None:
        while (await receive())["type"] != "websocket.disconnect":
            pass

    ended = await _pump(listener, write, wait_for_disconnect, None, _message, None)
    if ended is None:
        return
    try:
        async with asyncio.timeout(FAREWELL):
            await send({"type": "websocket.close", "code": ended.code, "reason": str(ended)})
            await wait_for_disconnect()
    except TimeoutError:
        scope["state"]["abort"]()


async def _pump(
    listener: Listener,
    write: Callable[[list[bytes]], Awaitable[None]],
    left: Callable[[], Awaitable[None]],
    first: bytes | None,
    encode: Callable[[int, bytes], bytes],
    heartbeat: bytes | None,
) -> Ended | None:
    """Write events until the client leaves (then None is returned) or gets no more of them."""

    async def work() -> Ended:
        if first is not None:
            await write([first])
        if listener.has_gap:
            await write([encode(listener.position, msgspec.json.encode(Resync(last_event=listener.position)))])
        while True:
            try:
                async with asyncio.timeout(None if heartbeat is None else HEARTBEAT):
                    events = await listener.next()
            except TimeoutError:
                await write([heartbeat or b""])
                continue
            except Ended as ended:
                return ended
            await write([encode(number, event) for number, event in events])

    working = asyncio.create_task(work())
    leaving = asyncio.ensure_future(left())
    listener.on_dropped = working.cancel
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.cancelled():
            return None if leaving.done() else Ended("slow")
        return working.result() if working.done() and working.exception() is None else None
    finally:
        for task in (working, leaving):
            task.cancel()
        for task in (working, leaving):
            with suppress(asyncio.CancelledError, Exception):  # a connection that is gone
                await task


def _format_event(number: int, event: bytes) -> bytes:
    return b"id: %d\ndata: %b\n\n" % (number, event)


def _message(number: int, event: bytes) -> bytes:
    return b'{"number":%d,"event":%b}' % (number, event)
