"""Everything that can happen during a run, as typed values. Not wire frames: a dialect makes those."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from fairlead.core.messages import AssistantMessage, Message, ToolResultMessage
from fairlead.core.model import BlockDelta, BlockEnd, BlockStart, PartialMessage, ThinkingLevel
from fairlead.core.tool import ToolResult


class AgentStart(Struct):
    """A run begins."""


class AgentEnd(Struct):
    """A run ends; `messages` are those it added. With `will_retry`, another attempt follows by itself."""

    messages: list[Message]
    will_retry: bool = False


class AgentSettled(Struct):
    """Nothing more will happen by itself."""


class TurnStart(Struct):
    """One model call, and the tools it asks for, begin."""


class TurnEnd(Struct):
    message: AssistantMessage
    tool_results: list[ToolResultMessage]


class MessageStart(Struct):
    message: Message


class MessageUpdate(Struct):
    """Part of an assistant message arrived. `partial.snapshot()` has all of it so far."""

    event: BlockStart | BlockDelta | BlockEnd
    partial: PartialMessage


class MessageEnd(Struct):
    message: Message


class ToolStart(Struct):
    call_id: str
    tool_name: str
    arguments: dict[str, Any]


class ToolUpdate(Struct):
    call_id: str
    tool_name: str
    arguments: dict[str, Any]
    #: All of the tool's output so far, not only what is new.
    partial: ToolResult


class ToolEnd(Struct):
    call_id: str
    tool_name: str
    result: ToolResult
    is_error: bool


class QueueUpdate(Struct):
    """The texts that wait, after a change of either queue."""

    steering: list[str]
    follow_up: list[str]


class RetryStart(Struct):
    """A model call failed in a way that may pass; after `delay_ms` it is tried again."""

    attempt: int
    max_attempts: int
    delay_ms: int
    error: str


class RetryEnd(Struct):
    """The attempts are over: one of them succeeded, or all failed, or they were called off."""

    success: bool
    attempt: int
    error: str | None = None


class ThinkingLevelChanged(Struct):
    level: ThinkingLevel


class ExtensionError(Struct):
    """User-supplied code failed; the run goes on."""

    extension_path: str
    event: str
    error: str


Event: TypeAlias = (
    AgentStart
    | AgentEnd
    | AgentSettled
    | TurnStart
    | TurnEnd
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolStart
    | ToolUpdate
    | ToolEnd
    | QueueUpdate
    | RetryStart
    | RetryEnd
    | ThinkingLevelChanged
    | ExtensionError
)
