"""Builds an assistant message from a provider's stream, with the events that report it.

An adapter (see `fairlead.models`) feeds a `PartialMessage`. After each network read it yields `PartialMessage.take()`: the events
since the last read, with neighbouring deltas merged. The cost grows linearly with the length of the answer.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, cast

import jiter
import msgspec

from fairlead.core import lenient
from fairlead.core.messages import (
    AssistantBlock,
    AssistantMessage,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolCall,
    Usage,
)
from fairlead.core.model import BlockDelta, BlockEnd, BlockStart, Model, StreamEnd, StreamEvent, StreamStart
from fairlead.core.secrets import redacted
from fairlead.errors import ProviderError

ABORTED = "Request was aborted"


#: The most blocks of one message. No model writes so many; a stream that starts blocks without end would fill the memory.
MOST_BLOCKS = 4096

#: How many pieces are joined.
_SHORT_PIECES = 64


class _Pieces:
    """A text that is arriving. A string of a few characters takes ten times their memory, so pieces are joined."""

    __slots__ = ("_long", "_short")

    def __init__(self) -> None:
        self._long: list[str] = []
        self._short: list[str] = []

    def append(self, piece: str) -> None:
        self._short.append(piece)
        if len(self._short) == _SHORT_PIECES:
            self._long.append("".join(self._short))
            self._short.clear()

    def text(self) -> str:
        text = "".join((*self._long, *self._short))
        self._long, self._short = [text], []
        return text


class _OpenBlock:
    __slots__ = ("append", "block", "ended", "half", "index", "signature", "text")

    def __init__(self, index: int, block: AssistantBlock) -> None:
        self.index = index
        self.block = block
        pieces = _Pieces()
        self.append, self.text = pieces.append, pieces.text
        self.signature: _Pieces | None = None
        #: The first half of a surrogate pair. The other half may come with the next piece.
        self.half = ""
        self.ended = False

    def mend(self, piece: str) -> str:
        """What `piece` adds to the block as valid Unicode: halves of a surrogate pair are joined, or become U+FFFD."""
        if not self.half and piece.isascii():
            return piece
        piece, self.half = self.half + piece, ""
        if "\ud800" <= piece[-1] <= "\udbff":
            piece, self.half = piece[:-1], piece[-1]
        return lenient.scrub_text(piece)


class PartialMessage:
    """An assistant message that is arriving.

    Adapters name blocks by the provider's keys. Their order in the message is the order in which they start. A block of text or
    thinking is the sum of its deltas.
    """

    def __init__(self, model: Model, timestamp: int) -> None:
        self.model = model
        self.usage = Usage()
        self.response_id: str | None = None
        self.finished: StreamEnd | None = None
        #: Why the message ended, in the words of the provider.
        self.raw_stop_reason: str | None = None
        #: How often something has been added to the message, apart from the pieces that are pending.
        self._grown = 0
        self._timestamp = timestamp
        self._blocks: list[_OpenBlock] = []
        self._by_key: dict[Hashable, _OpenBlock] = {}
        self._open: dict[Hashable, _OpenBlock] = {}
        self._events: list[StreamEvent] = []
        #: The pieces that have arrived for one block since the last event.
        self._pending: tuple[_OpenBlock, list[str]] | None = None
        self._opened = False

    # For adapters

    def open(self) -> None:
        """Emit `StreamStart`. Adapters call this when the id and the usage at the start of the message are known."""
        if not self._opened:
            self._opened = True
            self._events.append(StreamStart(self.shell(), self))

    def start_text(self, key: Hashable) -> None:
        self._start(key, TextContent(""))

    def start_thinking(self, key: Hashable, *, redacted: bool = False) -> None:
        self._start(key, ThinkingContent("", redacted=redacted))

    def start_tool_call(self, key: Hashable, id: str, name: str) -> None:
        self._start(key, ToolCall(id, name, {}))

    def has(self, key: Hashable) -> bool:
        return key in self._by_key

    def block_type(self, index: int) -> type[AssistantBlock]:
        """The type of the block with this index."""
        return type(self._blocks[index].block)

    def is_open(self, key: Hashable) -> bool:
        return key in self._open

    @property
    def growth(self) -> int:
        """A number that increases with everything that adds to the message."""
        return self._grown if self._pending is None else self._grown + len(self._pending[1])

    def add(self, key: Hashable, delta: str) -> None:
        """Add text, thinking or argument JSON. Halves of a surrogate pair in neighbouring deltas are joined.

        After a block's end only arguments are still added, without an event: a provider that writes several calls at the same
        time ends them one by one, and their arguments are parsed when the message is complete.
        """
        if not delta:
            return
        block = self._by_key[key]
        if self._pending is not None and self._pending[0] is block:
            self._pending[1].append(delta)
        elif not block.ended or isinstance(block.block, ToolCall):
            if self._pending is not None:
                self._flush()
            self._pending = (block, [delta])

    def sign(self, key: Hashable, signature: str) -> None:
        """Set the provider's signature of a block, or append to it."""
        block = self._by_key[key]
        block.signature = block.signature or _Pieces()
        block.signature.append(signature)
        self._grown += bool(signature)

    def end(self, key: Hashable) -> None:
        block = self._open.pop(key, None)
        if block is None:
            return
        self._flush()
        self._end_half(block)
        block.ended = True
        self._events.append(BlockEnd(block.index, _complete(block)[0]))

    def end_open_blocks(self) -> None:
        for key in list(self._open):
            self.end(key)

    def finish(self, stop_reason: StopReason, raw: str | None = None) -> None:
        """End the message: the provider says that it is complete. `raw` is the reason in the words of the provider."""
        self.raw_stop_reason = raw
        self.open()
        self.end_open_blocks()
        self._end(stop_reason, None)

    def fail(self, error: str, *, status: int | None = None, retry_after: float | None = None, transient: bool = False) -> None:
        """End the message with an error, and keep what has arrived. Secrets in the error are redacted."""
        self._end("error", redacted(error), status=status, retry_after=retry_after, transient=transient)

    def abort(self) -> None:
        """End the message because the run was aborted, and keep what has arrived."""
        self._end("aborted", ABORTED)

    def take(self) -> list[StreamEvent]:
        """Return the events since the last call."""
        if self._pending is not None:
            self._flush()
        events, self._events = self._events, []
        return events

    # For readers

    def text_of(self, index: int) -> str:
        """Return the text, thinking or argument JSON of a block so far."""
        return self._blocks[index].text()

    def block(self, index: int, *, whole: bool = False) -> AssistantBlock:
        """Return a copy of a block as it began, or as a `whole`."""
        opened = self._blocks[index]
        return _complete(opened, strict=False)[0] if whole else msgspec.structs.replace(opened.block)

    def snapshot(self) -> AssistantMessage:
        """Return a copy of the message so far. The cost is linear in its length."""
        self._flush()
        content = [_complete(block, strict=False)[0] for block in self._blocks]
        return self._message(content, "stop")

    def shell(self) -> AssistantMessage:
        """Return the message so far, without its content."""
        return self._message([], "stop")

    # Inside

    def _start(self, key: Hashable, block: AssistantBlock) -> None:
        if len(self._blocks) >= MOST_BLOCKS:
            raise too_many("blocks")
        self.open()
        self._flush()
        self._grown += 1
        opened = _OpenBlock(len(self._blocks), block)
        self._blocks.append(opened)
        self._by_key[key] = self._open[key] = opened
        self._events.append(BlockStart(opened.index, msgspec.structs.replace(block)))

    def _flush(self) -> None:
        if self._pending is not None:
            block, pieces = self._pending
            self._pending = None
            self._grown += len(pieces)
            self._append(block, block.mend(pieces[0] if len(pieces) == 1 else "".join(pieces)))

    def _append(self, block: _OpenBlock, delta: str) -> None:
        if delta:
            block.append(delta)
            if not block.ended:
                self._events.append(BlockDelta(block.index, delta))

    def _end_half(self, block: _OpenBlock) -> None:
        """Replace half of a surrogate pair whose other half did not come."""
        if block.half:
            self._append(block, lenient.scrub_text(block.half))
            block.half = ""

    def _end(
        self,
        stop_reason: StopReason,
        error: str | None,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        transient: bool = False,
    ) -> None:
        if self.finished is not None:
            return
        self._flush()
        content: list[AssistantBlock] = []
        bad: dict[str, str] = {}
        for opened in self._blocks:
            self._end_half(opened)
            block, problem = _complete(opened)
            content.append(block)
            if problem is not None and isinstance(block, ToolCall):
                bad[block.id] = problem
        message = self._message(content, stop_reason, error)
        self.finished = StreamEnd(message, bad, status, retry_after, transient)
        self._events.append(self.finished)

    def _message(self, content: list[AssistantBlock], stop_reason: StopReason, error: str | None = None) -> AssistantMessage:
        model = self.model
        usage = model.fill_in_cost(msgspec.structs.replace(self.usage))
        return AssistantMessage(
            content,
            model.api,
            model.provider,
            model.id,
            usage,
            stop_reason,
            self._timestamp,
            self.response_id,
            error,
            self.raw_stop_reason,
        )


def too_many(what: str) -> ProviderError:
    """Return the error for an answer with more than MOST_BLOCKS of something."""
    return ProviderError(f"The provider started more than {MOST_BLOCKS:,} {what}; the answer was cut off.")


def _complete(opened: _OpenBlock, *, strict: bool = True) -> tuple[AssistantBlock, str | None]:
    """The block with everything that has arrived for it, and the raw arguments if they are not a JSON object."""
    block = msgspec.structs.replace(opened.block)
    text = opened.text()
    if opened.signature is not None:
        _set_signature(block, opened.signature.text())
    if isinstance(block, TextContent):
        block.text = text
    elif isinstance(block, ThinkingContent):
        block.thinking = text
    else:
        arguments = parse_arguments(text) if strict else preview_arguments(text)
        if arguments is None:
            return block, text
        block.arguments = dict(arguments)
    return block, None


def _set_signature(block: AssistantBlock, signature: str) -> None:
    if isinstance(block, ThinkingContent):
        block.thinking_signature = signature
    elif isinstance(block, TextContent):
        block.text_signature = signature
    else:
        block.thought_signature = signature


def parse_arguments(text: str) -> Mapping[str, Any] | None:
    """Parse a tool call's arguments strictly: None unless they are a JSON object. An empty text means no arguments."""
    if not text.strip():
        return {}
    try:
        value: Any = lenient.decode(text)
    except ValueError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def preview_arguments(text: str) -> Mapping[str, Any]:
    """Parse as much of unfinished arguments as possible, for display only."""
    try:
        value: Any = jiter.from_json(text.encode("utf-8", "replace"), partial_mode="trailing-strings", allow_inf_nan=False)
    except ValueError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
