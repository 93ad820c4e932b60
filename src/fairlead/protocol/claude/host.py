"""What a host sends: prompts, control requests and answers. A class declares a line or a request, its fields and its
documentation.

A control request travels inside a `control_request` line, with a `request_id` that its answer carries. `null` for an optional
field means that it is absent. `result` is the type of the answer's `response`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType, field


class Line(Struct, tag_field="type", omit_defaults=True, kw_only=True):
    pass


class PromptMessage(Struct):
    """The message of a prompt."""

    role: Literal["user"]
    #: A text, or blocks of the Messages API: `text`, and `image` with a base64 source.
    content: str | list[dict[str, Any]]


class User(Line, tag="user", kw_only=True):
    """A prompt. During a tool call it joins the running turn, otherwise it waits for the end of the turn."""

    message: PromptMessage
    parent_tool_use_id: str | None = None
    #: Not looked at: a process has one session.
    session_id: str | None = None
    #: Comes back in `user_message_uuids` of the frames that answer the prompt. A prompt with a uuid that was used before does not
    #: run again: its result is sent again.
    uuid: str | None = None
    priority: str | None = None
    origin: dict[str, Any] | None = None
    #: Whether the host wrote the text, so that it is not a slash command.
    client_composed: bool | None = None
    should_query: bool | None = field(name="shouldQuery", default=None)


class ControlRequest(Line, tag="control_request", kw_only=True):
    """A request of either side. The other side answers with a `control_response`."""

    request_id: str
    #: The request, with its name in `subtype`.
    request: dict[str, Any]


class ControlResponseBody(Struct, omit_defaults=True, kw_only=True):
    """An answer to a control request."""

    subtype: Literal["success", "error"]
    request_id: str
    #: The result; absent if there is none.
    response: Any | UnsetType = UNSET
    #: What went wrong, for people to read.
    error: str | UnsetType = UNSET
    #: A short name, for errors that programs need to tell apart.
    error_code: str | UnsetType = UNSET
    #: The questions that wait for an answer, beside the result of `initialize`.
    pending_permission_requests: list[Any] | UnsetType = UNSET


class ControlResponse(Line, tag="control_response", kw_only=True):
    """The answer to a control request, of either side."""

    response: ControlResponseBody


class ControlCancelRequest(Line, tag="control_cancel_request", kw_only=True):
    """Withdraws a control request, of either side. No answer is needed any more."""

    request_id: str


class KeepAlive(Line, tag="keep_alive", kw_only=True):
    """Does nothing."""


class UpdateEnvironmentVariables(Line, tag="update_environment_variables", kw_only=True):
    """Changes variables of the environment of later commands."""

    variables: dict[str, str]


HOST_LINES: tuple[type[Line], ...] = (
    User,
    ControlRequest,
    ControlResponse,
    ControlCancelRequest,
    KeepAlive,
    UpdateEnvironmentVariables,
)

# Requests


class HostRequest(Struct, tag_field="subtype", omit_defaults=True, kw_only=True):
    #: The type of the answer's `response`; None if it has none.
    result: ClassVar[type[Struct] | None] = None


class SlashCommand(Struct, omit_defaults=True, kw_only=True):
    """A prompt that begins with a slash and this name."""

    name: str
    description: str
    argument_hint: str = field(name="argumentHint")
    aliases: list[str] | UnsetType = UNSET


class AgentInfo(Struct, omit_defaults=True, kw_only=True):
    """A kind of sub-agent."""

    name: str
    description: str
    model: str | UnsetType = UNSET


class ModelInfo(Struct, omit_defaults=True, kw_only=True):
    """A model to choose. `value` is what `set_model` and `--model` take."""

    value: str
    display_name: str = field(name="displayName")
    description: str
    resolved_model: str | UnsetType = field(name="resolvedModel", default=UNSET)
    supports_effort: bool | UnsetType = field(name="supportsEffort", default=UNSET)
    supported_effort_levels: list[str] | UnsetType = field(name="supportedEffortLevels", default=UNSET)


class Account(Struct, kw_only=True):
    """Where the key of the provider comes from."""

    api_key_source: str = field(name="apiKeySource")
    api_provider: str = field(name="apiProvider")
    token_source: str = field(name="tokenSource")


class Initialized(Struct, kw_only=True):
    """What a host can do with the agent."""

    commands: list[SlashCommand]
    agents: list[AgentInfo]
    models: list[ModelInfo]
    account: Account
    output_style: str
    available_output_styles: list[str]
    pid: int
    claude_code_version: str
    current_permission_mode: str
    hook_on_failure_supported: bool
    session_state: Literal["idle", "running", "requires_action"]
    capabilities: list[str]


class HookMatcher(Struct, omit_defaults=True, kw_only=True):
    """Callbacks of the host for an event."""

    #: What they are about: names separated by `|`, or a regular expression. Absent, empty or `*`: everything.
    matcher: str | None = None
    hook_callback_ids: list[str] = field(name="hookCallbackIds")
    #: Seconds that each callback has; 60 if absent.
    timeout: float | None = None
    #: `block`: a callback that fails refuses what it was asked about.
    on_failure: str | None = field(name="onFailure", default=None)


class Initialize(HostRequest, tag="initialize", kw_only=True):
    """Say what the host brings, and learn what the agent has. It is optional, and may come again."""

    result = Initialized
    #: The host's hooks, by event.
    hooks: dict[str, list[HookMatcher] | None] | None = None
    #: Kinds of sub-agents, by name: `{description, prompt, tools, model}`.
    agents: dict[str, dict[str, Any]] | None = None
    #: Replaces the system prompt; a list with one empty text leaves it out.
    system_prompt: str | list[str] | None = field(name="systemPrompt", default=None)
    append_system_prompt: str | None = field(name="appendSystemPrompt", default=None)
    #: The schema of the structured output.
    json_schema: dict[str, Any] | None = field(name="jsonSchema", default=None)
    #: The names of the MCP servers that live in the host.
    sdk_mcp_servers: list[str] | None = field(name="sdkMcpServers", default=None)
    #: Other MCP servers by name, as in `--mcp-config`.
    mcp_servers: dict[str, Any] | None = field(name="mcpServers", default=None)
    title: str | None = None
    #: Whether frames of sub-agents include their texts.
    forward_subagent_text: bool | None = field(name="forwardSubagentText", default=None)


class Interrupted(Struct, kw_only=True):
    #: The uuids of the prompts that still wait.
    still_queued: list[str]
    #: The uuids of the prompts that were dropped.
    cancelled: list[str] | UnsetType = UNSET


class Interrupt(HostRequest, tag="interrupt", kw_only=True):
    """Stop the running turn. The answer comes at once, the turn's last frames and its result later."""

    result = Interrupted
    #: Whether to drop the prompts that wait.
    cancel_queued: bool | None = None


class PermissionModeSet(Struct, kw_only=True):
    mode: str


class SetPermissionMode(HostRequest, tag="set_permission_mode", kw_only=True):
    """Change when tool calls need consent. `system/status` follows."""

    result = PermissionModeSet
    mode: str


class ModelSet(Struct, kw_only=True):
    model: str


class SetModel(HostRequest, tag="set_model", kw_only=True):
    """Use another model from the next model call on; null means the default model."""

    result = ModelSet
    model: str | None = None


class SetMaxThinkingTokens(HostRequest, tag="set_max_thinking_tokens", kw_only=True):
    """Change how much the model thinks; 0 turns thinking off, null restores the level of the start."""

    max_thinking_tokens: int | None = None
    thinking_display: str | None = None


class AppliedSettings(Struct, kw_only=True):
    model: str
    effort: str | None


class SettingsInUse(Struct, kw_only=True):
    #: All settings, merged.
    effective: dict[str, Any]
    #: The settings by source, the weakest first.
    sources: list[dict[str, Any]]
    applied: AppliedSettings


class GetSettings(HostRequest, tag="get_settings", kw_only=True):
    """Return the settings."""

    result = SettingsInUse


class ApplyFlagSettings(HostRequest, tag="apply_flag_settings", kw_only=True):
    """Merge settings over those of `--settings`: `model`, `effortLevel`, `env`, and `permissions` with rules and `defaultMode`
    take effect. Rules replace those of earlier requests."""

    settings: dict[str, Any]


class McpServerStatus(Struct, omit_defaults=True, kw_only=True):
    """An MCP server. `status` is connected, failed, needs-auth, pending or disabled."""

    name: str
    status: str
    #: The name and the version that the server gives itself.
    server_info: dict[str, str] | UnsetType = field(name="serverInfo", default=UNSET)
    #: Why it is not connected.
    error: str | UnsetType = UNSET
    #: How it was configured, without secrets.
    config: dict[str, Any] | UnsetType = UNSET
    #: stdio, http, sse, or sdk if it lives in the host.
    transport: str | UnsetType = UNSET
    #: Where it was configured: dynamic for the command line and the host, project or user for files.
    scope: str | UnsetType = UNSET
    source: str | UnsetType = UNSET
    #: The names of its tools and what they say about themselves.
    tools: list[dict[str, Any]] | UnsetType = UNSET


class McpServers(Struct, kw_only=True):
    mcp_servers: list[McpServerStatus] = field(name="mcpServers")


class McpStatus(HostRequest, tag="mcp_status", kw_only=True):
    """Return the MCP servers and their tools."""

    result = McpServers


class McpToggle(HostRequest, tag="mcp_toggle", kw_only=True):
    """Disconnect an MCP server, or connect it again."""

    server_name: str = field(name="serverName")
    enabled: bool


class McpReconnect(HostRequest, tag="mcp_reconnect", kw_only=True):
    """Connect to an MCP server again. An error says why that failed."""

    server_name: str = field(name="serverName")


class McpServersSet(Struct, kw_only=True):
    added: list[str]
    removed: list[str]
    #: Why servers could not be connected, by name.
    errors: dict[str, str]


class McpSetServers(HostRequest, tag="mcp_set_servers", kw_only=True):
    """Replace the MCP servers that earlier requests of this kind have brought."""

    result = McpServersSet
    #: The servers by name, as in `--mcp-config`; `{type: "sdk", name}` for one in the host.
    servers: dict[str, Any]


class McpServerMessage(HostRequest, tag="mcp_message", kw_only=True):
    """Pass on a message that an MCP server in the host sends by itself, such as a notification."""

    server_name: str
    message: dict[str, Any]


class ContextCategory(Struct, kw_only=True):
    id: str
    name: str
    tokens: int
    color: str
    kind: str


class ContextPart(Struct, kw_only=True):
    """Something that takes a part of the context: a tool, a file with instructions or a kind of sub-agent."""

    name: str
    tokens: int


class ContextUsage(Struct, kw_only=True):
    """How much of the model's context is in use."""

    categories: list[ContextCategory]
    total_tokens: int = field(name="totalTokens")
    max_tokens: int = field(name="maxTokens")
    raw_max_tokens: int = field(name="rawMaxTokens")
    percentage: int
    grid_rows: list[Any] = field(name="gridRows")
    model: str
    memory_files: list[Any] = field(name="memoryFiles")
    mcp_tools: list[ContextPart] = field(name="mcpTools")
    agents: list[Any]
    is_auto_compact_enabled: bool = field(name="isAutoCompactEnabled")


class GetContextUsage(HostRequest, tag="get_context_usage", kw_only=True):
    """Return how much of the model's context is in use."""

    result = ContextUsage


class Cancelled(Struct, kw_only=True):
    cancelled: bool


class CancelAsyncMessage(HostRequest, tag="cancel_async_message", kw_only=True):
    """Drop a prompt that waits."""

    result = Cancelled
    message_uuid: str


class StopTask(HostRequest, tag="stop_task", kw_only=True):
    """Stop a sub-agent. `task_updated` and `task_notification` come before the answer."""

    task_id: str


class BackgroundTasks(HostRequest, tag="background_tasks", kw_only=True):
    """Move running calls to the background. Nothing can be moved yet, so it is an error while calls run."""

    tool_use_id: str | None = None


class RenameSession(HostRequest, tag="rename_session", kw_only=True):
    """Give the session a title."""

    title: str


class SessionTitle(Struct, kw_only=True):
    title: str | None


class GenerateSessionTitle(HostRequest, tag="generate_session_title", kw_only=True):
    """Make a title of the first words of a description."""

    result = SessionTitle
    description: str
    #: Whether the session gets the title.
    persist: bool | None = None


class McpCallResult(Struct, omit_defaults=True, kw_only=True):
    """What a tool of an MCP server has answered, as MCP defines it."""

    content: list[dict[str, Any]]
    structured_content: dict[str, Any] | UnsetType = field(name="structuredContent", default=UNSET)
    is_error: bool | UnsetType = field(name="isError", default=UNSET)


class McpCall(HostRequest, tag="mcp_call", kw_only=True):
    """Call a tool of an MCP server for the host. The model learns nothing of it, and no consent is asked for."""

    result = McpCallResult
    #: `mcp__server__tool`.
    tool: str
    arguments: dict[str, Any] | None = None
    timeout_ms: float | None = None


class McpResource(Struct, kw_only=True):
    contents: list[dict[str, Any]]


class McpReadResource(HostRequest, tag="mcp_read_resource", kw_only=True):
    """Read a resource of an MCP server."""

    result = McpResource
    server_name: str = field(name="serverName")
    uri: str


class PermissionRule(Struct, kw_only=True):
    behavior: Literal["allow", "deny", "ask"]
    #: Where it comes from: cliArg, session, or the settings.
    source: str
    rule: str
    editability: Literal["persistent", "session", "readonly"]


class PermissionRulesState(Struct, kw_only=True):
    rules: list[PermissionRule]
    workspace_directories: list[dict[str, str]] = field(name="workspaceDirectories")
    original_cwd: str = field(name="originalCwd")
    managed_only: bool = field(name="managedOnly")


class PermissionRulesListed(Struct, kw_only=True):
    state: PermissionRulesState


class ListPermissionRules(HostRequest, tag="list_permission_rules", kw_only=True):
    """Return the rules about consent that hold now."""

    result = PermissionRulesListed


class SessionCost(Struct, kw_only=True):
    #: For people to read.
    text: str


class GetSessionCost(HostRequest, tag="get_session_cost", kw_only=True):
    """Return what the session has cost, as text."""

    result = SessionCost


class SpentInSession(Struct, kw_only=True):
    total_cost_usd: float
    total_api_duration_ms: int
    total_duration_ms: int
    #: Not counted: always 0.
    total_lines_added: int = 0
    total_lines_removed: int = 0
    #: As in results.
    model_usage: dict[str, Any]


class UsageSoFar(Struct, kw_only=True):
    session: SpentInSession
    #: There are no subscriptions and no limits of them.
    subscription_type: None = None
    rate_limits_available: bool = False
    rate_limits: None = None
    behaviors: None = None


class GetUsage(HostRequest, tag="get_usage", kw_only=True):
    """Return what the session has used and cost."""

    result = UsageSoFar
    skip_behaviors: bool | None = None


class FileRead(Struct, kw_only=True):
    contents: str
    abs_path: str = field(name="absPath")
    #: Whether something is missing: the file is longer, or is not text.
    lossy: bool
    requested_path: str


class ReadFile(HostRequest, tag="read_file", kw_only=True):
    """Return the text of a file in the working directory, or in a directory that counts as inside."""

    result = FileRead
    path: str
    #: The most bytes to read; not more than 128 KiB.
    max_bytes: int | None = None


class SkillsReloaded(Struct, kw_only=True):
    skills: list[SlashCommand]


class ReloadSkills(HostRequest, tag="reload_skills", kw_only=True):
    """Read the files of skills and commands again, and return the skills."""

    result = SkillsReloaded


class BinaryVersion(Struct, kw_only=True):
    version: str


class GetBinaryVersion(HostRequest, tag="get_binary_version", kw_only=True):
    """Return the version of the program."""

    result = BinaryVersion


class Models(Struct, kw_only=True):
    models: list[ModelInfo]


class ListModels(HostRequest, tag="list_models", kw_only=True):
    """Return the models that can be used."""

    result = Models


class EndSession(HostRequest, tag="end_session", kw_only=True):
    """End the process, with exit code 0."""


REQUESTS: dict[str, type[HostRequest]] = {
    str(each.__struct_config__.tag): each
    for each in (
        Initialize,
        Interrupt,
        SetPermissionMode,
        SetModel,
        SetMaxThinkingTokens,
        GetSettings,
        ApplyFlagSettings,
        McpStatus,
        McpToggle,
        McpReconnect,
        McpSetServers,
        McpServerMessage,
        McpCall,
        McpReadResource,
        GetContextUsage,
        CancelAsyncMessage,
        StopTask,
        BackgroundTasks,
        RenameSession,
        GenerateSessionTitle,
        ListPermissionRules,
        GetSessionCost,
        GetUsage,
        ReadFile,
        ReloadSkills,
        GetBinaryVersion,
        ListModels,
        EndSession,
    )
}

# Requests of the agent


class AgentRequest(Struct, tag_field="subtype", omit_defaults=True, kw_only=True):
    pass


class McpServerOfTool(Struct, kw_only=True):
    name: str
    source: str


class RuleValue(Struct, omit_defaults=True, kw_only=True):
    """A rule: `Bash(git *)` is the tool `Bash` with the content `git *`."""

    tool_name: str = field(name="toolName")
    rule_content: str | None = field(name="ruleContent", default=None)


class PermissionUpdate(Struct, tag_field="type", omit_defaults=False, kw_only=True):
    """A change of what needs consent. `destination` is where it is kept: in the session, or in a file of settings."""

    destination: Literal["session", "localSettings", "projectSettings", "userSettings", "cliArg"] = "session"


class AddRules(PermissionUpdate, tag="addRules", kw_only=True):
    rules: list[RuleValue]
    behavior: Literal["allow", "deny", "ask"]


class ReplaceRules(PermissionUpdate, tag="replaceRules", kw_only=True):
    """Replaces all rules of the destination with that behavior."""

    rules: list[RuleValue]
    behavior: Literal["allow", "deny", "ask"]


class RemoveRules(PermissionUpdate, tag="removeRules", kw_only=True):
    rules: list[RuleValue]
    behavior: Literal["allow", "deny", "ask"]


class SetMode(PermissionUpdate, tag="setMode", kw_only=True):
    mode: str


class AddDirectories(PermissionUpdate, tag="addDirectories", kw_only=True):
    directories: list[str]


class RemoveDirectories(PermissionUpdate, tag="removeDirectories", kw_only=True):
    directories: list[str]


AnyUpdate: TypeAlias = AddRules | ReplaceRules | RemoveRules | SetMode | AddDirectories | RemoveDirectories


class CanUseTool(AgentRequest, tag="can_use_tool", kw_only=True):
    """Ask for consent to a tool call. The answer is `PermissionResult`; everything else refuses the call."""

    tool_name: str
    display_name: str
    input: dict[str, Any]
    tool_use_id: str
    #: Changes of the rules or of the mode that an answer may return in `updatedPermissions`.
    permission_suggestions: list[AnyUpdate] | UnsetType = UNSET
    #: What the call is about, for people.
    description: str | UnsetType = UNSET
    #: The path that is not inside.
    blocked_path: str | UnsetType = UNSET
    #: Why it is asked about, if a hook or a rule wants that.
    decision_reason: str | UnsetType = UNSET
    decision_reason_type: Literal["hook", "rule", "mode"] | UnsetType = UNSET
    agent_id: str | UnsetType = UNSET
    mcp_server: McpServerOfTool | UnsetType = UNSET
    #: Whether the call is a question to the user, so that no rule can answer it.
    requires_user_interaction: bool | UnsetType = UNSET


class PermissionResult(Struct, omit_defaults=True, kw_only=True):
    """The answer to `can_use_tool`."""

    behavior: Literal["allow", "deny"]
    #: Run the tool with this input instead.
    updated_input: dict[str, Any] | None = field(name="updatedInput", default=None)
    #: Change the rules, the mode or the folders that count as inside, with effect at once.
    updated_permissions: list[AnyUpdate] | None = field(name="updatedPermissions", default=None)
    #: Why the call is refused; the model sees it.
    message: str | None = None
    #: Whether to stop the turn too.
    interrupt: bool | None = None


class McpMessage(AgentRequest, tag="mcp_message", kw_only=True):
    """A message to an MCP server that lives in the host. The answer is `McpMessageResult`."""

    server_name: str
    #: A message of MCP: a request, or a notification, which any answer confirms.
    message: dict[str, Any]


class McpMessageResult(Struct, kw_only=True):
    """The answer to `mcp_message`."""

    #: The server's answer to the message.
    mcp_response: dict[str, Any]


AGENT_REQUESTS: dict[str, tuple[type[AgentRequest], type[Struct]]] = {
    "can_use_tool": (CanUseTool, PermissionResult),
    "mcp_message": (McpMessage, McpMessageResult),
}

PermissionMode: TypeAlias = Literal["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions", "auto"]
