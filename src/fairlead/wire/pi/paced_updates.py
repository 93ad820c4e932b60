"""Paced streaming: `message_update` frames whose cost grows with the length of the answer, not with its square.

The family repeats the whole message twice in every update. This module merges deltas and paces the updates, so that full
updates never exceed a number of bytes per second, even for a long answer. It encodes the message once per update and inserts
it twice, and it never escapes the start of a growing text again. A frame that is too long for the host is sent in chunks.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator
from typing import Literal, Protocol, Self, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fairlead.config.settings import OutputSettings
from fairlead.core.events import QueueUpdate
from fairlead.core.messages import AssistantBlock, TextContent, ThinkingContent, ToolCall, Usage
from fairlead.core.model import BlockDelta, BlockEnd, BlockStart
from fairlead.core.partial_message import PartialMessage, preview_arguments
from fairlead.protocol.pi.frames import RpcChunk
from fairlead.wire.host_connection import HostOutput, Outlet

Form: TypeAlias = Literal["full", "delta"]

#: Updates that cannot wait (the start and the end of a block, and updates held back before them) are sent in delta form if full
#: ones would use more than this many seconds of the rate in advance.
MOST_DEBT = 0.5
#: Up to this many characters of queued texts, every change of the queues is sent immediately.
SHORT_QUEUE = 1024
#: The bytes of an `rpc_chunk` frame without its data.
CHUNK_OVERHEAD = 160
#: The longest piece of a frame, in bytes, that omp's client accepts.
LONGEST_PIECE = 1 << 18


class FrameOutlet(Outlet, Protocol):
    """An outlet with a limit on the length of frames."""

    @property
    def max_frame(self) -> int | None:
        """The most bytes that a frame should have, or None for no limit."""
        ...


class ChunkedOutlet:
    """Implements `FrameOutlet`. It sends a frame longer than `max_frame` as `rpc_chunk` frames, which omp defines."""

    def __init__(self, output: HostOutput, max_frame: int | None = None) -> None:
        self.max_frame = max_frame
        self.call_when_caught_up = output.call_when_caught_up
        self._output = output
        self._chunked = 0

    @property
    def behind(self) -> bool:
        return self._output.behind

    def send(self, frame: bytes) -> None:
        if self.max_frame is None or len(frame) <= self.max_frame:
            self._output.send(frame)
            return
        for chunk in self._chunks(frame[:-1], self.max_frame):
            self._output.send(msgspec.json.encode(chunk) + b"\n")

    def _chunks(self, body: bytes, limit: int) -> Iterator[RpcChunk]:
        """Split a frame into base64 pieces, which the host decodes and joins."""
        self._chunked += 1
        size = min(max(3, (limit - CHUNK_OVERHEAD) // 4 * 3), LONGEST_PIECE)
        starts = range(0, len(body), size)
        for index, start in enumerate(starts):
            yield RpcChunk(
                chunk_id=f"rpc-{self._chunked}",
                index=index,
                count=len(starts),
                byte_length=len(body),
                data=base64.b64encode(body[start : start + size]).decode(),
            )


class Pacing(Struct, frozen=True):
    """How often and how fast updates are sent."""

    #: Seconds between two updates.
    interval: float
    #: Bytes of full updates per second.
    rate: int
    #: Bytes of the longest message that is repeated in full.
    largest: int

    @classmethod
    def of(cls, settings: OutputSettings) -> Self:
        return cls(settings.pace_ms / 1000, settings.bytes_per_second, settings.full_update_bytes)


class _Spending(Struct):
    """How much of the rate is used: the next full update may be sent at `until`, in the time of the loop."""

    until: float = 0.0


class _Growing:
    """A block while it streams: its JSON up to the growing string, and the JSON of that string so far."""

    __slots__ = ("_head", "_parts", "_tail", "delta_head", "kind", "raw")

    def __init__(self, index: int, block: AssistantBlock) -> None:
        self._parts: list[bytes] = []
        self.raw: list[str] | None = None
        if isinstance(block, TextContent):
            self.kind = b"text"
            self._head, self._tail = b'{"type":"text","text":"', b'"}'
        elif isinstance(block, ThinkingContent):
            self.kind = b"thinking"
            self._head, self._tail = b'{"type":"thinking","thinking":"', b'"}'
        else:
            self.kind = b"toolcall"
            self.raw = []
            self._head = b'{"type":"toolCall","id":%s,"name":%s,"arguments":' % (_json(block.id), _json(block.name))
            self._tail = b"}"
        #: How an update with a delta of this block begins.
        self.delta_head = update_head(b"%s_delta" % self.kind, index, b',"delta":')

    def add(self, delta: str, escaped: bytes) -> None:
        if self.raw is None:
            self._parts.append(escaped)
        else:
            self.raw.append(delta)

    def encode(self) -> bytes:
        if self.raw is None:
            if len(self._parts) > 1:
                self._parts = [b"".join(self._parts)]
            return b"".join((self._head, *self._parts, self._tail))
        if len(self.raw) > 1:
            self.raw = ["".join(self.raw)]
        return self._head + msgspec.json.encode(preview_arguments("".join(self.raw))) + self._tail


class _Shell(Struct, frozen=True):
    """The JSON of a message without its content, which hardly changes while the content streams."""

    #: What it was made from.
    response_id: str | None
    stop_reason: str | None
    usage: Usage
    #: The JSON of the message before and after its content, and that of its usage.
    head: bytes
    tail: bytes
    usage_json: bytes

    @classmethod
    def of(cls, partial: PartialMessage) -> Self:
        shell = partial.shell()
        head, tail = msgspec.json.encode(shell).split(b'"content":[]', 1)
        usage_json = msgspec.json.encode(shell.usage)
        made_from = partial.response_id, partial.raw_stop_reason, replace(partial.usage)
        return cls(*made_from, head + b'"content":[', b"]" + tail, usage_json)

    def fits(self, partial: PartialMessage) -> bool:
        """Whether it is still that of the message."""
        return (
            self.usage == partial.usage
            and self.response_id == partial.response_id
            and self.stop_reason == partial.raw_stop_reason
        )


class Updates:
    """Sends the stream of each assistant message as paced `message_update` frames."""

    def __init__(self, output: FrameOutlet, pacing: Pacing, form: Form) -> None:
        self.form: Form = form
        #: Whether the host has filtered out `message_update`.
        self.muted = False
        self._output = output
        self.pacing = pacing
        self._loop = asyncio.get_running_loop()
        self._partial: PartialMessage | None = None
        self._shell: _Shell | None = None
        self._done: dict[int, bytes | AssistantBlock] = {}
        self._done_size = 0
        self._growing: dict[int, _Growing] = {}
        self._pending: tuple[int, list[str]] | None = None
        #: The blocks that have had no delta so far.
        self._fresh: dict[int, bool] = {}
        self._sent_at = 0.0
        self._spent = _Spending()
        self._timer: asyncio.TimerHandle | None = None
        self._awaits_host = False

    def make_sibling(self, output: FrameOutlet) -> Updates:
        """Return an `Updates` for messages that stream at the same time. The two share one rate."""
        updates = Updates(output, self.pacing, self.form)
        updates._spent = self._spent
        return updates

    def begin(self) -> None:
        """Start a new message, and drop what was held back for one that never ended."""
        self._pending = None
        self._partial = None
        self._shell = None
        self._done.clear()
        self._done_size = 0
        self._growing.clear()
        self._fresh.clear()

    def update(self, event: BlockStart | BlockDelta | BlockEnd, partial: PartialMessage) -> None:
        """Send an update of the message, or hold it back to merge it with the next one."""
        if partial is not self._partial:
            self._partial, self._shell = partial, None
        if isinstance(event, BlockDelta):
            self._delta(event)
            return
        self.flush()
        if isinstance(event, BlockStart):
            growing = self._growing[event.index] = _Growing(event.index, event.block)
            self._fresh[event.index] = True
            head = (update_head(b"%s_start" % growing.kind, event.index, start_fields(event.block)),)
        else:
            growing = self._growing.pop(event.index)
            name, value = end_field(event.block)
            # What is too large to be repeated is not kept as JSON.
            is_small = len(value) <= self.pacing.largest
            done = self._done[event.index] = msgspec.json.encode(event.block) if is_small else event.block
            self._done_size += len(done) if isinstance(done, bytes) else len(value)
            head = (update_head(b"%s_end" % growing.kind, event.index, name), value)
        self._send(head, self._loop.time())

    def flush(self) -> None:
        """Send what is held back. Call this before sending anything that must follow it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pending is not None:
            self._send_pending(self._pending, self._loop.time())

    def _send_pending(self, pending: tuple[int, list[str]], now: float) -> None:
        index, parts = pending
        self._pending = None
        growing = self._growing[index]
        delta = parts[0] if len(parts) == 1 else "".join(parts)
        escaped = msgspec.json.encode(delta)
        growing.add(delta, escaped[1:-1])
        self._send((growing.delta_head, escaped), now)
        self._sent_at = now

    def flush_message(self) -> bytes | None:
        """Send what is held back, and return the JSON of the message as the updates so far describe it. None without updates."""
        self.flush()
        if self._partial is None:
            return None
        shell = self._current_shell(self._partial)
        return b"".join((shell.head, b",".join(self._blocks()), shell.tail))

    def _delta(self, event: BlockDelta) -> None:
        if self._pending is None:
            self._pending = (event.index, [event.delta])
        elif self._pending[0] == event.index:
            self._pending[1].append(event.delta)
        else:
            self.flush()
            self._pending = (event.index, [event.delta])
        if self._timer is not None or self._awaits_host:
            return
        due = 0.0 if self._fresh and self._fresh.pop(event.index, False) else self._sent_at + self.pacing.interval
        if self.form == "full" and due < self._spent.until:
            due = self._spent.until
        self._flush_at(due)

    def _flush_at(self, due: float) -> None:
        if self._output.behind:
            # The host is behind: merge deltas until it has caught up.
            self._awaits_host = True
            self._output.call_when_caught_up(self._on_caught_up)
        elif due <= (now := self._loop.time()):
            if self._pending is not None:
                self._send_pending(self._pending, now)
        else:
            self._timer = self._loop.call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._flush_at(0.0)

    def _on_caught_up(self) -> None:
        self._awaits_host = False
        self.flush()

    def _send(self, head: tuple[bytes, ...], now: float) -> None:
        assert self._partial is not None
        if self.muted:
            return
        shell = self._current_shell(self._partial)
        usage = shell.usage_json
        debt = self._spent.until - now
        # Blocks are not even joined for a frame that is not sent, since there may be thousands.
        least_seconds = 2 * self._done_size / self.pacing.rate
        may_be_full = self._done_size <= self.pacing.largest and (debt <= 0 or debt + least_seconds < MOST_DEBT)
        if self.form == "full" and may_be_full:
            content = b",".join(self._blocks())
            if len(content) <= self.pacing.largest:
                message = shell.head, content, shell.tail
                frame = b"".join((*head, b',"partial":', *message, b'},"usage":', usage, b',"message":', *message, b"}\n"))
                seconds = len(frame) / self.pacing.rate
                is_small = self._output.max_frame is None or len(frame) <= self._output.max_frame
                if is_small and (debt <= 0 or debt + seconds < MOST_DEBT):
                    self._output.send(frame)
                    self._spent.until = (now if debt <= 0 else self._spent.until) + seconds
                    return
        self._output.send(b"".join((*head, b'},"usage":', usage, b"}\n")))

    def _current_shell(self, partial: PartialMessage) -> _Shell:
        if self._shell is None or not self._shell.fits(partial):
            self._shell = _Shell.of(partial)
        return self._shell

    def _blocks(self) -> list[bytes]:
        if not self._done and len(self._growing) == 1:
            return [growing.encode() for growing in self._growing.values()]
        return [self._block(index) for index in range(len(self._done) + len(self._growing))]

    def _block(self, index: int) -> bytes:
        done = self._done.get(index)
        if done is None:
            return self._growing[index].encode()
        return done if isinstance(done, bytes) else msgspec.json.encode(done)


class QueueUpdates:
    """Sends `queue_update` frames whose bytes grow with the number of changes, not with its square.

    The family repeats all queued texts after each change. Short updates are sent immediately, and so are longer ones until
    they have used a burst of bytes. After that they are limited to the rate: a newer update replaces one that is held back,
    and the last one is always sent.
    """

    def __init__(self, output: FrameOutlet, pacing: Pacing, send: Callable[[QueueUpdate], int]) -> None:
        self._output = output
        self._pacing = pacing
        #: Sends the frame of an update, and returns its length in bytes.
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._held: QueueUpdate | None = None
        self._spent = _Spending()
        self._timer: asyncio.TimerHandle | None = None
        self._awaits_host = False

    def update(self, event: QueueUpdate) -> None:
        """Send an update, or hold it back."""
        self._held = event
        if event.size <= SHORT_QUEUE:
            self.flush()
        elif self._timer is None and not self._awaits_host:
            self._flush_in_time()

    def flush(self) -> None:
        """Send the update that is held back. Call this before sending anything that must follow it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        event, self._held = self._held, None
        if event is not None:
            self._spent.until = max(self._loop.time(), self._spent.until) + self._send(event) / self._pacing.rate

    def _flush_in_time(self) -> None:
        wait = self._spent.until - self._loop.time() - MOST_DEBT
        if self._output.behind:
            self._awaits_host = True
            self._output.call_when_caught_up(self._on_caught_up)
        elif wait <= 0:
            self.flush()
        else:
            self._timer = self._loop.call_later(wait, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._flush_in_time()

    def _on_caught_up(self) -> None:
        self._awaits_host = False
        if self._held is not None and self._timer is None:
            self._flush_in_time()


def update_head(kind: bytes, index: int, fields: bytes) -> bytes:
    """Return how a `message_update` frame begins, up to the fields of its event."""
    return b'{"type":"message_update","assistantMessageEvent":{"type":"%s","contentIndex":%d%s' % (kind, index, fields)


def start_fields(block: AssistantBlock) -> bytes:
    """Return the fields of the event that starts a block."""
    if isinstance(block, ToolCall):
        return b',"id":%s,"toolName":%s' % (_json(block.id), _json(block.name))
    return b""


def end_field(block: AssistantBlock) -> tuple[bytes, bytes]:
    """Return the field of an end that has the block's content: its name, and its value as JSON."""
    if isinstance(block, ToolCall):
        return b',"toolCall":', msgspec.json.encode(block)
    return b',"content":', _json(block.text if isinstance(block, TextContent) else block.thinking)


def _json(text: str) -> bytes:
    return msgspec.json.encode(text)
