"""The parts of a session. Each gets only what it uses; none knows the session.

`Parts.__init__` makes those that every session needs, from top to bottom. The others are made when they are first needed: a host
that only asks for the state of a session does not pay for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from fairlead.core.events import AgentSettled, ExtensionError
from fairlead.core.messages import Message
from fairlead.core.model import Model, ModelStream
from fairlead.core.runtime import CancelToken
from fairlead.models.context_windows import is_small
from fairlead.session.additions import Extensions, SessionAdditions
from fairlead.session.compaction.compactor import Compactor
from fairlead.session.context.budget import ContextBudget, SessionUsage
from fairlead.session.events import Events
from fairlead.session.history.current import CurrentConversation, History
from fairlead.session.history.sessions import ConversationStore
from fairlead.session.host import Host
from fairlead.session.options import SessionOptions
from fairlead.session.run.message_queue import MessageQueue
from fairlead.session.run.state import Activity, Attempts, RunState, Stopper
from fairlead.session.selection import Selection
from fairlead.session.todos.lazy import LazyTodos
from fairlead.session.toolbox import Toolbox

if TYPE_CHECKING:
    from fairlead.core.limits import RunLimits
    from fairlead.errors import SessionLost
    from fairlead.session.history.call_log import Interruption
    from fairlead.session.history.moves import Moves
    from fairlead.session.host import UserCommands
    from fairlead.session.rules.keeper import RuleKeeper
    from fairlead.session.run.intake import Intake
    from fairlead.session.run.run import RunParts
    from fairlead.session.run.turns import Turns
    from fairlead.session.run.warming import CacheWarmer
    from fairlead.session.subagents.subagents import Parent
    from fairlead.session.todos.keeper import TodoKeeper


class Parts:
    """All parts of one session."""

    def __init__(self, options: SessionOptions) -> None:
        self._options = options
        self._workspace = workspace = options.workspace
        self._runtime = runtime = options.runtime
        self.events = Events()
        self._notify = notify = self.events.notify
        self.run = RunState()
        self.selection = Selection(
            options.models, options.model, options.thinking, options.scoped, notify, keeps_level=options.keeps_level
        )
        self.approver = options.approver
        self.toolbox = Toolbox(options.make_tools, options.active_tools)
        self.extensions = Extensions(options.hooks, options.call_hooks, runtime, self.events)
        self.additions = SessionAdditions(
            options.additions, options.servers, self.extensions, workspace, runtime, self._system_prompt, notify
        )
        self._sessions = options.sessions or ConversationStore(workspace=workspace, now_ms=runtime.now_ms)
        self.current = CurrentConversation(options.conversation or self._sessions.new(), self.selection, self.events)
        self.queue = MessageQueue(self.current, notify, lambda: self.intake)
        self.host = Host(workspace, runtime.now_ms, notify, self._make_commands)
        self.budget = ContextBudget(
            options.models,
            self.selection,
            self.toolbox,
            self.current,
            runtime,
            system_prompt=self._system_prompt,
            reserve_tokens=options.compaction.reserve_tokens,
        )
        self.attempts = Attempts(options.retry, runtime, notify)
        self.compactor = Compactor(
            options.compaction,
            self.current,
            self.selection,
            self.budget,
            self.run,
            self.extensions,
            self.attempts,
            ask_model=self._ask_model,
            notify=notify,
            on_end=self.host.add_finished_commands,
        )
        self.usage = SessionUsage(self.current, self.selection)
        #: Keeps a provider's cache warm, once the model has one that can be.
        self._warmer: CacheWarmer | None = None
        self.todos = LazyTodos(self.current, self.toolbox, self._make_todo_keeper)
        self.rules = self._make_rules() if options.rules else None
        self.subagents = options.subagents
        self.activity = Activity(self.run, self.compactor, self.attempts, self.extensions, lambda: self.intake)
        self.stopper = Stopper(self.activity, self.run, self.compactor, self.additions, self.host, self.subagents)
        self.history = History(self.current, self._sessions, notify, self.make_moves)
        self.history.provider_id = options.provider_session_id
        self.history.answer = lambda: self.run.answer
        self._follow_conversation()
        if self.subagents is not None:
            self.subagents.attach(self._as_parent())
        self.history.problems = self.current.load(model=not options.model_is_explicit, level=not options.thinking_is_explicit)

    def _follow_conversation(self) -> None:
        """Have parts forget what belongs to a conversation that is replaced, and read again what one keeps for them."""
        current = self.current
        current.on_replace += [self.queue.forget, self.run.forget_end, self.additions.reload]
        if self.subagents is not None:
            current.on_replace.append(self.subagents.forget)
        if self.rules is not None:
            current.on_move.append(self.rules.reset)
        current.on_move += [self.todos.load, self.extensions.position_changed]
        current.resume = self._resume
        current.on_lost = self._lost

    async def close(self) -> None:
        """Stop everything, and let go of everything that is held."""
        self.run.stop_resumably()
        if self._warmer is not None:
            await self._warmer.close()
        await self.stopper.stop()
        await self.extensions.close()
        await self.toolbox.close()
        self.todos.stop()
        self.current.close()
        await self.additions.close()
        await self.current.closed()

    # Parts that are made when they are first needed

    @cached_property
    def intake(self) -> Intake:
        from fairlead.session.run.intake import Intake

        return Intake(
            self.current,
            self.queue,
            self.run,
            self.selection,
            self.additions,
            self.compactor,
            self.todos,
            ask_model=self._ask_model,
            start_run=self._start_run,
            set_system_prompt=self._set_system_prompt,
            notify=self._notify,
            now_ms=self._runtime.now_ms,
            waits_for_key=self._options.waits_for_key,
        )

    @cached_property
    def turns(self) -> Turns:
        from fairlead.session.run.turns import Turns

        return Turns(
            self._options,
            self.current,
            self.selection,
            self.toolbox,
            self.queue,
            self.additions,
            self.budget,
            self.rules,
            self.attempts,
            None if self._options.cache_warming == "off" else self._make_warmer,
        )

    def _make_warmer(self) -> CacheWarmer:
        from fairlead.session.run.warming import CacheWarmer

        self._warmer = CacheWarmer(self._options.cache_warming, self.current, self.selection, self.extensions, self._notify)
        return self._warmer

    @cached_property
    def _run_parts(self) -> RunParts:
        from fairlead.session.run.run import RunParts

        return RunParts(
            state=self.run,
            current=self.current,
            events=self.events,
            queues=self.queue,
            turns=self.turns,
            attempts=self.attempts,
            budget=self.budget,
            compactor=self.compactor,
            todos=self.todos,
            rules=self.rules,
            extensions=self.extensions,
            selection=self.selection,
            runtime=self._runtime,
            approver=self._options.approver,
            open_prompt=self.intake.open_prompt,
            settle=self._settle,
        )

    def make_moves(self) -> Moves:
        """Make what goes to other conversations, and to other places in this one."""
        from fairlead.session.history.moves import Moves

        return Moves(
            self.current,
            self._sessions,
            self._workspace,
            self.selection,
            self.compactor,
            self.extensions,
            self.activity,
            self.stopper,
            self.queue,
            keeps_model=self._options.keeps_model,
            notify=self._notify,
            on_end=self.host.add_finished_commands,
            drops_queue=self._options.drops_queue,
        )

    def _make_commands(self) -> UserCommands:
        from fairlead.session.host import UserCommands

        return UserCommands(
            self._workspace, self._runtime.now_ms, self.current, self.extensions, lambda: self.activity.is_at_rest
        )

    def _make_todo_keeper(self) -> TodoKeeper:
        from fairlead.session.todos.keeper import TodoKeeper

        options, settings = self._options, self._options.todo
        return TodoKeeper(
            settings,
            options.todo_clear_delay,
            self.current,
            self.toolbox,
            self._runtime.now_ms,
            self._notify,
            eager=options.eager_todos if settings.eager is None else settings.eager,
        )

    def _as_parent(self) -> Parent:
        from fairlead.session.subagents.subagents import Parent

        return Parent(
            current=self.current,
            events=self.events,
            runtime=self._runtime,
            host=self.host,
            toolbox=self.toolbox,
            selection=self.selection,
            extensions=self.extensions,
            approver=self._options.approver,
            activity=self.activity,
        )

    def _make_rules(self) -> RuleKeeper:
        from fairlead.session.rules.keeper import RuleKeeper

        options = self._options
        return RuleKeeper(
            options.rules,
            options.rule_settings,
            self.current,
            self._workspace,
            self.toolbox,
            self._runtime.now_ms,
            self._notify,
        )

    # What parts ask for

    def _system_prompt(self) -> str:
        model = self.selection.model
        brief = is_small(None if model is None else self.selection.window(model))
        text = self._options.system_prompt(list(self.toolbox.declared_tools().values()), brief=brief)
        locale = self.host.locale
        return f"{text}\nAnswer in the language of the user's locale: {locale}" if locale else text

    async def _ask_model(self, model: Model, cancel: CancelToken) -> ModelStream:
        return await self.turns.stream_of(model, cancel)

    def _resume(self, model: bool, level: bool) -> list[str]:
        from fairlead.session.history.moves import resume

        return resume(self.current.conversation, self.selection, self._workspace, self.queue, model=model, level=level)

    def _start_run(
        self,
        prompts: Sequence[Message],
        cancel: CancelToken,
        system_prompt: str | None,
        limits: RunLimits | None,
        interruption: Interruption | None = None,
    ) -> None:
        from fairlead.session.run.run import Run

        self.turns.system_prompt = system_prompt
        if limits is None and self._options.watch_run is not None:
            limits = self._options.watch_run()
        self.run.start(Run(self._run_parts, prompts, cancel, limits, interruption).go())

    def _lost(self, error: SessionLost) -> None:
        if self.run.lose(error):
            self._notify(ExtensionError("session", "write", f"{error} The run was aborted."))

    def _set_system_prompt(self, text: str | None) -> None:
        self.turns.system_prompt = text

    def _settle(self) -> None:
        self.run.settle()
        if self.run.is_resumable and self.run.cancel.fired:
            from fairlead.session.history.call_log import note_run

            note_run(self.current.conversation, "stopped")
        self.turns.system_prompt = None
        if self._warmer is not None:
            self._warmer.settled()
        self.host.add_finished_commands()
        self.current.flush()
        event = AgentSettled(aborted=self.run.cancel.fired)
        self.events.notify_last(event, self.run.announce_later)
