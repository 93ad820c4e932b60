"""The turning points of a session at which code that users add may step in. Who that is, is not known here.

Whatever a hook does wrong (raises, takes too long, returns nonsense) is dealt with by whoever implements `Hooks`: its methods
raise nothing but what they are documented to raise, and end in bounded time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from fairlead.core import events as e
from fairlead.core.events import CompactionReason, Event
from fairlead.core.messages import CustomMessage, ImageContent, Message
from fairlead.core.model import Interceptor, ModelMessage
from fairlead.core.queues import Behavior
from fairlead.core.runtime import Cancel
from fairlead.core.tool import ToolResult
from fairlead.session.additions import SlashCommand
from fairlead.session.user_bash import BashDone

#: Where a message of the user's came from.
InputSource: TypeAlias = Literal["interactive", "rpc", "extension"]
StartReason: TypeAlias = Literal["startup", "reload", "new", "resume", "fork"]
EndReason: TypeAlias = Literal["quit", "reload", "new", "resume", "fork"]

#: What extensions know the events by. Those that are missing here are not passed on.
EVENT_NAMES: Mapping[type[Event], tuple[str, ...]] = {
    e.AgentStart: ("agent_start",),
    e.AgentEnd: ("agent_end",),
    e.AgentSettled: ("agent_settled",),
    e.TurnStart: ("turn_start",),
    e.TurnEnd: ("turn_end",),
    e.MessageStart: ("message_start",),
    e.MessageUpdate: ("message_update",),
    e.MessageEnd: ("message_end",),
    e.ToolStart: ("tool_execution_start",),
    e.ToolUpdate: ("tool_execution_update",),
    e.ToolEnd: ("tool_execution_end",),
    e.QueueUpdate: ("queue_update",),
    e.RetryStart: ("auto_retry_start",),
    e.RetryEnd: ("auto_retry_end",),
    e.CompactionStart: ("compaction_start", "auto_compaction_start"),
    e.CompactionEnd: ("compaction_end", "auto_compaction_end", "session_compact_failed"),
    e.ModelSelected: ("model_select",),
    e.ThinkingLevelChanged: ("thinking_level_select",),
    e.SessionInfoChanged: ("session_info_changed",),
    e.EntryAppended: ("entry_appended",),
    e.StreamRuleTriggered: ("ttsr_triggered",),
    e.TodoReminder: ("todo_reminder",),
    e.TodoAutoClear: ("todo_auto_clear",),
    e.UiPromptStart: ("ui_prompt_start",),
    e.UiPromptEnd: ("ui_prompt_end",),
    e.ToolApprovalRequested: ("tool_approval_requested",),
    e.ToolApprovalResolved: ("tool_approval_resolved",),
    e.SubagentLifecycle: ("subagent_lifecycle",),
    e.SubagentProgress: ("subagent_progress",),
    e.SubagentEvent: ("subagent_event",),
}


class Heard(Struct):
    """What became of something that the user said. `handled`: an extension has seen to it, and no run starts."""

    text: str
    images: list[ImageContent] | None = None
    handled: bool = False


class Opening(Struct):
    """What goes with a prompt: messages behind it, and another system prompt for this run."""

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
    cancel: Cancel


class TreePlan(Struct, frozen=True):
    """A move within the tree of a session that is about to happen, as extensions see it."""

    target_id: str | None
    old_leaf_id: str | None
    left_behind: list[dict[str, Any]]
    wants_summary: bool
    instructions: str | None
    cancel: Cancel


class Summary(Struct):
    """A summary that an extension wrote in the place of the model's. With `first_kept_entry_id` it chooses what stays."""

    text: str
    details: dict[str, Any] | None = None
    first_kept_entry_id: str | None = None


class Cancelled(Struct):
    """An extension forbids what was about to happen."""

    reason: str = ""


class CallHooks(Protocol):
    """What the sessions of sub-agents ask, too."""

    def wants(self, name: str) -> bool:
        """Whether anybody listens to the event of this name: what is costly to prepare is not prepared for nobody."""
        ...

    async def tool_call(self, tool_name: str, call_id: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments to run the tool with; those given are a copy. Raises ToolError if the call is not to happen."""
        ...

    async def tool_result(
        self, tool_name: str, call_id: str, arguments: Mapping[str, Any], result: ToolResult, is_error: bool
    ) -> tuple[ToolResult, bool]:
        """What counts as the outcome of a tool that ran, instead."""
        ...


class LateHooks(Protocol):
    """Hooks that nobody has looked for yet: a session does, when it first needs to know."""

    def exist(self) -> bool:
        """Whether there may be anybody to ask. Asked once, before everything else; if not, the session has no hooks."""
        ...

    async def ready(self) -> Hooks:
        """Load what is to be loaded."""
        ...


class Hooks(CallHooks, Protocol):
    """What a session asks at its turning points. A session without extensions has none at all.

    Where a session waits for an answer, an abort cuts the wait off: the task that it waits for is cancelled.
    """

    # Telling

    async def hear(self, event: Event) -> None:
        """Something happens that the run waits to tell of: extensions hear of it first."""
        ...

    def overhear(self, event: Event) -> None:
        """The same for what nobody can wait for: it is passed on in order, later."""
        ...

    async def session_started(self, reason: StartReason, previous: str | None = None) -> None:
        """The hook `session_start`. `previous` is the file of the session that was left, if it has one."""
        ...

    async def session_ends(self, reason: EndReason, target: str | None = None) -> None:
        """The hook `session_shutdown`. `target` is the file of the session that is gone to, if it has one."""
        ...

    def stands_elsewhere(self) -> None:
        """The conversation is another one, or stands elsewhere in its tree: what extensions keep in it is what it was there."""
        ...

    async def sent(self) -> None:
        """Wait until everything that extensions have said to the session has reached it."""
        ...

    # Asking

    def commands(self) -> list[SlashCommand]: ...

    def has_command(self, text: str) -> bool:
        """Whether a message of the user's is a command of an extension's."""
        ...

    async def run_command(self, text: str, on_wait: Callable[[], None] | None = None) -> None:
        """Run it to its end, which an abort does not hasten. What it raises is told as an ExtensionError. `on_wait` is called
        whenever it waits for something."""
        ...

    async def input(
        self, text: str, images: list[ImageContent] | None, source: InputSource, behavior: Behavior | None
    ) -> Heard: ...

    async def opening(self, prompt: str, images: list[ImageContent] | None, system_prompt: str) -> Opening:
        """The hook `before_agent_start`."""
        ...

    async def context(self, messages: list[ModelMessage], system_prompt: str) -> tuple[list[ModelMessage], str]:
        """The hooks `context` and `context_with_system`: what the model is told instead. The session keeps what it has."""
        ...

    async def before_settle(self, messages: list[Message]) -> list[CustomMessage]:
        """The hook `agent_before_settle`: what the run goes on with instead of ending; usually nothing."""
        ...

    async def before_switch(self, reason: Literal["new", "resume"], target: str | None) -> Cancelled | None: ...

    async def before_fork(self, entry_id: str, position: Literal["before", "at"]) -> Cancelled | None: ...

    async def before_compact(self, plan: CompactionPlan) -> Summary | Cancelled | None: ...

    async def before_tree(self, plan: TreePlan) -> Summary | Cancelled | None: ...

    async def moved(self, new_leaf: str | None, old_leaf: str | None, summary_entry: str | None, from_extension: bool) -> None:
        """The hook `session_tree`."""
        ...

    async def compacted(self, entry: dict[str, Any], reason: CompactionReason, from_extension: bool) -> None:
        """The hook `session_compact`. `session_compact_failed` comes from CompactionEnd."""
        ...

    async def user_bash(self, command: str, exclude_from_context: bool) -> BashDone | None:
        """What came of a command of the host's, if an extension ran it; None: run it."""
        ...

    @property
    def interceptor(self) -> Interceptor | None:
        """Present only while an extension listens to what it is for."""
        ...
