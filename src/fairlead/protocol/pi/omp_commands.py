"""Commands that omp and xcsh add: frame limits, event filters, handoff, todos, login, locale, sub-agents.

`host_requests` has those for host tools and host URIs.
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import UNSET, Struct, UnsetType

from fairlead.core.snapshots import SubagentSnapshot
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
    """Turn a faster service tier on or off. The choice is kept, but fairlead asks no provider for it: `active` stays false."""

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


# Sub-agents


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
