"""What brings an agent tools: sets that replace the built-in ones, with the parts of a session that such tools can use; and MCP
servers that a program hands over, without a file."""

# Annotations are evaluated here, not kept as strings, as in `fairlead.agent.options`.
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from fairlead.core.tool import Tool
from fairlead.errors import BadOption
from fairlead.extend.mcp import config
from fairlead.session.slash_commands import Origin
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from fairlead.core.events import Event
    from fairlead.core.model import Model, ThinkingLevel
    from fairlead.core.runtime import Ui
    from fairlead.session.additions import Additions
    from fairlead.session.history.conversation import Conversation
    from fairlead.session.session import Session
    from fairlead.session.subagents.subagents import SessionSubagents
    from fairlead.session.todos.lazy import LazyTodos
    from fairlead.session.toolbox import Toolbox


class ToolSet(Struct, frozen=True):
    """Creates the tools of an agent. The model may use all of them, unless `only` is given."""

    #: Creates the tools that need only a workspace, by name. Called again for each sub-agent.
    for_workspace: Callable[[Workspace], Mapping[str, Tool]]
    #: Creates all tools of a session, in the order in which the model sees them. Called before the session exists.
    for_session: "Callable[[ToolServices], Sequence[Tool]]"
    #: The names of the tools that the model may use: of these, and of those that come later. None: all.
    only: Sequence[str] | None = None
    #: Returns how the tools of MCP servers look beside them. None: as usual.
    mcp_style: "Callable[[], config.McpStyle] | None" = None


class ToolServices:
    """The parts of a session that its tools can use.

    The attributes are available immediately. The properties and `subscribe` need the session, so tools use them only when they
    are called.
    """

    def __init__(
        self, workspace: Workspace, additions: "Additions | None", subagents: "SessionSubagents", now_ms: Callable[[], int]
    ) -> None:
        self.workspace = workspace
        self.additions = additions
        self.subagents = subagents
        self.now_ms = now_ms
        self._attached: Session | None = None
        self._listeners: list[Callable[[Event], None]] = []

    def attach(self, session: "Session") -> None:
        """Set the session that the tools belong to."""
        self._attached = session
        for listener in self._listeners:
            session.subscribe(listener)

    def listen(self, listener: "Callable[[Event], None]") -> None:
        """Call `listener` with every event of the session. This may be called before the session exists."""
        self._listeners.append(listener)

    def subscribe(self, listener: "Callable[[Event], None]") -> Callable[[], None]:
        """Call `listener` with every event from now on. Returns a function that removes it again."""
        return self._session.subscribe(listener)

    @property
    def conversation(self) -> "Conversation":
        """The current conversation of the session."""
        return self._session.history.conversation

    @property
    def todos(self) -> "LazyTodos":
        """The list of what there is to do."""
        return self._session.todos

    @property
    def toolbox(self) -> "Toolbox":
        return self._session.tools

    @property
    def model(self) -> "Model | None":
        return self._session.model

    @property
    def thinking(self) -> "ThinkingLevel":
        return self._session.thinking

    @property
    def ui(self) -> "Ui":
        """Asks the user questions and shows them messages."""
        return self._session.host.ui

    @property
    def is_running(self) -> bool:
        """Whether the session has a run, or a prompt that is about to start one."""
        return self._session.activity.is_streaming

    @property
    def queued_messages(self) -> int:
        return len(self._session.queue)

    @property
    def _session(self) -> "Session":
        assert self._attached is not None, "the agent attaches its session before any tool runs"
        return self._attached


class McpServer(Struct, frozen=True, kw_only=True):
    """An MCP server: a program to start (`command`), or the URL of a running server (`url`).

    Values are used as they are: variables in them are not replaced.
    """

    command: str | None = None
    args: Sequence[str] = ()
    #: Variables to add to the environment of the program.
    env: Mapping[str, str] = {}
    #: The working directory of the program. None: that of the agent.
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = {}
    #: How to talk to it. None: `stdio` with a `command`, `http` (streamable HTTP) with a `url`.
    type: Literal["stdio", "http", "sse"] | None = None
    #: Seconds that a call may take. None: the limit for all tools.
    timeout: Annotated[float, Meta(gt=0)] | None = None


def server_configs(servers: Mapping[str, McpServer]) -> "list[config.ServerConfig]":
    """Return the servers in the form of those from files. Raises BadOption if one has neither a program nor a URL."""
    if not servers:
        return []

    configs: list[config.ServerConfig] = []
    for name, server in servers.items():
        kind = server.type or ("stdio" if server.command else "http")
        origin = Origin(Path(f"mcp:{name}"), "cli", "temporary")
        if kind == "stdio":
            if not server.command or server.url:
                raise BadOption(f"mcp_servers: {name}: expected either the command to start or a url.")
            command = (server.command, *server.args)
            configs.append(
                config.ServerConfig(
                    name=name, origin=origin, command=command, env=server.env, cwd=server.cwd, timeout=server.timeout
                )
            )
        else:
            if server.command or not server.url or not server.url.lower().startswith(("http://", "https://")):
                raise BadOption(f"mcp_servers: {name}: expected a url that begins with http:// or https://, and no command.")
            configs.append(
                config.ServerConfig(
                    name=name,
                    origin=origin,
                    url=server.url,
                    headers=server.headers,
                    is_sse=kind == "sse",
                    timeout=server.timeout,
                )
            )
    return configs
