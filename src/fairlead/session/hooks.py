"""The points of a session at which extensions may step in. This module does not know what an extension is.

An implementation of `Hooks` handles whatever an extension does wrong (raises, takes too long, returns nonsense): its methods
raise only what they are documented to raise, and end in bounded time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from fairlead.core import events as e
from fairlead.core.events import CompactionReason, Event
from fairlead.core.message_updates import BlockEnded, BlockStarted, MessageUpdate, TextDelta, ThinkingDelta, ToolArgumentsDelta
from fairlead.core.messages import CustomMessage, ImageContent, Message, Usage, UserMessage
from fairlead.core.model import Interceptor, ModelMessage
from fairlead.core.queues import Behavior
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import ToolResult
from fairlead.session.host import BashDone
from fairlead.session.slash_commands import Completion, SlashCommand

#: Where a message of the user came from.
InputSource: TypeAlias = Literal["interactive", "rpc", "extension"]
StartReason: TypeAlias = Literal["startup", "reload", "new", "resume", "fork"]
EndReason: TypeAlias = Literal["quit", "reload", "new", "resume", "fork"]

#: The names of the events for extensions. Events that are missing here are not passed on.
EVENT_NAMES: Mapping[type[Event], tuple[str, ...]] = {
    e.AgentStart: ("agent_start",),
    e.AgentEnd: ("agent_end",),
    e.AgentSettled: ("agent_settled",),
    e.TurnStart: ("turn_start",),
    e.TurnEnd: ("turn_end",),
    e.MessageStart: ("message_start",),
    **dict.fromkeys((BlockStarted, TextDelta, ThinkingDelta, ToolArgumentsDelta, BlockEnded, MessageUpdate), ("message_update",)),
    e.MessageEnd: ("message_end",),
    e.ToolStart: ("tool_execution_start",),
    e.ToolRunning: ("tool_execution_running",),
    e.ToolUpdate: ("tool_execution_update",),
    e.ToolEnd: ("tool_execution_end",),
    e.QueueUpdate: ("queue_update",),
    e.RetryStart: ("auto_retry_start",),
    e.RetryEnd: ("auto_retry_end",),
    e.SummaryRetryScheduled: ("summarization_retry_scheduled",),
    e.SummaryRetryStart: ("summarization_retry_attempt_start",),
    e.SummaryRetryEnd: ("summarization_retry_finished",),
    e.CompactionStart: ("compaction_start", "auto_compaction_start"),
    e.CompactionEnd: ("compaction_end", "auto_compaction_end", "session_compact_failed"),
    e.ModelSelected: ("model_select",),
    e.ThinkingLevelChanged: ("thinking_level_select",),
    e.SessionInfoChanged: ("session_info_changed",),
    e.EntryAppended: ("entry_appended",),
    e.StreamRuleTriggered: ("ttsr_triggered",),
    e.TodoReminder: ("todo_reminder",),
    e.TodoAutoClear: ("todo_auto_clear",),
    e.TodosChanged: ("todos_changed",),
    e.CommandsChanged: ("commands_changed",),
    e.ApprovalModeChanged: ("approval_mode_changed",),
    e.UiPromptStart: ("ui_prompt_start",),
    e.UiPromptEnd: ("ui_prompt_end",),
    e.ToolApprovalRequested: ("tool_approval_requested",),
    e.ToolApprovalResolved: ("tool_approval_resolved",),
    e.SubagentLifecycle: ("subagent_lifecycle",),
    e.SubagentProgress: ("subagent_progress",),
    e.SubagentEvent: ("subagent_event",),
}


class Heard(Struct):
    """A message of the user after extensions have seen it. `handled`: an extension has handled it, and no run starts."""

    text: str
    images: list[ImageContent] | None = None
    handled: bool = False


class Opening(Struct):
    """What extensions add to a prompt: messages after it, and another system prompt for this run."""

    messages: list[CustomMessage] = []
    system_prompt: str | None = None


class CompactionPlan(Struct, frozen=True):
    """A compaction that is about to happen, as extensions see it. Entries are their JSON objects."""

    reason: CompactionReason
    instructions: str | None
    #: The entries that the summary will stand for, and all entries of the branch.
    to_summarise: list[dict[str, Any]]
    branch: list[dict[str, Any]]
    first_kept_entry_id: str
    tokens_before: int
    cancel: CancelToken


class TreePlan(Struct, frozen=True):
    """A move within the tree of a session that is about to happen, as extensions see it."""

    target_id: str | None
    old_leaf_id: str | None
    left_behind: list[dict[str, Any]]
    wants_summary: bool
    instructions: str | None
    cancel: CancelToken
    #: Whether the instructions take the place of those that the model gets otherwise.
    replace_instructions: bool = False
    #: The label that the summary will have, or the target if there is no summary.
    label: str | None = None


class Summary(Struct):
    """A summary that an extension wrote instead of the model. With `first_kept_entry_id` it chooses what stays."""

    text: str
    details: Any = None
    first_kept_entry_id: str | None = None
    #: What model calls for it have used, which counts as usage of the session.
    usage: Usage | None = None


class Guide(Struct, frozen=True):
    """Changes a move within the tree of a session. What is UNSET stays as it is."""

    #: What the model should pay attention to in the summary.
    instructions: str | UnsetType | None = UNSET
    #: Whether the instructions take the place of those that the model gets otherwise.
    replace_instructions: bool | UnsetType = UNSET
    #: The label of the summary, or of the target if there is no summary.
    label: str | UnsetType | None = UNSET
    #: Is used instead of the model's summary, if one is wanted.
    summary: Summary | None = None


class Cancelled(Struct):
    """An extension blocks what was about to happen."""

    reason: str = ""


WarmingAction: TypeAlias = Literal["warm", "stop"]


class WarmingDecision(Struct):
    """A provider's prompt cache is about to expire, and the session has decided whether to renew it. Costs are in dollars."""

    #: The price of renewing it.
    warm_cost: float
    #: What the next request would cost more without that.
    miss_cost: float
    #: How likely the next request comes in time.
    continuation_probability: float
    action: WarmingAction


class CallHooks(Protocol):
    """The hooks around tool calls. The sessions of sub-agents call them as well."""

    def wants(self, name: str) -> bool:
        """Whether an extension listens to the event with this name. If not, the event need not be prepared."""
        ...

    async def tool_call(
        self, tool_name: str, call_id: str, arguments: dict[str, Any], parent_id: str | None = None
    ) -> dict[str, Any]:
        """The arguments to run the tool with; those given are a copy. `parent_id` is the call for which a tool made this one.

        Raises ToolError if an extension blocks the call.
        """
        ...

    async def tool_result(
        self,
        tool_name: str,
        call_id: str,
        arguments: Mapping[str, Any],
        result: ToolResult,
        is_error: bool,
        parent_id: str | None = None,
    ) -> tuple[ToolResult, bool]:
        """The result of a tool that ran, as extensions have changed it."""
        ...


class LateHooks(Protocol):
    """Hooks that have not been looked for yet. A session does so when it first needs them."""

    def exist(self) -> bool:
        """Whether there may be extensions. Called once, before everything else; if not, the session has no hooks."""
        ...

    async def ready(self) -> Hooks:
        """Load the extensions."""
        ...


class Hooks(CallHooks, Protocol):
    """What a session asks its extensions. A session without extensions has no hooks at all.

    Where a session waits for an answer, an abort ends the wait: the task that it waits for is cancelled.
    """

    # Events

    async def emit(self, event: Event) -> None:
        """Have extensions handle an event. The run waits for it."""
        ...

    def notify(self, event: Event, then: Callable[[], None] | None = None) -> None:
        """Pass an event on to extensions later, in order. Nothing waits for it. `then` is called when they have handled it."""
        ...

    async def session_started(self, reason: StartReason, previous: str | None = None) -> None:
        """The hook `session_start`. `previous` is the file of the session that was left, if it has one."""
        ...

    async def session_ends(self, reason: EndReason, target: str | None = None) -> None:
        """The hook `session_shutdown`. `target` is the file of the next session, if it has one."""
        ...

    def position_changed(self) -> None:
        """The conversation is another one, or has moved within its tree: extensions read again what they keep in it."""
        ...

    async def drain_events(self) -> None:
        """Wait until extensions have handled the events that nothing waited for."""
        ...

    async def flush_outbox(self) -> None:
        """Wait until the session has received everything that extensions have sent."""
        ...

    # Asking

    def commands(self) -> list[SlashCommand]: ...

    def has_command(self, text: str) -> bool:
        """Whether a message is a command of an extension."""
        ...

    async def run_command(self, text: str) -> None:
        """Run it to its end; an abort does not stop it. What it raises becomes an ExtensionError."""
        ...

    async def complete(self, name: str, typed: str) -> list[Completion]:
        """Suggestions for what follows the name of a command, of which the user has typed a part. Raises nothing."""
        ...

    async def input(
        self, text: str, images: list[ImageContent] | None, source: InputSource, behavior: Behavior | None
    ) -> Heard: ...

    async def opening(
        self, message: UserMessage | CustomMessage, images: list[ImageContent] | None, system_prompt: str
    ) -> Opening:
        """The hook `before_agent_start`, for the message that a run begins with."""
        ...

    @property
    def presents_tools(self) -> bool:
        """Whether the tools have changed since `present_tools`, and something may want to change how they are declared."""
        ...

    async def present_tools(self) -> None:
        """Have tools choose how the tools are declared to the model. Raises nothing."""
        ...

    async def context(self, messages: list[ModelMessage], system_prompt: str) -> tuple[list[ModelMessage], str]:
        """The hooks `context` and `context_with_system`: what is sent to the model instead. The session keeps what it has."""
        ...

    async def message_ended(self, message: Message) -> Message:
        """The hook `message_end`: the message to keep instead, which has the same role. Usually the same message."""
        ...

    async def before_settle(self, messages: list[Message]) -> list[CustomMessage]:
        """The hook `agent_before_settle`: messages with which the run continues instead of ending; usually none."""
        ...

    async def before_switch(self, reason: Literal["new", "resume"], target: str | None) -> Cancelled | None: ...

    async def before_fork(self, entry_id: str, position: Literal["before", "at"]) -> Cancelled | None: ...

    async def before_compact(self, plan: CompactionPlan) -> Summary | Cancelled | None: ...

    async def before_tree(self, plan: TreePlan) -> Guide | Cancelled | None: ...

    async def on_move(self, new_leaf: str | None, old_leaf: str | None, summary_entry: str | None, from_extension: bool) -> None:
        """The hook `session_tree`."""
        ...

    async def on_compaction(self, entry: dict[str, Any], reason: CompactionReason, from_extension: bool) -> None:
        """The hook `session_compact`. `session_compact_failed` comes from CompactionEnd."""
        ...

    async def user_bash(
        self, command: str, exclude_from_context: bool, cancel: CancelToken, show: Callable[[str], None]
    ) -> BashDone | None:
        """The outcome of a command of the host, if an extension ran it; None: run it. Raises ToolError if an extension fails.

        `show` gets its output while it runs.
        """
        ...

    async def warming(self, decision: WarmingDecision) -> WarmingAction:
        """The hook `cache_warming_decision`: what to do instead. Raises nothing."""
        ...

    @property
    def interceptor(self) -> Interceptor | None:
        """Present only while an extension listens to what it is for."""
        ...
