"""The library: an agent in this process.

agent = Agent(model="anthropic/claude-sonnet-4-5", cwd="/some/project")
async for event in agent.run("Fix the failing test"):
    ...
print(agent.text())
await agent.close()
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from fairlead.agent_options import AgentOptions
from fairlead.config.home import Home, Scratch, user_folder
from fairlead.config.settings import Settings, load_settings, persist_setting
from fairlead.core.events import AgentSettled, Event
from fairlead.core.messages import ImageContent
from fairlead.core.model import Model, ThinkingLevel
from fairlead.core.tool import Tool
from fairlead.errors import ConfigError, ModelNotFound, ProviderError, RunAborted
from fairlead.extend.additions import UserAdditions
from fairlead.models.http import Http
from fairlead.models.patterns import qualified
from fairlead.models.registry import DEFAULT_LEVEL, Registry
from fairlead.session.conversation import Conversation
from fairlead.session.models import Models, OneModel
from fairlead.session.options import SessionOptions
from fairlead.session.runtime import AsyncioRuntime
from fairlead.session.session import Session
from fairlead.session.sessions import Sessions
from fairlead.session.system_prompt import SystemPrompt
from fairlead.tools import builtin_tools
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from fairlead.extend.places import Places
    from fairlead.session.rule_keeper import RuleKeeper
    from fairlead.session.spawner import SessionSpawner
    from fairlead.session.subagents import Subagents

#: Tools that are made with what belongs to them, and only where they are wanted.
TODO_WRITE, TASK = "todo_write", "task"


class Agent:
    """A session with everything it needs. `warnings` says what in the user's configuration could not be used, so far."""

    def __init__(self, options: AgentOptions | None = None, **changes: Any) -> None:
        options = replace(options or AgentOptions(), **changes)
        if options.stream is not None and not isinstance(options.model, Model):
            raise ConfigError("A stream of your own needs a Model that describes it: Agent(model=Model(...), stream=...).")
        env = os.environ if options.env is None else options.env
        cwd = Path(options.cwd).absolute()
        self.home = Home.find(env, isolated=options.isolated)
        self.warnings: list[str] = []
        self._warn = options.warn
        settings, unusable = load_settings(self.home, cwd)
        self.settings = replace(settings, **{group: getattr(Settings(), group) for group in options.reset_settings})
        self._warn_of(unusable)
        self._scratch = Scratch()
        self._http = Http(idle_timeout=self.settings.http_idle_timeout_ms / 1000 or math.inf, env=env)
        self.registry = Registry.load(self.home, env, api_key=options.api_key, api_key_provider=options.provider)
        try:
            self.session = self._session(options, cwd, env)
        except ModelNotFound as error:
            # A file that could not be used may be why.
            raise ModelNotFound("\n".join([str(error), *self.registry.warnings])) from None
        self._warn_of(self.registry.warnings)

    async def run(self, text: str, images: list[ImageContent] | None = None, *, expand: bool = True) -> AsyncGenerator[Event]:
        """Prompt the agent and give all that happens until it has settled. Leaving early aborts the run.

        A text that begins with a slash command stands for what that is made of, unless `expand` is false."""
        await self.session.prompt(text, images, expand=expand)
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
        """Prompt the agent and return its answer. Raises ProviderError if the model failed, RunAborted if it was stopped."""
        async with aclosing(self.run(text, images, expand=expand)) as events:
            async for _ in events:
                pass
        end = self.session.last_end
        assert end is not None, "a run that has settled has an end"
        message = end.message
        if message.stop_reason == "error":
            raise ProviderError(
                message.error_message or "The model failed without saying why.",
                status=end.status,
                retry_after=end.retry_after,
                transient=end.transient,
            )
        if message.stop_reason == "aborted":
            raise RunAborted(message.error_message)
        return message.text()

    def text(self) -> str:
        """The text of the last answer."""
        answer = self.session.conversation.last_answer()
        return "" if answer is None else answer.text()

    def persist(self, key: str, value: object) -> None:
        """Write one key of the user's settings, for the sessions to come."""
        persist_setting(self.home, key, value)

    def warm_up(self) -> None:
        """Get slow imports and TLS out of the way of the first prompt, in the background."""
        import threading

        threading.Thread(target=self._load, name="fairlead-warm-up", daemon=True).start()

    async def close(self) -> None:
        """Stop whatever runs, close connections, and remove scratch files that nobody was told of."""
        await self.session.close()
        await self._http.close()
        self.leave_nothing_behind()

    def leave_nothing_behind(self) -> None:
        """The part of `close` that cannot wait: for a process that is about to exit, whatever still runs."""
        self._scratch.remove()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _warn_of(self, warnings: Sequence[str]) -> None:
        for warning in warnings:
            if warning not in self.warnings:
                self.warnings.append(warning)
                if self._warn is not None:
                    self._warn(warning)

    def _load(self) -> None:
        # In the order in which a prompt needs it: it is written down before the model is asked.
        import fairlead.session.store  # noqa: F401  # pyright: ignore[reportUnusedImport]

        model = self.session.model
        if model is not None:
            self._http.load(model.base_url)

    # Putting it together

    def _session(self, options: AgentOptions, cwd: Path, env: Mapping[str, str]) -> Session:
        settings, workspace = self.settings, self._workspace(cwd, env)
        tools = builtin_tools(workspace) | {tool.name: tool for tool in options.extra_tools}
        runtime = AsyncioRuntime()
        model, level, models = self._models(options, runtime)
        spawner = subagents = None
        if TASK in _wanted(options) and TASK not in tools:
            spawner = self._spawner(options, models, runtime)
            subagents = self._subagents(spawner, cwd)
            if subagents.may_spawn:
                from fairlead.session.task_tool import task_tool

                tools[TASK] = task_tool(subagents)
        scoped = [] if options.stream else self._scoped(options)
        sessions, conversation = self._conversation(options, workspace, env, runtime)
        compaction = settings.compaction
        if compaction.reserve_tokens is None:
            compaction = replace(compaction, reserve_tokens=options.compaction_reserve)
        additions = self._additions(options, workspace, env)
        made_of = SessionOptions(
            models=models,
            tools=tools,
            active_tools=self._active(options, tools),
            workspace=workspace,
            system_prompt=SystemPrompt(workspace, options.system_prompt, options.append_system_prompt, additions),
            additions=additions,
            model=model,
            # As wanted, not as the first model has it: another model may have more levels.
            thinking=level or settings.default_thinking_level or DEFAULT_LEVEL,
            scoped=scoped,
            schedule=options.schedule,
            concurrent_tools=settings.tools.concurrent,
            retry=settings.retry,
            rules=self._rules(cwd) if options.rules else None,
            todo=settings.todo,
            todo_clear_delay=settings.tasks.todo_clear_delay,
            eager_todos=options.eager_todos,
            compaction=compaction,
            sessions=sessions,
            conversation=conversation,
            model_goes_first=bool(options.model or options.provider or options.models),
            thinking_goes_first=level is not None,
            runtime=runtime,
            subagents=subagents,
        )
        if spawner is not None:
            spawner.like = made_of
        session = Session(made_of)
        self._warn_of(session.problems)
        self._set_up(session, options)
        return session

    def _workspace(self, cwd: Path, env: Mapping[str, str]) -> Workspace:
        settings = self.settings
        return Workspace(
            cwd,
            env,
            log_dir=self._scratch.path,
            keep_log=self._scratch.keep,
            shell=settings.shell_path,
            command_prefix=settings.shell_command_prefix or "",
            resize_images=settings.images.auto_resize,
            default_timeout=settings.tools.timeout_seconds,
        )

    def _set_up(self, session: Session, options: AgentOptions) -> None:
        """What a session can only be given once it is there."""
        settings = self.settings
        if TODO_WRITE in _wanted(options) and TODO_WRITE not in session.tools and settings.todo.enabled:
            session.toolbox.replace("todo", [session.todos.tool])
        if options.session_name is not None:
            session.set_name(options.session_name)
        session.queues.steering.mode = settings.steering_mode
        session.queues.follow_up.mode = settings.follow_up_mode
        session.queues.interrupt = settings.interrupt_mode or options.interrupt

    def _conversation(
        self, options: AgentOptions, workspace: Workspace, env: Mapping[str, str], runtime: AsyncioRuntime
    ) -> tuple[Sessions, Conversation | None]:
        """Where conversations are kept, and the one to begin with, if it is not simply a new one."""
        sessions = Sessions(workspace=workspace, now_ms=runtime.now_ms, durability=options.durability)
        folder = options.session_dir
        if folder is None and not options.isolated:
            folder = env.get("PI_CODING_AGENT_SESSION_DIR") or self.settings.session_dir
        if options.keep is not False and (options.session_dir is not None or (options.keep and not options.isolated)):
            sessions.root = None if options.isolated else self.home.sessions_dir
            sessions.folder = workspace.resolve(str(folder)) if folder else None
        named = (options.session, options.fork, options.session_id)
        if not options.resume and all(name is None for name in named):
            return sessions, None
        from fairlead.session.choice import chosen_conversation

        found = chosen_conversation(
            sessions,
            None if options.isolated else self.home.sessions_dir,
            copy=options.keep is False,
            session=options.session,
            resume=options.resume,
            fork=options.fork,
            session_id=options.session_id,
        )
        return sessions, found

    def _models(self, options: AgentOptions, runtime: AsyncioRuntime) -> tuple[Model | None, ThinkingLevel | None, Models]:
        """The model, the thinking level if one was named, and all models."""
        if isinstance(options.model, Model):
            if options.stream is not None:
                return options.model, options.thinking, OneModel(options.model, options.stream)
            model, level = options.model, None
        else:
            model, level = self._named(options)
        return model, options.thinking or level, self._access(runtime)

    def _access(self, runtime: AsyncioRuntime) -> Models:
        """All models, for one conversation."""
        from fairlead.models.access import ModelAccess

        budgets = {str(name): tokens for name, tokens in self.settings.thinking_budgets.items()}
        return ModelAccess(
            self.registry,
            self._http,
            runtime.now_ms,
            budgets,
            block_images=self.settings.images.block_images,
            after=lambda: self._warn_of(self.registry.warnings),
        )

    def _named(self, options: AgentOptions) -> tuple[Model | None, ThinkingLevel | None]:
        if isinstance(options.model, str):
            return self.registry.match(qualified(options.provider, options.model))
        if options.provider:
            model = self.registry.default_of(options.provider)
            if model is None:
                raise ModelNotFound(f'No model of the provider "{options.provider}" is known. Name one with --model.')
            return model, None
        if options.models and (chosen := self.registry.match_many(options.models)):
            return chosen[0]
        return self.registry.default(self.settings), None

    def _scoped(self, options: AgentOptions) -> list[tuple[Model, ThinkingLevel | None]]:
        """The models to cycle through: those of the flag must exist, those of the settings may have gone."""
        if options.models:
            return self.registry.match_many(options.models)
        try:
            return self.registry.match_many(self.settings.enabled_models or [])
        except ModelNotFound as error:
            self._warn_of([f"enabledModels: {error}"])
            return []

    def _rules(self, cwd: Path) -> Callable[[Session], RuleKeeper] | None:
        """The stream rules of the user and the project, if there are any."""
        folders = self.home.rules_folders(cwd)
        if not self.settings.ttsr.enabled or not any(folder.is_dir() for folder in folders.values()):
            return None
        from fairlead.session.rule_keeper import RuleKeeper
        from fairlead.session.rules import load_rules

        rules, problems = load_rules(folders)
        self._warn_of(problems)
        return (lambda session: RuleKeeper(session, rules, self.settings.ttsr)) if rules else None

    def _additions(self, options: AgentOptions, workspace: Workspace, env: Mapping[str, str]) -> UserAdditions:
        """Instructions, skills and templates of the user's. Nothing is read before it is needed."""
        settings = self.settings
        skills = [workspace.resolve(str(path)) for path in options.skills]
        templates = [workspace.resolve(str(path)) for path in options.prompt_templates]

        def find_places() -> Places:
            from fairlead.extend.places import Places

            return Places(
                home=None if options.isolated else self.home.root,
                user=user_folder(env),
                context_files=options.context_files,
                find_skills=options.find_skills,
                find_templates=options.find_prompt_templates,
                skills=skills,
                templates=templates,
                settings_skills=settings.skills,
                settings_templates=settings.prompts,
            )

        return UserAdditions(find_places, skill_commands=settings.enable_skill_commands, warn=self._warn_of)

    def _spawner(self, options: AgentOptions, models: Models, runtime: AsyncioRuntime) -> SessionSpawner:
        """What makes the sessions of sub-agents."""
        from fairlead.session.spawner import SessionSpawner

        overrides, appended = self.settings.task.agent_model_overrides, options.append_system_prompt
        if options.stream is not None:
            return SessionSpawner(lambda: models, None, overrides, appended)
        return SessionSpawner(lambda: self._access(runtime), self.registry.match, overrides, appended)

    def _subagents(self, spawner: SessionSpawner, cwd: Path) -> Subagents:
        from fairlead.session.agents import load_agents
        from fairlead.session.subagents import Family, Subagents

        task = self.settings.task
        agents, problems = load_agents(self.home.agents_folders(cwd), task.disabled_agents)
        self._warn_of(problems)
        return Subagents(Family(agents, task, spawner))

    def _active(self, options: AgentOptions, tools: Mapping[str, Tool]) -> list[str]:
        known = list(dict.fromkeys([*tools, TODO_WRITE, TASK]))
        unknown = [name for name in (*(options.tools or ()), *options.exclude_tools) if name not in known]
        if unknown:
            self._warn_of([f"Unknown tools, left out: {', '.join(unknown)}. The tools are: {', '.join(known)}"])
        return [name for name in _wanted(options) if name in tools]


def _wanted(options: AgentOptions) -> list[str]:
    """The names of the tools that the model is to have."""
    chosen = options.default_tools if options.tools is None else options.tools
    names = dict.fromkeys([*chosen, *(tool.name for tool in options.extra_tools)])
    return [name for name in names if name not in options.exclude_tools]


__all__ = ["Agent"]
