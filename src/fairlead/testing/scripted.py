"""A model in this process that plays given turns, for tests and demonstrations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

import msgspec
from msgspec import Struct

from fairlead.core.messages import StopReason, ToolCall, Usage
from fairlead.core.model import Model, ModelRequest, Price, StreamEvent
from fairlead.core.partial_message import PartialMessage
from fairlead.core.runtime import CancelToken

SCRIPTED_MODEL = Model(
    id="scripted-1",
    name="Scripted",
    api="scripted",
    provider="scripted",
    base_url="",
    reasoning=True,
    input=["text", "image"],
    cost=Price(input=3, output=15, cache_read=0.3, cache_write=3.75),
    context_window=200_000,
    max_tokens=16_384,
)


class Turn(Struct, frozen=True, kw_only=True):
    """One answer: thinking, then text, then tool calls, in pieces of `chunk` characters."""

    thinking: str = ""
    text: str = ""
    tool_calls: list[ToolCall] = []
    #: By default "toolUse" if there are tool calls, else "stop".
    stop_reason: StopReason | None = None
    usage: Usage = msgspec.field(default_factory=lambda: Usage(input=100, output=50))
    #: Fail with this text after everything else has been sent.
    error: str | None = None
    status: int | None = None
    retry_after: float | None = None
    transient: bool = False
    chunk: int = 8
    #: Awaited before each piece, for example a sleep or a wait for a test's signal. An abort cuts it short.
    pause: Callable[[], Awaitable[object]] | None = None


class Scripted:
    """Answers request k with turn k, and repeats the last turn after that. `requests` holds the requests it got."""

    def __init__(self, turns: Sequence[Turn], *, model: Model = SCRIPTED_MODEL, now_ms: Callable[[], int] | None = None) -> None:
        if not turns:
            raise ValueError("a script needs at least one turn")
        self.requests: list[ModelRequest] = []
        self._turns = turns
        self._model = model
        self._now_ms = now_ms or _now_ms

    async def __call__(self, request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
        turn = self._turns[min(len(self.requests), len(self._turns) - 1)]
        # A copy, since the caller's list grows with the conversation.
        self.requests.append(msgspec.structs.replace(request, messages=list(request.messages)))
        partial = PartialMessage(self._model, self._now_ms())
        partial.usage = msgspec.structs.replace(turn.usage)
        partial.response_id = f"scripted-{len(self.requests)}"
        for piece in _pieces(turn):
            if turn.pause is not None:
                await _until_done_or_cancelled(turn.pause(), cancel)
            if cancel.fired:
                break
            piece.add_to(partial)
            yield partial.take()
        if cancel.fired:
            partial.abort()
        elif turn.error is not None:
            partial.fail(turn.error, status=turn.status, retry_after=turn.retry_after, transient=turn.transient)
        else:
            partial.finish(turn.stop_reason or ("toolUse" if turn.tool_calls else "stop"))
        yield partial.take()


class _BlockPiece(Struct):
    """A piece of one block. The first piece starts the block and the last one ends it."""

    key: int
    block: str | ToolCall
    text: str
    is_first: bool
    is_last: bool

    def add_to(self, partial: PartialMessage) -> None:
        if self.is_first:
            if isinstance(self.block, ToolCall):
                partial.start_tool_call(self.key, self.block.id, self.block.name)
            elif self.block == "thinking":
                partial.start_thinking(self.key)
            else:
                partial.start_text(self.key)
        partial.add(self.key, self.text)
        if self.is_last:
            if self.block == "thinking":
                partial.sign(self.key, "scripted")
            partial.end(self.key)


def _pieces(turn: Turn) -> Iterator[_BlockPiece]:
    blocks: list[tuple[str | ToolCall, str]] = [("thinking", turn.thinking), ("text", turn.text)]
    blocks += [(call, msgspec.json.encode(call.arguments).decode()) for call in turn.tool_calls]
    for key, (block, text) in enumerate(blocks):
        for start in range(0, len(text), turn.chunk):
            end = start + turn.chunk
            yield _BlockPiece(key, block, text[start:end], start == 0, end >= len(text))


async def _until_done_or_cancelled(pause: Awaitable[object], cancel: CancelToken) -> None:
    pausing = asyncio.ensure_future(pause)
    forget = cancel.on_fire(pausing.cancel)
    try:
        await pausing
    except asyncio.CancelledError:
        if not cancel.fired:
            raise
    finally:
        forget()


def _now_ms() -> int:
    import time

    return time.time_ns() // 1_000_000
