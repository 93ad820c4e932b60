"""Models that an extension calls itself: turns what its generator yields into an answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, TypeAlias, cast

import msgspec

from fairlead.core.messages import ThinkingContent, ToolCall, Usage
from fairlead.core.model import Model, ModelRequest, ModelStream, StreamEvent
from fairlead.core.partial_message import PartialMessage
from fairlead.core.runtime import CancelToken
from fairlead.errors import ProviderError
from fairlead.extend.extensions.calling import error_text
from fairlead.extend.extensions.values import convert

#: Text, thinking, a tool call, or the usage so far.
Piece: TypeAlias = str | ThinkingContent | ToolCall | Usage
#: Asks a model: `async def stream(model, request, cancel)`, which yields pieces.
ProviderStream: TypeAlias = Callable[[Model, ModelRequest, CancelToken], AsyncIterator[Piece]]

#: Returned instead of a piece when the wait for it was cancelled.
_STOPPED = object()


def model_stream(ask: ProviderStream, wrap: Callable[[Any], Any]) -> Callable[[Model], ModelStream]:
    """Return a function that makes the stream of a model from the function of an extension. `wrap` runs each step of it."""

    def of(model: Model) -> ModelStream:
        async def stream(request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
            partial = PartialMessage(model, time.time_ns() // 1_000_000)
            answer = _Answer(partial)
            try:
                pieces = cast("Any", ask(model, request, cancel))
                async with aclosing(pieces):
                    while not cancel.fired:
                        piece = await _next(wrap(pieces.__anext__()), cancel)
                        if piece is _STOPPED:
                            break
                        answer.add(piece)
                        yield partial.take()
                partial.abort() if cancel.fired else answer.finish()
            except StopAsyncIteration:
                answer.finish()
            except ProviderError as error:
                partial.fail(str(error), status=error.status, retry_after=error.retry_after, transient=error.transient)
            except Exception as error:  # what the extension raises ends this answer only
                partial.fail(error_text(error))
            yield partial.take()

        return stream

    return of


async def _next(piece: Any, cancel: CancelToken) -> Any:
    """Return the next piece, or `_STOPPED` if `cancel` fires before it arrives."""
    coming = asyncio.ensure_future(piece)
    forget = cancel.on_fire(coming.cancel)
    try:
        return await coming
    except asyncio.CancelledError:
        if cancel.fired:
            return _STOPPED
        me = asyncio.current_task()
        if me is not None and me.cancelling():
            raise
        raise RuntimeError("It was cancelled, but not by the agent.") from None
    finally:
        forget()


class _Answer:
    """The message while its pieces arrive. Neighbouring pieces of one kind form one block."""

    def __init__(self, partial: PartialMessage) -> None:
        self._partial = partial
        self._blocks = 0
        self._kind: str | None = None
        self._calls = False

    def add(self, piece: Any) -> None:
        partial = self._partial
        if isinstance(piece, ThinkingContent | ToolCall | Usage):
            piece = convert(type(piece), piece, type(piece).__name__)
        match piece:
            case str():
                self._open("text", lambda key: partial.start_text(key))
                partial.add(self._blocks, piece)
            case ThinkingContent():
                self._open("thinking", lambda key: partial.start_thinking(key))
                partial.add(self._blocks, piece.thinking)
                if piece.thinking_signature:
                    partial.sign(self._blocks, piece.thinking_signature)
            case ToolCall():
                self._close()
                self._open("call", lambda key: partial.start_tool_call(key, piece.id, piece.name))
                partial.add(self._blocks, msgspec.json.encode(piece.arguments).decode())
                self._close()
                self._calls = True
            case Usage():
                partial.usage = piece
            case _:
                raise TypeError(f"A stream must yield str, ThinkingContent, ToolCall or Usage, not {type(piece).__name__}.")

    def finish(self) -> None:
        self._partial.finish("toolUse" if self._calls else "stop")

    def _open(self, kind: str, start: Callable[[int], None]) -> None:
        if self._kind == kind:
            return
        self._close()
        self._kind = kind
        self._blocks += 1
        start(self._blocks)

    def _close(self) -> None:
        if self._kind is not None:
            self._partial.end(self._blocks)
            self._kind = None
