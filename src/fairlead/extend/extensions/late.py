"""Extensions that are not loaded yet. An idle start loads nothing else of this package.

They are found and loaded when something first needs them: see `LateExtensions.ready`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct, field

from fairlead.config import packages
from fairlead.errors import BadCommand, ConfigError, ExtensionNotLoaded
from fairlead.extend.extensions import presence
from fairlead.platform.process import run_in_thread

if TYPE_CHECKING:
    from fairlead.config.home import Home
    from fairlead.config.trust import TrustDecider
    from fairlead.extend.additions import UserAdditions
    from fairlead.extend.extensions.extension_hooks import ExtensionHooks
    from fairlead.extend.extensions.registrations import ExtensionFlag
    from fairlead.extend.mcp.servers import McpServers
    from fairlead.models.registry import Registry
    from fairlead.session.behaviour import Mode
    from fairlead.session.session import Session

#: What to do when an extension that was named explicitly cannot be loaded: run nothing, or report it and continue without it.
OnError: TypeAlias = Literal["exit", "continue"]


class Resources(Struct, frozen=True):
    """Paths of skills and prompts."""

    skills: list[Path]
    prompts: list[Path]


async def _do_nothing() -> None: ...


class ExtensionHost(Struct, kw_only=True, eq=False):
    """What extensions need from the agent: where to look for them, and what they may use."""

    home: Home
    #: The user's home directory, and the working directory.
    user: Path
    cwd: Path
    #: Paths from the command line or the program that uses the library.
    named: list[Path]
    #: Packages from there, which are installed when they are first needed.
    sources: list[str]
    #: Paths from the user's settings.
    listed: Sequence[str]
    #: Whether to look anywhere besides `named`.
    find: bool
    #: Seconds that a handler may take by default.
    timeout: float
    #: The unknown flags of the command line, each with the word after it, which may be its value.
    flags: Mapping[str, str | None]
    mode: Mode
    on_error: OnError
    #: Returns what decides whether the project may run its own code.
    find_trust: Callable[[], TrustDecider]
    registry: Registry
    additions: UserAdditions
    #: Whether the model may use the tool with a given name.
    is_wanted: Callable[[str], bool]
    warn: Callable[[Sequence[str]], None]
    #: The program's own handlers, by event. They come after those of extensions, and may fail what they are asked about.
    program_handlers: Mapping[str, Callable[[Any], Awaitable[Any]]]
    #: Those of the front end, which take as long as they need.
    front_handlers: Mapping[str, Callable[[Any], Awaitable[Any]]]
    #: Exits the process; called when an extension asks for it.
    shutdown: Callable[[], None]
    #: Called when all extensions are loaded.
    loaded: Callable[[], None]
    #: Returns the MCP servers of the session, so that more can be added.
    servers: Callable[[], McpServers]
    #: Loads all extensions again. `LateExtensions` sets it.
    reload: Callable[[], Awaitable[None]] = _do_nothing
    #: The skills and prompts that packages brought.
    brought: Resources = field(default_factory=lambda: Resources([], []))
    #: The session that the extensions belong to, once it exists.
    attached: Session | None = None

    @property
    def session(self) -> Session:
        """The session that the extensions belong to."""
        assert self.attached is not None, "extensions are part of a session"
        return self.attached

    async def fetch_packages(self) -> None:
        """Install the packages that were named. Raises ExtensionNotLoaded."""
        while self.sources:
            await self._fetch_package(self.sources[0])
            del self.sources[0]

    async def _fetch_package(self, text: str) -> None:
        """Install a package, `npm:NAME` or `git:URL`, for this run, and add what it brings.

        Raises ExtensionNotLoaded if that fails, or only reports it if that is what `on_error` says.
        """
        from fairlead.extend.package_manager import fetch_temporarily  # noqa: PLC0415  few programs have extensions

        source = packages.parse_source(text)
        logging.getLogger("fairlead.extend").info("Installing %s", source.shown)
        env = self.session.host.workspace.env
        remarks: list[str] = []
        try:
            folder = await run_in_thread(partial(fetch_temporarily, source, self.home, env, remarks.append), "fairlead-install")
            self.warn(remarks)
            brought = {kind: packages.package_paths(source, folder, kind) for kind in ("extensions", "skills", "prompts")}
            if not any(brought.values()):
                raise ConfigError("It brings no extensions, skills or prompts.")
        except ConfigError as error:
            if self.on_error == "exit":
                raise ExtensionNotLoaded(f'Failed to load extension "{source.shown}": {error}') from None
            self.warn([f"The extension {source.shown} was not loaded: {error}"])
            return
        self.named += map(Path, brought["extensions"])
        self.brought.skills.extend(map(Path, brought["skills"]))
        self.brought.prompts.extend(map(Path, brought["prompts"]))

    def attach(self, session: Session) -> None:
        """Set the session that the extensions belong to."""
        self.attached = session

    @property
    def trust(self) -> TrustDecider:
        """Decides whether the project may run its own code."""
        return self.find_trust()


class LateExtensions:
    """Loads extensions when they are first needed. Implements `fairlead.session.hooks.LateHooks`."""

    def __init__(self, host: ExtensionHost) -> None:
        self.host = host
        self._hooks: ExtensionHooks | None = None
        host.reload = self.reload

    def exist(self) -> bool:
        """Whether the session has anything to ask: an extension to load, or the program's own handlers."""
        return bool(self.host.program_handlers or self.host.front_handlers) or self.has_extensions()

    def has_extensions(self) -> bool:
        """Whether there may be any extension to load."""
        return presence.may_have_extensions(self.host)

    async def ready(self) -> ExtensionHooks:
        """Load all extensions that are not loaded yet, and return the hooks. Raises ExtensionNotLoaded."""
        hooks = self._get_hooks()
        await hooks.engine.loader.load()
        self.host.loaded()
        return hooks

    async def load_required(self) -> None:
        """Load the extensions that were named explicitly, if there are any. Raises ExtensionNotLoaded."""
        if self.host.named or self.host.sources or (self.host.find and self.host.listed):
            await self._get_hooks().engine.loader.load_required()

    async def load_without_asking(self) -> None:
        """Load extensions early, as far as that is possible without asking the user. Raises ExtensionNotLoaded."""
        if self.exist():
            await self._get_hooks().engine.loader.load(ask=False)

    async def reload(self) -> None:
        """Find and load all extensions again. Raises BadCommand while a run is active, and ExtensionNotLoaded."""
        session = self.host.session
        extensions = session.extensions
        if self._hooks is not None and self._hooks.engine.loader.forget_failure():
            self.host.trust.reconsider()
            await extensions.ready()
            return
        await extensions.ready()
        if session.activity.is_streaming:
            raise BadCommand("Extensions cannot be reloaded while the agent is running. Wait for its end, or abort it.")
        self.host.trust.reconsider()
        if extensions.hooks is not None:
            await extensions.reload(self._get_hooks().reload)
            self.host.loaded()
        elif self.exist():
            hooks = await self.ready()
            extensions.use(self, hooks)
            await hooks.session_started("reload")

    async def flush_outbox(self) -> None:
        """Wait until everything that extensions sent has reached the session."""
        if self._hooks is not None:
            await self._hooks.flush_outbox()

    async def close(self) -> None:
        """End the process that runs extensions for pi, if there is one."""
        if self._hooks is not None:
            await self._hooks.engine.scripts.close()

    def names(self) -> list[str]:
        """Return the names of the loaded extensions."""
        return [] if self._hooks is None else [extension.name for extension in self._hooks.engine.extensions]

    def flags(self) -> list[ExtensionFlag]:
        """Return the command-line flags that extensions have registered."""
        return [] if self._hooks is None else self._hooks.engine.registrations.flags()

    def _get_hooks(self) -> ExtensionHooks:
        if self._hooks is None:
            from fairlead.extend.extensions.extension_hooks import ExtensionHooks  # noqa: PLC0415  few programs have extensions

            self._hooks = ExtensionHooks(self.host)
        return self._hooks
