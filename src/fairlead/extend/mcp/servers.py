"""All MCP servers of an agent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from fairlead.config.extras import install_command
from fairlead.config.home import Level
from fairlead.core.events import CommandsChanged, ExtensionError
from fairlead.core.runtime import CancelToken
from fairlead.errors import ExtensionNotLoaded
from fairlead.extend.mcp.config import McpConfigFile, McpStyle, SignIns, load_servers
from fairlead.extend.mcp.resources import LIST_TOOL, McpUris, expand_prompt, prompt_commands, resources_tool
from fairlead.extend.mcp.server import McpServer, wait_or_cancel
from fairlead.extend.mcp.tools import server_keys, server_tools
from fairlead.platform.process import run_in_thread
from fairlead.session.slash_commands import Origin
from fairlead.session.toolbox import TOOL_SEARCH
from fairlead.tools.files.targets import beside

if TYPE_CHECKING:
    from fairlead.core.messages import ImageContent
    from fairlead.extend.mcp.config import ServerConfig
    from fairlead.session.additions import Extensions
    from fairlead.session.host import Host
    from fairlead.session.slash_commands import SlashCommand
    from fairlead.session.toolbox import Toolbox

#: Seconds that the user waits for the states of all servers.
_PATIENCE = 5.0
NO_PACKAGE = (
    "MCP servers are configured, but the package that connects to them is not installed, so they are left out. "
    "Install it with: {command}"
)


def config_files(found: Iterable[tuple[Level, Path]], named: Iterable[Path], within: Path | None = None) -> list[McpConfigFile]:
    """Return the configuration files in the usual places, then those that were named. A project's file must be `within` a
    directory.
    """
    usual = [
        McpConfigFile(Origin(path, "auto", level, path.parent), within=within if level == "project" else None)
        for level, path in found
    ]
    return usual + [McpConfigFile(Origin(path, "cli", "temporary"), "--mcp-config") for path in named]


class McpOptions(Struct, frozen=True, kw_only=True):
    """What `McpServers` needs from the agent."""

    #: Configuration files, in order. If two servers have the same name, the later one is used.
    config_files: Sequence[McpConfigFile]
    #: Servers that the program has handed over. They need no trust, and come before those of the same name in files.
    given: Sequence[ServerConfig] = ()
    #: Whether the project may start programs.
    is_trusted: Callable[[], Awaitable[bool]]
    #: Whether the model may use the tool with a given name.
    is_wanted: Callable[[str], bool]
    #: Called with a warning for everything that cannot be used.
    warn: Callable[[Sequence[str]], None]
    #: The file with the user's sign-ins at servers; None: none is read or stored.
    sign_ins: Path | None
    #: Seconds that a prompt waits for servers that are connecting.
    wait: float
    #: How the tools of the servers look.
    style: McpStyle = McpStyle()


class McpServers:
    """Implements `fairlead.session.additions.Servers`.

    It must be attached to a session. Nothing is read, imported or started before the servers are first needed.
    """

    def __init__(self, options: McpOptions) -> None:
        self._options = options
        self._host: Host | None = None
        self._toolbox: Toolbox | None = None
        self._extensions: Extensions | None = None
        self._servers: dict[str, McpServer] = {}
        self._starting: asyncio.Task[None] | None = None
        #: The names of those that were added later.
        self._added: set[str] = set()
        self._began_at = 0.0
        self._closed = False

    def attach(self, host: Host, toolbox: Toolbox, extensions: Extensions) -> None:
        """Set the parts of the session that the servers belong to."""
        self._host, self._toolbox, self._extensions = host, toolbox, extensions
        host.workspace.uris = beside(McpUris(self._ready_servers), host.workspace.uris)

    def start(self) -> None:
        """Begin to connect in the background."""
        if self._starting is None and not self._closed:
            self._began_at = time.monotonic()
            self._starting = asyncio.create_task(self._start(), name="fairlead-mcp")

    def add(self, config: ServerConfig, *, replaces: bool = False) -> None:
        """Connect to another server as soon as the others are known.

        If one of them has the same name, it is left out, unless it `replaces` that one.
        """
        self._later(lambda: self._add(config, replaces=replaces))

    def remove(self, name: str) -> None:
        """Close the connection to a server that was added, and remove its tools."""
        self._later(lambda: self._remove(name))

    @property
    def servers(self) -> Sequence[McpServer]:
        """The servers that are known now."""
        return list(self._servers.values())

    async def list_servers(self, *, settled: bool = False) -> Sequence[McpServer]:
        """Return all servers that are known, once those that were added before are; if `settled`, they have connected or failed.

        It waits no longer than a prompt does.
        """
        if settled:
            await self.ready(CancelToken())
        elif self._starting is not None:
            await asyncio.wait([self._starting], timeout=self._options.wait)
        return self.servers

    async def disable(self, server: McpServer) -> None:
        """Disconnect a server and remove its tools, until it is reconnected."""
        await server.disable()
        self._update_tools(server)

    async def reconnect(self, server: McpServer) -> None:
        """Connect a server again. Raises ToolError if that fails."""
        await server.reconnect(self._options.wait)

    def _later(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do work when everything before it is done. `ready` waits for it."""
        self.start()
        before = self._starting
        if before is None:  # they are closed
            return

        async def do() -> None:
            await asyncio.wait([before])
            if not self._closed:
                await work()

        self._began_at = time.monotonic()
        self._starting = asyncio.create_task(do(), name="fairlead-mcp-change")

    async def _add(self, config: ServerConfig, *, replaces: bool) -> None:
        if replaces:
            await self._discard(config.name)
        taken = {server.config.name: key for key, server in self._servers.items()}
        if config.name in taken:
            self._options.warn([f'The MCP server "{config.name}" of {config.origin.path} is left out: another one has its name.'])
        elif await self._has_package():
            keys = server_keys([*taken, config.name], self._options.style.illegal)
            self._added.add(config.name)
            self._connect_servers([config], keys)

    async def _remove(self, name: str) -> None:
        if name in self._added:
            await self._discard(name)

    async def _discard(self, name: str) -> None:
        self._added.discard(name)
        key = next((key for key, server in self._servers.items() if server.config.name == name), None)
        if key is None:
            return
        server = self._servers.pop(key)
        assert self._toolbox is not None
        self._toolbox.replace(_owner(server), [])
        await server.close()

    async def ready(self, cancel: CancelToken) -> None:
        self.start()
        if self._starting is None:
            return

        wait = self._options.wait
        if not self._starting.done():
            await wait_or_cancel(cancel, self._starting, self._began_at + wait - time.monotonic())
        for server in self._servers.values():
            server.connect()
        for server in self._servers.values():
            await server.wait_until_settled(wait, cancel)

    def commands(self) -> list[SlashCommand]:
        if not self._servers:
            return []

        return prompt_commands(self._servers)

    async def list_states(self) -> dict[str, str]:
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await self.ready(CancelToken())
        return {server.config.name: server.state for server in self._servers.values()}

    async def expand(self, text: str, cancel: CancelToken) -> tuple[str, list[ImageContent]] | None:
        if not text.startswith("/mcp:"):
            return None

        return await expand_prompt(text, await self._ready_servers(cancel), cancel)

    async def close(self) -> None:
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        await asyncio.gather(*(server.close() for server in self._servers.values()))

    def kill(self) -> None:
        """Kill all server processes, for a process that is about to exit."""
        self._closed = True
        for server in self._servers.values():
            server.kill()

    async def _ready_servers(self, cancel: CancelToken) -> Mapping[str, McpServer]:
        await self.ready(cancel)
        return self._servers

    async def _start(self) -> None:
        """Connect to the servers of the program and the user, then to those that depend on the project, once it is trusted."""
        options = self._options
        assert self._host is not None and self._extensions is not None, "servers belong to a session"
        workspace = self._host.workspace
        env = workspace.env if workspace.agent_env is None else workspace.agent_env
        problems: list[str] = []
        own = load_servers([file for file in options.config_files if file.origin.scope != "project"], env, problems)
        options.warn(problems)
        with_project = load_servers(options.config_files, env, problems)
        if (own or with_project or options.given) and not await self._has_package():
            return
        given = {config.name: config for config in options.given}
        options.warn([_is_replaced(config) for config in own if config.name in given])
        own = [config for config in own if config.name not in given]
        with_project = [config for config in with_project if config.name not in given]
        names = dict.fromkeys(config.name for config in (*options.given, *own, *with_project))
        keys = server_keys(names, options.style.illegal)
        self._connect_servers(options.given, keys)
        certain = [config for config in own if config in with_project]
        self._connect_servers(certain, keys)
        chosen = own
        if own != with_project:
            try:
                await self._extensions.ready()  # extensions have a say in whether the project is trusted
            except ExtensionNotLoaded:  # no prompt runs, so none needs the other servers
                return
            if await options.is_trusted():
                chosen = with_project
        if chosen == with_project:
            options.warn(problems)
        self._connect_servers([config for config in chosen if config not in certain], keys)

    async def _has_package(self) -> bool:
        error = await _load_package()
        if isinstance(error, ModuleNotFoundError):
            self._options.warn([NO_PACKAGE.format(command=install_command("mcp"))])
        elif error is not None:
            self._options.warn([f"MCP servers are left out, because the package that connects to them cannot be loaded: {error}"])
        return error is None

    def _connect_servers(self, configs: Iterable[ServerConfig], keys: Mapping[str, str]) -> None:
        assert self._host is not None and self._toolbox is not None
        if self._closed:
            return
        sign_ins, style = SignIns(self._options.sign_ins), self._options.style
        for config in configs:
            key = keys[config.name]
            server = McpServer(config, key, self._host.workspace, self._update_tools, self._report, sign_ins, style)
            self._servers[key] = server
            # Reserves its position: the order of tools must not depend on which server is ready first.
            self._toolbox.replace(_owner(server), [])
            server.connect()

    def _update_tools(self, server: McpServer) -> None:
        """Put the tools of a server into the session's toolbox."""
        assert self._host is not None and self._toolbox is not None
        toolbox, workspace = self._toolbox, self._host.workspace
        problems: list[str] = []
        owner = _owner(server)
        tools = server_tools(server, workspace, toolbox.list_taken(owner), problems)
        self._options.warn(problems)
        unwanted = {tool.name for tool in tools if not self._options.is_wanted(tool.name)}
        toolbox.replace(owner, tools, inactive=unwanted, searchable=self._options.is_wanted(TOOL_SEARCH))
        if server.offer.prompts:
            self._host.notify(CommandsChanged())
        if server.offer.resources:
            self._offer_resources()

    def _offer_resources(self) -> None:
        assert self._host is not None and self._toolbox is not None
        toolbox = self._toolbox
        if LIST_TOOL not in toolbox:
            tool = resources_tool(self._ready_servers, self._host.workspace.default_timeout)
            toolbox.replace("mcp", [tool], inactive=() if self._options.is_wanted(LIST_TOOL) else (LIST_TOOL,))

    def _report(self, server: McpServer, kind: str, text: str) -> None:
        assert self._host is not None and self._toolbox is not None
        self._options.warn([text])
        self._host.notify(ExtensionError(f"mcp:{server.config.name}", kind, text))


def _is_replaced(config: ServerConfig) -> str:
    return f'{config.origin.path}: the MCP server "{config.name}" is left out: the program has handed over one with this name.'


def _owner(server: McpServer) -> str:
    return f"mcp:{server.key}"


async def _load_package() -> Exception | None:
    """Import the mcp package in a thread, since that takes most of a second. Returns the error if it fails."""

    def load() -> Exception | None:
        try:
            import mcp.client.streamable_http  # noqa: F401, PLC0415  an extra  # pyright: ignore[reportUnusedImport]
        except Exception as error:  # a broken installation can raise anything
            return error
        return None

    return await run_in_thread(load, "fairlead-mcp-import")
