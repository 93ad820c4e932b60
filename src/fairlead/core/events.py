"""Everything that can happen during a run, as typed values. Dialects turn them into frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

from msgspec import Raw, Struct

from fairlead.core.message_updates import MessageUpdate
from fairlead.core.messages import AssistantMessage, Message, ToolResultMessage, Usage
from fairlead.core.model import Model, ThinkingLevel
from fairlead.core.snapshots import LifecyclePayload, ProgressPayload
from fairlead.core.tool import ToolResult


class AgentStart(Struct):
    """A run has started."""


class AgentEnd(Struct):
    """A run has ended. `messages` are those that it added. With `will_retry`, another attempt follows automatically."""

    messages: list[Message]
    will_retry: bool = False


class AgentSettled(Struct):
    """The session has settled: nothing more happens until it gets a prompt."""

    #: Whether the run was aborted.
    aborted: bool = False


class TurnStart(Struct):
    """A turn has started: one model call, and the tools it calls."""


class TurnEnd(Struct):
    message: AssistantMessage
    tool_results: list[ToolResultMessage]


class MessageStart(Struct):
    message: Message


class MessageEnd(Struct):
    message: Message


class ToolStart(Struct):
    """The model, or another tool, has called a tool. The call may still be refused; `ToolRunning` follows if it is not."""

    call_id: str
    tool_name: str
    arguments: dict[str, Any]
    #: The call that this one was made for, if a tool made it.
    parent_call_id: str | None = None


class ToolRunning(Struct):
    """A tool call may run, and runs now. `arguments` are those that the tool gets."""

    call_id: str
    tool_name: str
    arguments: dict[str, Any]
    #: The call that this one was made for, if a tool made it.
    parent_call_id: str | None = None


class ToolUpdate(Struct):
    call_id: str
    tool_name: str
    arguments: dict[str, Any]
    #: All of the tool's output so far, not only what is new.
    partial: ToolResult
    #: The call that this one was made for, if a tool made it.
    parent_call_id: str | None = None


class ToolEnd(Struct):
    call_id: str
    tool_name: str
    result: ToolResult
    is_error: bool
    #: How long the tool ran; None if it did not run.
    duration_ms: int | None = None
    #: Returns the whole result as data, if the tool offers that; see `fairlead.core.tool.StructuredResult`.
    structured: Callable[[], Any] | None = None
    #: The call that this one was made for, if a tool made it.
    parent_call_id: str | None = None


class QueueUpdate:
    """The texts in the queues, after a change of either queue.

    The lists are built when they are first read, so a burst of changes costs no more than the updates that are read.
    """

    __slots__ = ("_follow_up", "_steering", "size")

    def __init__(self, steering: Iterable[str], follow_up: Iterable[str]) -> None:
        self._steering = steering
        self._follow_up = follow_up
        #: The approximate number of characters in the texts.
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
        """A copy of this update with its own lists."""
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
    """A model call failed with a transient error, and is retried after `delay_ms`."""

    attempt: int
    max_attempts: int
    delay_ms: int
    error: str


class RetryEnd(Struct):
    """Retrying has ended: an attempt succeeded, all failed, or they were cancelled."""

    success: bool
    attempt: int
    error: str | None = None


#: Why a compaction runs: a request for it, a context that is nearly full, or a model request that was too large.
CompactionReason: TypeAlias = Literal["manual", "threshold", "overflow"]


class FileLists(Struct, rename="camel", frozen=True):
    """The files that the summarised part of a conversation read, and the files it changed."""

    read_files: list[str] = []
    modified_files: list[str] = []


class CompactionResult(Struct, rename="camel", omit_defaults=True):
    """A finished compaction. Its JSON is pi's CompactionResult, with omp's addition `shortSummary`."""

    summary: str
    first_kept_entry_id: str
    tokens_before: int
    #: FileLists, or something else if an extension wrote the summary.
    details: Any
    #: Tokens of the summary and the messages that stay.
    estimated_tokens_after: int | None = None
    #: Of all model requests for the summary.
    usage: Usage | None = None
    short_summary: str | None = None


#: What a summary is written for: a compaction, or a branch that the conversation leaves.
SummarySource: TypeAlias = Literal["compaction", "branchSummary"]


class SummaryRetryScheduled(Struct):
    """A request for a summary failed with a transient error, and is sent again after `delay_ms`."""

    attempt: int
    max_attempts: int
    delay_ms: int
    error: str


class SummaryRetryStart(Struct):
    """A request for a summary is sent again. `reason` is that of the compaction, if the summary is for one."""

    source: SummarySource
    reason: CompactionReason | None = None


class SummaryRetryEnd(Struct):
    """Retrying a request for a summary has ended: an attempt succeeded, all failed, or they were cancelled."""


class CompactionStart(Struct):
    """A compaction has started: a summary will replace the older part of the conversation."""

    reason: CompactionReason


class CompactionEnd(Struct):
    """A compaction has ended. Without a `result`, the conversation is unchanged. With `will_retry`, the run continues."""

    reason: CompactionReason
    result: CompactionResult | None = None
    aborted: bool = False
    will_retry: bool = False
    error: str | None = None


#: How a model was chosen: by name, by cycling, or by resuming a conversation that used it.
ModelSource: TypeAlias = Literal["set", "cycle", "restore"]


class ModelSelected(Struct):
    """The session uses another model from now on."""

    model: Model
    previous: Model | None
    source: ModelSource


class ThinkingLevelChanged(Struct):
    level: ThinkingLevel
    previous: ThinkingLevel


class SessionInfoChanged(Struct):
    """The session has a new name."""

    name: str | None


class EntryAppended(Struct):
    """The session has a new entry that no other event reports. `entry` is its JSON."""

    entry: Raw


class SessionReplaced(Struct):
    """The session has moved to another conversation. All later events are about that one."""


class BranchChanged(Struct):
    """The session has moved to another place in the tree of its conversation. `leaf` is its last entry; None: none."""

    leaf: str | None


class StreamRuleTriggered(Struct):
    """What the model wrote broke these stream rules; the answer ends here and is asked for again."""

    rules: list[Any]


class TodoReminder(Struct):
    """The model stopped with todos left, and gets a reminder."""

    todos: list[Any]
    attempt: int
    max_attempts: int


class TodoAutoClear(Struct):
    """Todos that were completed a while ago were removed from the list."""


class TodosChanged(Struct):
    """The todo list is another one: after a change, and after the session has moved. `todos` are its phases."""

    todos: list[Any]


class CommandsChanged(Struct):
    """The slash commands may be others: templates, skills, extensions or MCP servers were loaded, or the session has moved."""


class ApprovalModeChanged(Struct):
    """The approval mode is another one, for the session and its sub-agents."""

    mode: Literal["auto", "write", "ask", "deny"]


#: What the user can be asked for.
UiPromptKind: TypeAlias = Literal["select", "confirm", "input", "editor"]


class UiPromptStart(Struct):
    """A question to the user is open."""

    kind: UiPromptKind
    title: str


class UiPromptEnd(Struct):
    """A question to the user is closed, with or without an answer."""

    kind: UiPromptKind
    title: str


class ToolApprovalRequested(Struct):
    """A tool call waits for approval. This event is for extensions; hosts get a question."""

    call_id: str
    tool_name: str
    arguments: dict[str, Any]
    #: The text that the user sees.
    message: str


class ToolApprovalResolved(Struct):
    """A tool call was approved or refused: by the user, by an earlier answer for the session, or by the settings."""

    call_id: str
    tool_name: str
    approved: bool
    by: Literal["user", "session", "settings", "nobody"]
    #: Why the call was refused; empty if it was approved.
    reason: str = ""


class ExtensionError(Struct):
    """Code or configuration from the user failed. The run continues."""

    extension_path: str
    event: str
    error: str


class SubagentLifecycle(Struct):
    """A sub-agent started or ended."""

    payload: LifecyclePayload


class SubagentProgress(Struct):
    """A sub-agent has made progress. Sent a few times a second at most, and once more at its end."""

    payload: ProgressPayload


class SubagentEvent(Struct):
    """An event of a sub-agent's run."""

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
    | ToolRunning
    | ToolUpdate
    | ToolEnd
    | QueueUpdate
    | RetryStart
    | RetryEnd
    | SummaryRetryScheduled
    | SummaryRetryStart
    | SummaryRetryEnd
    | CompactionStart
    | CompactionEnd
    | ModelSelected
    | ThinkingLevelChanged
    | SessionInfoChanged
    | EntryAppended
    | SessionReplaced
    | BranchChanged
    | StreamRuleTriggered
    | TodoReminder
    | TodoAutoClear
    | TodosChanged
    | CommandsChanged
    | ApprovalModeChanged
    | UiPromptStart
    | UiPromptEnd
    | ToolApprovalRequested
    | ToolApprovalResolved
    | ExtensionError
    | SubagentLifecycle
    | SubagentProgress
    | SubagentEvent
)
