"""The frame for each piece of an assistant message that arrives.

These classes document the frames and read them in a client. The agent writes such frames without them: see
`fairlead.wire.pi.paced_updates`.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import UNSET, Struct, UnsetType

from fairlead.core.messages import AssistantMessage, ToolCall, Usage
from fairlead.protocol.pi.frames import Frame


class Inner(Struct, tag_field="type", rename="camel", kw_only=True):
    content_index: int
    #: The message so far; absent in delta form.
    partial: AssistantMessage | UnsetType = UNSET


class TextStart(Inner, tag="text_start"):
    pass


class TextDelta(Inner, tag="text_delta"):
    delta: str


class TextEnd(Inner, tag="text_end"):
    content: str


class ThinkingStart(Inner, tag="thinking_start"):
    pass


class ThinkingDelta(Inner, tag="thinking_delta"):
    delta: str


class ThinkingEnd(Inner, tag="thinking_end"):
    content: str


class ToolcallStart(Inner, tag="toolcall_start"):
    id: str
    tool_name: str


class ToolcallDelta(Inner, tag="toolcall_delta"):
    """`delta` is part of the arguments as JSON."""

    delta: str


class ToolcallEnd(Inner, tag="toolcall_end"):
    tool_call: ToolCall


InnerEvent: TypeAlias = (
    TextStart | TextDelta | TextEnd | ThinkingStart | ThinkingDelta | ThinkingEnd | ToolcallStart | ToolcallDelta | ToolcallEnd
)


class MessageUpdate(Frame, tag="message_update", kw_only=True):
    """Part of an assistant message arrived. Build the message from the deltas: `message` is absent in delta form."""

    assistant_message_event: InnerEvent
    usage: Usage
    message: AssistantMessage | UnsetType = UNSET
