"""What a client may ask. A class is a method; its fields are the params; its docstring is its documentation."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import UNSET, Struct, UnsetType

from fairlead.protocol.opal.method import OPEN, Method, Nothing
from fairlead.protocol.opal.objects import (
    Auth,
    Distribution,
    FeatureChanges,
    Features,
    HistoryMessage,
    ListedModel,
    ListedSession,
    ListedTask,
    ModelInUse,
    TokenUsage,
    ToolNames,
    WantedDistribution,
    WantedModel,
)


class OfSession(Method, kw_only=True):
    #: The session that is meant.
    session_id: str


# Running


class Accepted(Struct):
    #: Whether the agent was busy, so that the prompt waits.
    queued: bool


class AgentPrompt(OfSession, kw_only=True):
    """Give the agent something to do. Answered when the prompt is accepted; while the agent is busy the prompt is queued and
    heard between turns."""

    method: ClassVar[str] = "agent/prompt"
    text: str
    result: ClassVar[type[Struct]] = Accepted


class AgentAbort(OfSession):
    """Stop the run: its model call, its tools and their processes. `agent_abort` follows, also when nothing was running."""

    method: ClassVar[str] = "agent/abort"
    result: ClassVar[type[Struct]] = Nothing


class SessionState(Struct):
    session_id: str
    #: `idle`, `running`, `streaming` or `executing_tools`.
    status: str
    model: ModelInUse
    #: Messages of the conversation, without the system prompt.
    message_count: int
    #: The names of the tools that the model may use.
    tools: list[str]
    token_usage: TokenUsage | UnsetType = UNSET


class AgentState(OfSession):
    """How the session stands."""

    method: ClassVar[str] = "agent/state"
    result: ClassVar[type[Struct]] = SessionState


# Sessions


class Started(Struct):
    session_id: str
    #: The folder for files of this session's own.
    session_dir: str
    #: The paths of the files with instructions that the model is told of.
    context_files: list[str]
    #: The names of the skills that were found.
    available_skills: list[str]
    #: The name of the server, for people.
    node_name: str
    auth: Auth


class SessionStart(Method, kw_only=True):
    """Begin a session, or go on with a saved one."""

    method: ClassVar[str] = "session/start"
    #: The model to use; without it, the default of the settings.
    model: WantedModel | None = None
    #: Instructions for the model, in the place of the usual ones.
    system_prompt: str | None = None
    #: Where the session works; without it, where the server was started.
    working_dir: str | None = None
    features: FeatureChanges | None = None
    #: The tools that the model may use, and no others.
    tools: list[str] | None = None
    #: Save the session, so that it can be gone on with.
    session: bool | None = None
    #: Go on with the session of this id, or begin it. It is saved.
    session_id: str | None = None
    result: ClassVar[type[Struct]] = Started


class Sessions(Struct):
    sessions: list[Annotated[ListedSession, OPEN]]


class SessionList(Method):
    """The saved sessions, those that changed last first."""

    method: ClassVar[str] = "session/list"
    result: ClassVar[type[Struct]] = Sessions


class SessionBranch(OfSession, kw_only=True):
    """Go on from an earlier message of the conversation. What came after it stays in the file."""

    method: ClassVar[str] = "session/branch"
    #: The id of that message in `session/history`.
    entry_id: str
    result: ClassVar[type[Struct]] = Nothing


class SessionCompact(OfSession, kw_only=True):
    """Replace the older part of the conversation by a summary. Answered when it is done and saved."""

    method: ClassVar[str] = "session/compact"
    #: How many of the latest messages stay as they are; 10 if not given.
    keep_recent: int | None = None
    result: ClassVar[type[Struct]] = Nothing


class History(Struct):
    messages: list[Annotated[HistoryMessage, OPEN]]


class SessionHistory(OfSession):
    """The conversation, from its first message to where it stands."""

    method: ClassVar[str] = "session/history"
    result: ClassVar[type[Struct]] = History


class Done(Struct):
    ok: bool


class SessionDelete(OfSession):
    """Delete a saved session."""

    method: ClassVar[str] = "session/delete"
    result: ClassVar[type[Struct]] = Done


# Models


class Models(Struct):
    models: list[Annotated[ListedModel, OPEN]]


class ModelsList(Method):
    """The models that can be chosen."""

    method: ClassVar[str] = "models/list"
    result: ClassVar[type[Struct]] = Models


class ModelChosen(Struct):
    model: ModelInUse


class ModelSet(OfSession, kw_only=True):
    """Use another model from the next turn on."""

    method: ClassVar[str] = "model/set"
    #: The id alone, or `provider/id`.
    model_id: str
    #: As in `thinking/set`; without it, what suits the model.
    thinking_level: str | None = None
    result: ClassVar[type[Struct]] = ModelChosen


class ThinkingChosen(Struct):
    thinking_level: str


class ThinkingSet(OfSession, kw_only=True):
    """How much the model thinks."""

    method: ClassVar[str] = "thinking/set"
    #: `off`, `low`, `medium`, `high` or `max`.
    level: str
    result: ClassVar[type[Struct]] = ThinkingChosen


# Credentials


class Credentials(Struct):
    authenticated: bool
    auth: Auth


class AuthStatus(Method):
    """Whether there are credentials, after a look at every place that may have some."""

    method: ClassVar[str] = "auth/status"
    result: ClassVar[type[Struct]] = Credentials


class LoginBegun(Struct):
    #: What the user enters.
    user_code: str
    #: Where.
    verification_uri: str
    #: What to give to `auth/poll`.
    device_code: str
    #: Seconds between two looks at whether it was entered.
    interval: int


class AuthLogin(Method):
    """Begin a login with a code that the user enters on a page of the provider's."""

    method: ClassVar[str] = "auth/login"
    result: ClassVar[type[Struct]] = LoginBegun


class LoggedIn(Struct):
    #: Always true: everything else is an error.
    authenticated: bool


class AuthPoll(Method, kw_only=True):
    """Wait until the user has entered the code of `auth/login`, and keep the credentials that come of it."""

    method: ClassVar[str] = "auth/poll"
    device_code: str
    #: As `auth/login` gave it.
    interval: int
    result: ClassVar[type[Struct]] = LoggedIn


class AuthSetKey(Method, kw_only=True):
    """Keep the key of a provider."""

    method: ClassVar[str] = "auth/set_key"
    provider: str
    api_key: str
    result: ClassVar[type[Struct]] = Done


# Tasks


class Tasks(Struct):
    tasks: list[Annotated[ListedTask, OPEN]]


class TasksList(OfSession):
    """What there is to do: the tasks that are not done."""

    method: ClassVar[str] = "tasks/list"
    result: ClassVar[type[Struct]] = Tasks


# Settings


class SettingsResult(Struct):
    #: All settings, by key.
    settings: dict[str, Any]


class SettingsGet(Method):
    """The user's settings."""

    method: ClassVar[str] = "settings/get"
    result: ClassVar[type[Struct]] = SettingsResult


class SettingsSave(Method, kw_only=True):
    """Change settings of the user's. Keys that are not given stay as they are; the answer has all."""

    method: ClassVar[str] = "settings/save"
    settings: dict[str, Any]
    result: ClassVar[type[Struct]] = SettingsResult


class Config(Struct):
    features: Features
    tools: ToolNames
    #: Always null here: there is no Erlang node.
    distribution: Distribution | None


class ConfigGet(OfSession):
    """What a session may do, and with which tools."""

    method: ClassVar[str] = "opal/config/get"
    result: ClassVar[type[Struct]] = Config


class ConfigSet(OfSession, kw_only=True):
    """Change what a session may do. What is not given stays as it is."""

    method: ClassVar[str] = "opal/config/set"
    features: FeatureChanges | None = None
    #: The tools that the model may use, and no others.
    tools: list[str] | None = None
    #: Null stops the Erlang node, of which there is none; one cannot be started.
    distribution: WantedDistribution | UnsetType | None = UNSET
    result: ClassVar[type[Struct]] = Config


# The connection


class Ping(Method):
    """Answered at once, whatever else is going on."""

    method: ClassVar[str] = "opal/ping"
    result: ClassVar[type[Struct]] = Nothing


class Versions(Struct):
    server_version: str
    protocol_version: str


class Version(Method):
    """The versions of the server and of the protocol."""

    method: ClassVar[str] = "opal/version"
    result: ClassVar[type[Struct]] = Versions


#: All methods by name.
METHODS: dict[str, type[Method]] = {
    declared.method: declared
    for declared in (
        SessionStart,
        AgentPrompt,
        AgentAbort,
        AgentState,
        SessionList,
        SessionBranch,
        SessionCompact,
        SessionHistory,
        SessionDelete,
        ModelsList,
        ModelSet,
        ThinkingSet,
        AuthStatus,
        AuthLogin,
        AuthPoll,
        AuthSetKey,
        TasksList,
        SettingsGet,
        SettingsSave,
        ConfigGet,
        ConfigSet,
        Ping,
        Version,
    )
}
