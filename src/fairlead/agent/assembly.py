"""Builds the session of an agent from its options, the settings and the user's files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from fairlead.agent import agent_hooks
from fairlead.agent.agent_workspace import make_workspace
from fairlead.agent.extensions import AgentExtensions
from fairlead.agent.options import ASK, TASK, TODO_WRITE, AgentOptions, Storage, Telemetry, is_pattern
from fairlead.agent.tool_sets import ToolServices
from fairlead.config.home import Home
from fairlead.config.project_files import is_absent
from fairlead.config.settings import ApprovalMode, CompactionSettings, Settings
from fairlead.core.model import Model, ThinkingLevel
from fairlead.core.secrets import learn, learn_variables
from fairlead.core.tool import Tool
from fairlead.errors import BadOption, ConfigError, ModelNotFound
from fairlead.models import model_streams
from fairlead.models.context_windows import is_small
from fairlead.models.http.http_client import Http
from fairlead.models.model_patterns import qualify
from fairlead.models.registry import DEFAULT_LEVEL, Registry
from fairlead.platform.scratch import Scratch
from fairlead.session import session_tools
from fairlead.session.approval_mode import MODES, SessionApprovals
from fairlead.session.asyncio_runtime import AsyncioRuntime
from fairlead.session.context.tokens import DEFAULT_RESERVE_TOKENS
from fairlead.session.history import claude_files, store_archive, stored
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.current import ConversationStore
from fairlead.session.history.file_archive import FileArchive
from fairlead.session.selection import Models, OneModel
from fairlead.session.session import Session
from fairlead.session.session_options import SessionOptions
from fairlead.session.system_prompt import SystemPrompt
from fairlead.stores.folders import SessionFolders
from fairlead.tools import BUILTIN_NAMES, builtin
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from fairlead.agent.agent_workspace import SessionSandbox
    from fairlead.agent.telemetry import Recorder
    from fairlead.core.limits import RunLimits
    from fairlead.session.approvals import Approvals
    from fairlead.session.history.archive import Archive
    from fairlead.session.host import Host
    from fairlead.session.rules.stream_rules import Rule
    from fairlead.session.subagents.spawner import SessionSpawner
    from fairlead.session.subagents.subagents import SessionSubagents
    from fairlead.stores.store import SessionStore


class Shared(Struct, frozen=True):
    """What the agents of one process share: the connections to providers, and the known models."""

    http: Http
    registry: Registry


class Assembly:
    """Builds one session.

    `warn` gets a sentence for each part of the configuration that cannot be used, `alert` if that part protects the user.
    `watch_run` is that of `SessionOptions`.
    """

    def __init__(
        self,
        options: AgentOptions,
        env: Mapping[str, str],
        cwd: Path,
        home: Home,
        settings: Settings,
        shared: Shared,
        scratch: Scratch,
        warn: Callable[[Sequence[str]], None],
        alert: Callable[[Sequence[str]], None],
        watch_run: Callable[[], RunLimits | None],
    ) -> None:
        self.extensions = AgentExtensions(options, home, settings, shared.registry, warn)
        self._recorder: Recorder | None = None
        self.sandbox: SessionSandbox | None = None
        self._options = options
        self._env = env
        self._cwd = cwd
        self._home = home
        self._settings = settings
        self._http, self._registry = shared.http, shared.registry
        self._scratch = scratch
        self._warn = warn
        self._alert = alert
        self._watch_run = watch_run

    def session(self) -> Session:
        """Build the session, and set `sandbox`. Call it once. Raises ModelNotFound or SessionError."""
        options, settings = self._options, self._settings
        workspace, self.sandbox = make_workspace(
            options, self._env, self._cwd, self._home, settings, self._scratch, self._registry.key_variables
        )
        additions = self.extensions.additions(workspace, self._env)
        self.extensions.prepare(workspace, self._env, additions)
        runtime = AsyncioRuntime()
        self._recorder = self._make_recorder()
        model, level, models = self._models(runtime)
        options = self._options = _for_model(options, None if model is None else self._registry.windows.of(model))
        spawner = subagents = services = None
        if options.tool_set is not None or _wants_task(options):
            spawner = self._spawner(models, runtime)
            subagents = self._subagents(spawner)
        if options.tool_set is not None and subagents is not None:
            services = ToolServices(workspace, additions, subagents, runtime.now_ms)
        names, make_tools = self._tools(workspace, subagents, services)
        scoped = [] if options.stream else self._models_to_cycle()
        sessions, conversation = self._conversation(workspace, runtime)
        servers = self.extensions.servers(workspace)
        approver = self._approvals()
        session_options = SessionOptions(
            models=models,
            make_tools=make_tools,
            active_tools=self._active_tools(names),
            workspace=workspace,
            system_prompt=SystemPrompt(
                workspace, options.system_prompt, options.append_system_prompt, additions, advice=options.behaviour.advice
            ),
            additions=additions,
            servers=servers,
            model=model,
            # The level that was asked for, even if the first model lacks it: another model may support it.
            thinking=level or settings.default_thinking_level or DEFAULT_LEVEL,
            default_level=settings.default_thinking_level,
            behaviour=options.behaviour,
            scoped=scoped,
            concurrent_tools=settings.tools.concurrent,
            max_turns=settings.max_turns if options.max_turns is None else options.max_turns,
            watch_run=self._watch_run,
            max_repeated_calls=settings.max_repeated_calls,
            max_repeated_text=settings.max_repeated_text,
            retry=options.behaviour.retry or settings.retry,
            cache_warming=settings.cache_warming,
            rules=self._rules() if options.discovery.rules else (),
            rule_settings=settings.stream_rules,
            todo=settings.todo,
            # Other tools refer to tasks that are done, so these stay.
            todo_clear_delay=settings.tasks.todo_clear_delay if options.tool_set is None else -1,
            compaction=self._compaction(),
            sessions=sessions,
            conversation=conversation,
            model_is_explicit=self._names_model(),
            thinking_is_explicit=level is not None,
            runtime=runtime,
            subagents=subagents,
            approver=approver,
            hooks=self.extensions.late,
            provider_session_id=options.behaviour.provider_session_id,
        )
        if spawner is not None:
            spawner.like = session_options
        session = Session(session_options)
        self._warn(session.history.problems)
        self.extensions.attach(session)
        if self._recorder is not None:
            self._recorder.attach(session)
        self.sandbox.attach(session)
        approver.attach(session.host, session.subscribe, session.history)
        if servers is not None:
            servers.attach(session.host, session.tools, session.extensions)
        if services is not None:
            services.attach(session)
        self._configure(session, names)
        return session

    def _names_model(self) -> bool:
        """Whether the options say something about the model, so that a session that is resumed does not bring back its own."""
        options = self._options
        return bool(options.model or options.provider or options.behaviour.models or options.base_url or options.model_file)

    def _configure(self, session: Session, names: Sequence[str]) -> None:
        """Give a new session the tools that are made late, its name and the modes of its queues.

        `names` are the tools that the session starts with.
        """
        options, settings = self._options, self._settings
        if TODO_WRITE in options.list_wanted_tools() and TODO_WRITE not in names and settings.todo.enabled:
            session.tools.bring_later("todo", session.todos.tools)
        if ASK in options.list_wanted_tools() and ASK not in names:
            session.tools.bring_later("ask", partial(_ask_tools, session.host, settings.ask.timeout or None))
        if options.behaviour.session_name is not None:
            session.history.set_name(options.behaviour.session_name, lasting=False)
        session.queue.steering.mode = settings.steering_mode
        session.queue.follow_up.mode = settings.follow_up_mode
        session.queue.interrupt = settings.interrupt_mode or options.behaviour.interrupt

    def _make_recorder(self) -> Recorder | None:
        """Return what records with OpenTelemetry, if that is wanted. Raises ConfigError if it is not installed."""
        wanted = self._options.telemetry
        if wanted is False or (wanted is None and "opentelemetry.trace" not in sys.modules):
            return None
        try:
            from fairlead.agent.telemetry import Recorder  # noqa: PLC0415  an extra
        except ImportError as error:
            if wanted is None:  # a part of it is missing or too old, and the program has not asked for it
                return None
            raise ConfigError(f"telemetry: OpenTelemetry cannot be loaded ({error}). Install opentelemetry-api.") from error
        # Errors and content that are recorded leave the process, so they must not contain a key, even one that is not in use.
        learn(self._options.api_key)
        learn_variables(self._env.items())
        return Recorder(wanted if isinstance(wanted, Telemetry) else Telemetry())

    def _record_models(self, models: Models) -> Models:
        return models if self._recorder is None else self._recorder.models(models)

    def _approvals(self) -> SessionApprovals:
        """Return what approves tool calls."""
        mode, settings, function = self._options.approval, self._settings.approvals, self._options.on_approval
        if self._options.behaviour.approval_rules:
            settings = replace(settings, rules=[*settings.rules, *self._options.behaviour.approval_rules])
        merged = self._settings if settings is self._settings.approvals else replace(self._settings, approvals=settings)
        if mode is None and function is not None and settings.mode != "deny":
            mode = "ask"
        if mode is None:
            modes: tuple[ApprovalMode, ...] = settings.mode, self._options.behaviour.least_approval
            mode = max(modes, key=MODES.index)

        def make(mode: ApprovalMode) -> Approvals:
            from fairlead.session.protection import approvals  # noqa: PLC0415  compiles many patterns

            own = self._options.behaviour.asker
            asker = agent_hooks.ProgramApprover(function) if function is not None else None if own is None else own()
            return approvals(merged, mode, self._home, asker, self._options.behaviour.file_tools)

        return SessionApprovals(
            mode,
            make,
            has_rules=bool(settings.rules),
            default=settings.mode,
            is_explicit=self._options.approval is not None,
        )

    def _compaction(self) -> CompactionSettings:
        """Return the settings of compaction. Without a reserve the session takes the default, and less for a small window."""
        settings, reserve = self._settings.compaction, self._options.behaviour.compaction_reserve
        if settings.reserve_tokens is not None or reserve == DEFAULT_RESERVE_TOKENS:
            return settings
        return replace(settings, reserve_tokens=reserve)

    def _conversation(self, workspace: Workspace, runtime: AsyncioRuntime) -> tuple[ConversationStore, Conversation | None]:
        """Return where conversations are saved, and the one to resume; None starts a new one."""
        options = self._options
        archive = archive_of(options, self._home, self._cwd, self._env, self._settings)
        sessions = ConversationStore(workspace=workspace, now_ms=runtime.now_ms, archive=archive)
        if options.behaviour.conversation is not None:
            return sessions, options.behaviour.conversation(sessions)
        return sessions, sessions.begin_with(
            session=None if options.session is None else str(options.session),
            resume=options.resume,
            fork=None if options.fork is None else str(options.fork),
            session_id=options.session_id,
        )

    def _models(self, runtime: AsyncioRuntime) -> tuple[Model | None, ThinkingLevel | None, Models]:
        """Return the model, the thinking level if one was given, and the access to all models."""
        options = self._options
        if isinstance(options.model, Model):
            if options.stream is not None:
                return options.model, options.thinking, self._record_models(OneModel(options.model, options.stream))
            model, level = options.model, None
        else:
            model, level = self._find_requested_model()
        return model, options.thinking or level, self._model_access(runtime)

    def _model_access(self, runtime: AsyncioRuntime) -> Models:
        """Return the access to all models for one conversation."""
        budgets = {str(name): tokens for name, tokens in self._settings.thinking_budgets.items()}
        rates = self._options.rates
        models = model_streams.ModelStreams(
            self._registry,
            self._http,
            runtime.now_ms,
            budgets,
            block_images=self._settings.images.block_images,
            rate_limits=self._settings.rate_limits if rates.limits is None else rates.limits,
            priority=rates.priority,
            after=lambda: self._warn(self._registry.warnings),
        )
        return self._record_models(models)

    def _find_requested_model(self) -> tuple[Model | None, ThinkingLevel | None]:
        options = self._options
        if isinstance(options.model, str) and options.model:
            return self.extensions.match_model(qualify(options.provider or self._registry.unlisted.server_name, options.model))
        if options.model_file is not None:
            return self._registry.match(f"local/{Path(options.model_file).stem}")
        if options.base_url is not None:  # which models it has is not known yet: see `Agent.choose_model`
            return None, None
        if options.provider:
            model = self._registry.default_of(options.provider)
            if model is None:
                raise self._registry.unknown_provider(options.provider)
            return model, None
        if options.behaviour.models and (chosen := self._matching("--models", options.behaviour.models)):
            default = self._settings.default_model and self._registry.default(self._settings)
            return next((choice for choice in chosen if choice[0] == default), chosen[0])
        return self._registry.default(self._settings), None

    def _models_to_cycle(self) -> list[tuple[Model, ThinkingLevel | None]]:
        """Return the models to cycle through. A list that matches nothing is only worth a warning, as in pi."""
        patterns = self._options.behaviour.models
        if patterns:
            return self._matching("--models", patterns)
        return self._matching("enabledModels", self._settings.enabled_models or [])

    def _matching(self, source: str, patterns: Sequence[str]) -> list[tuple[Model, ThinkingLevel | None]]:
        try:
            return self._registry.match_many(patterns)
        except ModelNotFound as error:
            self._warn([f"{source}: {error}"])
            return []

    def _rules(self) -> Sequence[Rule]:
        """Return the stream rules of the user and the project."""
        folders = self._home.rules_folders(self._cwd)
        if not self._settings.stream_rules.enabled or not any(os.path.isdir(folder) for _, folder in folders):
            return ()
        from fairlead.session.rules.stream_rules import load_rules  # noqa: PLC0415  loads yaml, in 12 ms

        trusted = self.extensions.trust.is_trusted(self._cwd)
        rules, problems = load_rules(folders, self._home.boundary(self._cwd), trusted=trusted)
        self._alert(problems)
        return rules

    def _spawner(self, models: Models, runtime: AsyncioRuntime) -> SessionSpawner:
        """Return the factory for the sessions of sub-agents."""
        from fairlead.session.subagents.spawner import SessionSpawner  # noqa: PLC0415  loads yaml, in 12 ms

        overrides, appended = self._settings.task.agent_model_overrides, self._options.append_system_prompt
        if self._options.stream is not None:
            return SessionSpawner(lambda: models, None, overrides, appended)
        return SessionSpawner(lambda: self._model_access(runtime), self._registry.match, overrides, appended)

    def _tools(
        self, workspace: Workspace, subagents: SessionSubagents | None, services: ToolServices | None
    ) -> tuple[list[str], Callable[[], Mapping[str, Tool]]]:
        """Return the names of the tools that the session starts with, and what makes them.

        They are those of `tool_set` or the built-in ones, then `extra_tools` and `task`.
        """
        options = self._options
        of_set: dict[str, Tool] | None = None
        if options.tool_set is not None and services is not None:
            of_set = {tool.name: tool for tool in options.tool_set.for_session(services)}
        tasks = subagents if subagents is not None and subagents.may_spawn and _wants_task(options) else None
        own = [tool.name for tool in options.own_tools()]
        names: dict[str, None] = dict.fromkeys([*(of_set or BUILTIN_NAMES), *own, *([] if tasks is None else [TASK])])
        return list(names), partial(_make_tools, workspace, of_set, options, tasks)

    def _subagents(self, spawner: SessionSpawner) -> SessionSubagents:
        """Return the sub-agents of the session."""
        from fairlead.session.subagents.agent_kinds import load_agents  # noqa: PLC0415  loads yaml, in 12 ms
        from fairlead.session.subagents.subagents import Family, SessionSubagents  # noqa: PLC0415  loads yaml, in 12 ms

        task = self._settings.task
        folders = self._home.agents_folders(self._cwd)
        of_project = [folder for level, folder in folders if level == "project" and not is_absent(folder)]
        trusted = not of_project or self.extensions.trust.is_trusted(self._cwd)
        agents, problems = load_agents(folders, task.disabled_agents, self._home.boundary(self._cwd), trusted=trusted)
        self._warn(problems)
        tool_set = self._options.tool_set
        return SessionSubagents(Family(agents, task, spawner, _builtin_tools if tool_set is None else tool_set.for_workspace))

    def _active_tools(self, tools: Sequence[str]) -> list[str]:
        """Return the names of the tools that the model may use. `tools` are those that the session starts with."""
        options = self._options
        known = list(dict.fromkeys([*tools, TODO_WRITE, TASK, ASK]))
        named = [name for name in (*(options.tool_names() or ()), *options.exclude_tools) if not is_pattern(name)]
        unknown = [name for name in named if name not in known]
        if self.extensions.mcp is not None or options.tool_set is not None:  # tools of servers are not known yet
            unknown = [name for name in unknown if not name.startswith("mcp_")]
        self.extensions.check_tools(unknown, known)
        wanted = tools if options.tool_names() is None and options.tool_set is not None else options.list_wanted_tools()
        return [name for name in wanted if name in tools and not options.excludes_tool(name)]


def _make_tools(
    workspace: Workspace, of_set: Mapping[str, Tool] | None, options: AgentOptions, tasks: SessionSubagents | None
) -> Mapping[str, Tool]:
    """Make the tools that a session starts with. `tasks` are the sub-agents that the model may give work to."""
    tools = _builtin_tools(workspace) if of_set is None else dict(of_set)
    tools |= {tool.name: tool for tool in options.own_tools()}
    if tasks is not None:
        from fairlead.session.subagents.spawner import task_tool  # noqa: PLC0415  loads yaml, in 12 ms

        tools[TASK] = task_tool(tasks)
    return tools


def _builtin_tools(workspace: Workspace) -> dict[str, Tool]:
    return builtin.builtin_tools(workspace)  # which loads them


def _ask_tools(host: Host, timeout: float | None) -> list[Tool]:
    """Make the tool that asks the user, and waits `timeout` seconds for each answer; None: without a limit."""
    return [session_tools.ask_tool(lambda: host.ui, timeout)]


def _for_model(options: AgentOptions, window: int | None) -> AgentOptions:
    """Return the options for a model with this context window. A small model gets fewer tools by default."""
    if not is_small(window):
        return options
    behaviour = options.behaviour
    names = [name for name in behaviour.default_tools if name in behaviour.small_model_tools]
    return replace(options, behaviour=replace(behaviour, default_tools=names))


def _wants_task(options: AgentOptions) -> bool:
    """Whether the model may use the built-in `task` tool."""
    return TASK in options.list_wanted_tools() and all(tool.name != TASK for tool in options.own_tools())


def archive_of(options: AgentOptions, home: Home, cwd: Path, env: Mapping[str, str], settings: Settings) -> Archive:
    """Return the archive of an agent that works in `cwd`. Raises BadOption if the options contradict each other."""
    storage = options.storage
    match storage.store:
        case None:
            return _files(options, home, cwd, env, settings)
        case store:
            return _make_store_archive(options, storage, store)


def _files(options: AgentOptions, home: Home, cwd: Path, env: Mapping[str, str], settings: Settings) -> FileArchive:
    storage, confinement = options.storage, options.behaviour.confinement
    if storage.layout == "claude" and storage.folder is not None:
        return claude_files.ClaudeArchive(
            projects=Path(storage.folder), cwd=cwd, durability=storage.durability, copies=options.keep is False
        )
    is_wanted = storage.folder is not None or (bool(options.keep) and not options.isolated)
    folders = SessionFolders.of(
        home,
        cwd,
        env,
        storage.folder,
        settings.session_dir,
        isolated=options.isolated,
        keeps=options.keep is not False and is_wanted,
    )
    return FileArchive(
        folders=folders,
        durability=storage.durability,
        bound=None if confinement is None else confinement.sessions,
        root=None if options.isolated else home.sessions_dir,
        copies=options.keep is False,
    )


def _make_store_archive(options: AgentOptions, storage: Storage, store: SessionStore) -> Archive:
    if options.keep or storage.folder is not None:
        raise BadOption("store: the store keeps the sessions, so `keep` and the `folder` of `Storage` cannot be used beside it.")
    return store_archive.StoreArchive(store, storage.lease_owner or stored.new_owner(), storage.lease_seconds)
