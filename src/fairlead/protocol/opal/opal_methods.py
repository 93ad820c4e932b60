"""The requests of a client. A class is a method, its fields are the params, its docstring is its documentation."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import UNSET, Struct, UnsetType

from fairlead.protocol.opal.opal_objects import (
    OPEN,
    Auth,
    Distribution,
    FeatureChanges,
    Features,
    HistoryMessage,
    ListedModel,
    ListedSession,
    ListedTask,
    Method,
    ModelInUse,
    Nothing,
    TokenUsage,
    ToolNames,
    WantedDistribution,
    WantedModel,
)


class OfSession(Method, kw_only=True):
    #: The session.
    session_id: str


# Running


class Accepted(Struct):
    #: Whether the prompt was queued because the agent is busy.
    queued: bool


class AgentPrompt(OfSession, kw_only=True):
    """Start a run with a prompt. The response comes when the prompt is accepted. If the agent is busy, the prompt is queued and
    delivered between turns."""

    method: ClassVar[str] = "agent/prompt"
    text: str
    result: ClassVar[type[Struct]] = Accepted


class AgentAbort(OfSession):
    """Stop the run: its model call, its tools and their processes. `agent_abort` follows, even if nothing was running."""

    method: ClassVar[str] = "agent/abort"
    result: ClassVar[type[Struct]] = Nothing


class AgentResume(OfSession):
    """Continue the last run if it was interrupted, without another prompt. Refused if it has ended. An addition of fairlead."""

    method: ClassVar[str] = "agent/resume"
    result: ClassVar[type[Struct]] = Nothing


class SessionState(Struct):
    session_id: str
    #: `idle`, `running`, `streaming` or `executing_tools`.
    status: str
    model: ModelInUse
    #: The number of messages in the conversation, without the system prompt.
    message_count: int
    #: The names of the tools that the model may use.
    tools: list[str]
    token_usage: TokenUsage | UnsetType = UNSET


class AgentState(OfSession):
    """The state of a session."""

    method: ClassVar[str] = "agent/state"
    result: ClassVar[type[Struct]] = SessionState


# Sessions


class Started(Struct):
    session_id: str
    #: The folder for this session's own files.
    session_dir: str
    #: The paths of the context files whose instructions the model gets.
    context_files: list[str]
    #: The names of the available skills.
    available_skills: list[str]
    #: The Erlang node of the server, for debugging. There is none, which Erlang calls `nonode@nohost`.
    node_name: str
    auth: Auth


class SessionStart(Method, kw_only=True):
    """Begin a session, or resume a saved one."""

    method: ClassVar[str] = "session/start"
    #: The model to use; the default of the settings if left out.
    model: WantedModel | None = None
    #: Instructions for the model that replace the usual ones.
    system_prompt: str | None = None
    #: The working directory; that of the server if left out.
    working_dir: str | None = None
    features: FeatureChanges | None = None
    #: The only tools that the model may use.
    tools: list[str] | None = None
    #: Save the session so it can be resumed.
    session: bool | None = None
    #: Resume the session with this id, or begin it. It is saved.
    session_id: str | None = None
    result: ClassVar[type[Struct]] = Started


class SavedSessions(Struct):
    sessions: list[Annotated[ListedSession, OPEN]]


class SessionList(Method):
    """The saved sessions, last changed first."""

    method: ClassVar[str] = "session/list"
    result: ClassVar[type[Struct]] = SavedSessions


class SessionBranch(OfSession, kw_only=True):
    """Continue from an earlier message of the conversation. Later messages stay in the file."""

    method: ClassVar[str] = "session/branch"
    #: The id of that message in `session/history`.
    entry_id: str
    result: ClassVar[type[Struct]] = Nothing


class SessionCompact(OfSession, kw_only=True):
    """Replace the older part of the conversation with a summary. The response comes when the summary is saved."""

    method: ClassVar[str] = "session/compact"
    #: How many of the latest messages to keep; 10 if left out.
    keep_recent: int | None = None
    result: ClassVar[type[Struct]] = Nothing


class HistoryMessages(Struct):
    messages: list[Annotated[HistoryMessage, OPEN]]


class SessionHistory(OfSession):
    """The conversation, from its first message to the current one."""

    method: ClassVar[str] = "session/history"
    result: ClassVar[type[Struct]] = HistoryMessages


class Done(Struct):
    ok: bool


class SessionDelete(OfSession):
    """Delete a saved session."""

    method: ClassVar[str] = "session/delete"
    result: ClassVar[type[Struct]] = Done


# Models


class ListedModels(Struct):
    models: list[Annotated[ListedModel, OPEN]]


class ModelsList(Method):
    """The models that can be chosen."""

    method: ClassVar[str] = "models/list"
    result: ClassVar[type[Struct]] = ListedModels


class ModelChosen(Struct):
    model: ModelInUse


class ModelSet(OfSession, kw_only=True):
    """Use another model from the next turn on."""

    method: ClassVar[str] = "model/set"
    #: The id alone, or `provider/id`.
    model_id: str
    #: As in `thinking/set`; the present level, as far as the model has it, if left out.
    thinking_level: str | None = None
    result: ClassVar[type[Struct]] = ModelChosen


class ThinkingChosen(Struct):
    thinking_level: str


class ThinkingSet(OfSession, kw_only=True):
    """Set how much the model thinks."""

    method: ClassVar[str] = "thinking/set"
    #: `off`, `low`, `medium`, `high` or `max`.
    level: str
    result: ClassVar[type[Struct]] = ThinkingChosen


# Credentials


class CredentialStatus(Struct):
    authenticated: bool
    auth: Auth


class AuthStatus(Method):
    """Whether there are credentials, and for which providers."""

    method: ClassVar[str] = "auth/status"
    result: ClassVar[type[Struct]] = CredentialStatus


class LoginBegun(Struct):
    #: The code that the user enters.
    user_code: str
    #: The page on which the user enters it.
    verification_uri: str
    #: The parameter for `auth/poll`.
    device_code: str
    #: Seconds between two checks of whether the user has entered it.
    interval: int


class AuthLogin(Method):
    """Begin a login with a code that the user enters on the provider's page."""

    method: ClassVar[str] = "auth/login"
    result: ClassVar[type[Struct]] = LoginBegun


class LoggedIn(Struct):
    #: Always true: every failure is an error.
    authenticated: bool


class AuthPoll(Method, kw_only=True):
    """Wait until the user has entered the code of `auth/login`, and save the new credentials."""

    method: ClassVar[str] = "auth/poll"
    device_code: str
    #: As returned by `auth/login`.
    interval: int
    result: ClassVar[type[Struct]] = LoggedIn


class AuthSetKey(Method, kw_only=True):
    """Save the key of a provider."""

    method: ClassVar[str] = "auth/set_key"
    provider: str
    api_key: str
    result: ClassVar[type[Struct]] = Done


# Tasks


class Tasks(Struct):
    tasks: list[Annotated[ListedTask, OPEN]]


class TasksList(OfSession):
    """The tasks that are not done."""

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
    """Change the user's settings. Other keys stay unchanged. The result has all settings."""

    method: ClassVar[str] = "settings/save"
    settings: dict[str, Any]
    result: ClassVar[type[Struct]] = SettingsResult


class Config(Struct):
    features: Features
    tools: ToolNames
    #: Always null: there is no Erlang node.
    distribution: Distribution | None


class ConfigGet(OfSession):
    """The features and the tools of a session."""

    method: ClassVar[str] = "opal/config/get"
    result: ClassVar[type[Struct]] = Config


class ConfigSet(OfSession, kw_only=True):
    """Change the features and the tools of a session. What is left out stays unchanged."""

    method: ClassVar[str] = "opal/config/set"
    features: FeatureChanges | None = None
    #: The only tools that the model may use.
    tools: list[str] | None = None
    #: Only null is allowed: fairlead cannot start an Erlang node.
    distribution: WantedDistribution | UnsetType | None = UNSET
    result: ClassVar[type[Struct]] = Config


# The connection


class Ping(Method):
    """Check the connection. The response comes at once, whatever else is running."""

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
        AgentResume,
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
