"""What updates of a message add up to: the message so far, and fewer updates for a slow reader."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.client.event_base import Event, merged_copy
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

    def merged(self, last: Event, text: str) -> Event:
        if not isinstance(last, MessageUpdate):
            return last
        return merged_copy(last, assistant_message_event=msgspec.structs.replace(last.assistant_message_event, delta=text))


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
            from fairlead.core.partial_message import preview_arguments

            return ToolCall(call.id, call.name, dict(preview_arguments(text)))
