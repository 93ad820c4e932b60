"""The options of a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from fairlead.config.settings import CompactionSettings, RetrySettings, RuleSettings, TodoSettings
from fairlead.core.model import Model, ThinkingLevel
from fairlead.core.tool import Approver, Schedule, Tool
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.sessions import Sessions
from fairlead.session.models import Models
from fairlead.session.runtime import AsyncioRuntime
from fairlead.session.selection import Scoped
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from fairlead.session.additions import Additions, Servers
    from fairlead.session.hooks import CallHooks, LateHooks
    from fairlead.session.rules.rules import Rule
    from fairlead.session.subagents.subagents import Subagents


class SessionOptions(Struct, kw_only=True):
    """Everything that a session needs from outside."""

    models: Models
    tools: Mapping[str, Tool]
    active_tools: Sequence[str]
    workspace: Workspace
    runtime: AsyncioRuntime
    #: The system prompt for the tools that are active.
    system_prompt: Callable[[Sequence[Tool]], str]
    model: Model | None = None
    thinking: ThinkingLevel = "medium"
    #: Models to cycle through; all available ones if empty.
    scoped: Scoped = ()
    #: Where conversations are kept; None: in memory.
    sessions: Sessions | None = None
    #: The conversation to begin with; a new one if None.
    conversation: Conversation | None = None
    #: Whether `model`, and `thinking`, override what that conversation has chosen.
    model_goes_first: bool = False
    thinking_goes_first: bool = False
    #: How the tools of one turn run while the interrupt mode is `wait`, and while it is `immediate`.
    schedule: Schedule = "together"
    schedule_immediate: Schedule = "exclusive"
    concurrent_tools: int = 8
    #: Model calls of one run, and how often in a row it may repeat calls with the same results; 0: no limit.
    max_turns: int = 0
    max_repeated_calls: int = 0
    retry: RetrySettings = RetrySettings()
    #: The stream rules.
    rules: Sequence[Rule] = ()
    rule_settings: RuleSettings = RuleSettings()
    todo: TodoSettings = TodoSettings()
    #: Seconds until a todo that is done is removed from the list.
    todo_clear_delay: float = 60
    #: Whether the model plans before the first prompt, where the settings do not say.
    eager_todos: bool = False
    compaction: CompactionSettings = CompactionSettings()
    #: What users add to its prompts; None: nothing.
    additions: Additions | None = None
    #: Programs beside it that bring tools; None: there are none.
    servers: Servers | None = None
    #: The sub-agents that it can give work to; None: there are none.
    subagents: Subagents | None = None
    #: The extensions; None: there are none.
    hooks: LateHooks | None = None
    #: The extensions to ask about tool calls, in the session of a sub-agent.
    call_hooks: CallHooks | None = None
    #: Decides which tool calls may happen, after the extensions; None: all.
    approver: Approver | None = None
    #: Whether a prompt waits until its model's key is found, and is refused if there is none. If not, its run fails instead.
    waits_for_key: bool = True
