"""MCP servers of a host: those that it names, and those that live in it, which get their messages in `mcp_message`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import to_builtins

from fairlead import __version__
from fairlead.agent import Agent
from fairlead.config import extras
from fairlead.core.runtime import CancelToken
from fairlead.errors import ConfigError, ToolError
from fairlead.extend.mcp import config, tools
from fairlead.protocol.claude import frames
from fairlead.protocol.claude import host as h
from fairlead.session.slash_commands import Origin
from fairlead.wire.claude.claude_codec import ControlError, encode
from fairlead.wire.pending import HostQuestion, Questions, Unanswered

if TYPE_CHECKING:
    from fairlead.extend.mcp.server import McpServer
    from fairlead.extend.mcp.servers import McpServers

#: Seconds that the answer to `initialize` waits for servers in the host, and how long an answer to a notification is expected.
PATIENCE, NOTICE_PATIENCE = 10.0, 60.0
#: The message with which a connection to a server in the host begins.
_FIRST = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "fairlead", "version": __version__},
    },
}


class HostServers:
    """The MCP servers that a host wants. They are connected when the agent is made, which `agent` returns.

    `wanted` are the servers by name, as the host wrote them.
    """

    def __init__(self, questions: Questions, agent: Callable[[], Agent], wanted: Mapping[str, Any]) -> None:
        self._questions = questions
        self._agent = agent
        self._pending: dict[str, Any] = dict(wanted)
        #: Why servers cannot be used at all, by name.
        self._refused: dict[str, str] = {}
        #: The servers that the host has named, as it wrote them; those that live in it, with the answer to their first message
        #: until it is used; and those that `mcp_set_servers` has brought.
        self._named: dict[str, Any] = {}
        self._in_host: dict[str, asyncio.Task[Any] | None] = {}
        self._brought: dict[str, Any] = {}
        #: Whether servers in the host may get more than their first message: `initialize` has been answered.
        self._is_answered = asyncio.Event()
        self._is_answered.set()

    def want(self, servers: Mapping[str, Any]) -> None:
        """Connect to more servers when the agent is made.

        Those that live in the host are replaced by `mcp_set_servers`: the TypeScript SDK then drops them.
        """
        self._pending |= servers
        self._brought |= {name: written for name, written in servers.items() if _is_in_host(written)}

    @property
    def has_some_in_host(self) -> bool:
        """Whether a server lives in the host."""
        return bool(self._in_host) or any(map(_is_in_host, self._pending.values()))

    # Connecting

    @property
    def _servers(self) -> McpServers | None:
        """The servers of the agent; None if there are none."""
        return self._agent().extensions.mcp

    def start(self) -> None:
        """Begin to connect to the servers that are wanted."""
        pending, self._pending = self._pending, {}
        for name, written in pending.items():
            if self._named.get(name) != written:  # initialize may come again
                self._add(name, written)

    async def ready(self, cancel: CancelToken) -> None:
        """Connect to all servers, and wait for those that are quick."""
        self.start()
        if self._servers is not None:
            await self._servers.ready(cancel)

    async def greet(self) -> None:
        """Wait until the servers in the host have answered their first message. None has to answer at all."""
        self._is_answered.clear()
        self.start()
        waiting = [first for first in self._in_host.values() if first is not None]
        if waiting:
            await asyncio.wait(waiting, timeout=PATIENCE)

    def on_answered(self) -> None:
        """Note that `initialize` has been answered."""
        self._is_answered.set()

    def _add(self, name: str, written: Any) -> bool:
        """Begin to connect to a server. Returns whether that is possible."""
        self._named[name] = written
        try:
            server = self._read(name, written)
        except ConfigError as error:
            self._refused[name] = str(error)
            return False
        self._refused.pop(name, None)
        self._agent().extensions.servers_for_more().add(server, replaces=True)
        return True

    def _read(self, name: str, written: Any) -> config.ServerConfig:
        origin = Origin(Path("--mcp-config"), "cli", "temporary")
        if _is_in_host(written):
            # The first message leaves now: loading what speaks the protocol takes a while.
            first = self._in_host[name] = asyncio.create_task(self._ask(name, _FIRST))
            first.add_done_callback(lambda task: task.cancelled() or task.exception())  # it may never be used
            return config.ServerConfig(name=name, origin=origin, exchange=lambda message: self._exchange(name, message))
        workspace = self._agent().session.host.workspace
        env = workspace.env if workspace.agent_env is None else workspace.agent_env
        server = config.read_server(name, written, origin, env)
        if server is None:
            raise ConfigError("it is not enabled.")
        return server

    async def _exchange(self, name: str, message: dict[str, Any]) -> Any:
        """Send a message to a server in the host. Returns its answer."""
        if message.get("method") != "initialize":
            await self._is_answered.wait()
        elif (first := self._in_host.get(name)) is not None:
            self._in_host[name] = None
            return await first
        return await self._ask(name, message)

    async def _ask(self, name: str, message: dict[str, Any]) -> Any:
        asked = h.McpMessage(server_name=name, message=message)
        question = HostQuestion(
            ask=lambda ident: encode(h.ControlRequest(request_id=ident, request=to_builtins(asked))),
            withdraw=lambda _, ident: encode(h.ControlCancelRequest(request_id=ident)),
            timeout=None if "id" in message else NOTICE_PATIENCE,
        )
        try:
            body = (await self._questions.ask(question, CancelToken())).body
        except Unanswered:
            raise ToolError("the host has left, and the server lives in it") from None
        match body:
            case {"subtype": "success", "response": {"mcp_response": answer}}:
                return answer
            case {"subtype": "error", "error": error}:
                raise ToolError(str(error))
            case _:
                raise ToolError("the host's answer has no mcp_response")

    async def receive(self, name: str, message: dict[str, Any]) -> None:
        """Take a message that a server in the host sends by itself. Raises ControlError."""
        server = await self._find(name)
        if not await server.receive(message):
            raise ControlError(f"The server {name} is not connected, or does not live in the host.")

    # Changing

    async def set_enabled(self, name: str, *, enabled: bool) -> None:
        """Connect or disconnect a server. Raises ControlError."""
        server, servers = await self._find(name), self._servers
        assert servers is not None, "it has a server"
        if not enabled:
            await servers.disable(server)
        elif server.is_disabled:
            await self._connect(servers, server)

    async def reconnect(self, name: str) -> None:
        """Connect a server again. Raises ControlError."""
        server, servers = await self._find(name), self._servers
        assert servers is not None, "it has a server"
        await self._connect(servers, server)

    async def _connect(self, servers: McpServers, server: McpServer) -> None:
        try:
            await servers.reconnect(server)
        except ToolError as error:
            raise ControlError(str(error)) from None

    async def replace(self, wanted: Mapping[str, Any]) -> h.McpServersSet:
        """Replace the servers that earlier requests have brought. Servers that stay as they are stay connected."""
        self.start()
        removed = [name for name, written in self._brought.items() if wanted.get(name) != written]
        added = [name for name in wanted if name in removed or name not in self._brought]
        for name in removed:
            del self._brought[name]
            self._forget(name)
        errors: dict[str, str] = {}
        for name in added:
            if name in self._named:
                errors[name] = f"A server named {name} exists already."
            elif self._add(name, wanted[name]):
                self._brought[name] = wanted[name]
            else:
                errors[name] = self._refused.pop(name)
                self._forget(name)
        added = [name for name in added if name not in errors]
        if self._servers is not None and (added or removed):
            for server in await self._servers.list_servers(settled=True):
                if server.config.name in added and server.problem:
                    errors[server.config.name] = server.problem
        return h.McpServersSet(added=added, removed=[name for name in removed if name not in wanted], errors=errors)

    def _forget(self, name: str) -> None:
        self._named.pop(name, None)
        if (first := self._in_host.pop(name, None)) is not None:
            first.cancel()
        if self._servers is not None:
            self._servers.remove(name)

    async def _find(self, name: str) -> McpServer:
        self.start()
        if self._servers is not None:
            await self._servers.list_servers()
        found = next((server for server in self._list_known() if server.config.name == name), None)
        if found is None:
            raise ControlError(self._refused.get(name) or f"Server not found: {name}")
        return found

    # Looking

    def source(self, name: str) -> str:
        """Return where a server comes from."""
        return "sdk" if name in self._in_host else "dynamic"

    def find_source_of_tool(self, tool: str) -> h.McpServerOfTool | None:
        """Return the server of a tool, for questions about its calls; None for other tools."""
        known = self._list_known() if tool.startswith("mcp__") else ()
        found = next((server for server in known if tool.startswith(f"mcp__{server.key}__")), None)
        return None if found is None else h.McpServerOfTool(name=found.config.name, source=self._source_of(found))

    def list_names(self) -> list[frames.McpServerName]:
        """Return what each turn begins by saying about the servers."""
        known = self._list_known()
        found = [frames.McpServerName(name=each.config.name, status=each.status, source=self._source_of(each)) for each in known]
        missing = self._named.keys() - {each.name for each in found}
        return [*found, *(frames.McpServerName(name=name, status="failed", source=self.source(name)) for name in missing)]

    def _list_known(self) -> Sequence[McpServer]:
        return () if self._servers is None else self._servers.servers

    async def describe(self) -> h.McpServers:
        """Return all that is known about the servers, once those that are quick have connected."""
        self.start()
        if self._servers is not None:
            await self._servers.list_servers(settled=True)
        known = self._list_known()
        found = [self._describe(server) for server in known]
        for name in self._named.keys() - {server.config.name for server in known}:
            text = self._refused.get(name) or f"It needs a package that is not installed: {extras.install_command('mcp')}"
            found.append(h.McpServerStatus(name=name, status="failed", error=text, scope="dynamic", source=self.source(name)))
        return h.McpServers(mcp_servers=found)

    def _describe(self, server: McpServer) -> h.McpServerStatus:
        settings = server.config
        source = self._source_of(server)
        status = h.McpServerStatus(
            name=settings.name,
            status=server.status,
            transport=_transport(settings),
            scope="dynamic" if source == "sdk" else source,
            source=source,
        )
        if server.problem and status.status != "disabled":
            status.error = server.problem
        if (info := server.info) is not None:
            status.server_info = info
            status.tools = [{"name": tool.name, "annotations": _read_hints(tool.annotations)} for tool in server.offer.tools]
        if settings.url:
            status.config = {"type": status.transport, "url": settings.url}
        elif settings.command:
            command, *arguments = settings.command
            status.config = {"type": "stdio", "command": command, "args": arguments}
        return status

    def _source_of(self, server: McpServer) -> str:
        scope = server.config.origin.scope
        return scope if scope != "temporary" else self.source(server.config.name)

    # Using

    async def call(self, tool: str, arguments: dict[str, Any], timeout_ms: float | None) -> dict[str, Any]:
        """Call a tool by the name that the model uses. Returns the result. Raises ControlError."""
        self.start()
        if self._servers is not None:
            await self._servers.list_servers(settled=True)
        offered = ((server, each.name) for server in self._list_known() for each in server.offer.tools)
        named = (pair for pair in offered if tool in tools.tool_names(pair[0].key, [pair[1]], pair[0].style.illegal).values())
        server, name = next(named, (None, ""))
        if server is None:
            raise ControlError(f"There is no tool {tool} of a server that is connected.")
        limit = None if timeout_ms is None else timeout_ms / 1000
        try:
            async with asyncio.timeout(limit):
                what = f"The call of {tool}"
                return await self.request(server.config.name, what, lambda session: session.call_tool(name, arguments))
        except TimeoutError:
            raise ControlError(f"{tool} did not answer within {limit:g} seconds.") from None

    async def request(self, name: str, what: str, ask: Callable[[Any], Any]) -> dict[str, Any]:
        """Send a request of the host to a server. Returns the result. Raises ControlError."""
        server = await self._find(name)
        try:
            answer = await server.request(what, ask, CancelToken())
        except ToolError as error:
            raise ControlError(str(error)) from None
        return cast("dict[str, Any]", answer.model_dump(mode="json", by_alias=True, exclude_unset=True))


def _is_in_host(written: Any) -> bool:
    return isinstance(written, dict) and cast("dict[str, Any]", written).get("type") == "sdk"


def _transport(settings: config.ServerConfig) -> str:
    if settings.exchange is not None:
        return "sdk"
    return ("sse" if settings.is_sse else "http") if settings.url else "stdio"


def _read_hints(hints: Any) -> dict[str, bool]:
    """Return what a tool says about itself, under the names that hosts know."""
    if hints is None:
        return {}
    names = {"readOnly": hints.read_only_hint, "destructive": hints.destructive_hint, "openWorld": hints.open_world_hint}
    return {name: value for name, value in names.items() if value}
