"""The agent. `fairlead.agent.assembly` builds its session."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from msgspec.structs import replace

from fairlead.agent.assembly import Assembly, Shared
from fairlead.agent.keywords import AgentKeywords
from fairlead.agent.options import AgentOptions
from fairlead.config.home import Home
from fairlead.config.process import start_thread
from fairlead.config.scratch import Scratch
from fairlead.config.settings import Settings
from fairlead.config.settings_files import load_settings, persist_setting
from fairlead.core.events import AgentSettled, Event
from fairlead.core.messages import ImageContent
from fairlead.core.model import Model
from fairlead.errors import ConfigError, LimitReached, ModelNotFound, ProviderError, RunAborted
from fairlead.models.http.client import Http
from fairlead.models.registry import Registry

if TYPE_CHECKING:
    from fairlead.models.logins import Logins


#: How many warnings are passed on at a time, and how many characters of each: a project's files can cause any number.
MOST_WARNINGS = 20
LONGEST_WARNING = 4000
#: Settings that protect the user.
PROTECTING_SETTINGS = ("approvals", "sandbox", "protectedPaths", "extension", "streamRules", "defaultProjectTrust")


class Agent(AgentKeywords):
    """A coding agent: a session with everything it needs.

    Attributes:
        session: The conversation, and everything that can be done with it.
        warnings: One sentence for each part of the configuration that could not be used so far.
        settings: The settings of the user and the project, merged.
        registry: All known models.
        home: The directory of the user's configuration.
        extensions: The extensions that are loaded, or will be when they are needed.
    """

    def assemble(self, options: AgentOptions, shared: Shared | None) -> None:
        """Create the session and everything it needs. The constructor calls this."""
        if options.stream is not None and not isinstance(options.model, Model):
            raise ConfigError("A stream of your own needs a Model that describes it: Agent(model=Model(...), stream=...).")
        env = os.environ if options.env is None else options.env
        self.home = Home.find(env, isolated=options.isolated, peer=options.peer_home)
        self.warnings: list[str] = []
        self._warn = options.warn
        self._alert = options.alert or options.warn
        settings, unusable = load_settings(self.home, Path(options.cwd).absolute(), approve=options.approve)
        self.settings = replace(settings, **{group: getattr(Settings(), group) for group in options.reset_settings})
        self._warn_of([each for each in unusable if not _protects(each)])
        self._alert_about([each for each in unusable if _protects(each)])
        self._scratch = Scratch()
        self._owns_connections = shared is None
        if shared is None:
            shared = shared_by_agents(options, self.home, self.settings)
        self._http, self.registry = shared.http, shared.registry
        assembly = Assembly(options, env, self.home, self.settings, shared, self._scratch, self._warn_of, self._alert_about)
        self.extensions = assembly.extensions
        try:
            self.session = assembly.session()
        except ModelNotFound as error:
            # The reason may be a file that could not be used.
            raise ModelNotFound("\n".join([str(error), *self.registry.warnings])) from None
        except ConfigError as error:
            lacks_sandbox = options.sandbox is None and self.settings.sandbox == "workspace" and assembly.sandbox is None
            if not lacks_sandbox or not unusable:
                raise
            # The sandbox may be required only because a settings file could not be used.
            raise ConfigError("\n".join([str(error), *unusable])) from error
        self._servers, self._sandbox = assembly.servers, assembly.sandbox
        self._warn_of(self.registry.warnings)

    async def run(self, text: str, images: list[ImageContent] | None = None, *, expand: bool = True) -> AsyncGenerator[Event]:
        """Prompt the agent and yield all events until the run has settled. Leaving the loop early aborts the run.

        Args:
            text: The prompt.
            images: Images for the model.
            expand: Whether to expand a slash command at the beginning of the text.

        Yields:
            Each event of the run, or nothing if an extension handled the prompt.

        Raises:
            FairleadError: The run cannot start; `Session.prompt` lists the reasons.
        """
        if await self.session.prompt(text, images, expand=expand) is None:
            return
        events: asyncio.Queue[Event] = asyncio.Queue()
        forget = self.session.subscribe(events.put_nowait)
        try:
            while True:
                event = await events.get()
                yield event
                if isinstance(event, AgentSettled):
                    return
        finally:
            forget()
            await self.session.abort()

    async def ask(self, text: str, images: list[ImageContent] | None = None, *, expand: bool = True) -> str:
        """Prompt the agent and return its answer. The arguments are those of `run`.

        Returns:
            The text of the answer, or an empty string if an extension handled the prompt.

        Raises:
            ProviderError: The model failed.
            LimitReached: A limit ended the run.
            RunAborted: The run was aborted.
            FairleadError: The run cannot start; `Session.prompt` lists the reasons.
        """
        is_settled = False
        async with aclosing(self.run(text, images, expand=expand)) as events:
            async for event in events:
                is_settled = isinstance(event, AgentSettled)
        if not is_settled:
            return ""
        end = self.session.activity.last_end
        assert end is not None, "a run that has settled has an end"
        message = end.message
        if message.stop_reason == "error":
            if end.is_final:
                raise LimitReached(message.error_message or "The run reached a limit.")
            raise ProviderError(
                message.error_message or "The model failed without saying why.",
                status=end.status,
                retry_after=end.retry_after,
                transient=end.transient,
            )
        if message.stop_reason == "aborted":
            raise RunAborted(message.error_message)
        return message.text()

    async def idle(self) -> None:
        """Wait until no run is active and no extension has asked for another one."""
        await self.extensions.sent()
        await self.session.activity.idle()

    def text(self) -> str:
        """Return the text of the last answer, or an empty string if there is none."""
        answer = self.session.history.last_answer()
        return "" if answer is None else answer.text()

    async def reload_extensions(self) -> list[str]:
        """Load all extensions again and return their names. Raises BadCommand while a run is active, and ExtensionNotLoaded."""
        return await self.extensions.reload()

    @property
    def shutdown_requested(self) -> bool:
        """Whether an extension has asked the process to exit."""
        return self.extensions.shutdown_requested

    @cached_property
    def logins(self) -> Logins:
        """Logs the user in to providers that support it."""
        from fairlead.models.logins import Logins

        return Logins(self.registry, self._http)

    def persist(self, key: str, value: object) -> None:
        """Save a setting of the user for later sessions. Raises ConfigError if the file cannot be written."""
        persist_setting(self.home, key, value)

    def warm_up(self) -> None:
        """Prepare for the first prompt in the background: load slow imports and TLS, and start MCP servers and extensions.

        Servers and extensions start on the running event loop.
        """
        start_thread(self._load, "fairlead-warm-up")
        if self._servers is not None:
            self._servers.start()
        self.extensions.start()

    def clear_leftovers(self) -> None:
        """Remove temporary files of processes that were killed. This may block for a while: do not call it on the event loop."""
        clear_leftovers(self.session.history.sessions.place())

    async def close(self) -> None:
        """Stop all running work, close the connections and remove temporary files."""
        await self.session.close()
        if self._owns_connections:
            await self._http.close()
        if self._sandbox is not None:  # this searches the working directory again
            await asyncio.to_thread(self._sandbox.remove)
        self.leave_nothing_behind()

    def leave_nothing_behind(self) -> None:
        """Kill the servers and remove temporary files immediately, because the process is about to exit."""
        if self._servers is not None:
            self._servers.kill()
        if self._sandbox is not None:
            self._sandbox.remove()
        self._scratch.remove()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _alert_about(self, warnings: Sequence[str]) -> None:
        """Warn about something that protects the user and cannot be used."""
        self._warn_of(warnings, self._alert)

    def _warn_of(self, warnings: Sequence[str], warn: Callable[[str], None] | None = None) -> None:
        warn = warn or self._warn
        if len(warnings) > MOST_WARNINGS:
            warnings = [*warnings[:MOST_WARNINGS], f"{len(warnings) - MOST_WARNINGS} more warnings like these are not shown."]
        for warning in (each if len(each) <= LONGEST_WARNING else f"{each[:LONGEST_WARNING]}..." for each in warnings):
            if warning not in self.warnings:
                self.warnings.append(warning)
                if warn is not None:
                    warn(warning)

    def _load(self) -> None:
        # In the order in which a prompt needs them: it is saved before the model is called.
        import fairlead.session.history.store  # noqa: F401  # pyright: ignore[reportUnusedImport]

        model = self.session.model
        if model is not None:
            self._http.load(model.base_url)


def _protects(warning: str) -> bool:
    """Whether a warning about settings concerns something that protects the user: a whole file, or one of certain settings."""
    return " expected " not in warning or any(f" {name}" in warning for name in PROTECTING_SETTINGS)


def shared_by_agents(options: AgentOptions, home: Home, settings: Settings) -> Shared:
    """Return what all agents with these options can share."""
    env = os.environ if options.env is None else options.env
    return Shared(
        Http(idle_timeout=settings.http_idle_timeout_ms / 1000 or math.inf, env=env, tap=options.http_tap),
        Registry.load(home, env, api_key=options.api_key, api_key_provider=options.provider),
    )


def clear_leftovers(sessions: Path | None) -> None:
    """Remove temporary files of processes that were killed, including those in the directory `sessions`."""
    from fairlead.config.scratch import remove_leftovers
    from fairlead.session.history.session_files import remove_leftovers_in

    remove_leftovers()
    if sessions is not None:
        remove_leftovers_in(sessions)
