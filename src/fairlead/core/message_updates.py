"""The events of an answer that is streamed: its blocks begin, grow piece by piece, and end."""

from __future__ import annotations

from msgspec import Struct

from fairlead.core.messages import TextContent, ThinkingContent, ToolCall
from fairlead.core.model import BlockDelta, BlockEnd, BlockStart
from fairlead.core.partial_message import PartialMessage


class MessageUpdate(Struct, frozen=True):
    """A part of an assistant message has arrived. `partial.snapshot()` returns the whole message so far.

    Each update is one of the subclasses below: a block starts, grows or ends.
    """

    event: BlockStart | BlockDelta | BlockEnd
    partial: PartialMessage


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
    """Makes the updates of one message. It finds the type of a block once, not for every piece of it."""

    __slots__ = ("_grown", "_index", "partial")

    def __init__(self, partial: PartialMessage) -> None:
        self.partial = partial
        self._index = -1
        self._grown: type[_BlockGrown] = TextDelta

    def __call__(self, event: BlockStart | BlockDelta | BlockEnd) -> MessageUpdate:
        if isinstance(event, BlockDelta):
            if event.index != self._index:
                self._index = event.index
                self._grown = _GROWN[self.partial.block_type(event.index)]
            return self._grown(event, self.partial)
        return BlockStarted(event, self.partial) if isinstance(event, BlockStart) else BlockEnded(event, self.partial)
