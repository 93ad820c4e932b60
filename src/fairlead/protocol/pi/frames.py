"""What a host gets: responses and events. A class is a frame; its docstring is its documentation."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.core.events import CompactionReason, CompactionResult
from fairlead.core.messages import AssistantMessage, Message, ToolCall, ToolResultMessage, Usage
from fairlead.core.model import ThinkingLevel
from fairlead.core.subagents import LifecyclePayload, ProgressPayload
from fairlead.core.tool import ToolResult

#: The version of omp's protocol in which frames are bounded, and the bound: of a frame, and of one put together from chunks.
#: omp's client chooses that version only where these are the bounds.
BOUNDED_VERSION, BOUND, REASSEMBLED_BOUND = 2, 1 << 20, 64 << 20


class Frame(Struct, tag_field="type", rename="camel"):
    pass


class Response(Frame, tag="response", kw_only=True):
    """The answer to a command. Either `data` (for commands that have some) or `error`."""

    id: Raw | UnsetType = UNSET
    command: str
    success: bool
    data: Any | UnsetType = UNSET
    error: str | UnsetType = UNSET
    #: A short name of the error, for those that programs are expected to tell apart.
    code: str | UnsetType = UNSET


class Ready(Frame, tag="ready"):
    """The first frame of omp and xcsh: the agent reads commands. Which fields it has beside depends on the dialect."""

    version: str | UnsetType = UNSET
    protocol_version: int | UnsetType = UNSET
    #: What `negotiate_protocol` accepts, and the version that needs none.
    supported_protocol_versions: list[int] | UnsetType = UNSET
    #: The longest frame in version 2.
    max_frame_bytes: int | UnsetType = UNSET
    #: The longest one that is put together from `rpc_chunk` frames.
    max_reassembled_frame_bytes: int | UnsetType = UNSET


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
    """A tool call has its result; pi in 2025 has the text alone, if it failed."""

    tool_call_id: str
    tool_name: str
    result: ToolResult | str
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


class CompactionStart(Frame, tag="compaction_start"):
    """The older part of the conversation is being replaced by a summary (pi)."""

    reason: CompactionReason


class CompactionEnd(Frame, tag="compaction_end", kw_only=True):
    """It was replaced, or, without a `result`, is as it was. With `willRetry` the run goes on (pi)."""

    reason: CompactionReason
    aborted: bool
    will_retry: bool
    result: CompactionResult | UnsetType = UNSET
    error_message: str | UnsetType = UNSET


class AutoCompactionStart(Frame, tag="auto_compaction_start"):
    """The same in omp and xcsh, which are told of automatic compactions only."""

    reason: CompactionReason
    action: str = "context-full"


class AutoCompactionEnd(Frame, tag="auto_compaction_end", kw_only=True):
    """The same in omp and xcsh."""

    action: str = "context-full"
    aborted: bool
    will_retry: bool
    result: CompactionResult | UnsetType = UNSET
    error_message: str | UnsetType = UNSET


class BashExecutionUpdate(Frame, tag="bash_execution_update", kw_only=True):
    """New output of a `bash` command of the host's; `id` is that command's."""

    id: Raw | UnsetType = UNSET
    delta: str


class HostToolCall(Frame, tag="host_tool_call"):
    """The model calls a tool of the host's. The arguments satisfy the tool's schema. Answer with `host_tool_result`."""

    id: str
    tool_call_id: str
    tool_name: str
    arguments: dict[str, Any]


class HostToolCancel(Frame, tag="host_tool_cancel"):
    """The `host_tool_call` with the id `targetId` has been given up: the run was aborted, or the tool's time is over. An answer
    comes too late from here on, and is ignored."""

    id: str
    target_id: str


class HostUriRequest(Frame, tag="host_uri_request"):
    """The model reads, or writes `content` to, a URI of the host's. Answer with `host_uri_result`."""

    id: str
    operation: Literal["read", "write"]
    url: str
    content: str | UnsetType = UNSET


class HostUriCancel(Frame, tag="host_uri_cancel"):
    """The `host_uri_request` with the id `targetId` has been given up."""

    id: str
    target_id: str


class TtsrTriggered(Frame, tag="ttsr_triggered"):
    """What the model wrote broke these stream rules. The answer ends here; the model is told and asked again."""

    rules: list[dict[str, Any]]


class TodoReminder(Frame, tag="todo_reminder"):
    """The model stopped although there is something left to do. It is told so, and the run goes on."""

    todos: list[dict[str, Any]]
    attempt: int
    max_attempts: int


class TodoAutoClear(Frame, tag="todo_auto_clear"):
    """Todos that had been done for a while went from the list."""


class EntryAppended(Frame, tag="entry_appended"):
    """The session has an entry that no other event tells of, such as one that hides a failed answer from the model."""

    entry: dict[str, Any] | Raw


class SessionInfoChanged(Frame, tag="session_info_changed"):
    """The session has another name."""

    name: str | UnsetType


class QueueUpdate(Frame, tag="queue_update"):
    """The texts of all queued messages, after a change. While they are long, changes that follow each other closely share one."""

    steering: list[str]
    follow_up: list[str]


class ThinkingLevelChanged(Frame, tag="thinking_level_changed"):
    level: ThinkingLevel


class SubagentLifecycle(Frame, tag="subagent_lifecycle"):
    """A sub-agent started or ended. Sent to hosts that asked for it with `set_subagent_subscription`."""

    payload: LifecyclePayload


class SubagentProgress(Frame, tag="subagent_progress"):
    """What a sub-agent has done so far: five times a second at most, and once more at its end. Sent on request only."""

    payload: ProgressPayload


class SubagentEventPayload(Struct):
    id: str
    #: The frame, as it would be if the sub-agent's run were that of the session itself.
    event: dict[str, Any]


class SubagentEvent(Frame, tag="subagent_event"):
    """Something happened in the run of a sub-agent. Sent on request only."""

    payload: SubagentEventPayload


class ExtensionError(Frame, tag="extension_error"):
    """An extension failed; the run goes on. `extensionPath` is `session` when the session itself has something to report: its
    file could not be written (`event` is `write`; what could not be written is kept and tried again), or something was wrong
    with the file that was opened (`open`)."""

    extension_path: str
    event: str
    error: str
