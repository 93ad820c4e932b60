"""The events that extensions listen to.

Events of a run are the classes of `fairlead.core.events`; all others are declared here. Each handler gets its own copy of an
event. Changing it has no effect, except for the fields whose docstring says that changes are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct

from fairlead.core import events as core
from fairlead.core.messages import CustomMessage, ImageContent, Message, ModelMessage, Usage, UserBlock
from fairlead.core.queues import Behavior
from fairlead.core.runtime import CancelToken
from fairlead.session.hooks import (
    EVENT_NAMES,
    CompactionPlan,
    EndReason,
    Guide,
    InputSource,
    StartReason,
    Summary,
    TreePlan,
    WarmingAction,
    WarmingDecision,
)

__all__ = [
    "Amend",
    "Block",
    "Cancel",
    "Continue",
    "Guide",
    "Handled",
    "Note",
    "Open",
    "Ran",
    "Replace",
    "Resources",
    "Revise",
    "Summary",
    "Transform",
    "Trust",
    "Warming",
]


class Block(Struct, frozen=True):
    """Result of `tool_call`: the tool does not run. The model gets the reason.

    With `ends_run`, the model is not asked again after this turn, unless another call of the turn has an ordinary result.
    """

    reason: str = "Tool execution was blocked"
    ends_run: bool = False


class Handled(Struct, frozen=True):
    """Result of `input`: the extension has handled the message. It starts no run and is not queued."""


class Transform(Struct, frozen=True):
    """Result of `input`: use this text instead. If `images` is None, the images of the message stay."""

    text: str
    images: list[ImageContent] | None = None


class Note(Struct, frozen=True):
    """A message from an extension to the model. Hosts get `display`, which says whether to show it, and `details`, which the
    model does not get.
    """

    custom_type: str
    content: str | list[UserBlock]
    display: bool = True
    details: Any = None


class Open(Struct, frozen=True):
    """Result of `before_agent_start`: messages to add after the prompt, and a system prompt for this run."""

    messages: Sequence[Note] = ()
    system_prompt: str | None = None


class Replace(Struct, frozen=True):
    """Result of `context` and `context_with_system`: what to send to the model this time. The session itself does not change."""

    messages: list[ModelMessage] | None = None
    #: For `context_with_system` only.
    system_prompt: str | None = None


class Amend(Struct, frozen=True):
    """Result of `tool_result`: changes to the result of the tool. Fields that are not given stay as they are."""

    content: str | list[UserBlock] | None = None
    details: Any = UNSET
    is_error: bool | None = None
    #: The result as data. Without it, a new `content` removes the data that the tool returned.
    structured: Any = UNSET
    #: What model calls have used.
    usage: Usage | None = None


class Revise(Struct, frozen=True):
    """Result of `message_end`: keep this message instead. It must have the same role, and the result of a tool the same call."""

    message: Message


class Continue(Struct, frozen=True):
    """Result of `agent_before_settle`: send these messages to the model and continue the run."""

    messages: Sequence[Note]


class Cancel(Struct, frozen=True):
    """Result of `session_before_switch`, `session_before_fork`, `session_before_compact`, `session_before_tree`: prevent it."""

    reason: str = ""


class Ran(Struct, frozen=True):
    """Result of `user_bash`: the extension ran the command, with this outcome."""

    output: str
    exit_code: int | None = 0
    cancelled: bool = False
    truncated: bool = False
    full_output_path: str | None = None


class Warming(Struct, frozen=True):
    """Result of `cache_warming_decision`: renew the cache (`warm`), or leave it alone until the next request (`stop`)."""

    action: WarmingAction


class Trust(Struct, frozen=True):
    """Result of `project_trust`: whether the project's code may run. With `remember`, the decision is saved for later runs."""

    trusted: bool
    remember: bool = False


class Resources(Struct, frozen=True):
    """Result of `resources_discover`: more skills and prompt templates, as files or as directories of files."""

    skills: Sequence[str | Path] = ()
    prompts: Sequence[str | Path] = ()


#: What a handler of each event may return besides None. The results of all other handlers are ignored.
RESULTS: dict[str, tuple[type[Any], ...]] = {
    "project_trust": (Trust,),
    "resources_discover": (Resources,),
    "session_before_switch": (Cancel,),
    "session_before_fork": (Cancel,),
    "session_before_compact": (Summary, Cancel),
    "session_before_tree": (Guide, Summary, Cancel),
    "input": (Transform, Handled),
    "before_agent_start": (Open,),
    "context": (Replace,),
    "context_with_system": (Replace,),
    "tool_call": (Block,),
    "tool_result": (Amend,),
    "message_end": (Revise,),
    "agent_before_settle": (Continue,),
    "user_bash": (Ran,),
    "cache_warming_decision": (Warming,),
}


#: A compaction, or a move within the tree, is about to happen.
SessionBeforeCompact: TypeAlias = CompactionPlan
SessionBeforeTree: TypeAlias = TreePlan


class ProjectTrust(Struct):
    """A project has its own extensions or MCP servers, and it is undecided whether they may run. Return `Trust` to decide."""

    cwd: Path


class ResourcesDiscover(Struct):
    """The agent is about to look for skills and prompt templates. Return `Resources` to add some."""

    cwd: Path
    reason: Literal["startup", "reload"]


class SessionStart(Struct):
    """The agent starts to work with a session. `previous` is the file of the session it came from."""

    reason: StartReason
    previous: str | None = None


class SessionShutdown(Struct):
    """The agent is about to leave a session. `target` is the file of the session it switches to."""

    reason: EndReason
    target: str | None = None


class SessionBeforeSwitch(Struct):
    """The agent is about to start a new session, or to resume the one in the file `target`. Return `Cancel` to prevent it."""

    reason: Literal["new", "resume"]
    target: str | None = None


class SessionBeforeFork(Struct):
    """The session is about to be copied, up to an entry or to just before it. Return `Cancel` to prevent it."""

    entry_id: str
    position: Literal["before", "at"]


class SessionCompact(Struct):
    """A summary replaced older messages. `entry` is the JSON of the compaction entry."""

    entry: dict[str, Any]
    reason: core.CompactionReason
    from_extension: bool = False


class SessionCompactFailed(Struct):
    """A compaction failed or was aborted."""

    reason: core.CompactionReason
    error: str | None = None
    aborted: bool = False
    will_retry: bool = False


class SessionTree(Struct):
    """The session moved to another entry of its tree."""

    new_leaf_id: str | None
    old_leaf_id: str | None
    summary_entry_id: str | None = None
    from_extension: bool = False


class Input(Struct):
    """The user or an extension sent a message to the agent. `behavior` says how it is queued if a run is active. Return
    `Transform` to change the message, or `Handled` to drop it.
    """

    text: str
    images: list[ImageContent] | None
    source: InputSource
    behavior: Behavior | None = None


class BeforeAgentStart(Struct):
    """A prompt is about to start a run. Return `Open` to add messages or to change the system prompt."""

    prompt: str
    images: list[ImageContent] | None
    system_prompt: str
    #: The message of an extension that starts the run instead of a prompt. The prompt is empty then.
    message: CustomMessage | None = None


class ModelContext(Struct):
    """The agent is about to send these messages to the model. Return `Replace` to send others."""

    messages: list[ModelMessage]


class ModelContextWithSystem(Struct):
    """The agent is about to send these messages and this system prompt to the model. Return `Replace` to send others."""

    messages: list[ModelMessage]
    system_prompt: str


class BeforeProviderRequest(Struct):
    """The agent is about to send a request to a provider. `payload` is its JSON; changes to it are used."""

    payload: dict[str, Any]


class BeforeProviderHeaders(Struct):
    """The agent is about to send a request with these headers to a provider. Changes to them are used."""

    headers: dict[str, str]


class AfterProviderResponse(Struct):
    """A provider sent the status and headers of its response."""

    status: int
    headers: dict[str, str]


class ProviderStreamEvent(Struct):
    """A provider sent an event of its response. `data` is its JSON; the model's message has not been built from it yet."""

    provider: str
    api: str
    model: str
    data: Any


class ToolCallEvent(Struct):
    """A tool is about to run. Changes to `arguments` are used, after another check against the tool's schema. Return `Block` to
    prevent the call.
    """

    tool_name: str
    call_id: str
    arguments: dict[str, Any]
    #: The call that this one was made for, if a tool made it.
    parent_call_id: str | None = None


class ToolResultEvent(Struct):
    """A tool has run, and its result is about to be sent to the model. Return `Amend` to change it."""

    tool_name: str
    call_id: str
    arguments: dict[str, Any]
    content: list[UserBlock]
    details: Any
    is_error: bool
    parent_call_id: str | None = None
    #: What model calls of the tool have used.
    usage: Usage | None = None
    #: Returns the result as data; None if the tool offers none.
    structured: Callable[[], Any] | None = None


class AgentBeforeSettle(Struct):
    """A run is about to end. `messages` are those it added since it started, or since a handler last made it continue. Return
    `Continue` to make it continue.
    """

    messages: list[Message]


class UserBash(Struct):
    """The host is about to run a shell command for its user. Return `Ran` if the extension ran it instead. If a handler fails,
    the command does not run.
    """

    command: str
    exclude_from_context: bool
    cwd: Path
    #: Fires when the host aborts the command.
    cancel: CancelToken
    #: Shows the host output of the command while it runs.
    show: Callable[[str], None]


class EntryAppended(Struct):
    """The session has a new entry that no other event reports. `entry` is its JSON."""

    entry: dict[str, Any]


#: The prompt cache of a provider is about to expire.
CacheWarmingDecision: TypeAlias = WarmingDecision


#: The events that `on` accepts, each with the class that its handlers get.
EVENTS: dict[str, Any] = {
    **{name: kind for kind, names in EVENT_NAMES.items() for name in names},
    "project_trust": ProjectTrust,
    "resources_discover": ResourcesDiscover,
    "session_start": SessionStart,
    "session_shutdown": SessionShutdown,
    "session_before_switch": SessionBeforeSwitch,
    "session_before_fork": SessionBeforeFork,
    "session_before_compact": SessionBeforeCompact,
    "session_compact": SessionCompact,
    "session_compact_failed": SessionCompactFailed,
    "session_before_tree": SessionBeforeTree,
    "session_tree": SessionTree,
    "input": Input,
    "before_agent_start": BeforeAgentStart,
    "context": ModelContext,
    "context_with_system": ModelContextWithSystem,
    "before_provider_request": BeforeProviderRequest,
    "before_provider_headers": BeforeProviderHeaders,
    "after_provider_response": AfterProviderResponse,
    "provider_stream_event": ProviderStreamEvent,
    "tool_call": ToolCallEvent,
    "tool_result": ToolResultEvent,
    "agent_before_settle": AgentBeforeSettle,
    "user_bash": UserBash,
    "cache_warming_decision": CacheWarmingDecision,
    "entry_appended": EntryAppended,
}
