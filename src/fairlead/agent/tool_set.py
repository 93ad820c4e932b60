"""A set of tools that takes the place of the built-in ones, and what such tools can use from their session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from fairlead.core.tool import Tool
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from fairlead.core.events import Event
    from fairlead.core.model import Model, ThinkingLevel
    from fairlead.core.ui import Ui
    from fairlead.session.additions import Additions
    from fairlead.session.history.conversation import Conversation
    from fairlead.session.session import Session
    from fairlead.session.subagents.subagents import Subagents
    from fairlead.session.toolbox import Toolbox


class ToolSet(Struct, frozen=True):
    """Makes the tools of an agent. Unless `AgentOptions.tools` says otherwise, the model may use them all."""

    #: Makes the tools that need a workspace only, by name. Each sub-agent gets its own.
    for_workspace: Callable[[Workspace], Mapping[str, Tool]]
    #: Makes all tools of a session, in the order in which the model sees them. Called before the session exists.
    for_session: Callable[[ToolServices], Sequence[Tool]]


class ToolServices:
    """What tools can use from the session that they were made for.

    The attributes are there at once. Properties and `subscribe` need the session: tools use them when they are called.
    """

    def __init__(
        self, workspace: Workspace, additions: Additions | None, subagents: Subagents, now_ms: Callable[[], int]
    ) -> None:
        self.workspace = workspace
        self.additions = additions
        self.subagents = subagents
        self.now_ms = now_ms
        self._attached: Session | None = None
        self._listeners: list[Callable[[Event], None]] = []

    def attach(self, session: Session) -> None:
        """Serve the tools from this session."""
        self._attached = session
        for listener in self._listeners:
            session.subscribe(listener)

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Call `listener` with every event of the session, once there is one."""
        self._listeners.append(listener)

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call `listener` with every event from now on. Returns a function that ends that."""
        return self._session.subscribe(listener)

    @property
    def conversation(self) -> Conversation:
        """The present conversation of the session."""
        return self._session.history.conversation

    @property
    def toolbox(self) -> Toolbox:
        return self._session.tools

    @property
    def model(self) -> Model | None:
        return self._session.model

    @property
    def thinking(self) -> ThinkingLevel:
        return self._session.thinking

    @property
    def ui(self) -> Ui:
        """Asks and tells the user."""
        return self._session.host.ui

    @property
    def is_running(self) -> bool:
        """Whether the session has a run, or a prompt that is about to start one."""
        return self._session.is_streaming

    @property
    def queued_messages(self) -> int:
        return len(self._session.queue)

    @property
    def _session(self) -> Session:
        assert self._attached is not None, "the agent attaches its session before any tool runs"
        return self._attached
