"""The events of an answer that is streamed: its blocks begin, grow piece by piece, and end."""

from __future__ import annotations

from msgspec import Struct

from fairlead.core.messages import TextContent, ThinkingContent, ToolCall
from fairlead.core.model import BlockDelta, BlockEnd, BlockStart
from fairlead.core.partial_message import PartialMessage


class MessageUpdate(Struct, frozen=True):
    """A part of an assistant message has arrived. `partial.snapshot()` returns the whole message so far.

    Each update is one of the subclasses below: a block starts, grows or ends. (`entry`, `offset`) is a position, from which
    `Agent.events` continues after this update.
    """

    event: BlockStart | BlockDelta | BlockEnd
    partial: PartialMessage
    #: The number of the last entry of the session when the message began.
    entry: int = 0
    #: How many characters of the message have arrived, with this update.
    offset: int = 0


class BlockStarted(MessageUpdate, frozen=True):
    """A block of text, thinking or a tool call starts. `event.block` is the block, still empty."""

    event: BlockStart
    partial: PartialMessage


class _BlockGrown(MessageUpdate, frozen=True):
    event: BlockDelta
    partial: PartialMessage


class TextDelta(_BlockGrown, frozen=True):
    """The model has written more text."""

    @property
    def text(self) -> str:
        """The new text alone."""
        return self.event.delta


class ThinkingDelta(_BlockGrown, frozen=True):
    """The model has thought further."""

    @property
    def thinking(self) -> str:
        """The new thinking alone."""
        return self.event.delta


class ToolArgumentsDelta(_BlockGrown, frozen=True):
    """The model has written more of the arguments of a tool call."""

    @property
    def json(self) -> str:
        """The new piece of JSON alone. It is rarely complete: `ToolStart` has the arguments as values."""
        return self.event.delta


class BlockEnded(MessageUpdate, frozen=True):
    """A block is complete. `event.block` is the whole block."""

    event: BlockEnd
    partial: PartialMessage


_GROWN: dict[type, type[_BlockGrown]] = {
    TextContent: TextDelta,
    ThinkingContent: ThinkingDelta,
    ToolCall: ToolArgumentsDelta,
}


class UpdateMaker:
    """Makes the updates of one message. It finds the type of a block once, not for every piece of it.

    `entry` is the number of the last entry of the session.
    """

    __slots__ = ("_grown", "_index", "ended", "entry", "is_interleaved", "offset", "partial", "starts")

    def __init__(self, partial: PartialMessage, entry: int = 0) -> None:
        self.partial = partial
        self.entry = entry
        #: How many characters the updates so far have, and how many they had when each block began.
        self.offset = 0
        self.starts: list[int] = []
        #: The blocks that have ended.
        self.ended: set[int] = set()
        #: Whether a block grew after a later one had begun. An offset then does not say how much of each block has arrived.
        self.is_interleaved = False
        self._index = -1
        self._grown: type[_BlockGrown] = TextDelta

    def __call__(self, event: BlockStart | BlockDelta | BlockEnd) -> MessageUpdate:
        if isinstance(event, BlockDelta):
            if event.index != self._index:
                self._index = event.index
                self._grown = _GROWN[self.partial.block_type(event.index)]
                self.is_interleaved = self.is_interleaved or event.index != len(self.starts) - 1
            self.offset += len(event.delta)
            return self._grown(event, self.partial, self.entry, self.offset)
        if isinstance(event, BlockStart):
            self.starts.append(self.offset)
            self._index = -1
            return BlockStarted(event, self.partial, self.entry, self.offset)
        self.ended.add(event.index)
        return BlockEnded(event, self.partial, self.entry, self.offset)

    def since(self, offset: int) -> list[MessageUpdate]:
        """Return updates with everything that arrived after the first `offset` characters.

        If the message `is_interleaved`, only the offset 0 is valid.
        """
        made: list[MessageUpdate] = []
        ends = [*self.starts[1:], self.offset]
        for index, (start, end) in enumerate(zip(self.starts, ends, strict=True)):
            block = self.partial.block(index)
            if start >= offset:
                made.append(BlockStarted(BlockStart(index, block), self.partial, self.entry, start))
            whole = self.partial.text_of(index)
            text = whole if self.is_interleaved else whole[max(0, offset - start) : end - start]
            if text:
                grown = _GROWN[type(block)](BlockDelta(index, text), self.partial, self.entry, end)
                made.append(grown)
            if index in self.ended and end >= offset:
                made.append(BlockEnded(BlockEnd(index, self.partial.block(index, whole=True)), self.partial, self.entry, end))
        return made
