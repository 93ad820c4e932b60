"""How a connection begins: capabilities of both sides, ways to authenticate, and how to cancel."""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

import msgspec
from msgspec import Struct

from fairlead.protocol.acp.content import Notification, Object, Request


class Implementation(Object):
    """Metadata about the implementation of the client or agent."""

    #: Intended for programmatic or logical use, but can be used as a display name fallback if title isn't present.
    name: str
    #: Version of the implementation.
    version: str
    #: Intended for UI and end-user contexts and optimized to be human-readable and easily understood.
    title: str | None = None


class FileSystemCapabilities(Object):
    """File system capabilities that a client may support."""

    #: Whether the Client supports `fs/read_text_file` requests.
    read_text_file: bool = False
    #: Whether the Client supports `fs/write_text_file` requests.
    write_text_file: bool = False


class CompactionCapabilities(Object):
    """Client support for ID-addressed context compaction updates."""


class NoticeCapabilities(Object):
    """Client support for presenting live notices to the user."""


class BooleanConfigOptionCapabilities(Object):
    """Capabilities for boolean session configuration options."""


class SessionConfigOptionsCapabilities(Object):
    """Session configuration option capabilities supported by the client."""

    #: Whether the client supports boolean session configuration options.
    boolean: BooleanConfigOptionCapabilities | None = None


class ClientSessionCapabilities(Object):
    """Session-related capabilities supported by the client."""

    #: Support for ID-addressed context compaction updates.
    compaction: CompactionCapabilities | None = None
    #: Config option capabilities supported by the client.
    config_options: SessionConfigOptionsCapabilities | None = None
    #: Support for live user-facing `notice` session updates.
    notices: NoticeCapabilities | None = None


class AuthCapabilities(Object):
    """Authentication capabilities supported by the client."""

    #: Whether the client supports `terminal` authentication methods.
    terminal: bool = False


class ElicitationFormCapabilities(Object):
    """Form-based elicitation capabilities."""


class ElicitationUrlCapabilities(Object):
    """URL-based elicitation capabilities."""


class ElicitationCapabilities(Object):
    """Elicitation capabilities supported by the client."""

    #: Whether the client supports form-based elicitation.
    form: ElicitationFormCapabilities | None = None
    #: Whether the client supports URL-based elicitation.
    url: ElicitationUrlCapabilities | None = None


class ClientCapabilities(Object):
    """Capabilities supported by the client."""

    #: File system capabilities supported by the client.
    fs: FileSystemCapabilities = msgspec.field(default_factory=FileSystemCapabilities)
    #: Whether the Client support all `terminal/*` methods.
    terminal: bool = False
    #: Session-related capabilities supported by the client.
    session: ClientSessionCapabilities | None = None
    #: Authentication capabilities supported by the client.
    auth: AuthCapabilities = msgspec.field(default_factory=AuthCapabilities)
    #: Elicitation capabilities supported by the client.
    elicitation: ElicitationCapabilities | None = None


class PromptCapabilities(Object):
    """Prompt capabilities supported by the agent in `session/prompt` requests."""

    #: Agent supports `image` content blocks.
    image: bool = False
    #: Agent supports `audio` content blocks.
    audio: bool = False
    #: Agent supports embedded context in `session/prompt` requests.
    embedded_context: bool = False


class McpCapabilities(Object):
    """MCP capabilities supported by the agent."""

    #: Agent supports `http` MCP servers.
    http: bool = False
    #: Agent supports `sse` MCP servers.
    sse: bool = False


class SessionListCapabilities(Object):
    """Capabilities for the `session/list` method."""


class SessionDeleteCapabilities(Object):
    """Capabilities for the `session/delete` method."""


class SessionAdditionalDirectoriesCapabilities(Object):
    """Capabilities for additional session directories support."""


class SessionResumeCapabilities(Object):
    """Capabilities for the `session/resume` method."""


class SessionCloseCapabilities(Object):
    """Capabilities for the `session/close` method."""


class SessionCapabilities(Object):
    """Session capabilities supported by the agent."""

    #: Whether the agent supports `session/list`.
    list: SessionListCapabilities | None = None
    #: Whether the agent supports `session/delete`.
    delete: SessionDeleteCapabilities | None = None
    #: Whether the agent supports `additionalDirectories` on supported session lifecycle requests.
    additional_directories: SessionAdditionalDirectoriesCapabilities | None = None
    #: Whether the agent supports `session/resume`.
    resume: SessionResumeCapabilities | None = None
    #: Whether the agent supports `session/close`.
    close: SessionCloseCapabilities | None = None


class LogoutCapabilities(Object):
    """Logout capabilities supported by the agent."""


class AgentAuthCapabilities(Object):
    """Authentication-related capabilities supported by the agent."""

    #: Whether the agent supports the logout method.
    logout: LogoutCapabilities | None = None


class AgentCapabilities(Object):
    """Capabilities supported by the agent."""

    #: Whether the agent supports `session/load`.
    load_session: bool = False
    #: Prompt capabilities supported by the agent.
    prompt_capabilities: PromptCapabilities | None = None
    #: MCP capabilities supported by the agent.
    mcp_capabilities: McpCapabilities | None = None
    #: Session lifecycle and prompt capabilities advertised by the agent.
    session_capabilities: SessionCapabilities | None = None
    #: Authentication-related capabilities supported by the agent.
    auth: AgentAuthCapabilities | None = None


class AuthMethodAgent(Object):
    """Agent handles authentication itself through `authenticate`."""

    #: Unique identifier for this authentication method.
    id: str
    #: Human-readable name of the authentication method.
    name: str
    #: Optional human-readable description of this authentication method.
    description: str | None = None


class AuthMethodTerminal(Object, tag_field="type", tag="terminal"):
    """Terminal-based authentication method."""

    #: Unique identifier for this authentication method.
    id: str
    #: Human-readable name of the authentication method.
    name: str
    #: Optional human-readable description of this authentication method.
    description: str | None = None
    #: Additional arguments to append to the configured agent invocation for terminal auth.
    args: list[str] = []
    #: Additional environment variables to set on the configured agent invocation for terminal auth.
    env: dict[str, str] = {}


class InitializeResponse(Object):
    """Response to the `initialize` method."""

    #: The protocol version the client specified if supported by the agent, or the latest protocol version supported by the
    #: agent.
    protocol_version: int
    #: Capabilities supported by the agent.
    agent_capabilities: AgentCapabilities | None = None
    #: Authentication methods supported by the agent.
    auth_methods: list[Any] = []
    #: Information about the Agent name and version sent to the Client.
    agent_info: Implementation | None = None


class InitializeRequest(Request):
    """Request parameters for the initialize method."""

    method: ClassVar[str] = "initialize"
    result: ClassVar[type[Struct]] = InitializeResponse
    #: The latest protocol version supported by the client.
    protocol_version: int
    #: Capabilities supported by the client.
    client_capabilities: ClientCapabilities = msgspec.field(default_factory=ClientCapabilities)
    #: Information about the Client name and version sent to the Agent.
    client_info: Implementation | None = None


class AuthenticateResponse(Object):
    """Response to the `authenticate` method."""


class AuthenticateRequest(Request):
    """Request parameters for the authenticate method."""

    method: ClassVar[str] = "authenticate"
    result: ClassVar[type[Struct]] = AuthenticateResponse
    #: The ID of the authentication method to use.
    method_id: str


class LogoutResponse(Object):
    """Response to the `logout` method."""


class LogoutRequest(Request):
    """Request parameters for the logout method."""

    method: ClassVar[str] = "logout"
    result: ClassVar[type[Struct]] = LogoutResponse


class CancelNotification(Notification):
    """Notification to cancel ongoing operations for a session."""

    method: ClassVar[str] = "session/cancel"
    #: The ID of the session to cancel operations for.
    session_id: str


class CancelRequestNotification(Notification):
    """Notification to cancel an ongoing request."""

    method: ClassVar[str] = "$/cancel_request"
    #: The ID of the request to cancel.
    request_id: int | str | None


#: A way to authenticate. One without a `type` is for `authenticate`.
AuthMethod: TypeAlias = AuthMethodTerminal | AuthMethodAgent
