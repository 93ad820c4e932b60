"""Commands that omp and xcsh add: frame limits, event filters, handoff, todos, login, locale, host tools and host URIs,
sub-agents. Also the replies of a host to calls of its tools and requests for its URIs."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from msgspec import UNSET, Struct, UnsetType

from fairlead.core.snapshots import SubagentSnapshot
from fairlead.core.tool import ToolResult
from fairlead.protocol.pi.commands import Command

# Frames and events


class Negotiated(Struct, rename="camel"):
    protocol_version: int


class NegotiateProtocol(Command, tag="negotiate_protocol", kw_only=True):
    """Switch to version 2 of the protocol. In it no frame is longer than 1 MiB: longer ones arrive as `rpc_chunk` frames, and
    `agent_end` omits messages that were sent before. Version 1, the default, has no limit."""

    protocol_version: int
    result: ClassVar[Any] = Negotiated


class EventFilter(Struct):
    events: list[str] | None


class SetEventFilter(Command, tag="set_event_filter", kw_only=True):
    """Send only events of these types; null sends all again. The host always gets responses, `prompt_result`, `session_settled`
    and requests that expect a reply."""

    events: Any
    result: ClassVar[Any] = EventFilter


# Sessions


class OpenedSession(Struct, rename="camel"):
    #: True if an extension blocked it. Then nothing has changed, and the other fields are absent.
    cancelled: bool
    #: True if the folder contained a session to resume.
    resumed: bool | UnsetType = UNSET
    session_id: str | UnsetType = UNSET
    session_file: str | UnsetType = UNSET


class OpenSession(Command, tag="open_session", kw_only=True):
    """Save sessions in another folder from now on, and resume its latest session or start a new one."""

    session_dir: str
    result: ClassVar[Any] = OpenedSession


class HandedOff(Struct, rename="camel"):
    #: The file of the new session; absent if sessions are not saved.
    saved_path: str | UnsetType = UNSET


class Handoff(Command, tag="handoff", kw_only=True):
    """Ask the model for a summary of everything that matters, and start a new session with it."""

    custom_instructions: str | None = None
    result: ClassVar[Any] = HandedOff


# Todos


class TodoPhases(Struct, rename="camel"):
    todo_phases: list[dict[str, Any]]


class SetTodos(Command, tag="set_todos", kw_only=True):
    """Replace the todos: phases `{id?, name, tasks: [{id?, content, status?, notes?, details?}]}`. fairlead adds missing ids and
    statuses, and keeps at most one task in progress. The response contains the new list."""

    phases: Any
    result: ClassVar[Any] = TodoPhases


# Providers


class FastMode(Struct):
    enabled: bool
    #: Whether the current model has such a mode.
    active: bool


class SetFastMode(Command, tag="set_fast_mode", kw_only=True):
    """Turn a faster mode of the model on or off. No model that fairlead knows has one, so it stays off."""

    enabled: bool
    result: ClassVar[Any] = FastMode


class LoginProvider(Struct):
    id: str
    name: str
    #: Whether `login` works for it. Other providers need a key in the environment or in auth.json.
    available: bool
    #: Whether it has a key.
    authenticated: bool


class LoginProviders(Struct):
    providers: list[LoginProvider]


class GetLoginProviders(Command, tag="get_login_providers"):
    """List the model providers, and which of them have a key."""

    result: ClassVar[Any] = LoginProviders


class Login(Command, tag="login", kw_only=True):
    """Log in to a provider: the user enters a code on the page of an `open_url` request. The response arrives when the user is
    done and the token is saved. A provider without login gets an error that says how to set its key."""

    provider_id: str


# xcsh


class Locale(Struct):
    locale: str


class SetLocale(Command, tag="set_locale", kw_only=True):
    """Set the language of the user, such as `ja` or `pt-BR`, which the model will answer in. An empty text unsets it. `locale`
    in a prompt does the same."""

    locale: str
    result: ClassVar[Any] = Locale


class Integrations(Struct):
    integrations: list[dict[str, Any]]


class GetIntegrations(Command, tag="get_integrations"):
    """List the services that xcsh is connected to. fairlead has none."""

    result: ClassVar[Any] = Integrations


OMP_COMMANDS: tuple[type[Command], ...] = (
    NegotiateProtocol,
    SetEventFilter,
    OpenSession,
    Handoff,
    SetTodos,
    SetFastMode,
    GetLoginProviders,
    Login,
    SetLocale,
    GetIntegrations,
)


# Registering


class HostToolDefinition(Struct, rename="camel", kw_only=True):
    """A tool that the host runs."""

    #: Not empty, and different from the name of every other tool.
    name: str
    #: The description for the model; not empty.
    description: str
    #: The JSON Schema of the arguments. fairlead checks them before it calls the host.
    parameters: dict[str, Any]
    #: A short label for people; the name if absent.
    label: str | None = None
    #: Hide the tool from the model until `set_active_tools` names it.
    hidden: bool | None = None
    #: Milliseconds after which a call is cancelled; 0 or absent: never.
    timeout_ms: float | None = None


class HostToolNames(Struct, rename="camel"):
    tool_names: list[str]


class SetHostTools(Command, tag="set_host_tools", kw_only=True):
    """Replace the host tools, starting with the next model call, even during a run. A new tool is active unless it is `hidden`. A
    tool whose name was registered before stays active or inactive. When the model calls a host tool, the host gets
    `host_tool_call` and replies with `host_tool_result`."""

    tools: list[HostToolDefinition]
    result: ClassVar[Any] = HostToolNames


class HostUriScheme(Struct, kw_only=True):
    """URIs that the host serves."""

    #: The part before `://`: a letter, then letters, digits, `+`, `.` and `-`. Case does not matter.
    scheme: str
    #: A short description for people.
    description: str | None = None
    #: Whether the model may `write` to them, and not only `read`.
    writable: bool | None = None
    #: Whether their content never changes. The `details` of a result contain this.
    immutable: bool | None = None


class HostUriSchemes(Struct):
    schemes: list[str]


class SetHostUriSchemes(Command, tag="set_host_uri_schemes", kw_only=True):
    """Replace the URI schemes that the host serves. When the model uses `read` or `write` on such a URI, the host gets
    `host_uri_request` and replies with `host_uri_result`."""

    schemes: list[HostUriScheme]
    result: ClassVar[Any] = HostUriSchemes


# Replying


class ReplyLine(Struct, tag_field="type", rename="camel", kw_only=True):
    #: The id of the request.
    id: str


class HostToolUpdate(ReplyLine, tag="host_tool_update", kw_only=True):
    """Report the progress of a `host_tool_call`. It becomes a `tool_execution_update` event."""

    #: The whole output so far, not only the new part.
    partial_result: ToolResult


class HostToolResult(ReplyLine, tag="host_tool_result", kw_only=True):
    """The result of a `host_tool_call`. With `isError`, the text of the content is the error message."""

    result: ToolResult
    is_error: bool | None = None


class HostUriResult(ReplyLine, tag="host_uri_result", kw_only=True):
    """The result of a `host_uri_request`. With `isError`, `error` (or `content`) says why it failed."""

    #: Required after a `read`.
    content: str | None = None
    #: `text/plain` if absent.
    content_type: str | None = None
    #: Notes for the model, appended to the result.
    notes: list[str] | None = None
    #: Overrides the value of the scheme.
    immutable: bool | None = None
    is_error: bool | None = None
    error: str | None = None


HOST_COMMANDS: tuple[type[Command], ...] = (SetHostTools, SetHostUriSchemes)
HOST_ANSWERS: tuple[type[ReplyLine], ...] = (HostToolUpdate, HostToolResult, HostUriResult)


# Errors for registrations that are invalid, in the words that hosts of omp know

#: Schemes that have a meaning without a host, in fairlead or omp.
RESERVED_SCHEMES = frozenset("agent artifact data fairlead file ftp http https local mcp memory omp rule security skill".split())


def _host_tools_fault(command: dict[str, Any]) -> str | None:
    names: set[str] = set()
    tools = _objects(command.get("tools"))
    for index, tool in enumerate(tools):
        name = _trimmed(tool.get("name"))
        if not name:
            return f"Host tool at index {index} must provide a non-empty name"
        if not _trimmed(tool.get("description")):
            return f'Host tool "{name}" must provide a non-empty description'
        if not isinstance(tool.get("parameters"), dict):
            return f'Host tool "{name}" must provide a JSON Schema object'
        limit = tool.get("timeoutMs")
        if isinstance(limit, int | float) and limit < 0:
            return f'Host tool "{name}" must provide a timeoutMs of 0 or more'
        names.add(name)
    return "RPC host tool names must be unique" if len(names) < len(tools) else None


def _host_uri_schemes_fault(command: dict[str, Any]) -> str | None:
    import re

    for each in _objects(command.get("schemes")):
        given = each.get("scheme")
        scheme = _trimmed(given).lower()
        if not scheme:
            return "Host URI scheme must be a non-empty string"
        if not re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme):
            return f"Host URI scheme contains invalid characters: {given}"
        if scheme in RESERVED_SCHEMES:
            return f"Host URI scheme is reserved by fairlead: {scheme}://"
    return None


def _objects(items: Any) -> list[dict[str, Any]]:
    """The items of a list, with an empty object for each that is not an object. Decoding rejects what is not a list."""
    if not isinstance(items, list):
        return []
    return [cast("dict[str, Any]", item) if isinstance(item, dict) else {} for item in cast("list[Any]", items)]


def _trimmed(text: Any) -> str:
    return text.strip() if isinstance(text, str) else ""


SetHostTools.fault = staticmethod(_host_tools_fault)
SetHostUriSchemes.fault = staticmethod(_host_uri_schemes_fault)


class SubagentSubscription(Struct):
    level: str


class SetSubagentSubscription(Command, tag="set_subagent_subscription", kw_only=True):
    """Choose the events about sub-agents: none (`off`, the default), `subagent_lifecycle` and `subagent_progress`
    (`progress`), or these and every event of their runs as `subagent_event` (`events`)."""

    level: str
    result: ClassVar[Any] = SubagentSubscription


class SubagentList(Struct):
    subagents: list[SubagentSnapshot]


class GetSubagents(Command, tag="get_subagents"):
    """List the sub-agents that started since this session was opened, including finished ones. A nested sub-agent's id begins
    with the id of its parent and a dot."""

    result: ClassVar[Any] = SubagentList


class SubagentMessages(Struct, rename="camel"):
    """`entries` are complete lines of the file, including its header. `messages` are the messages in them. `nextByte` is the
    `fromByte` of the next part."""

    session_file: str
    from_byte: int
    next_byte: int
    #: True if the file was shorter than `fromByte`, so that `entries` begins with its first line.
    reset: bool
    entries: list[dict[str, Any]]
    messages: list[dict[str, Any]]


class GetSubagentMessages(Command, tag="get_subagent_messages", kw_only=True):
    """Get the conversation of a sub-agent as written so far, or the part after the byte `fromByte`. Name the sub-agent by its id
    or by its `sessionFile`, which also finds those from before this session was opened. Other files are refused."""

    subagent_id: str | None = None
    session_file: str | None = None
    from_byte: int | None = None
    result: ClassVar[Any] = SubagentMessages


SUBAGENT_COMMANDS: tuple[type[Command], ...] = (SetSubagentSubscription, GetSubagents, GetSubagentMessages)
