"""What users add to an agent: instructions, MCP servers, extensions and what depends on them, and which projects are trusted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.agent import agent_hooks
from fairlead.agent.options import AgentOptions
from fairlead.agent.tool_sets import server_configs
from fairlead.config import packages
from fairlead.config import trust as project_trust
from fairlead.config.home import Home, Level, user_folder
from fairlead.config.project_files import is_absent
from fairlead.config.settings import Settings
from fairlead.core.model import Model, ThinkingLevel
from fairlead.errors import ExtensionNotLoaded, ModelNotFound
from fairlead.extend import search_paths
from fairlead.extend.additions import UserAdditions
from fairlead.extend.extensions.late import ExtensionHost, LateExtensions
from fairlead.extend.mcp import config
from fairlead.models.registry import Registry
from fairlead.session.session import Session
from fairlead.tools.workspace import Workspace, readable

if TYPE_CHECKING:
    from fairlead.agent.agent_hooks import EventFeed
    from fairlead.extend.extensions.registrations import ExtensionFlag
    from fairlead.extend.mcp.config import ServerConfig
    from fairlead.extend.mcp.servers import McpServers


class AgentExtensions:
    """The extensions of an agent. `late` is None if the options allow none. It searches for them when they are first needed."""

    def __init__(
        self, options: AgentOptions, home: Home, settings: Settings, registry: Registry, warn: Callable[[Sequence[str]], None]
    ) -> None:
        self.late: LateExtensions | None = None
        self._additions: UserAdditions | None = None
        #: Becomes true when an extension asks the process to exit. `on_shutdown` is then called.
        self.shutdown_requested = False
        self.on_shutdown: Callable[[], None] | None = None
        self._options = options
        self._home = home
        self._settings = settings
        self._registry = registry
        self._warn = warn
        self._session: Session | None = None
        #: The MCP servers; None: there are none so far.
        self.mcp: McpServers | None = None
        #: Passes events to the program's own hook.
        self._feed: EventFeed | None = None
        self._preparing: asyncio.Task[None] | None = None
        #: The requested model and tools that are unknown until the extensions are loaded.
        self._awaited_model: str | None = None
        self._awaited_tools: list[str] = []

    def additions(self, workspace: Workspace, env: Mapping[str, str]) -> UserAdditions:
        """Return the user's instructions, skills and templates. Their files are read when they are first needed."""
        options, settings = self._options, self._settings
        skills = [workspace.resolve(str(path)) for path in options.discovery.skills]
        templates = [workspace.resolve(str(path)) for path in options.discovery.prompt_templates]

        def find_search_paths() -> search_paths.SearchPaths:
            return search_paths.SearchPaths(
                home=None if options.isolated else self._home,
                user=user_folder(env),
                claude=options.behaviour.claude_files,
                context_files=options.discovery.context_files,
                find_skills=options.discovery.find_skills,
                find_templates=options.discovery.find_prompt_templates,
                skills=skills,
                templates=templates,
                settings_skills=settings.skills,
                settings_templates=settings.prompts,
                check=readable(workspace.guard),
            )

        self._additions = UserAdditions(find_search_paths, skill_commands=settings.enable_skill_commands, warn=self._warn)
        return self._additions

    @property
    def failed_templates(self) -> Sequence[str]:
        """One sentence for each prompt template that could not be used."""
        return () if self._additions is None else self._additions.failed_templates

    def servers(self, workspace: Workspace) -> McpServers | None:
        """Return the MCP servers, or None if there are none. The files are read when the servers are first needed."""
        options = self._options
        usual = self._home.mcp_files(workspace.cwd) if options.discovery.find_mcp else ()
        # A directory in place of the project's file may be one that a sandbox put there.
        found = [each for each in usual if not is_absent(each[1]) and (each[0] == "user" or not os.path.isdir(each[1]))]
        given = server_configs(options.mcp_servers)
        if found or options.discovery.mcp_config or given:
            self.mcp = self._make_servers(workspace, found, given)
        return self.mcp

    def _make_servers(
        self, workspace: Workspace, found: Sequence[tuple[Level, Path]] = (), given: Sequence[ServerConfig] = ()
    ) -> McpServers:
        from fairlead.extend.mcp.servers import McpOptions, McpServers, config_files  # noqa: PLC0415  an extra

        options = self._options
        make_style = None if options.tool_set is None else options.tool_set.mcp_style
        named = [workspace.resolve(str(path)) for path in options.discovery.mcp_config]
        cwd = workspace.cwd
        return McpServers(
            McpOptions(
                config_files=config_files(found, named, self._home.boundary(cwd)),
                given=given,
                is_trusted=lambda: self.is_trusted(cwd),
                is_wanted=options.wants_tool,
                warn=self._warn,
                sign_ins=None if self._home.isolated else self._home.mcp_sign_ins_path,
                wait=self._settings.mcp.wait_seconds,
                style=config.McpStyle() if make_style is None else make_style(),
            )
        )

    def servers_for_more(self) -> McpServers:
        """Return the MCP servers, to which one can be added."""
        session = self._session
        assert session is not None, "extensions are loaded for a session"
        if self.mcp is None:
            self.mcp = session.additions.servers = self._make_servers(session.host.workspace)
            self.mcp.attach(session.host, session.tools, session.extensions)
        return self.mcp

    def prepare(self, workspace: Workspace, env: Mapping[str, str], additions: UserAdditions) -> None:
        """Set up the search for extensions, if the options allow any."""
        options = self._options
        find = options.discovery.find_extensions and not options.isolated
        make_handlers = options.behaviour.handlers
        front: Mapping[str, Callable[[Any], Awaitable[Any]]] = {} if make_handlers is None else make_handlers()
        if not find and not options.extensions and options.hooks is None and not front:
            return

        named, sources = list[Path](), list[str]()
        if options.extensions:  # usually there are none, and the start need not load what recognises packages
            sources = [str(path) for path in options.extensions if packages.is_package(path)]
            for path in (str(path) for path in options.extensions if not packages.is_package(path)):
                named.append(workspace.resolve(path))
                if path.startswith(("npm:", "git:")) and not os.path.lexists(named[-1]):
                    raise packages.make_no_package_error(path)
        host = ExtensionHost(
            home=self._home,
            user=user_folder(env),
            cwd=workspace.cwd,
            named=named,
            sources=sources,
            listed=self._settings.extensions,
            find=find,
            timeout=self._settings.extension_timeout_seconds,
            flags=options.behaviour.extension_flags,
            mode=options.behaviour.mode,
            on_error=options.discovery.extension_errors,
            find_trust=lambda: self.trust,
            registry=self._registry,
            additions=additions,
            is_wanted=options.wants_tool,
            warn=self._warn,
            program_handlers={} if options.hooks is None else agent_hooks.handlers(options.hooks),
            front_handlers=front,
            shutdown=self._shut_down,
            loaded=self._on_load,
            servers=self.servers_for_more,
        )
        self.late = LateExtensions(host)

    def attach(self, session: Session) -> None:
        self._session = session
        if self.late is not None:
            self.late.host.attach(session)
        hooks = self._options.hooks
        if hooks is not None and hooks.on_event is not None:
            self._feed = agent_hooks.EventFeed(hooks.on_event, self._settings.extension_timeout_seconds)
            self._feed.attach(session)

    async def close(self) -> None:
        """Wait until the program's own hook has had the last events, and end the process that runs extensions for pi."""
        if self._feed is not None:
            await self._feed.close()
        if self.late is not None:
            await self.late.close()

    # Loading

    def start(self) -> None:
        """Load the extensions in the background. Without a running event loop, the first prompt loads them."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if self.late is not None:
            self._preparing = loop.create_task(self._ready_or_warned())

    async def load_required(self) -> None:
        """Load the extensions that were named explicitly, unless their errors are only reported. Raises ExtensionNotLoaded."""
        if self.late is not None and self._options.discovery.extension_errors == "exit":
            await self.late.load_required()

    async def load(self) -> None:
        """Load extensions before the session starts, as far as that is possible without asking the user.

        Raises ExtensionNotLoaded.
        """
        if self.late is not None:
            await self.late.load_without_asking()

    async def reload(self) -> list[str]:
        """Load all extensions again and return their names. Raises BadCommand while a run is active, and ExtensionNotLoaded."""
        if self.late is None:
            return []
        await self.late.reload()
        return self.names()

    async def flush_outbox(self) -> None:
        """Wait until the session has received everything that extensions have sent."""
        if self.late is not None:
            await self.late.flush_outbox()

    def exist(self) -> bool:
        """Whether there may be any extension."""
        return self.late is not None and self.late.has_extensions()

    def names(self) -> list[str]:
        """Return the names of the loaded extensions."""
        return [] if self.late is None else self.late.names()

    def flags(self) -> list[ExtensionFlag]:
        """Return the command-line flags that extensions have registered."""
        return [] if self.late is None else self.late.flags()

    async def _ready(self) -> None:
        if self._session is not None:
            await self._session.extensions.ready()

    async def _ready_or_warned(self) -> None:
        try:
            await self._ready()
        except ExtensionNotLoaded as error:
            self._warn([str(error)])

    # What depends on extensions

    def match_model(self, pattern: str) -> tuple[Model | None, ThinkingLevel | None]:
        """Return the model that matches a pattern, or None if an extension may still add one. Raises ModelNotFound."""
        try:
            model, level = self._registry.match(pattern)
        except ModelNotFound:
            if not self.exist():
                raise
            self._awaited_model = pattern
            return None, None
        if self._registry.find(model.provider, model.id) is None and self.exist():
            self._awaited_model = pattern
        return model, level

    async def find_model(self) -> None:
        """Load the extensions if only they can provide the requested model. Raises ModelNotFound."""
        if self._awaited_model is not None:
            await self.load()
            self._registry.match(self._awaited_model)

    def check_tools(self, unknown: list[str], known: Iterable[str]) -> None:
        """Warn about requested tools that do not exist. If an extension may add them, wait until it is loaded."""
        if unknown and self.exist():
            self._awaited_tools = unknown
        else:
            self._warn_of_tools(unknown, known)

    def _warn_of_tools(self, unknown: Sequence[str], known: Iterable[str]) -> None:
        if unknown:
            self._warn([f"Unknown tools, left out: {', '.join(unknown)}. The tools are: {', '.join(known)}"])

    def _on_load(self) -> None:
        """Select the model and check the tools that had to wait for the extensions."""
        session = self._session
        assert session is not None, "extensions are loaded for a session"
        if self._awaited_model is not None:
            pattern, self._awaited_model = self._awaited_model, None
            try:
                model, level = self._registry.match(pattern)
            except ModelNotFound as error:
                self._warn([str(error)])
            else:
                if session.model != model:
                    session.models.set_model(model.provider, model.id)
                if level is not None:
                    session.models.set_thinking(level)
        elif self._options.model is None and not self._registry.added.is_empty and session.history.conversation.has_begun:
            session.models.restore_added(session.history.log)
        self._warn_of_tools([name for name in self._awaited_tools if name not in session.tools], session.tools)
        self._awaited_tools = []

    # Trust

    @cached_property
    def trust(self) -> project_trust.TrustDecider:
        """Decides whether projects may run their own code."""
        approve, default = self._options.trust, self._settings.default_project_trust
        trust = project_trust.TrustDecider(self._home, approve=approve, default=default, warn=self._warn)
        trust.ask = self._ask_user
        return trust

    async def is_trusted(self, project: Path) -> bool:
        """Return whether a project may run its own code. Asks the user's extensions first."""
        await self._ready()
        return await self.trust.decide(project)

    async def _ask_user(self, project: Path) -> bool | None:
        from fairlead.extend.extensions.discovery import ask_user_for_trust  # noqa: PLC0415  few programs have extensions

        if self._session is None:
            return None
        return await ask_user_for_trust(self._session.host.ui, self._home, project, self._warn)

    def _shut_down(self) -> None:
        self.shutdown_requested = True
        if self.on_shutdown is not None:
            self.on_shutdown()
