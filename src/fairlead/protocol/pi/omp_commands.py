"""What omp and xcsh add beside tools and sub-agents: bounded frames, a filter of events, handing off, logging in, languages."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import UNSET, Struct, UnsetType

from fairlead.protocol.pi.command import Command

# Frames and events


class Negotiated(Struct, rename="camel"):
    protocol_version: int


class NegotiateProtocol(Command, tag="negotiate_protocol", kw_only=True):
    """Choose version 2 of the protocol: no frame is longer than 1 MiB; longer ones come as `rpc_chunk` frames, and `agent_end`
    leaves out messages that were told already. Version 1, in which nothing is cut, needs no choosing."""

    protocol_version: int
    result: ClassVar[Any] = Negotiated


class EventFilter(Struct):
    events: list[str] | None


class SetEventFilter(Command, tag="set_event_filter", kw_only=True):
    """Send only events of these types; null sends all again. Responses, `prompt_result`, `session_settled` and questions to the
    host are always sent."""

    events: Any
    result: ClassVar[Any] = EventFilter


# Sessions


class OpenedSession(Struct, rename="camel"):
    #: True if an extension forbade it. Then nothing has changed, and the rest is left out.
    cancelled: bool
    #: True if the folder had a session to go on with.
    resumed: bool | UnsetType = UNSET
    session_id: str | UnsetType = UNSET
    session_file: str | UnsetType = UNSET


class OpenSession(Command, tag="open_session", kw_only=True):
    """Keep sessions in another folder from here on, and go on with the one there that changed last, or begin one."""

    session_dir: str
    result: ClassVar[Any] = OpenedSession


class HandedOff(Struct, rename="camel"):
    #: The file of the new session; absent if sessions are not kept.
    saved_path: str | UnsetType = UNSET


class Handoff(Command, tag="handoff", kw_only=True):
    """Have the model write down all that matters, and go on in a new session that begins with it."""

    custom_instructions: str | None = None
    result: ClassVar[Any] = HandedOff


# Todos


class TodoPhases(Struct, rename="camel"):
    todo_phases: list[dict[str, Any]]


class SetTodos(Command, tag="set_todos", kw_only=True):
    """Put a list in the place of the model's todos: phases `{id?, name, tasks: [{id?, content, status?, notes?, details?}]}`.
    Missing ids and statuses are filled in, one task at most is in progress. The answer has the list as it is then."""

    phases: Any
    result: ClassVar[Any] = TodoPhases


# Providers


class FastMode(Struct):
    enabled: bool
    #: Whether the present model has such a mode.
    active: bool


class SetFastMode(Command, tag="set_fast_mode", kw_only=True):
    """Ask for faster answers where the provider sells them. No model here has such a mode, so it cannot be turned on."""

    enabled: bool
    result: ClassVar[Any] = FastMode


class LoginProvider(Struct):
    id: str
    name: str
    #: Whether one can log in with `login`. Keys of others are given in the environment or in auth.json.
    available: bool
    #: Whether there is a key for it.
    authenticated: bool


class LoginProviders(Struct):
    providers: list[LoginProvider]


class GetLoginProviders(Command, tag="get_login_providers"):
    """The providers of models, and which of them have a key."""

    result: ClassVar[Any] = LoginProviders


class Login(Command, tag="login", kw_only=True):
    """Log in at a provider: the user enters a code on the page that an `open_url` request names. Answered when they have, and the
    token is kept. For a provider without a login, an error that says how to give its key."""

    provider_id: str


# xcsh


class Locale(Struct):
    locale: str


class SetLocale(Command, tag="set_locale", kw_only=True):
    """The language tag of the user, such as `ja` or `pt-BR`: the model is told to answer in that language. An empty one takes
    it back. `locale` in a prompt does the same."""

    locale: str
    result: ClassVar[Any] = Locale


class Integrations(Struct):
    integrations: list[dict[str, Any]]


class GetIntegrations(Command, tag="get_integrations"):
    """The services that xcsh is connected to; there are none here."""

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
