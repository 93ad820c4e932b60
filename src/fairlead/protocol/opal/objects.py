"""Objects that methods and events have in common. Names are on the wire as they are here."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from fairlead.protocol.opal.method import DEMANDED

# Models


class WantedModel(Struct, omit_defaults=True):
    """A model to use."""

    #: The id alone, or `provider/id`.
    id: str
    #: Whose model it is. Clients of Opal send it; without it, the id decides.
    provider: Annotated[str | None, DEMANDED] = None
    #: `off`, `low`, `medium`, `high` or `max`; fitted to what the model can.
    thinking_level: str | None = None


class ModelInUse(Struct):
    """The model that answers."""

    provider: str
    id: str
    thinking_level: str


class ListedModel(Struct):
    """A model that can be chosen."""

    id: str
    #: What people call it.
    name: str
    provider: str
    supports_thinking: bool
    #: Empty for a model that does not think.
    thinking_levels: list[str]


# Sessions


class ListedSession(Struct):
    """A session that was saved."""

    id: str
    #: Null until it has one.
    title: str | None
    #: When it last changed: UTC, as in `2026-11-15T06:27:18`.
    modified: str


class HistoryToolCall(Struct):
    """A tool that the model asked for."""

    call_id: str
    name: str
    arguments: dict[str, Any]


class HistoryMessage(Struct, kw_only=True):
    """A message of the conversation."""

    #: What `session/branch` calls it by.
    id: str
    role: Literal["user", "assistant", "tool_result", "system", "tool_call"]
    content: str
    is_error: bool
    #: What the model thought before it answered.
    thinking: str | UnsetType = UNSET
    tool_calls: list[HistoryToolCall] | UnsetType = UNSET
    #: Of a `tool_result`: the call that it answers, and the tool.
    call_id: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET


class ListedTask(Struct):
    """Something to do. Every value is a text; what is not known is empty."""

    id: str
    label: str
    #: `open`, `in_progress` or `blocked`.
    status: str
    prompt: str
    result: str
    notes: str
    #: The ids of the tasks that have to be done before, with commas between them.
    blocked_by: str
    parent_id: str
    created_at: str
    updated_at: str


# Credentials


class AuthProvider(Struct):
    """A provider, and how one comes to have credentials for it."""

    id: str
    name: str
    method: Literal["api_key", "device_code"]
    #: Whether there are credentials for it.
    ready: bool
    #: The environment variable that may hold its key.
    env_var: str | UnsetType = UNSET


class Auth(Struct):
    """Whether there are credentials for a model."""

    status: Literal["ready", "setup_required"]
    #: The provider that is used, or would be; empty if there is none.
    provider: str
    #: Every place that was looked at.
    providers: list[AuthProvider] | UnsetType = UNSET


# Configuration


class Features(Struct):
    """What a session may do beside talking and using its tools."""

    sub_agents: bool
    skills: bool
    #: Whether the model may look into the state of the session.
    debug: bool


class FeatureChanges(Struct, omit_defaults=True):
    """Features to turn on or off; the others stay as they are."""

    sub_agents: bool | None = None
    skills: bool | None = None
    debug: bool | None = None


class ToolNames(Struct):
    """Which tools there are, and which of them the model may use."""

    all: list[str]
    enabled: list[str]
    disabled: list[str]


class Distribution(Struct):
    """The Erlang node of a server that is one."""

    node: str
    cookie: str


class WantedDistribution(Struct, omit_defaults=True):
    """An Erlang node to start."""

    name: str
    cookie: str | None = None


# Runs


class TokenUsage(Struct):
    """Tokens so far. The first three grow for as long as the session is in this process."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    context_window: int
    #: The prompt of the latest request to the model.
    current_context_tokens: int


class DiffLine(Struct):
    """A line that stays (`eq`), goes (`del`) or comes (`ins`)."""

    op: Literal["eq", "del", "ins"]
    text: str
    #: Its number before and after the change, where it has one.
    old_no: int | UnsetType = UNSET
    new_no: int | UnsetType = UNSET


class DiffHunk(Struct):
    """Changes that are near each other, with three lines around them."""

    old_start: int
    new_start: int
    lines: list[DiffLine]


class Diff(Struct):
    """What a tool changed in a file."""

    path: str
    lines_added: int
    lines_removed: int
    hunks: list[DiffHunk]
    #: Whether the hunks have only the beginning of a long change. The counts are exact all the same.
    truncated: bool | UnsetType = UNSET


class ResultMeta(Struct):
    """What a client may show of a result. The model is not told of it."""

    diff: Diff | UnsetType = UNSET


ToolOutput: TypeAlias = str | dict[str, Any]


class ToolOutcome(Struct, kw_only=True):
    """What came of a tool call: with `ok`, its `output`; else the `error`."""

    ok: bool
    #: A text; the tool `tasks` gives an object.
    output: ToolOutput | UnsetType = UNSET
    error: str | UnsetType = UNSET
    meta: ResultMeta | UnsetType = UNSET
