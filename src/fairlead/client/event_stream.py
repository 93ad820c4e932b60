"""Hands events to independent readers, in order and without loss, in bounded memory.

A reader that is behind gets neighbouring deltas of one block as one, and only the last of several updates of one tool call. If
its queue still becomes full, the client stops reading from the agent until the reader has caught up, and the agent waits.
There is one exception: while the reader itself waits for an answer from this client, the client must keep reading, so the queue
may grow until the answer arrives.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Generic, Protocol, Self, TypeVar

import msgspec

from fairlead.client.decoding import Event, copy_with
from fairlead.client.events import (
    MessageEnd,
    MessageStart,
    MessageUpdate,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolcallDelta,
    ToolcallEnd,
    ToolcallStart,
    ToolExecutionUpdate,
)
from fairlead.core.messages import AssistantBlock, AssistantMessage, TextContent, ThinkingContent, ToolCall
from fairlead.core.partial_message import preview_arguments

E = TypeVar("E")

#: A reader with this many events before it gets merged ones.
BEHIND = 16
#: A queue is full with this many events, or this many bytes.
MOST_EVENTS = 1_000
MOST_BYTES = 16 << 20

#: Who is calling, if that is not the current task: a thread that uses a `SyncClient`.
calling_thread: ContextVar[int | None] = ContextVar("calling_thread", default=None)


def caller() -> object:
    """Return what identifies the caller: its thread if it uses a `SyncClient`, otherwise its task."""
    return calling_thread.get() or asyncio.current_task()


class Merger(Protocol):
    """How two neighbouring events become one. `key` is None for an event that stays as it is."""

    def key(self, event: Any, /) -> object: ...

    def part(self, event: Any, /) -> str:
        """Return the piece of text that must not get lost when the next event replaces this one."""
        ...

    def merge(self, last: Any, text: str, /) -> Any:
        """Return the last event with the pieces of all."""
        ...


class _Entry:
    __slots__ = ("event", "key", "parts", "size")

    def __init__(self, event: Any, key: object, size: int) -> None:
        self.event = event
        self.key = key
        self.size = size
        self.parts: list[str] | None = None


class EventStream(Generic[E], AsyncIterator[E]):
    """One reader's view of the events, from the moment it was made. Use it with `async for`, once."""

    def __init__(self, hub: EventHub[E], last: Callable[[E], bool] | None = None) -> None:
        self._hub = hub
        self._entries: deque[_Entry] = deque()
        self._bytes = 0
        self._arrived = asyncio.Event()
        self._last = last
        self._closed = False
        #: Who reads: the caller that asked for the stream, until another caller takes an event.
        self.reader = caller()

    @property
    def is_full(self) -> bool:
        return len(self._entries) >= MOST_EVENTS or self._bytes >= MOST_BYTES

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> E:
        """Return the next event. Raises AgentGone if the agent ended unexpectedly."""
        self.reader = caller()
        while not self._entries:
            self._raise_if_over()
            self._arrived.clear()
            await self._arrived.wait()
        return self._take()

    async def batch(self) -> list[E]:
        """Wait for events, and return all that are there. An empty list means that there will be no more."""
        try:
            events = [await self.__anext__()]
        except StopAsyncIteration:
            return []
        while self._entries:
            events.append(self._take())
        return events

    async def aclose(self) -> None:
        """Stop reading. The events that are left are dropped."""
        self.close()

    def close(self) -> None:
        self._closed = True
        self._entries.clear()
        self._bytes = 0
        self._hub.remove(self)
        self._arrived.set()

    def put(self, event: E, key: object, size: int, merger: Merger) -> None:
        """Add an event, or merge it into the last one."""
        last = self._entries[-1] if self._entries else None
        if last is not None and key is not None and last.key == key and len(self._entries) >= BEHIND:
            last.parts = last.parts or [merger.part(last.event)]
            last.parts.append(merger.part(event))
            self._bytes += size - last.size
            last.event, last.size = event, size
        else:
            self._entries.append(_Entry(event, key, size))
            self._bytes += size
        self._arrived.set()
        if self._last is not None and self._last(event):
            self.finish()

    def finish(self) -> None:
        """End the iteration after the events that are there."""
        self._closed = True
        self._hub.remove(self)
        self._arrived.set()

    def wake(self) -> None:
        self._arrived.set()

    def _take(self) -> E:
        entry = self._entries.popleft()
        self._bytes -= entry.size
        self._hub.on_take()
        if entry.parts is None:
            return entry.event
        return self._hub.merger.merge(entry.event, "".join(entry.parts))

    def _raise_if_over(self) -> None:
        if self._closed:
            raise StopAsyncIteration
        if self._hub.ended:
            self.close()
            if self._hub.error is not None:
                raise self._hub.error.with_traceback(None)
            raise StopAsyncIteration


class EventHub(Generic[E]):
    """Passes each event to all streams, and says when to pause reading."""

    def __init__(self, merger: Merger, is_waiting: Callable[[object], bool]) -> None:
        self.merger = merger
        #: Whether a caller waits for an answer that only further reading can bring.
        self._is_waiting = is_waiting
        #: Weak, so that an iterator that was left without being closed does not hold up the others.
        self._streams: list[weakref.ref[EventStream[E]]] = []
        self._room = asyncio.Event()
        self.ended = False
        self.error: BaseException | None = None

    def stream(self, last: Callable[[E], bool] | None = None) -> EventStream[E]:
        """Return a stream of all events from now on. It ends after an event for which `last` is true."""
        made: EventStream[E] = EventStream(self, last)
        if not self.ended:
            loop = asyncio.get_running_loop()

            def forget_later(reference: weakref.ref[EventStream[E]]) -> None:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._forget, reference)

            self._streams.append(weakref.ref(made, forget_later))
        return made

    def put(self, event: E, size: int) -> None:
        if not self._streams:
            return
        key = self.merger.key(event)
        for reference in list(self._streams):
            if (stream := reference()) is not None:
                stream.put(event, key, size, self.merger)

    @property
    def is_full(self) -> bool:
        """Whether a stream is full whose reader does not wait for an answer."""
        for reference in self._streams:
            stream = reference()
            if stream is not None and stream.is_full and not self._is_waiting(stream.reader):
                return True
        return False

    async def room(self) -> None:
        """Wait until no stream is full, except those whose reader waits for an answer."""
        while self.is_full:
            self._room.clear()
            await self._room.wait()

    def on_take(self) -> None:
        """Note that a reader took an event, or waits for an answer now."""
        self._room.set()

    def remove(self, stream: EventStream[E]) -> None:
        self._streams = [reference for reference in self._streams if reference() is not stream]
        self._room.set()

    def _forget(self, reference: weakref.ref[EventStream[E]]) -> None:
        if reference in self._streams:
            self._streams.remove(reference)
        self._room.set()

    def end(self, error: BaseException | None) -> None:
        """End all streams, after the events that they have."""
        self.ended, self.error = True, error
        self._room.set()
        for reference in list(self._streams):
            if (stream := reference()) is not None:
                stream.wake()


_DELTAS = (TextDelta, ThinkingDelta, ToolcallDelta)


class UpdateMerger:
    """Merges deltas of one block, and updates of one tool call, which repeat all of its output."""

    def key(self, event: Event) -> object:
        if isinstance(event, MessageUpdate):
            inner = event.assistant_message_event
            return (type(inner), inner.content_index) if isinstance(inner, _DELTAS) else None
        return event.tool_call_id if isinstance(event, ToolExecutionUpdate) else None

    def part(self, event: Event) -> str:
        inner = event.assistant_message_event if isinstance(event, MessageUpdate) else None
        return inner.delta if isinstance(inner, _DELTAS) else ""

    def merge(self, last: Event, text: str) -> Event:
        if not isinstance(last, MessageUpdate):
            return last
        return copy_with(last, assistant_message_event=msgspec.structs.replace(last.assistant_message_event, delta=text))


class _Block:
    __slots__ = ("block", "parts")

    def __init__(self, block: AssistantBlock) -> None:
        self.block = block
        self.parts: list[str] = []


class MessageAssembler:
    """Builds the assistant message that is arriving, from the events of one iterator, in any form.

    Adding an update costs no more than its delta. Only `message` puts the pieces together.
    """

    def __init__(self) -> None:
        self._shell: AssistantMessage | None = None
        self._whole: AssistantMessage | None = None
        self._blocks: dict[int, _Block] = {}

    def add(self, event: Event) -> None:
        """Take an event into account. Only those about messages matter."""
        if isinstance(event, MessageUpdate):
            if isinstance(event.message, AssistantMessage):
                self._whole = event.message
            else:
                self._whole = None
                self._update(event.assistant_message_event)
        elif isinstance(event, MessageStart):
            self.clear()
            if isinstance(event.message, AssistantMessage):
                self._shell = event.message
        elif isinstance(event, MessageEnd):
            self.clear()

    def clear(self) -> None:
        self._shell = self._whole = None
        self._blocks.clear()

    def message(self) -> AssistantMessage | None:
        """Return the message so far, or None if no assistant message is arriving."""
        if self._whole is not None or self._shell is None:
            return self._whole
        return msgspec.structs.replace(self._shell, content=[_complete(self._blocks[index]) for index in sorted(self._blocks)])

    def _update(self, inner: Any) -> None:
        index = inner.content_index
        match inner:
            case TextStart():
                self._blocks[index] = _Block(TextContent(""))
            case ThinkingStart():
                self._blocks[index] = _Block(ThinkingContent(""))
            case ToolcallStart():
                self._blocks[index] = _Block(ToolCall(inner.id, inner.tool_name, {}))
            case TextDelta() | ThinkingDelta() | ToolcallDelta() if index in self._blocks:
                self._blocks[index].parts.append(inner.delta)
            case TextEnd():
                self._blocks[index] = _Block(TextContent(inner.content))
            case ThinkingEnd():
                self._blocks[index] = _Block(ThinkingContent(inner.content))
            case ToolcallEnd():
                self._blocks[index] = _Block(inner.tool_call)
            case _:
                pass


def _complete(opened: _Block) -> AssistantBlock:
    if not opened.parts:
        return opened.block
    text = "".join(opened.parts)
    match opened.block:
        case TextContent():
            return TextContent(text)
        case ThinkingContent():
            return ThinkingContent(text)
        case ToolCall() as call:
            return ToolCall(call.id, call.name, dict(preview_arguments(text)))
