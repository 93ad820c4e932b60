"""The agent. `fairlead.agent.assembly` builds its session."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from functools import cached_property, wraps
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, overload

from msgspec.structs import astuple, replace

from fairlead.agent.assembly import Assembly, Shared
from fairlead.agent.keywords import AgentKeywords
from fairlead.agent.options import AgentOptions
from fairlead.config.home import Home
from fairlead.config.process import start_thread
from fairlead.config.scratch import Scratch
from fairlead.config.settings import Settings
from fairlead.config.settings_files import load_settings, persist_setting
from fairlead.core.events import Event
from fairlead.core.messages import ImageContent
from fairlead.core.model import Model
from fairlead.errors import AgentClosed, ConfigError, ModelNotFound, WrongEventLoop
from fairlead.models.http.client import Http
from fairlead.models.registry import Registry

if TYPE_CHECKING:
    from fairlead.agent.background import BackgroundLoop
    from fairlead.agent.prompting import Prompting
    from fairlead.agent.result import Result
    from fairlead.core.limits import RunLimits
    from fairlead.models.choosing import ModelChoice
    from fairlead.models.logins import Logins

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")

#: How many warnings are passed on at a time, and how many characters of each: a project's files can cause any number.
MOST_WARNINGS = 20
LONGEST_WARNING = 4000
#: Settings that protect the user.
PROTECTING_SETTINGS = ("approvals", "sandbox", "protectedPaths", "extension", "streamRules", "defaultProjectTrust")


_OTHER_LOOP = "This agent works on the event loop of another thread. Use it there, or make another agent."
_ASYNC_LOOP = (
    "This agent works on an event loop already, because it was used with `await`. Call `await agent.ask(...)` there, or use"
    " another agent for blocking calls."
)
_FORKED = "The process was forked after this agent had been used, so its thread is missing here. Make the agent after the fork."
_SYNC_LOOP = "This agent is used by blocking calls, which run on its own thread. Use ask_sync here too, or another agent."


def _blocking(method: Callable[Concatenate[S, P], Coroutine[Any, Any, R]], description: str) -> Callable[Concatenate[S, P], R]:
    """Make a method that blocks until a coroutine method is done. It has the same arguments, results and errors."""

    @wraps(method)
    def call(self: Any, *args: Any, **keywords: Any) -> R:
        return self._run_blocking(method, *args, **keywords)

    call.__name__ = f"{method.__name__}_sync"
    call.__doc__ = f"""{description}

    It runs the agent on its own thread, so it also works in Jupyter and inside a running event loop, which it blocks.
    Arguments, result and errors are those of `{method.__name__}`. An agent is used either by blocking calls or with `await`.

    Raises:
        WrongEventLoop: The agent was used with `await` before, or a tool of the agent makes the call.
    """
    return call


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
        self._env = env = os.environ if options.env is None else options.env
        self._base_url = options.base_url
        self._names_model = bool(options.model or options.provider or options.models)
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
        max_turns = self.settings.max_turns if options.max_turns is None else options.max_turns
        self._limits: dict[str, Any] = {"max_turns": max_turns, "max_cost": options.max_cost, "timeout": options.timeout}
        assembly = Assembly(
            options, env, self.home, self.settings, shared, self._scratch, self._warn_of, self._alert_about, self._watch_run
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
        #: The event loop that the agent is used on, and its own one for blocking calls.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._background: BackgroundLoop | None = None
        self._is_closed = False
        self._warn_of(self.registry.warnings)

    def run(
        self,
        prompt: str,
        images: Sequence[ImageContent] | None = None,
        *,
        expand: bool = True,
        max_turns: int | None = None,
        max_cost: float | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[Event]:
        """Prompt the agent and yield all events until the run has settled. Leaving the loop early aborts the run.

        Args:
            prompt: The text of the prompt.
            images: Images for the model; `ImageContent.from_file` makes them.
            expand: Whether to expand a slash command at the beginning of the text.
            max_turns: How many model calls the run may make. 0: no limit. None here and below: the limit of the agent.
            max_cost: How many US dollars the run may cost, with its retries and sub-agents.
            timeout: How many seconds the run may take. A limit ends the run, and its last events say so.

        Returns:
            The events of the run; none if an extension handles the prompt.

        Raises:
            TypeError: The prompt is not a string, or an image is not an `ImageContent`.
            BadOption: A limit has an invalid value.
            FairleadError: The iteration raises this if the run cannot start; `Session.prompt` lists the reasons.
        """
        return self._prompting(prompt, images, expand, max_turns, max_cost, timeout).events()

    @overload
    async def ask(
        self,
        prompt: str,
        images: Sequence[ImageContent] | None = None,
        *,
        output_type: None = None,
        output_retries: int = 2,
        expand: bool = True,
        max_turns: int | None = None,
        max_cost: float | None = None,
        timeout: float | None = None,
    ) -> Result[str]: ...

    @overload
    async def ask(
        self,
        prompt: str,
        images: Sequence[ImageContent] | None = None,
        *,
        output_type: type[T],
        output_retries: int = 2,
        expand: bool = True,
        max_turns: int | None = None,
        max_cost: float | None = None,
        timeout: float | None = None,
    ) -> Result[T]: ...

    @overload
    async def ask(
        self,
        prompt: str,
        images: Sequence[ImageContent] | None = None,
        *,
        output_type: Mapping[str, Any] | UnionType,
        output_retries: int = 2,
        expand: bool = True,
        max_turns: int | None = None,
        max_cost: float | None = None,
        timeout: float | None = None,
    ) -> Result[Any]: ...

    async def ask(
        self,
        prompt: str,
        images: Sequence[ImageContent] | None = None,
        *,
        output_type: Any = None,
        output_retries: int = 2,
        expand: bool = True,
        max_turns: int | None = None,
        max_cost: float | None = None,
        timeout: float | None = None,
    ) -> Result[Any]:
        """Prompt the agent and return what came of it.

        Args:
            prompt: The text of the prompt.
            images: Images for the model; `ImageContent.from_file` makes them.
            output_type: The type of `result.output`: a dataclass, msgspec Struct, Pydantic model, TypedDict or another type that
                JSON can hold, or a JSON Schema. None: the text.
            output_retries: How many times the model may correct an answer that does not have that type.
            expand: Whether to expand a slash command at the beginning of the text.
            max_turns: How many model calls the prompt may take. 0: no limit. None here and below: the limit of the agent.
            max_cost: How many US dollars the prompt may cost, with retries, sub-agents and corrections.
            timeout: How many seconds the prompt may take.

        Returns:
            The result. Its text is empty if an extension handled the prompt.

        Raises:
            ProviderError: The model failed.
            LimitReached: A limit ended the run; `RunTimeout` if it was the timeout.
            OutputError: The answer does not have the `output_type`.
            RunAborted: The run was aborted. All of these have a `result` with everything so far.
            TypeError, BadOption: An argument has an invalid value.
            AgentClosed: The agent was closed.
            FairleadError: The run cannot start; `Session.prompt` lists the reasons.
        """
        asked = self._prompting(prompt, images, expand, max_turns, max_cost, timeout)
        return await asked.result(output_type, output_retries)

    ask_sync = _blocking(ask, "Prompt the agent and wait for the result: `ask` for programs without an event loop.")

    def _prompting(
        self,
        prompt: str,
        images: Sequence[ImageContent] | None,
        expand: bool,
        max_turns: int | None,
        max_cost: float | None,
        timeout: float | None,
    ) -> Prompting:
        from fairlead.agent.prompting import Prompting

        given = {"max_turns": max_turns, "max_cost": max_cost, "timeout": timeout}
        limits = {name: self._limits[name] if value is None else value for name, value in given.items()}
        model = self.session.model
        if limits["max_cost"] is not None and model is not None and not any(astuple(model.cost)):
            self._warn_of([f"max_cost has no effect: the price of {model.provider}/{model.id} is not known, or it is free."])
        return Prompting(self.session, prompt, images, expand=expand, limits=limits, use_loop=self._use_loop)

    def _watch_run(self) -> RunLimits | None:
        """Stop a run at the limits of the agent. The session calls this for runs that neither `ask` nor `run` starts."""
        if self._limits["max_cost"] is None and self._limits["timeout"] is None:
            return None
        from fairlead.agent.result import RunRecord

        return RunRecord(self.session, **self._limits).watch()

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

    async def choose_model(self) -> ModelChoice:
        """Choose the best available model if the session has none: one with a key, else one on this machine.

        Looking for a model server on this machine takes at most 200 ms. It is done only if no key is set and no model is named.

        Returns:
            The model of the session, and one sentence that says why. Its `model` is None if there is none.

        Raises:
            ConfigError: `FAIRLEAD_LOCAL_SERVERS` cannot be used.
        """
        from fairlead.models.choosing import ModelChoice, choose_model

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
            self.session.models.set_model(served.provider, served.id)

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
        if self._sandbox is not None:  # this searches the working directory again
            await asyncio.to_thread(self._sandbox.remove)
        self.leave_nothing_behind()

    close_sync = _blocking(close, "Close the agent and wait for it: `close` for programs without an event loop.")

    def leave_nothing_behind(self) -> None:
        """Kill the servers and remove temporary files immediately, because the process is about to exit."""
        if self.extensions.mcp is not None:
            self.extensions.mcp.kill()
        if self._sandbox is not None:
            self._sandbox.remove()
        self._scratch.remove()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_sync()

    def _use_loop(self) -> None:
        """Work on the running event loop from now on. Raises AgentClosed, and WrongEventLoop if the loop before it still runs."""
        if self._is_closed:
            raise AgentClosed
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop is not loop and self._loop.is_running():
            raise WrongEventLoop(_OTHER_LOOP if self._background is None else _SYNC_LOOP)
        self._loop = loop

    def _run_blocking(self, method: Callable[..., Coroutine[Any, Any, R]], *args: Any, **keywords: Any) -> R:
        """Run a method on the agent's own event loop, and wait for it."""
        if self._is_closed and method is not Agent.close:
            raise AgentClosed
        if self._background is not None and self._background.is_of_parent:
            raise WrongEventLoop(_FORKED)
        if self._background is None:
            if self._loop is not None and self._loop.is_running():
                raise WrongEventLoop(_ASYNC_LOOP)
            from fairlead.agent.background import BackgroundLoop

            self._background = BackgroundLoop()
            self._loop = self._background.loop
        background = self._background
        result = background.run(method(self, *args, **keywords))
        if method is Agent.close:
            background.close()
            self._background = None
        return result

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
    is_about_a_key = " expected " in warning or " no such key" in warning
    return not is_about_a_key or any(f" {name}" in warning for name in PROTECTING_SETTINGS)


def shared_by_agents(options: AgentOptions, home: Home, settings: Settings) -> Shared:
    """Return what all agents with these options can share."""
    env = os.environ if options.env is None else options.env
    registry = Registry.load(home, env, api_key=options.api_key, api_key_provider=options.provider)
    if options.base_url is not None:
        model_id = options.model if isinstance(options.model, str) else None
        registry.unlisted.use_server(options.base_url, options.provider, model_id)
    if options.model_file is not None:
        registry.unlisted.use_local(Path(options.model_file).expanduser().absolute())
    return Shared(
        Http(idle_timeout=settings.http_idle_timeout_ms / 1000 or math.inf, env=env, tap=options.http_tap),
        registry,
    )


def clear_leftovers(sessions: Path | None) -> None:
    """Remove temporary files of processes that were killed, including those in the directory `sessions`."""
    from fairlead.config.scratch import remove_leftovers
    from fairlead.session.history.session_files import remove_leftovers_in

    remove_leftovers()
    if sessions is not None:
        remove_leftovers_in(sessions)
