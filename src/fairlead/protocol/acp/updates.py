"""What the agent sends during a session: updates, tool calls, and requests for the user's permission to run one."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from fairlead.protocol.acp.acp_sessions import SessionConfigOption
from fairlead.protocol.acp.content import ContentBlock, Notification, Object, Request

ToolKind: TypeAlias = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
ToolCallStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]
PermissionOptionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class Content(Object, tag_field="type", tag="content"):
    """Standard content block (text, images, resources)."""

    #: The actual content block.
    content: ContentBlock


class Diff(Object, tag_field="type", tag="diff"):
    """A diff representing file modifications."""

    #: The absolute file path being modified.
    path: str
    #: The new content after modification.
    new_text: str
    #: The original content (omitted or `null` for new files).
    old_text: str | None = None


class Terminal(Object, tag_field="type", tag="terminal"):
    """Embed a terminal created with `terminal/create` by its id."""

    #: Identifier of the terminal instance to embed in the content stream.
    terminal_id: str


ToolCallContent: TypeAlias = Content | Diff | Terminal


class ToolCallLocation(Object):
    """A file location being accessed or modified by a tool."""

    #: The absolute file path being accessed or modified.
    path: str
    #: Optional 1-based line number within the file.
    line: int | None = None


class ToolCallUpdate(Object):
    """An update to an existing tool call."""

    #: The ID of the tool call being updated.
    tool_call_id: str
    #: Update the tool kind.
    kind: ToolKind | None = None
    #: Update the execution status.
    status: ToolCallStatus | None = None
    #: Update the human-readable title.
    title: str | None = None
    #: Update the programmatic name of the tool being invoked.
    name: str | None = None
    #: Replace the content collection.
    content: list[ToolCallContent] | None = None
    #: Replace the locations collection.
    locations: list[ToolCallLocation] | None = None
    #: Update the raw input.
    raw_input: Any = UNSET
    #: Update the raw output.
    raw_output: Any = UNSET


class PermissionOption(Object):
    """An option presented to the user when requesting permission."""

    #: Unique identifier for this permission option.
    option_id: str
    #: Human-readable label to display to the user.
    name: str
    #: Hint about the nature of this permission option.
    kind: PermissionOptionKind


class CancelledPermission(Object, tag_field="outcome", tag="cancelled"):
    """The turn was cancelled before the user answered."""


class SelectedPermissionOutcome(Object, tag_field="outcome", tag="selected"):
    """The user selected an option."""

    #: The ID of the option the user selected.
    option_id: str


RequestPermissionOutcome: TypeAlias = CancelledPermission | SelectedPermissionOutcome


class RequestPermissionResponse(Object):
    """Response to a permission request."""

    #: The user's decision on the permission request.
    outcome: RequestPermissionOutcome


class RequestPermissionRequest(Request):
    """Request for user permission to execute a tool call."""

    method: ClassVar[str] = "session/request_permission"
    result: ClassVar[type[Struct]] = RequestPermissionResponse
    #: The session ID for this request.
    session_id: str
    #: Details about the tool call requiring permission.
    tool_call: ToolCallUpdate
    #: Available permission options for the user to choose from.
    options: list[PermissionOption]


PlanEntryPriority: TypeAlias = Literal["high", "medium", "low"]
PlanEntryStatus: TypeAlias = Literal["pending", "in_progress", "completed"]


class UserMessageChunk(Object, tag_field="sessionUpdate", tag="user_message_chunk"):
    """A streamed item of content."""

    #: A single item of content.
    content: ContentBlock
    #: A unique identifier for the message this chunk belongs to.
    message_id: str | None = None


class AgentMessageChunk(Object, tag_field="sessionUpdate", tag="agent_message_chunk"):
    """A streamed item of content."""

    #: A single item of content.
    content: ContentBlock
    #: A unique identifier for the message this chunk belongs to.
    message_id: str | None = None


class AgentThoughtChunk(Object, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    """A streamed item of content."""

    #: A single item of content.
    content: ContentBlock
    #: A unique identifier for the message this chunk belongs to.
    message_id: str | None = None


class ToolCall(Object, tag_field="sessionUpdate", tag="tool_call"):
    """Represents a tool call that the language model has requested."""

    #: Unique identifier for this tool call within the session.
    tool_call_id: str
    #: Human-readable title describing what the tool is doing.
    title: str
    #: Programmatic name of the tool being invoked.
    name: str | None = None
    #: The category of tool being invoked.
    kind: ToolKind | None = None
    #: Current execution status of the tool call.
    status: ToolCallStatus | None = None
    #: Content produced by the tool call.
    content: list[ToolCallContent] = []
    #: File locations affected by this tool call.
    locations: list[ToolCallLocation] = []
    #: Raw input parameters sent to the tool.
    raw_input: Any = UNSET
    #: Raw output returned by the tool.
    raw_output: Any = UNSET


class ToolCallChanged(ToolCallUpdate, tag_field="sessionUpdate", tag="tool_call_update"):
    """An update to a tool call that has been announced."""


class PlanEntry(Object):
    """A single entry in the execution plan."""

    #: Human-readable description of what this task aims to accomplish.
    content: str
    #: The relative importance of this task.
    priority: PlanEntryPriority
    #: Current execution status of this task.
    status: PlanEntryStatus


class Plan(Object, tag_field="sessionUpdate", tag="plan"):
    """An execution plan for accomplishing complex tasks."""

    #: The list of tasks to be accomplished.
    entries: list[PlanEntry]


class UnstructuredCommandInput(Object):
    """All text that was typed after the command name is provided as input."""

    #: A hint to display when the input hasn't been provided yet.
    hint: str


class AvailableCommand(Object):
    """Information about a command."""

    #: Command name (e.g., `create_plan`, `research_codebase`).
    name: str
    #: Human-readable description of what the command does.
    description: str
    #: Input for the command if required.
    input: UnstructuredCommandInput | None = None


class AvailableCommandsUpdate(Object, tag_field="sessionUpdate", tag="available_commands_update"):
    """Available commands are ready or have changed."""

    #: Commands the agent can execute.
    available_commands: list[AvailableCommand]


class CurrentModeUpdate(Object, tag_field="sessionUpdate", tag="current_mode_update"):
    """The current mode of the session has changed."""

    #: The ID of the current mode.
    current_mode_id: str


class ConfigOptionUpdate(Object, tag_field="sessionUpdate", tag="config_option_update"):
    """Session configuration options have been updated."""

    #: The full set of configuration options and their current values.
    config_options: list[SessionConfigOption]


class SessionInfoUpdate(Object, tag_field="sessionUpdate", tag="session_info_update"):
    """Update to session metadata."""

    #: Human-readable title for the session.
    title: str | UnsetType | None = UNSET
    #: ISO 8601 timestamp of last activity.
    updated_at: str | UnsetType | None = UNSET


class Cost(Object):
    """Cost information for a session."""

    #: Total cumulative cost for session.
    amount: float
    #: Unit of `amount`: an ISO 4217 currency code (e.g., "USD", "EUR") for money, or another unit such as "credits".
    currency: str


class UsageUpdate(Object, tag_field="sessionUpdate", tag="usage_update"):
    """Context window and cost update for a session."""

    #: Tokens currently in context.
    used: int
    #: Total context window size in tokens.
    size: int
    #: Cumulative session cost (optional).
    cost: Cost | None = None


class Notice(Object, tag_field="sessionUpdate", tag="notice"):
    """Fire-and-forget information for the user."""

    #: Presentation severity hint.
    severity: str
    #: Required non-empty plain-text title that can stand alone.
    title: str
    #: Optional plain-text detail or guidance.
    description: str | None = None


class CompactionUpdate(Object, tag_field="sessionUpdate", tag="compaction_update"):
    """A context compaction upsert."""

    #: The Agent-owned ID of this compaction, unique within the session.
    compaction_id: str
    #: Current lifecycle status.
    status: str
    #: Complete replacement user-displayable summary content for the compaction.
    summary: list[ContentBlock] | UnsetType | None = UNSET
    #: Human-readable error details for the compaction.
    error: str | UnsetType | None = UNSET


class CompactionSummaryChunk(Object, tag_field="sessionUpdate", tag="compaction_summary_chunk"):
    """A content block appended to a compaction's summary."""

    #: ID of the compaction whose summary receives this content.
    compaction_id: str
    #: One content block to append.
    content: ContentBlock


SessionUpdate: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCall
    | ToolCallChanged
    | Plan
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | Notice
    | CompactionUpdate
    | CompactionSummaryChunk
)


class SessionNotification(Notification):
    """Notification containing a session update from the agent."""

    method: ClassVar[str] = "session/update"
    #: The ID of the session this update pertains to.
    session_id: str
    #: The actual update content.
    update: SessionUpdate
