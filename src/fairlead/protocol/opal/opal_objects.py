"""What methods and events share: the base class of a request, and objects. Field names are the same on the wire."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

#: The version of Opal's protocol that fairlead speaks.
PROTOCOL_VERSION = "0.1.0"

#: Marks an object that Opal's published schema does not describe further. Our schema has its fields under `types`.
OPEN = Meta(extra={"open": True})
#: Marks a field that Opal's published schema requires but its server does not.
DEMANDED = Meta(extra={"demanded": True})


class Method(Struct, omit_defaults=True):
    """A request. The fields are its params; `null` for an optional one means absent."""

    #: Its name on the wire.
    method: ClassVar[str]
    #: The type of the response's `result`.
    result: ClassVar[type[Struct]]


class Nothing(Struct):
    """An empty object: the request was carried out."""


# Models


class WantedModel(Struct, omit_defaults=True):
    """A model to use."""

    #: The id alone, or `provider/id`.
    id: str
    #: The provider of the model. If left out, the id decides.
    provider: Annotated[str | None, DEMANDED] = None
    #: `off`, `low`, `medium`, `high` or `max`; the model uses the nearest level it has.
    thinking_level: str | None = None


class ModelInUse(Struct):
    """The model in use."""

    provider: str
    id: str
    thinking_level: str


class ListedModel(Struct):
    """A model that can be chosen."""

    id: str
    #: Its name for people.
    name: str
    provider: str
    supports_thinking: bool
    #: Empty for a model without thinking.
    thinking_levels: list[str]


# Sessions


class ListedSession(Struct):
    """A saved session."""

    id: str
    #: Its name, else the beginning of its first message. Null if it has neither.
    title: str | None
    #: The time of its last change in UTC, such as `2026-11-15T06:27:18`.
    modified: str


class HistoryToolCall(Struct):
    """A tool call of the model."""

    call_id: str
    name: str
    arguments: dict[str, Any]


class HistoryMessage(Struct, kw_only=True):
    """A message of the conversation."""

    #: The id for `session/branch`.
    id: str
    role: Literal["user", "assistant", "tool_result", "system", "tool_call"]
    content: str
    is_error: bool
    #: The model's thinking before the answer.
    thinking: str | UnsetType = UNSET
    tool_calls: list[HistoryToolCall] | UnsetType = UNSET
    #: For a `tool_result`: the id of its call, and the tool.
    call_id: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET


class ListedTask(Struct):
    """A task. Every value is a string; unknown values are empty."""

    id: str
    label: str
    #: `open`, `in_progress` or `blocked`.
    status: str
    prompt: str
    result: str
    notes: str
    #: The ids of the tasks that must be done first, separated by commas.
    blocked_by: str
    parent_id: str
    created_at: str
    updated_at: str


# Credentials


class AuthProvider(Struct):
    """A provider, and how to get credentials for it."""

    id: str
    #: Its name for people.
    name: str
    method: Literal["api_key", "device_code"]
    #: Whether it has credentials.
    ready: bool
    #: The environment variable for its key.
    env_var: str | UnsetType = UNSET


class Auth(Struct):
    """Whether there are credentials for a model."""

    status: Literal["ready", "setup_required"]
    #: The provider in use, or the default one; empty if there is none.
    provider: str
    #: All providers: in `auth/status`, and wherever the status is `setup_required`.
    providers: list[AuthProvider] | UnsetType = UNSET


# Configuration


class Features(Struct):
    """The optional features of a session."""

    sub_agents: bool
    skills: bool
    #: Whether the model may inspect the state of the session.
    debug: bool


class FeatureChanges(Struct, omit_defaults=True):
    """Features to turn on or off. The others stay unchanged."""

    sub_agents: bool | None = None
    skills: bool | None = None
    debug: bool | None = None


class ToolNames(Struct):
    """All tools, and which of them the model may use."""

    all: list[str]
    enabled: list[str]
    disabled: list[str]


class Distribution(Struct):
    """The Erlang node of a server that runs as one."""

    node: str
    cookie: str


class WantedDistribution(Struct, omit_defaults=True):
    """An Erlang node to start."""

    name: str
    cookie: str | None = None


# Runs


class TokenUsage(Struct):
    """Tokens so far. The first three count all requests of the session in this process."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    context_window: int
    #: The tokens of the prompt in the latest model request.
    current_context_tokens: int


class DiffLine(Struct):
    """A line that was kept (`eq`), deleted (`del`) or inserted (`ins`)."""

    op: Literal["eq", "del", "ins"]
    text: str
    #: Its number before and after the change, if it has one.
    old_no: int | UnsetType = UNSET
    new_no: int | UnsetType = UNSET


class DiffHunk(Struct):
    """Neighbouring changes, with three lines of context."""

    old_start: int
    new_start: int
    lines: list[DiffLine]


class Diff(Struct):
    """What a tool changed in a file."""

    path: str
    lines_added: int
    lines_removed: int
    hunks: list[DiffHunk]
    #: Whether the hunks have only the beginning of a long change. The counts are still exact.
    truncated: bool | UnsetType = UNSET


class ResultMeta(Struct):
    """Details of a result for the client. The model does not see them."""

    diff: Diff | UnsetType = UNSET


ToolOutput: TypeAlias = str | dict[str, Any]


class ToolOutcome(Struct, kw_only=True):
    """The result of a tool call: the `output` if `ok` is true, else the `error`."""

    ok: bool
    #: A string; an object from the tool `tasks`.
    output: ToolOutput | UnsetType = UNSET
    error: str | UnsetType = UNSET
    meta: ResultMeta | UnsetType = UNSET


STATUS_START, STATUS_END = "<status>", "</status>"
#: The longest status. Longer text only happens to start like one.
LONGEST = 500

#: What the system prompt says about statuses.
ADVICE = (
    f"During a longer task, you may say in a few words what you are doing, between {STATUS_START} and {STATUS_END}. "
    "People see it as a status line; it is not part of your answer."
)


class Status(Struct, frozen=True):
    text: str


class StatusFilter:
    """Separates statuses from text that arrives in pieces. Text that may become a status is held back until that is certain."""

    def __init__(self) -> None:
        self._held = ""
        self._inside = False

    def feed(self, piece: str) -> list[str | Status]:
        """Add a piece. Returns the texts and statuses that are certain now, in order."""
        if not self._held and not self._inside and "<" not in piece:
            return [piece] if piece else []
        found: list[str | Status] = []
        self._held += piece
        while self._step(found):
            pass
        return found

    def rest(self) -> str:
        """Return what was held back at the end of the text. An unfinished status is plain text."""
        rest = (STATUS_START if self._inside else "") + self._held
        self._held, self._inside = "", False
        return rest

    def _step(self, found: list[str | Status]) -> bool:
        """Take one text or status from what is held. Returns False if nothing is certain yet."""
        if self._inside:
            status, closed, after = self._held.partition(STATUS_END)
            if closed and len(status) <= LONGEST:
                if status.strip():
                    found.append(Status(status.strip()))
                self._held, self._inside = after, False
                return True
            if not closed and len(status) < LONGEST + len(STATUS_END):  # a part of the end may be there
                return False
            found.append(STATUS_START)
            self._inside = False
            return True
        text, opened, after = self._held.partition(STATUS_START)
        if not opened:
            kept = _beginning(text)
            text, after = (text[:-kept], text[-kept:]) if kept else (text, "")
        if text:
            found.append(text)
        self._held, self._inside = after, bool(opened)
        return self._inside


def without_statuses(text: str) -> str:
    """Return a whole text without its statuses."""
    if STATUS_START not in text:
        return text
    filter = StatusFilter()
    parts = [part for part in filter.feed(text) if isinstance(part, str)]
    return "".join([*parts, filter.rest()])


def _beginning(text: str) -> int:
    """How many characters at the end of a text may be the beginning of a status."""
    return next(
        (size for size in range(min(len(STATUS_START) - 1, len(text)), 0, -1) if STATUS_START.startswith(text[-size:])), 0
    )
