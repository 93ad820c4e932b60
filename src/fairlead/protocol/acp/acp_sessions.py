"""Sessions: how they begin and end, their modes and options, and their prompts."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Struct

from fairlead.protocol.acp.content import ContentBlock, Object, Request

StopReason: TypeAlias = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]


class EnvVariable(Object):
    """An environment variable to set when launching an MCP server."""

    #: The name of the environment variable.
    name: str
    #: The value to set for the environment variable.
    value: str


class HttpHeader(Object):
    """An HTTP header to set when making requests to the MCP server."""

    #: The name of the HTTP header.
    name: str
    #: The value to set for the HTTP header.
    value: str


class McpServerStdio(Object):
    """Stdio transport configuration for MCP."""

    #: Human-readable name identifying this MCP server.
    name: str
    #: Absolute path to the MCP server executable.
    command: str
    #: Command-line arguments to pass to the MCP server.
    args: list[str]
    #: Environment variables to set when launching the MCP server.
    env: list[EnvVariable]


class McpServerHttp(Object, tag_field="type", tag="http"):
    """HTTP transport configuration for MCP."""

    #: Human-readable name identifying this MCP server.
    name: str
    #: URL to the MCP server.
    url: str
    #: HTTP headers to set when making requests to the MCP server.
    headers: list[HttpHeader]


class McpServerSse(Object, tag_field="type", tag="sse"):
    """SSE transport configuration for MCP."""

    #: Human-readable name identifying this MCP server.
    name: str
    #: URL to the MCP server.
    url: str
    #: HTTP headers to set when making requests to the MCP server.
    headers: list[HttpHeader]


#: An MCP server to connect. One without a `type` is a command.
McpServer: TypeAlias = McpServerStdio | McpServerHttp | McpServerSse


class SessionMode(Object):
    """A mode the agent can operate in."""

    #: Stable identifier used to refer to this protocol object in later messages.
    id: str
    #: Human-readable name shown for this protocol object.
    name: str
    #: Optional human-readable details shown with this protocol object.
    description: str | None = None


class SessionModeState(Object):
    """The set of modes and the one currently active."""

    #: The current mode the Agent is in.
    current_mode_id: str
    #: The set of modes that the Agent can operate in.
    available_modes: list[SessionMode]


class SessionConfigSelectOption(Object):
    """A possible value for a session configuration option."""

    #: Unique identifier for this option value.
    value: str
    #: Human-readable label for this option value.
    name: str
    #: Optional description for this option value.
    description: str | None = None


class SessionConfigSelectGroup(Object):
    """A group of possible values for a session configuration option."""

    #: Unique identifier for this group.
    group: str
    #: Human-readable label for this group.
    name: str
    #: The set of option values in this group.
    options: list[SessionConfigSelectOption]


class SessionConfigSelect(Object, tag_field="type", tag="select"):
    """A single-value selector (dropdown) session configuration option payload."""

    #: Unique identifier for the configuration option.
    id: str
    #: Human-readable label for the option.
    name: str
    #: The currently selected value.
    current_value: str
    #: The set of selectable options.
    options: Any
    #: Optional description for the Client to display to the user.
    description: str | None = None
    #: Optional semantic category for this option (UX only).
    category: str | None = None


class SessionConfigBoolean(Object, tag_field="type", tag="boolean"):
    """A boolean on/off toggle session configuration option payload."""

    #: Unique identifier for the configuration option.
    id: str
    #: Human-readable label for the option.
    name: str
    #: The current value of the boolean option.
    current_value: bool
    #: Optional description for the Client to display to the user.
    description: str | None = None
    #: Optional semantic category for this option (UX only).
    category: str | None = None


#: A configuration option of a session, and its value.
SessionConfigOption: TypeAlias = SessionConfigSelect | SessionConfigBoolean


class NewSessionResponse(Object):
    """Response from creating a new session."""

    #: Unique identifier for the created session.
    session_id: str
    #: Initial mode state if supported by the Agent.
    modes: SessionModeState | None = None
    #: Initial session configuration options if supported by the Agent.
    config_options: list[SessionConfigOption] | None = None


class NewSessionRequest(Request):
    """Request parameters for creating a new session."""

    method: ClassVar[str] = "session/new"
    result: ClassVar[type[Struct]] = NewSessionResponse
    #: The working directory for this session.
    cwd: str
    #: List of MCP (Model Context Protocol) servers the agent should connect to.
    mcp_servers: list[Any]
    #: Additional workspace roots for this session.
    additional_directories: list[str] = []


class LoadSessionResponse(Object):
    """Response from loading an existing session."""

    #: Initial mode state if supported by the Agent.
    modes: SessionModeState | None = None
    #: Initial session configuration options if supported by the Agent.
    config_options: list[SessionConfigOption] | None = None


class LoadSessionRequest(Request):
    """Request parameters for loading an existing session."""

    method: ClassVar[str] = "session/load"
    result: ClassVar[type[Struct]] = LoadSessionResponse
    #: List of MCP servers to connect to for this session.
    mcp_servers: list[Any]
    #: The working directory for this session.
    cwd: str
    #: The ID of the session to load.
    session_id: str
    #: Additional workspace roots to activate for this session.
    additional_directories: list[str] = []


class ResumeSessionResponse(Object):
    """Response from resuming an existing session."""

    #: Initial mode state if supported by the Agent.
    modes: SessionModeState | None = None
    #: Initial session configuration options if supported by the Agent.
    config_options: list[SessionConfigOption] | None = None


class ResumeSessionRequest(Request):
    """Request parameters for resuming an existing session."""

    method: ClassVar[str] = "session/resume"
    result: ClassVar[type[Struct]] = ResumeSessionResponse
    #: The ID of the session to resume.
    session_id: str
    #: The working directory for this session.
    cwd: str
    #: Additional workspace roots to activate for this session.
    additional_directories: list[str] = []
    #: List of MCP servers to connect to for this session.
    mcp_servers: list[Any] = []


class SessionInfo(Object):
    """Information about a session returned by session/list."""

    #: Unique identifier for the session.
    session_id: str
    #: The working directory for this session.
    cwd: str
    #: Additional workspace roots reported for this session.
    additional_directories: list[str] = []
    #: Human-readable title for the session.
    title: str | None = None
    #: ISO 8601 timestamp of last activity.
    updated_at: str | None = None


class ListSessionsResponse(Object):
    """Response from listing sessions."""

    #: Array of session information objects.
    sessions: list[SessionInfo]
    #: Opaque cursor token.
    next_cursor: str | None = None


class ListSessionsRequest(Request):
    """Request parameters for listing existing sessions."""

    method: ClassVar[str] = "session/list"
    result: ClassVar[type[Struct]] = ListSessionsResponse
    #: Filter sessions by working directory.
    cwd: str | None = None
    #: Opaque cursor token from a previous response's nextCursor field for cursor-based pagination.
    cursor: str | None = None


class CloseSessionResponse(Object):
    """Response from closing a session."""


class CloseSessionRequest(Request):
    """Request parameters for closing an active session."""

    method: ClassVar[str] = "session/close"
    result: ClassVar[type[Struct]] = CloseSessionResponse
    #: The ID of the session to close.
    session_id: str


class DeleteSessionResponse(Object):
    """Response from deleting a session."""


class DeleteSessionRequest(Request):
    """Request parameters for deleting an existing session from `session/list`."""

    method: ClassVar[str] = "session/delete"
    result: ClassVar[type[Struct]] = DeleteSessionResponse
    #: The ID of the session to delete.
    session_id: str


class SetSessionModeResponse(Object):
    """Response to `session/set_mode` method."""


class SetSessionModeRequest(Request):
    """Request parameters for setting a session mode."""

    method: ClassVar[str] = "session/set_mode"
    result: ClassVar[type[Struct]] = SetSessionModeResponse
    #: The ID of the session to set the mode for.
    session_id: str
    #: The ID of the mode to set.
    mode_id: str


class SetSessionConfigOptionResponse(Object):
    """Response to `session/set_config_option` method."""

    #: The full set of configuration options and their current values.
    config_options: list[SessionConfigOption]


class SetSessionConfigOptionRequest(Request):
    """Request parameters for setting a session configuration option."""

    method: ClassVar[str] = "session/set_config_option"
    result: ClassVar[type[Struct]] = SetSessionConfigOptionResponse
    #: The ID of the session to set the configuration option for.
    session_id: str
    #: The ID of the configuration option to set.
    config_id: str
    #: The new value: one of the select option, or true or false.
    value: str | bool
    #: `boolean` if the value is one.
    value_type: str | None = msgspec.field(default=None, name="type")


class PromptResponse(Object):
    """Response from processing a user prompt."""

    #: Indicates why the agent stopped processing the turn.
    stop_reason: StopReason


class PromptRequest(Request):
    """Request parameters for sending a user prompt to the agent."""

    method: ClassVar[str] = "session/prompt"
    result: ClassVar[type[Struct]] = PromptResponse
    #: The ID of the session to send this user message to.
    session_id: str
    #: The blocks of content that compose the user's message.
    prompt: list[ContentBlock]
