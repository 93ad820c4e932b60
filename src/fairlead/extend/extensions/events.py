"""What extensions hear of, and what they are asked.

What merely happens in a run comes as the values of `fairlead.core.events`; the rest is declared here. An event is the listener's
own: changing it changes nothing else, but for the fields that are said to count.
`EventBus` carries events of the extensions' own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from fairlead.core import events as core
from fairlead.core.messages import ImageContent, Message, ModelMessage, UserBlock
from fairlead.core.queues import Behavior
from fairlead.session.hooks import EVENT_NAMES, CompactionPlan, EndReason, InputSource, StartReason, TreePlan

#: A compaction, and a move within the tree, that are about to happen.
SessionBeforeCompact: TypeAlias = CompactionPlan
SessionBeforeTree: TypeAlias = TreePlan


class ProjectTrust(Struct):
    """A project has extensions or servers of its own, and nobody has said yet whether they may run."""

    cwd: Path


class ResourcesDiscover(Struct):
    """Skills and prompt templates are about to be looked for."""

    cwd: Path
    reason: Literal["startup", "reload"]


class SessionStart(Struct):
    """The agent works with a conversation from here on. `previous` is the file of the one it came from."""

    reason: StartReason
    previous: str | None = None


class SessionShutdown(Struct):
    """The agent is about to leave a conversation. `target` is the file of the one it goes to."""

    reason: EndReason
    target: str | None = None


class SessionBeforeSwitch(Struct):
    """Another conversation is about to be begun, or gone on with: the one in the file `target`."""

    reason: Literal["new", "resume"]
    target: str | None = None


class SessionBeforeFork(Struct):
    """The conversation is about to be copied, up to before or at an entry."""

    entry_id: str
    position: Literal["before", "at"]


class SessionCompact(Struct):
    """A summary took the place of older messages. `entry` is the JSON of the entry that says so."""

    entry: dict[str, Any]
    reason: core.CompactionReason
    from_extension: bool = False


class SessionCompactFailed(Struct):
    """A compaction did not come about."""

    reason: core.CompactionReason
    error: str | None = None
    aborted: bool = False
    will_retry: bool = False


class SessionTree(Struct):
    """The conversation stands at another entry of its tree."""

    new_leaf_id: str | None
    old_leaf_id: str | None
    summary_entry_id: str | None = None
    from_extension: bool = False


class Input(Struct):
    """The user, or an extension, said something to the agent. `behavior`: it is to be queued."""

    text: str
    images: list[ImageContent] | None
    source: InputSource
    behavior: Behavior | None = None


class BeforeAgentStart(Struct):
    """A prompt is about to start a run."""

    prompt: str
    images: list[ImageContent] | None
    system_prompt: str


class ModelContext(Struct):
    """A model is about to be asked, with these messages."""

    messages: list[ModelMessage]


class ModelContextWithSystem(Struct):
    """The same, with the system prompt."""

    messages: list[ModelMessage]
    system_prompt: str


class BeforeProviderRequest(Struct):
    """A request is about to be sent to the provider of a model. `payload` is its JSON; what is changed in it counts."""

    payload: dict[str, Any]


class BeforeProviderHeaders(Struct):
    """The same, for its headers; what is changed in them counts."""

    headers: dict[str, str]


class AfterProviderResponse(Struct):
    """The provider of a model begins to answer."""

    status: int
    headers: dict[str, str]


class ToolCallEvent(Struct):
    """A tool is about to run. What is changed in `arguments` counts; it is checked against the tool's schema again."""

    tool_name: str
    call_id: str
    arguments: dict[str, Any]


class ToolResultEvent(Struct):
    """A tool has run, and the model is about to be told of its result."""

    tool_name: str
    call_id: str
    arguments: dict[str, Any]
    content: list[UserBlock]
    details: dict[str, Any] | None
    is_error: bool


class AgentBeforeSettle(Struct):
    """A run is about to be over. `messages` are those that it added, since it was kept from ending the last time."""

    messages: list[Message]


class UserBash(Struct):
    """The host is about to run a shell command for its user."""

    command: str
    exclude_from_context: bool
    cwd: Path


class EntryAppended(Struct):
    """The session has an entry that no other event tells of. `entry` is its JSON."""

    entry: dict[str, Any]


class CacheWarmingDecision(Struct):
    """Known from pi, which refreshes providers' caches in the background. fairlead does not: it never happens."""


#: Everything that `on` takes, and what a handler of it gets.
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
    "tool_call": ToolCallEvent,
    "tool_result": ToolResultEvent,
    "agent_before_settle": AgentBeforeSettle,
    "user_bash": UserBash,
    "cache_warming_decision": CacheWarmingDecision,
    "entry_appended": EntryAppended,
}


#: Calls a handler on behalf of the extension that it belongs to.
Start: TypeAlias = Callable[[str, Callable[[], Any]], None]
Listeners: TypeAlias = dict[str, list[tuple[Start, Callable[[Any], Any]]]]


class EventBus:
    """Events of the extensions' own: whoever emits one need not know who listens."""

    def __init__(self, listeners: Listeners, start: Start) -> None:
        self._listeners = listeners
        self._start = start
        self._is_closed = False

    def on(self, name: str, handler: Callable[[Any], Any]) -> Callable[[], None]:
        """Call `handler` with whatever is emitted under a name; the returned function takes it back."""
        self._be_open()
        if not callable(handler):
            raise TypeError(f"A handler is a function, not {type(handler).__name__}.")
        listener = self._start, handler
        self._listeners.setdefault(name, []).append(listener)

        def take_back() -> None:
            if listener in self._listeners.get(name, ()):
                self._listeners[name].remove(listener)

        return take_back

    def emit(self, name: str, data: Any = None) -> None:
        """Hand `data` to everybody who listens. They are called soon, in order, and nobody waits for them."""
        self._be_open()
        for start, handler in list(self._listeners.get(name, ())):
            start(f"bus:{name}", lambda handler=handler: handler(data))

    def close(self) -> None:
        """Take back what this extension listens to. It cannot speak any more, either."""
        self._is_closed = True
        for name, listeners in self._listeners.items():
            self._listeners[name] = [listener for listener in listeners if listener[0] is not self._start]

    def _be_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("This extension was reloaded: what is left of it cannot act any more.")
