"""The frames that a host receives: responses and events. A class declares a frame, its fields and its documentation.

`fairlead.protocol.pi.update_frames` declares the pieces of a message that arrives.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.core.events import CompactionReason, CompactionResult, SummarySource
from fairlead.core.messages import AssistantMessage, Message, ToolResultMessage, Usage, UserBlock
from fairlead.core.model import Model, ThinkingLevel, ToolSpec
from fairlead.core.queues import InterruptMode, QueueMode
from fairlead.core.snapshots import LifecyclePayload, ProgressPayload

#: The version of omp's protocol that limits frames, the longest frame, and the longest frame assembled from chunks.
#: omp's client chooses that version only if the limits are these.
BOUNDED_VERSION, BOUND, REASSEMBLED_BOUND = 2, 1 << 20, 64 << 20


class Frame(Struct, tag_field="type", rename="camel"):
    pass


class Response(Frame, tag="response", kw_only=True):
    """The response to a command, with `data` (if the command has any) or `error`."""

    id: Raw | UnsetType = UNSET
    command: str
    success: bool
    data: Any | UnsetType = UNSET
    error: str | UnsetType = UNSET
    #: A short name, for errors that programs need to tell apart.
    code: str | UnsetType = UNSET


# The data of the responses to `get_state` and `get_session_stats`


class ContextUsage(Struct, rename="camel"):
    """How full the model's context is. Null while that is unknown."""

    tokens: int | None
    context_window: int
    percent: float | None


class Tokens(Struct, rename="camel"):
    input: int
    output: int
    cache_read: int
    cache_write: int
    total: int


class SessionStats(Struct, rename="camel", kw_only=True):
    """Totals of the conversation. `cost` is in US dollars."""

    session_id: str
    user_messages: int
    assistant_messages: int
    tool_calls: int
    tool_results: int
    total_messages: int
    tokens: Tokens
    cost: float
    session_file: str | UnsetType = UNSET
    context_usage: ContextUsage | UnsetType = UNSET


class RpcSessionState(Struct, rename="camel", kw_only=True):
    model: Model | None
    is_streaming: bool
    #: True if nothing more will happen until the host sends something.
    is_settled: bool
    is_compacting: bool
    steering_mode: QueueMode
    follow_up_mode: QueueMode
    interrupt_mode: InterruptMode
    session_id: str
    auto_compaction_enabled: bool
    message_count: int
    pending_message_count: int
    queued_message_count: int
    todo_phases: list[Any]
    context_usage: ContextUsage | UnsetType = UNSET
    thinking_level: ThinkingLevel | UnsetType = UNSET
    #: As `set_fast_mode` has left it, and whether requests are made with it (omp).
    fast_mode_enabled: bool | UnsetType = UNSET
    fast_mode_active: bool | UnsetType = UNSET
    session_file: str | UnsetType = UNSET
    session_name: str | UnsetType = UNSET
    system_prompt: str | UnsetType = UNSET
    dump_tools: list[ToolSpec] | UnsetType = UNSET


# Events


class Ready(Frame, tag="ready"):
    """The first frame in omp and xcsh: the agent accepts commands. The other fields depend on the dialect."""

    version: str | UnsetType = UNSET
    protocol_version: int | UnsetType = UNSET
    #: The versions that `negotiate_protocol` accepts. The first one is in force until then.
    supported_protocol_versions: list[int] | UnsetType = UNSET
    #: The longest frame in version 2.
    max_frame_bytes: int | UnsetType = UNSET
    #: The longest frame that is assembled from `rpc_chunk` frames.
    max_reassembled_frame_bytes: int | UnsetType = UNSET


class RpcChunk(Frame, tag="rpc_chunk", kw_only=True):
    """Part of a frame that exceeds `--max-frame-bytes`. Decode the `data` (base64) of all `count` chunks with the same `chunkId`
    and join them in the order of `index`. The result is the frame, `byteLength` bytes long."""

    chunk_id: str
    index: int
    count: int
    byte_length: int
    data: str


class AgentStart(Frame, tag="agent_start"):
    """A run started."""


class AgentEnd(Frame, tag="agent_end", kw_only=True):
    """A run ended. `messages` are the messages that it added. If they exceed the frame limit, the list is empty and
    `messageCount` has their number: each of them had its own `message_end`."""

    messages: list[Message]
    will_retry: bool | UnsetType = UNSET
    #: Always true: the end of a run is held back until nothing more will happen (omp).
    is_terminal: bool | UnsetType = UNSET
    message_count: int | UnsetType = UNSET


class AgentSettled(Frame, tag="agent_settled"):
    """The work is over. Nothing more will happen until the host sends something. `aborted` says whether the run was cut off: by
    `abort`, by another session or by a compaction."""

    aborted: bool


class SessionSettled(Frame, tag="session_settled"):
    """The name that omp has for `agent_settled`."""


class PromptError(Struct, rename="camel"):
    message: str
    retryable: bool
    provider: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    http_status: int | UnsetType = UNSET


class PromptResult(Frame, tag="prompt_result", kw_only=True):
    """How one accepted prompt ended (omp)."""

    id: Raw | UnsetType = UNSET
    agent_invoked: bool
    status: Literal["completed", "aborted", "error"]
    session_settled: bool
    error: PromptError | UnsetType = UNSET


class TurnStart(Frame, tag="turn_start"):
    """A turn started: one model call and the tools that it asks for."""


class TurnEnd(Frame, tag="turn_end"):
    """The turn ended."""

    message: AssistantMessage
    tool_results: list[ToolResultMessage]


class MessageStart(Frame, tag="message_start"):
    """A message started. An assistant message is empty at first."""

    message: Message


class MessageEnd(Frame, tag="message_end"):
    """A message is complete."""

    message: Message


class ToolExecutionStart(Frame, tag="tool_execution_start"):
    """A tool call is about to run."""

    tool_call_id: str
    tool_name: str
    args: dict[str, Any]
    #: The call that this one was made for, if a tool made it.
    parent_tool_call_id: str | UnsetType = UNSET


class ToolResult(Struct, omit_defaults=True):
    """What a tool returns: `content` for the model, `details` for the host."""

    content: list[UserBlock]
    details: Any = None


class ToolExecutionUpdate(Frame, tag="tool_execution_update"):
    """The whole output of a running tool so far, not only the new part."""

    tool_call_id: str
    tool_name: str
    args: dict[str, Any]
    partial_result: ToolResult
    #: The call that this one was made for, if a tool made it.
    parent_tool_call_id: str | UnsetType = UNSET


class ToolOutcome(Struct, rename="camel"):
    """The result of a tool call. `structuredContent` is the whole result as data, for hosts of pi 1.5 and for tools that have one
    (bash, read, tools of MCP servers and of extensions). `isError` is there if the tool did its work and called the result an
    error."""

    content: list[UserBlock]
    details: Any = UNSET
    structured_content: Any = UNSET
    is_error: bool | UnsetType = UNSET
    #: The model need not be asked again, if all results of the turn say so.
    terminate: bool | UnsetType = UNSET
    #: What model calls of the tool have used.
    usage: Usage | UnsetType = UNSET


class ToolExecutionEnd(Frame, tag="tool_execution_end"):
    """A tool call ended. Without `durationMs`, the tool did not run. In pi-2025 the `result` of a failed call is its text."""

    tool_call_id: str
    tool_name: str
    result: ToolOutcome | str
    is_error: bool
    duration_ms: int | UnsetType = UNSET
    #: The call that this one was made for, if a tool made it.
    parent_tool_call_id: str | UnsetType = UNSET


class AutoRetryStart(Frame, tag="auto_retry_start"):
    """A model call failed with an error that may be temporary. fairlead tries again after `delayMs`."""

    attempt: int
    max_attempts: int
    delay_ms: int
    error_message: str


class AutoRetryEnd(Frame, tag="auto_retry_end"):
    """The retries are over: one succeeded, all failed, or the host cancelled them."""

    success: bool
    attempt: int
    final_error: str | UnsetType = UNSET


class SummarizationRetryScheduled(Frame, tag="summarization_retry_scheduled"):
    """A request for a summary failed with an error that may be temporary. fairlead tries again after `delayMs` (pi)."""

    attempt: int
    max_attempts: int
    delay_ms: int
    error_message: str


class SummarizationRetryAttemptStart(Frame, tag="summarization_retry_attempt_start"):
    """A request for a summary is sent again. `reason` is that of the compaction, if the summary is for one (pi)."""

    source: SummarySource
    reason: CompactionReason | UnsetType = UNSET


class SummarizationRetryFinished(Frame, tag="summarization_retry_finished"):
    """The retries for a summary are over: one succeeded, all failed, or the host cancelled them (pi)."""


class CompactionStart(Frame, tag="compaction_start"):
    """A compaction started: a summary will replace the older part of the conversation (pi)."""

    reason: CompactionReason


class CompactionEnd(Frame, tag="compaction_end", kw_only=True):
    """A compaction ended. Without a `result`, the conversation is unchanged. With `willRetry`, the run continues (pi)."""

    reason: CompactionReason
    aborted: bool
    will_retry: bool
    result: CompactionResult | UnsetType = UNSET
    error_message: str | UnsetType = UNSET


class AutoCompactionStart(Frame, tag="auto_compaction_start"):
    """An automatic compaction started (omp and xcsh)."""

    reason: CompactionReason
    action: str = "context-full"


class AutoCompactionEnd(Frame, tag="auto_compaction_end", kw_only=True):
    """An automatic compaction ended (omp and xcsh)."""

    action: str = "context-full"
    aborted: bool
    will_retry: bool
    result: CompactionResult | UnsetType = UNSET
    error_message: str | UnsetType = UNSET


class BashExecutionUpdate(Frame, tag="bash_execution_update", kw_only=True):
    """New output of a `bash` command. `id` is the id of that command."""

    id: Raw | UnsetType = UNSET
    delta: str


class TtsrTriggered(Frame, tag="ttsr_triggered"):
    """The model broke these stream rules. The answer ends here, and the model gets the rules and another chance."""

    rules: list[dict[str, Any]]


class TodoReminder(Frame, tag="todo_reminder"):
    """The model stopped although todos are left. It gets a reminder, and the run continues."""

    todos: list[dict[str, Any]]
    attempt: int
    max_attempts: int


class TodoAutoClear(Frame, tag="todo_auto_clear"):
    """The list no longer contains todos that were completed a while ago."""


class EntryAppended(Frame, tag="entry_appended"):
    """The session has a new entry that no other event describes, such as one that hides a failed answer from the model."""

    entry: dict[str, Any] | Raw


class SessionInfoChanged(Frame, tag="session_info_changed"):
    """The name of the session changed."""

    name: str | UnsetType


class QueueUpdate(Frame, tag="queue_update"):
    """The queue changed: the texts of all queued messages. While the queue is long, one event covers several quick changes."""

    steering: list[str]
    follow_up: list[str]


class ThinkingLevelChanged(Frame, tag="thinking_level_changed"):
    """The thinking level changed."""

    level: ThinkingLevel


class ModelChanged(Frame, tag="model_changed"):
    """Another model was chosen. `get_state` names it (omp)."""


class Notice(Frame, tag="notice"):
    """Something that the user should know (omp)."""

    level: Literal["info", "warning", "error"]
    message: str
    #: The part of the agent that says so.
    source: str | UnsetType = UNSET


class CommandHint(Struct):
    hint: str


class AvailableCommand(Struct):
    """A command that a prompt can begin with, such as `/name`."""

    name: str
    source: Literal["skill", "extension", "file"]
    description: str | UnsetType = UNSET
    input: CommandHint | UnsetType = UNSET


class AvailableCommandsUpdate(Frame, tag="available_commands_update"):
    """The slash commands that there are: sent after `ready`, and whenever they have changed (omp)."""

    commands: list[AvailableCommand]


class SubagentLifecycle(Frame, tag="subagent_lifecycle"):
    """A sub-agent started or ended. Sent to hosts that subscribed with `set_subagent_subscription`."""

    payload: LifecyclePayload


class SubagentProgress(Frame, tag="subagent_progress"):
    """What a sub-agent has done so far, at most five times a second and once at its end. Sent to subscribed hosts."""

    payload: ProgressPayload


class SubagentEventPayload(Struct):
    id: str
    #: The frame, in the same form as for the session's own run.
    event: dict[str, Any]


class SubagentEvent(Frame, tag="subagent_event"):
    """An event of a sub-agent's run. Sent to subscribed hosts."""

    payload: SubagentEventPayload


class ExtensionError(Frame, tag="extension_error"):
    """An extension failed; the run continues. If `extensionPath` is `session`, the session reports a problem: with `event`
    `write`, its file could not be written (fairlead keeps the entries and tries again); with `open`, the file that was opened is
    damaged."""

    extension_path: str
    event: str
    error: str
