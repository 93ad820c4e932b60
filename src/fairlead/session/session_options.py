"""What a session needs from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from fairlead.config.settings import CompactionSettings, RetrySettings, RuleSettings, TodoSettings, WarmingMode
from fairlead.core.model import Model, ThinkingLevel
from fairlead.core.tool import Tool
from fairlead.session.asyncio_runtime import AsyncioRuntime
from fairlead.session.behaviour import Behaviour
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.current import ConversationStore
from fairlead.session.selection import Models, Scoped
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from fairlead.core.limits import RunLimits
    from fairlead.session.additions import Additions, Servers
    from fairlead.session.approval_mode import SessionApprovals, SubagentApprover
    from fairlead.session.hooks import CallHooks, LateHooks
    from fairlead.session.rules.stream_rules import Rule
    from fairlead.session.subagents.subagents import SessionSubagents


class PromptMaker(Protocol):
    """Makes the system prompt."""

    def __call__(self, tools: Sequence[Tool], *, brief: bool = False) -> str:
        """Return the system prompt for the tools that are active. `brief`: for a model with a small context window."""
        ...


class SessionOptions(Struct, kw_only=True):
    """Everything that a session needs from outside."""

    models: Models
    #: Makes the tools that it begins with, when they are first needed.
    make_tools: Callable[[], Mapping[str, Tool]]
    active_tools: Sequence[str]
    workspace: Workspace
    runtime: AsyncioRuntime
    system_prompt: PromptMaker
    model: Model | None = None
    thinking: ThinkingLevel = "medium"
    #: The level in the user's settings.
    default_level: ThinkingLevel | None = None
    behaviour: Behaviour = Behaviour()
    #: Models to cycle through; all available ones if empty.
    scoped: Scoped = ()
    #: Where conversations are kept; None: in memory.
    sessions: ConversationStore | None = None
    #: The conversation to begin with; a new one if None.
    conversation: Conversation | None = None
    #: Whether `model`, and `thinking`, override what that conversation has chosen.
    model_is_explicit: bool = False
    thinking_is_explicit: bool = False
    concurrent_tools: int = 8
    #: Model calls of one run, how often in a row it may repeat calls with the same results, and how many characters of an
    #: answer may be one passage again and again; 0: no limit.
    max_turns: int = 0
    max_repeated_calls: int = 0
    max_repeated_text: int = 0
    #: Returns the limits of a run that starts without its own, and watches it from then on; None: only those above apply.
    watch_run: Callable[[], RunLimits | None] | None = None
    retry: RetrySettings = RetrySettings()
    cache_warming: WarmingMode = "off"
    #: The stream rules.
    rules: Sequence[Rule] = ()
    rule_settings: RuleSettings = RuleSettings()
    todo: TodoSettings = TodoSettings()
    #: Seconds until a todo that is done is removed from the list.
    todo_clear_delay: float = 60
    compaction: CompactionSettings = CompactionSettings()
    #: What users add to its prompts; None: nothing.
    additions: Additions | None = None
    #: Programs beside it that bring tools; None: there are none.
    servers: Servers | None = None
    #: The sub-agents that it can give work to; None: there are none.
    subagents: SessionSubagents | None = None
    #: The extensions; None: there are none.
    hooks: LateHooks | None = None
    #: The extensions to ask about tool calls, in the session of a sub-agent.
    call_hooks: CallHooks | None = None
    #: Decides which tool calls may happen, after the extensions; None: all.
    approver: SessionApprovals | SubagentApprover | None = None
    #: The id that providers get instead of that of the conversation.
    provider_session_id: str | None = None
