"""The agent: how it begins, what it offers besides its session, and how it ends.

`fairlead.agent.assembly` builds its session, and `fairlead.agent.asking` prompts it.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from msgspec.structs import replace

from fairlead.agent.asking import Asking
from fairlead.agent.assembly import Assembly, Shared
from fairlead.agent.options import AgentOptions
from fairlead.config.home import Home, expand_user
from fairlead.config.settings import Settings
from fairlead.config.settings_files import load_settings, persist_setting
from fairlead.core.model import Model
from fairlead.errors import ConfigError, ModelNotFound
from fairlead.models import adapters, logins
from fairlead.models.http.http_client import Http
from fairlead.models.model_patterns import ModelChoice, choose_model
from fairlead.models.registry import Registry
from fairlead.platform.process import start_thread
from fairlead.platform.scratch import Scratch, remove_leftovers
from fairlead.stores.deleting import remove_leftovers_in

#: How many warnings are passed on at a time, and how many characters of each: a project's files can cause any number.
MOST_WARNINGS = 20
LONGEST_WARNING = 4000
#: Settings that protect the user.
PROTECTING_SETTINGS = ("approvals", "sandbox", "protectedPaths", "extension", "streamRules", "defaultProjectTrust")


#: The modules that a prompt needs and a start does not, in the order in which it needs them: it is saved before the model is
#: called, and the calls of tools come last.
_OF_A_PROMPT = (
    "extend.extensions.presence",
    "session.run.intake",
    "session.run.run",
    "session.run.turns",
    "session.history.store",
    "extend.search_paths",
    "models.limiter",
    "models.http.pool",
    "core.calls.turn",
)


class Agent(Asking):
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
        self._env = env = os.environ if options.env is None else options.env
        self._base_url = options.base_url
        self._names_model = bool(options.model or options.provider or options.behaviour.models)
        behaviour = options.behaviour
        self.home = Home.find(env, isolated=options.isolated, peer=behaviour.peer_home, is_shared=behaviour.shares_home)
        self.warnings: list[str] = []
        self._warn = behaviour.warn
        self._alert = behaviour.alert or behaviour.warn
        # A copy would take memory in each session of a server.
        cwd = (options.cwd if isinstance(options.cwd, Path) else Path(options.cwd)).absolute()
        settings, unusable = load_settings(self.home, cwd, approve=options.trust)
        reset = {group: getattr(Settings(), group) for group in behaviour.reset_settings}
        self.settings = replace(settings, **reset) if reset else settings
        self._warn_of([each for each in unusable if not _protects(each)])
        self._alert_about([each for each in unusable if _protects(each)])
        self._scratch = Scratch()
        self._owns_connections = shared is None
        if shared is None:
            shared = load_shared(options, self.home, self.settings)
        self._http, self.registry = shared.http, shared.registry
        max_turns = self.settings.max_turns if options.max_turns is None else options.max_turns
        self._limits: dict[str, Any] = {"max_turns": max_turns, "max_cost": options.max_cost, "timeout": options.timeout}
        assembly = Assembly(
            options, env, cwd, self.home, self.settings, shared, self._scratch, self._warn_of, self._alert_about, self._watch_run
        )
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
        self._sandbox = assembly.sandbox
        self._is_closed = False
        self._warn_of(self.registry.warnings)

    async def idle(self) -> None:
        """Wait until no run is active and no extension has asked for another one."""
        await self.extensions.flush_outbox()
        await self.session.activity.idle()

    async def reload_extensions(self) -> list[str]:
        """Load all extensions again and return their names. Raises BadCommand while a run is active, and ExtensionNotLoaded."""
        return await self.extensions.reload()

    async def choose_model(self) -> ModelChoice:
        """Choose the best available model if the session has none: one with a key, else one on this machine.

        Looking for a model server on this machine takes at most 200 ms. It is done only if no key is set and no model is named.

        Returns:
            The model of the session, and one sentence that says why. Its `model` is None if there is none.

        Raises:
            ConfigError: `FAIRLEAD_LOCAL_SERVERS` cannot be used.
        """
        if self._base_url is not None:
            await self._learn_from_server()
        model = self.session.model
        if model is not None:
            why = self.registry.reason_for_default(model, self.settings)
            return ModelChoice(model, f"{model.provider}/{model.id} answers: {'you named it' if self._names_model else why}.")
        if self._base_url is not None:
            why = f"The server at {self._base_url} does not answer, or does not list its models."
            return ModelChoice(None, f"{why} Start it, or name a model with --model.")
        choice = await choose_model(self.registry, self.settings, self._env)
        if choice.model is not None:
            self.session.models.set_model(choice.model.provider, choice.model.id)
        return choice

    async def _learn_from_server(self) -> None:
        """Ask the server of `base_url` for its models: their windows, and which to use if none is named."""
        model = self.session.model
        served = await self.registry.unlisted.learn_from_server(self._http, None if model is None else model.id)
        if model is None and served is not None:
            history = self.session.history
            last = history.log.model() if history.conversation.has_begun else None
            known = last and last.provider == served.provider and self.registry.find(last.provider, last.id)
            chosen = known or served  # a session that is resumed keeps its model, if this server has it
            self.session.models.set_model(chosen.provider, chosen.id)

    @property
    def shutdown_requested(self) -> bool:
        """Whether an extension has asked the process to exit."""
        return self.extensions.shutdown_requested

    @cached_property
    def logins(self) -> logins.Logins:
        """Logs the user in to providers that support it."""
        return logins.Logins(self.registry, self._http)

    def persist(self, key: str, value: object) -> None:
        """Save a setting of the user for later sessions. Raises ConfigError if the file cannot be written."""
        persist_setting(self.home, key, value)

    def warm_up(self) -> None:
        """Prepare for the first prompt in the background: load slow imports and TLS, and start MCP servers and extensions.

        Servers and extensions start on the running event loop.
        """
        start_thread(self._load, "fairlead-warm-up")
        if self.extensions.mcp is not None:
            self.extensions.mcp.start()
        self.extensions.start()

    def clear_leftovers(self) -> None:
        """Remove temporary files of processes that were killed. This may block for a while: do not call it on the event loop."""
        clear_leftovers(self.session.history.sessions.place())

    async def close(self) -> None:
        """Stop all running work, close the connections and remove temporary files. Afterwards, prompts raise AgentClosed."""
        self._is_closed = True
        await self.session.close()
        await self.extensions.close()
        if self._owns_connections:
            self.registry.unlisted.close()
            await self._http.close()
        if self._sandbox is not None and self._sandbox.is_started:  # this searches the working directory again
            await asyncio.to_thread(self._sandbox.remove)
        self.kill_children()

    def close_sync(self) -> None:
        """Close the agent and wait for it: `close` for programs without an event loop. See `ask_sync`.

        Raises:
            WrongEventLoop: The agent was used with `await` before, or a tool of the agent makes the call.
        """
        self._loop.run(self.close)
        self._loop.close()

    def kill_children(self) -> None:
        """Kill the servers and remove temporary files immediately, because the process is about to exit."""
        if self.extensions.mcp is not None:
            self.extensions.mcp.kill()
        if self._sandbox is not None:
            self._sandbox.remove()
        self._scratch.remove()

    async def __aenter__(self) -> Self:
        if self.session.history.conversation.opener is not None:
            await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_sync()

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
        for name in _OF_A_PROMPT:
            import_module(f"fairlead.{name}")
        approvals = self.session.approvals
        if approvals.is_needed:
            import_module("fairlead.session.protection")
        model = self.session.model
        if model is not None and model.api in adapters.ADAPTERS:
            adapters.load_adapter(model.api)
            self._http.load(model.base_url)


def _protects(warning: str) -> bool:
    """Whether a warning about settings concerns something that protects the user: a whole file, or one of certain settings."""
    is_about_a_key = " expected " in warning or " no such key" in warning
    return not is_about_a_key or any(f" {name}" in warning for name in PROTECTING_SETTINGS)


def load_shared(options: AgentOptions, home: Home, settings: Settings) -> Shared:
    """Return what all agents with these options can share."""
    env = os.environ if options.env is None else options.env
    registry = Registry.load(home, env, api_key=options.api_key, api_key_provider=options.provider)
    registry.levels, registry.sorts_models = options.behaviour.levels, options.behaviour.lists_models_by_name
    if options.base_url is not None:
        model_id = options.model if isinstance(options.model, str) else None
        registry.unlisted.use_server(options.base_url, options.provider, model_id)
    if options.model_file is not None:
        registry.unlisted.use_local(expand_user(options.model_file).absolute())
    return Shared(
        Http(
            idle_timeout=settings.http_idle_timeout_ms / 1000 or math.inf,
            read_interval=options.behaviour.read_interval,
            env=env,
            tap=options.behaviour.http_tap,
        ),
        registry,
    )


def clear_leftovers(sessions: Path | None) -> None:
    """Remove temporary files of processes that were killed, including those in the directory `sessions`."""
    remove_leftovers()
    if sessions is not None:
        remove_leftovers_in(sessions)
