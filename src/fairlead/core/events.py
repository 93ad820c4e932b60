"""Everything that can happen during a run, as typed values. Not wire frames: a dialect makes those."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from msgspec import Raw, Struct

from fairlead.core.messages import AssistantMessage, Message, ToolResultMessage, Usage
from fairlead.core.model import BlockDelta, BlockEnd, BlockStart, Model, ThinkingLevel
from fairlead.core.partial_message import PartialMessage
from fairlead.core.subagents import LifecyclePayload, ProgressPayload
from fairlead.core.tool import ToolResult


class AgentStart(Struct):
    """A run begins."""


class AgentEnd(Struct):
    """A run ends; `messages` are those it added. With `will_retry`, another attempt follows by itself."""

    messages: list[Message]
    will_retry: bool = False


class AgentSettled(Struct):
    """Nothing more will happen by itself."""


class TurnStart(Struct):
    """One model call, and the tools it asks for, begin."""


class TurnEnd(Struct):
    message: AssistantMessage
    tool_results: list[ToolResultMessage]


class MessageStart(Struct):
    message: Message


class MessageUpdate(Struct):
    """Part of an assistant message arrived. `partial.snapshot()` has all of it so far."""

    event: BlockStart | BlockDelta | BlockEnd
    partial: PartialMessage


class MessageEnd(Struct):
    message: Message


class ToolStart(Struct):
    call_id: str
    tool_name: str
    arguments: dict[str, Any]


class ToolUpdate(Struct):
    call_id: str
    tool_name: str
    arguments: dict[str, Any]
    #: All of the tool's output so far, not only what is new.
    partial: ToolResult


class ToolEnd(Struct):
    call_id: str
    tool_name: str
    result: ToolResult
    is_error: bool


class QueueUpdate:
    """The texts that wait, after a change of either queue.

    The lists are made when they are first read. A burst of changes therefore costs no more than the updates that are read.
    """

    __slots__ = ("_follow_up", "_steering", "size")

    def __init__(self, steering: Iterable[str], follow_up: Iterable[str]) -> None:
        self._steering = steering
        self._follow_up = follow_up
        #: About how many characters the texts have.
        self.size = _size(steering) + _size(follow_up)

    @property
    def steering(self) -> list[str]:
        self._steering = _as_list(self._steering)
        return self._steering

    @property
    def follow_up(self) -> list[str]:
        self._follow_up = _as_list(self._follow_up)
        return self._follow_up

    def copy(self) -> QueueUpdate:
        """An update whose lists can be changed without changing those of this one."""
        return QueueUpdate(list(self.steering), list(self.follow_up))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, QueueUpdate):
            return NotImplemented
        return (self.steering, self.follow_up) == (other.steering, other.follow_up)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return f"QueueUpdate(steering={self.steering!r}, follow_up={self.follow_up!r})"


def _as_list(texts: Iterable[str]) -> list[str]:
    return texts if isinstance(texts, list) else list(texts)


def _size(texts: Iterable[str]) -> int:
    known = getattr(texts, "size", None)  # a snapshot knows it without being read
    return known if isinstance(known, int) else sum(map(len, texts))


class RetryStart(Struct):
    """A model call failed in a way that may pass; after `delay_ms` it is tried again."""

    attempt: int
    max_attempts: int
    delay_ms: int
    error: str


class RetryEnd(Struct):
    """The attempts are over: one of them succeeded, or all failed, or they were called off."""

    success: bool
    attempt: int
    error: str | None = None


#: Who asked for a compaction: somebody, a context that is nearly full, or a request that was too large for it.
CompactionReason: TypeAlias = Literal["manual", "threshold", "overflow"]


class FileLists(Struct, rename="camel", frozen=True):
    """The files that the summarised part of a conversation read, and those it changed."""

    read_files: list[str] = []
    modified_files: list[str] = []


class CompactionResult(Struct, rename="camel", omit_defaults=True):
    """A finished compaction. Its JSON is the CompactionResult of pi; `shortSummary` is an addition of omp's."""

    summary: str
    first_kept_entry_id: str
    tokens_before: int
    #: FileLists; an extension that wrote the summary may keep something else there.
    details: Any
    #: For the summary and the messages that stay.
    estimated_tokens_after: int | None = None
    #: Of all requests that the summary took.
    usage: Usage | None = None
    short_summary: str | None = None


class CompactionStart(Struct):
    """The older part of the conversation is being replaced by a summary."""

    reason: CompactionReason


class CompactionEnd(Struct):
    """The conversation is shorter now, or as it was if there is no `result`. With `will_retry` the run goes on."""

    reason: CompactionReason
    result: CompactionResult | None = None
    aborted: bool = False
    will_retry: bool = False
    error: str | None = None


#: How a model came to be chosen: by name, as the next one, or because a conversation had it.
ModelSource: TypeAlias = Literal["set", "cycle", "restore"]


class ModelSelected(Struct):
    """Another model answers from here on."""

    model: Model
    previous: Model | None
    source: ModelSource


class ThinkingLevelChanged(Struct):
    level: ThinkingLevel
    previous: ThinkingLevel


class SessionInfoChanged(Struct):
    """The session has another name."""

    name: str | None


class EntryAppended(Struct):
    """The session has an entry that no other event tells of. `entry` is its JSON."""

    entry: Raw


class SessionReplaced(Struct):
    """From here on everything is about another conversation."""


class StreamRuleTriggered(Struct):
    """What the model wrote broke these stream rules; the answer ends here and is asked for again."""

    rules: list[Any]


class TodoReminder(Struct):
    """The model stopped although there is something left to do, and is told so."""

    todos: list[Any]
    attempt: int
    max_attempts: int


class TodoAutoClear(Struct):
    """Todos that had been done for a while went from the list."""


#: What a person can be asked for.
UiPromptKind: TypeAlias = Literal["select", "confirm", "input", "editor"]


class UiPromptStart(Struct):
    """Something waits for an answer of the person behind the host."""

    kind: UiPromptKind
    title: str


class UiPromptEnd(Struct):
    """It waits no longer, whether there was an answer or not."""

    kind: UiPromptKind
    title: str


class ToolApprovalRequested(Struct):
    """A call waits for somebody's consent. Hosts are asked in their own way; this is for extensions."""

    call_id: str
    tool_name: str
    arguments: dict[str, Any]
    #: What the person who is asked gets to see.
    message: str


class ToolApprovalResolved(Struct):
    """It was decided whether a call may happen: by somebody who was asked, by what they had said before, or by the settings."""

    call_id: str
    tool_name: str
    approved: bool
    by: Literal["user", "session", "settings", "nobody"]
    #: Why it was refused; empty if it was not.
    reason: str = ""


class ExtensionError(Struct):
    """User-supplied code failed; the run goes on."""

    extension_path: str
    event: str
    error: str


class SubagentLifecycle(Struct):
    """A sub-agent started or ended."""

    payload: LifecyclePayload


class SubagentProgress(Struct):
    """A sub-agent got on. Told a few times a second at most, and once more at its end."""

    payload: ProgressPayload


class SubagentEvent(Struct):
    """Something happened in the run of a sub-agent."""

    id: str
    event: Event


Event: TypeAlias = (
    AgentStart
    | AgentEnd
    | AgentSettled
    | TurnStart
    | TurnEnd
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolStart
    | ToolUpdate
    | ToolEnd
    | QueueUpdate
    | RetryStart
    | RetryEnd
    | CompactionStart
    | CompactionEnd
    | ModelSelected
    | ThinkingLevelChanged
    | SessionInfoChanged
    | EntryAppended
    | SessionReplaced
    | StreamRuleTriggered
    | TodoReminder
    | TodoAutoClear
    | UiPromptStart
    | UiPromptEnd
    | ToolApprovalRequested
    | ToolApprovalResolved
    | ExtensionError
    | SubagentLifecycle
    | SubagentProgress
    | SubagentEvent
)
