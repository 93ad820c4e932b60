"""What a host receives: the frames of a turn. A class declares a frame, its fields and its documentation.

Answers to control requests and the agent's own requests have the forms in `fairlead.protocol.claude.host`. All frames carry the
id of the session and a fresh `uuid`, which is also the uuid of the entry in the session's file if there is one.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Raw, Struct, UnsetType, field


class Frame(Struct, tag_field="type", omit_defaults=False, kw_only=True):
    session_id: str
    uuid: str


# Assistant and user


class ModelMessage(Struct, kw_only=True):
    """One block of an answer. All blocks of an answer have the same `id`; hosts put them together."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    #: One block of the Messages API: `text`, `thinking` or `tool_use`.
    content: list[dict[str, Any]]
    #: Always null: the frame is sent when the block ends.
    stop_reason: None
    stop_sequence: str | None
    usage: dict[str, Any]


class Assistant(Frame, tag="assistant", kw_only=True):
    """A block of the model's answer has ended, or a model call has failed."""

    message: ModelMessage
    #: The `Agent` call that it belongs to; null outside sub-agents.
    parent_tool_use_id: str | None
    timestamp: str
    #: The prompt or prompts that are answered, in the first frame after them.
    user_message_uuid: str | UnsetType = UNSET
    user_message_uuids: list[str] | UnsetType = UNSET
    #: Why the model call failed: authentication_failed, rate_limit, overloaded, server_error, invalid_request, model_not_found,
    #: unknown.
    error: str | UnsetType = UNSET
    is_api_error_message: bool | UnsetType = UNSET
    api_error_status: int | UnsetType | None = UNSET
    #: Whether an interrupt cut the block off.
    aborted: bool | UnsetType = UNSET
    #: The sub-agent that it comes from.
    agent_id: str | UnsetType = UNSET
    subagent_type: str | UnsetType = UNSET
    task_description: str | UnsetType = UNSET


class UserContent(Struct, kw_only=True):
    role: Literal["user"]
    content: str | list[dict[str, Any]]


class UserFrame(Frame, tag="user", kw_only=True):
    """The result of a tool call, or a message that stands in the conversation: a prompt that comes back, an interruption."""

    message: UserContent
    parent_tool_use_id: str | None
    timestamp: str
    #: The result as data, in a shape that depends on the tool; a text for an error.
    tool_use_result: Any | UnsetType = UNSET
    #: Whether it is a prompt of the host that comes back.
    is_replay: bool | UnsetType = field(name="isReplay", default=UNSET)
    #: Whether the agent wrote it.
    is_synthetic: bool | UnsetType = field(name="isSynthetic", default=UNSET)
    #: The sub-agent that it comes from.
    agent_id: str | UnsetType = UNSET
    subagent_type: str | UnsetType = UNSET
    task_description: str | UnsetType = UNSET


class StreamEvent(Frame, tag="stream_event", kw_only=True):
    """A piece of an answer, as an event of the Messages API. Only with `--include-partial-messages`."""

    event: dict[str, Any]
    parent_tool_use_id: str | None


# The end of a turn


class ModelUsage(Struct, kw_only=True):
    """The tokens of one model in the session, and their cost in US dollars."""

    input_tokens: int = field(name="inputTokens")
    output_tokens: int = field(name="outputTokens")
    cache_read_input_tokens: int = field(name="cacheReadInputTokens")
    cache_creation_input_tokens: int = field(name="cacheCreationInputTokens")
    web_search_requests: int = field(name="webSearchRequests")
    cost_usd: float = field(name="costUSD")
    context_window: int = field(name="contextWindow")
    max_output_tokens: int = field(name="maxOutputTokens")


class Result(Frame, tag="result", kw_only=True):
    """A turn has ended. The last result of a process decides its exit code: 1 if it is an error."""

    subtype: Literal[
        "success", "error_during_execution", "error_max_turns", "error_max_budget_usd", "error_max_structured_output_retries"
    ]
    is_error: bool
    #: The last text, for `success`: also the text of the error if the provider failed.
    result: str | UnsetType = UNSET
    #: What went wrong, for the other subtypes.
    errors: list[str] | UnsetType = UNSET
    num_turns: int
    duration_ms: int
    duration_api_ms: int
    stop_reason: str | None
    #: Of the session, in US dollars.
    total_cost_usd: float
    #: Of this turn, in the form of the Messages API.
    usage: dict[str, Any]
    #: Of the session, by model.
    model_usage: dict[str, ModelUsage] = field(name="modelUsage")
    permission_denials: list[dict[str, Any]]
    #: Why it ended: completed, api_error, aborted_streaming, aborted_tools, max_turns, budget_exhausted,
    #: hook_stopped, stop_hook_prevented, tool_deferred.
    terminal_reason: str | UnsetType = UNSET
    #: The call that a hook has put off, as `{id, name, input}`.
    deferred_tool_use: dict[str, Any] | UnsetType = UNSET
    structured_output: Any | UnsetType = UNSET
    api_error_status: int | UnsetType | None = UNSET
    user_message_uuid: str | UnsetType = UNSET
    user_message_uuids: list[str] | UnsetType = UNSET
    #: How many prompts still wait.
    queued_turn_count: int
    #: The number of the result in this process, from 0.
    result_index: int
    #: Whether a slash command was carried out without the model.
    local_command: bool | UnsetType = UNSET


# System frames


class System(Frame, tag="system", kw_only=True):
    pass


class McpServerName(Struct, kw_only=True):
    name: str
    status: str
    source: str


class Init(System, tag="system", kw_only=True):
    """A turn begins. It comes with every turn."""

    subtype: Literal["init"] = "init"
    cwd: str
    tools: list[str]
    mcp_servers: list[McpServerName]
    model: str
    permission_mode: str = field(name="permissionMode")
    slash_commands: list[str]
    api_key_source: str = field(name="apiKeySource")
    claude_code_version: str
    output_style: str
    agents: list[str]
    skills: list[str]
    plugins: list[dict[str, Any]]
    capabilities: list[str]
    fast_mode_state: str


class Status(System, tag="system", kw_only=True):
    """What happens now: a model call that begins (with partial messages), a compaction, or another permission mode."""

    subtype: Literal["status"] = "status"
    status: Literal["requesting", "compacting"] | None
    permission_mode: str | UnsetType = field(name="permissionMode", default=UNSET)
    compact_result: str | UnsetType = UNSET


class CompactMetadata(Struct, kw_only=True):
    trigger: Literal["manual", "auto"]
    pre_tokens: int
    post_tokens: int | UnsetType = UNSET


class CompactBoundary(System, tag="system", kw_only=True):
    """A summary has replaced what came before."""

    subtype: Literal["compact_boundary"] = "compact_boundary"
    compact_metadata: CompactMetadata


class ApiRetry(System, tag="system", kw_only=True):
    """A model call failed, and is made again after a while."""

    subtype: Literal["api_retry"] = "api_retry"
    attempt: int
    max_retries: int
    retry_delay_ms: int
    #: The status of HTTP; null if there was no response.
    error_status: int | None
    error: str


class ModelFallback(System, tag="system", kw_only=True):
    """A model was overloaded several times, so another one answers until the turn ends."""

    subtype: Literal["model_fallback"] = "model_fallback"
    trigger: str
    original_model: str
    fallback_model: str
    #: For people to read.
    content: str


class PermissionDenied(System, tag="system", kw_only=True):
    """A tool call was refused without asking anyone."""

    subtype: Literal["permission_denied"] = "permission_denied"
    tool_name: str
    tool_use_id: str
    message: str


class Informational(System, tag="system", kw_only=True):
    """Something that people may want to know, such as a line that could not be read."""

    subtype: Literal["informational"] = "informational"
    level: Literal["info", "notice", "warning", "error"]
    content: str


class HookStarted(System, tag="system", kw_only=True):
    """A command of the settings runs as a hook. Sent with `--include-hook-events`, and always for SessionStart."""

    subtype: Literal["hook_started"] = "hook_started"
    hook_id: str
    #: The event, and what it is about: `PreToolUse:Bash`.
    hook_name: str
    hook_event: str


class HookResponse(System, tag="system", kw_only=True):
    """The command has ended."""

    subtype: Literal["hook_response"] = "hook_response"
    hook_id: str
    hook_name: str
    hook_event: str
    output: str
    stdout: str
    stderr: str
    exit_code: int | UnsetType = UNSET
    outcome: Literal["success", "error", "cancelled"]


class SessionStateChanged(System, tag="system", kw_only=True):
    """Whether a turn runs. Sent if the environment asks for it."""

    subtype: Literal["session_state_changed"] = "session_state_changed"
    state: Literal["idle", "running", "requires_action"]
    sdk_host_only: bool | UnsetType = UNSET


class TaskUsage(Struct, kw_only=True):
    total_tokens: int
    tool_uses: int
    duration_ms: int


class TaskStarted(System, tag="system", kw_only=True):
    """A sub-agent has started."""

    subtype: Literal["task_started"] = "task_started"
    task_id: str
    tool_use_id: str
    description: str
    task_type: str
    subagent_type: str | UnsetType = UNSET
    #: Whether the call ends before the sub-agent does.
    is_backgrounded: bool | UnsetType = UNSET
    prompt: str | UnsetType = UNSET


class TaskProgress(System, tag="system", kw_only=True):
    """A sub-agent has made progress."""

    subtype: Literal["task_progress"] = "task_progress"
    task_id: str
    tool_use_id: str
    description: str
    subagent_type: str | UnsetType = UNSET
    usage: TaskUsage
    last_tool_name: str | UnsetType = UNSET


class TaskUpdated(System, tag="system", kw_only=True):
    """The state of a sub-agent has changed."""

    subtype: Literal["task_updated"] = "task_updated"
    task_id: str
    patch: dict[str, Any]


class TaskNotification(System, tag="system", kw_only=True):
    """A sub-agent has ended."""

    subtype: Literal["task_notification"] = "task_notification"
    task_id: str
    tool_use_id: str
    status: Literal["completed", "failed", "stopped"]
    output_file: str
    summary: str
    usage: TaskUsage | UnsetType = UNSET


class SessionTitleChanged(System, tag="system", kw_only=True):
    """The session has another title."""

    subtype: Literal["session_title_changed"] = "session_title_changed"
    title: str


class ConversationReset(Frame, tag="conversation_reset", kw_only=True):
    """`/clear` has begun another session. Later frames have its id."""

    new_conversation_id: str
    trigger: str


class CommandLifecycle(Frame, tag="command_lifecycle", kw_only=True):
    """What happens to a prompt that has a uuid."""

    command_uuid: str
    state: Literal["queued", "started", "completed", "cancelled"]


class TranscriptMirror(Frame, tag="transcript_mirror", kw_only=True):
    """Lines that were written to a session file, for hosts that keep sessions themselves (`--session-mirror`)."""

    file_path: str = field(name="filePath")
    entries: list[Raw]


FRAMES: tuple[type[Frame], ...] = (
    Init,
    Assistant,
    UserFrame,
    StreamEvent,
    Result,
    Status,
    CompactBoundary,
    ApiRetry,
    ModelFallback,
    PermissionDenied,
    Informational,
    HookStarted,
    HookResponse,
    SessionStateChanged,
    TaskStarted,
    TaskProgress,
    TaskUpdated,
    TaskNotification,
    SessionTitleChanged,
    ConversationReset,
    CommandLifecycle,
    TranscriptMirror,
)
