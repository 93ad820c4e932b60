"""What a host gets: responses and events. A class is a frame; its docstring is its documentation."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.core.messages import AssistantMessage, Message, ToolCall, ToolResultMessage, Usage
from fairlead.core.model import ThinkingLevel
from fairlead.core.tool import ToolResult


class Frame(Struct, tag_field="type", rename="camel"):
    pass


class Response(Frame, tag="response", kw_only=True):
    """The answer to a command. Either `data` (for commands that have some) or `error`."""

    id: Raw | UnsetType = UNSET
    command: str
    success: bool
    data: Any | UnsetType = UNSET
    error: str | UnsetType = UNSET


class Ready(Frame, tag="ready"):
    """The first frame of omp and xcsh: the agent reads commands."""

    version: str | UnsetType = UNSET


class SessionHeader(Frame, tag="session", kw_only=True):
    """The first line of JSON mode, as of a session file."""

    version: int
    id: str
    timestamp: str
    cwd: str


class RpcChunk(Frame, tag="rpc_chunk", kw_only=True):
    """A piece of a frame that exceeds `--max-frame-bytes`: decode the `data` (base64) of all `count` pieces of a `chunkId`
    and join them; the result is the frame, of `byteLength` bytes."""

    chunk_id: str
    index: int
    count: int
    byte_length: int
    data: str


class AgentStart(Frame, tag="agent_start"):
    """A run begins."""


class AgentEnd(Frame, tag="agent_end", kw_only=True):
    """A run ends. `messages` are those it added. If that exceeds the frame limit they are left out, since each had its
    own `message_end`, and `messageCount` says how many they are."""

    messages: list[Message]
    will_retry: bool | UnsetType = UNSET
    message_count: int | UnsetType = UNSET


class AgentSettled(Frame, tag="agent_settled"):
    """Nothing more will happen by itself."""


class SessionSettled(Frame, tag="session_settled"):
    """omp's name for the same."""


class PromptError(Struct, rename="camel"):
    message: str
    retryable: bool
    provider: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    http_status: int | UnsetType = UNSET


class PromptResult(Frame, tag="prompt_result", kw_only=True):
    """What became of one accepted prompt (omp)."""

    id: Raw | UnsetType = UNSET
    agent_invoked: bool
    status: Literal["completed", "aborted", "error"]
    session_settled: bool
    error: PromptError | UnsetType = UNSET


class TurnStart(Frame, tag="turn_start"):
    """One model call, and the tools it asks for, begin."""


class TurnEnd(Frame, tag="turn_end"):
    """They end."""

    message: AssistantMessage
    tool_results: list[ToolResultMessage]


class MessageStart(Frame, tag="message_start"):
    """A message begins. An assistant's is empty at first."""

    message: Message


class MessageEnd(Frame, tag="message_end"):
    """A message is complete."""

    message: Message


class Inner(Struct, tag_field="type", rename="camel", kw_only=True):
    content_index: int
    #: The message so far; left out in delta form.
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
    """`delta` is a piece of the arguments' JSON."""

    delta: str


class ToolcallEnd(Inner, tag="toolcall_end"):
    tool_call: ToolCall


InnerEvent: TypeAlias = (
    TextStart | TextDelta | TextEnd | ThinkingStart | ThinkingDelta | ThinkingEnd | ToolcallStart | ToolcallDelta | ToolcallEnd
)


class MessageUpdate(Frame, tag="message_update", kw_only=True):
    """Part of an assistant message arrived. The deltas are what to rely on; `message` is left out in delta form."""

    assistant_message_event: InnerEvent
    usage: Usage
    message: AssistantMessage | UnsetType = UNSET


class ToolExecutionStart(Frame, tag="tool_execution_start"):
    """A tool call is about to run."""

    tool_call_id: str
    tool_name: str
    args: dict[str, Any]


class ToolExecutionUpdate(Frame, tag="tool_execution_update"):
    """All of a running tool's output so far, not only what is new."""

    tool_call_id: str
    tool_name: str
    args: dict[str, Any]
    partial_result: ToolResult


class ToolExecutionEnd(Frame, tag="tool_execution_end"):
    """A tool call has its result."""

    tool_call_id: str
    tool_name: str
    result: ToolResult
    is_error: bool


class AutoRetryStart(Frame, tag="auto_retry_start"):
    """A model call failed in a way that may pass; after `delayMs` it is tried again."""

    attempt: int
    max_attempts: int
    delay_ms: int
    error_message: str


class AutoRetryEnd(Frame, tag="auto_retry_end"):
    """The attempts are over: one of them succeeded, or all failed, or they were called off."""

    success: bool
    attempt: int
    final_error: str | UnsetType = UNSET


class QueueUpdate(Frame, tag="queue_update"):
    """The texts of all queued messages, after a change."""

    steering: list[str]
    follow_up: list[str]


class ThinkingLevelChanged(Frame, tag="thinking_level_changed"):
    level: ThinkingLevel


class ExtensionError(Frame, tag="extension_error"):
    """An extension failed; the run goes on."""

    extension_path: str
    event: str
    error: str


FRAMES: tuple[type[Frame], ...] = (
    Response,
    Ready,
    SessionHeader,
    RpcChunk,
    AgentStart,
    AgentEnd,
    AgentSettled,
    SessionSettled,
    PromptResult,
    TurnStart,
    TurnEnd,
    MessageStart,
    MessageUpdate,
    MessageEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    ToolExecutionEnd,
    AutoRetryStart,
    AutoRetryEnd,
    QueueUpdate,
    ThinkingLevelChanged,
    ExtensionError,
)
