"""A session: one conversation, and the one run that it may have at a time.

`Session` is a facade: everything that a host or a program needs of a session. It makes the parts behind it and gives each only
what it uses; none knows the session. Everything happens on one asyncio loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fairlead.core.events import CompactionResult, Event
from fairlead.core.messages import Attribution, ImageContent, Message, UserMessage
from fairlead.core.model import Model, ThinkingLevel
from fairlead.core.queues import Behavior
from fairlead.errors import BadOption
from fairlead.session.additions import Extensions, SessionAdditions
from fairlead.session.compaction.compactor import Compactor
from fairlead.session.context.budget import ContextBudget, SessionUsage
from fairlead.session.history import moves
from fairlead.session.history.current import ConversationStore, CurrentConversation
from fairlead.session.history.history import History
from fairlead.session.host import Host
from fairlead.session.run import intake, run, turns
from fairlead.session.run.message_queue import HeldPrompt, MessageQueue
from fairlead.session.run.state import Activity, Attempts, RunState, Stopper
from fairlead.session.selection import Selection
from fairlead.session.session_events import Events, Gate
from fairlead.session.session_options import SessionOptions
from fairlead.session.todos.lazy import LazyTodos
from fairlead.session.toolbox import Toolbox

if TYPE_CHECKING:
    from fairlead.core.limits import RunLimits
    from fairlead.session.approval_mode import SessionApprovals, SubagentApprover
    from fairlead.session.history.moves import Arrival
    from fairlead.session.hooks import InputSource
    from fairlead.session.rules.rule_keeper import RuleKeeper
    from fairlead.session.run.intake import Intake
    from fairlead.session.run.turns import Turns
    from fairlead.session.subagents.subagents import SessionSubagents


class Session:
    """A conversation with a model that works with tools.

    Attributes:
        history: The conversation: its id, its entries, its file, and the way to other conversations.
        models: The models to choose from, and the present choice.
        tools: All tools by name, and which of them are active.
        queue: The messages that wait, and when they reach the model. Extensions send theirs through it.
        usage: How much of the model's context is in use, and how many tokens and dollars were spent.
        host: The program that uses the session: its workspace, its user interface, its shell commands.
        additions: What users add: instructions, skills, templates, MCP servers.
        extensions: The code that users add. It is loaded when first needed.
        todos: The todo list.
        subagents: The sub-agents; None if there cannot be any.
        activity: What is going on, how the last run ended, and what may begin by itself.
    """

    #: A misspelt attribute is an error, not a setting without effect.
    __slots__ = (
        "__weakref__",
        "_attempts",
        "_budget",
        "_compactor",
        "_current",
        "_events",
        "_intake",
        "_options",
        "_rules",
        "_run",
        "_stopper",
        "_turns",
        "activity",
        "additions",
        "extensions",
        "history",
        "host",
        "models",
        "queue",
        "subagents",
        "todos",
        "tools",
        "usage",
    )

    def __init__(self, options: SessionOptions) -> None:
        """Make a session. `history.problems` says what is wrong with the conversation that it resumes, if anything is."""
        workspace, runtime = options.workspace, options.runtime
        self._options = options
        self._events = events = Events()
        notify = events.notify
        self._run = run = RunState(notify)
        self.extensions = extensions = Extensions(options.hooks, options.call_hooks, runtime, events)
        self.models = selection = Selection(
            options.models,
            options.model,
            options.thinking,
            options.scoped,
            notify,
            extensions,
            runtime,
            keeps_level=options.behaviour.keeps_level,
            default_level=options.default_level,
        )
        self.tools = toolbox = Toolbox(options.make_tools, options.active_tools)
        sessions = options.sessions or ConversationStore(workspace=workspace, now_ms=runtime.now_ms)
        self._current = current = CurrentConversation(options.conversation or sessions.new(), selection, events)
        self.queue = MessageQueue(current, notify, self._get_intake, runtime.now_ms)
        self.host = Host(workspace, runtime.now_ms, notify, current, extensions, lambda: self.activity.is_at_rest)
        self.additions = additions = SessionAdditions(options, extensions, toolbox, selection, self.host, notify)
        self._budget = ContextBudget(
            options.models,
            selection,
            toolbox,
            current,
            runtime,
            system_prompt=additions.system_prompt,
            reserve_tokens=options.compaction.reserve_tokens,
        )
        self._attempts = Attempts(options.retry, runtime, notify)
        self._compactor = Compactor(
            options.compaction,
            current,
            selection,
            self._budget,
            run,
            extensions,
            self._attempts,
            notify=notify,
            on_end=self.host.add_finished_commands,
        )
        self.usage = SessionUsage(current, selection)
        self.todos = LazyTodos(options, current, toolbox, notify)
        self.subagents = options.subagents
        self.activity = Activity(run, self._compactor, self._attempts, extensions, self._get_intake)
        self._stopper = Stopper(self.activity, run, self._compactor, additions, self.host, self.subagents)
        self.history = History(current, sessions, run, notify, self._make_moves, options.provider_session_id)
        self._intake: Intake | None = None
        self._turns: Turns | None = None
        self._rules: RuleKeeper | None = None
        if options.rules:
            from fairlead.session.rules.rule_keeper import RuleKeeper  # noqa: PLC0415  loads yaml, in 12 ms

            self._rules = RuleKeeper(options.rules, options.rule_settings, current, workspace, toolbox, runtime.now_ms, notify)
        self._follow_conversation()
        if self.subagents is not None:
            self._attach_subagents(self.subagents)
        self.history.problems = current.load(model=not options.model_is_explicit, level=not options.thinking_is_explicit)

    def _follow_conversation(self) -> None:
        """Have parts forget what belongs to a conversation that is replaced, and read again what one keeps for them."""
        current = self._current
        current.on_replace += [self.queue.forget, self._run.forget_end, self.additions.reload]
        if self.subagents is not None:
            current.on_replace.append(self.subagents.forget)
        if self._rules is not None:
            current.on_move.append(self._rules.reset)
        current.on_move += [self.todos.load, self.extensions.position_changed]
        current.resume = self._resume
        current.on_lost = self._run.lose

    def _attach_subagents(self, subagents: SessionSubagents) -> None:
        from fairlead.session.subagents.subagents import Parent  # noqa: PLC0415  loads yaml, in 12 ms

        subagents.attach(
            Parent(
                current=self._current,
                events=self._events,
                runtime=self._options.runtime,
                host=self.host,
                toolbox=self.tools,
                selection=self.models,
                extensions=self.extensions,
                approver=self._options.approver,
                activity=self.activity,
            )
        )

    # Parts that are made when they are first needed: a host that only asks for the state of a session does not pay for them

    def _get_intake(self) -> intake.Intake:
        if self._intake is None:
            options = self._options
            self._turns = turns.Turns(
                options,
                self._current,
                self.models,
                self.tools,
                self.queue,
                self.additions,
                self._budget,
                self._rules,
                self._attempts,
                self._run,
            )
            parts = run.RunParts(
                state=self._run,
                current=self._current,
                events=self._events,
                queues=self.queue,
                turns=self._turns,
                attempts=self._attempts,
                budget=self._budget,
                compactor=self._compactor,
                todos=self.todos,
                rules=self._rules,
                extensions=self.extensions,
                selection=self.models,
                runtime=options.runtime,
                approver=options.approver,
                host=self.host,
            )
            self._intake = intake.Intake(parts, self.additions, options)
        return self._intake

    def _make_moves(self) -> moves.Moves:
        """Make what goes to other conversations, and to other places in this one."""
        return moves.Moves(
            self._current,
            self.history.sessions,
            self.host,
            self.models,
            self._compactor,
            self.extensions,
            self.activity,
            self._stopper,
            self.queue,
            behaviour=self._options.behaviour,
        )

    def _resume(self, model: bool, level: bool) -> list[str]:
        return moves.resume(
            self._current.conversation, self.models, self._options.workspace, self.queue, model=model, level=level
        )

    # State

    @property
    def messages(self) -> list[Message]:
        """The messages from the beginning to where the conversation stands."""
        return self._current.conversation.messages

    @property
    def model(self) -> Model | None:
        """The model that answers; None before one is chosen. `models` changes it."""
        return self.models.model

    @property
    def thinking(self) -> ThinkingLevel:
        """The thinking level in force: the one that was chosen, or the nearest that the model has. `models` changes it."""
        return self.models.thinking

    @property
    def approvals(self) -> SessionApprovals | SubagentApprover:
        """Whether tool calls need approval: `approvals.mode` says so, and `approvals.set_mode` changes it.

        `ApprovalModeChanged` reports a change. The user's files stay as they are. Raises BadOption if the session was made
        without approvals.
        """
        if self._options.approver is None:
            raise BadOption("approval: this session was made without approvals.")
        return self._options.approver

    def subscribe(
        self, listener: Callable[[Event], None], gate: Gate | None = None, kinds: tuple[type[Event], ...] | None = None
    ) -> Callable[[], None]:
        """Call `listener` with every event, in order. It must not block.

        Args:
            listener: Called with each event.
            gate: Makes runs wait while it is paused, for a listener that may fall behind.
            kinds: The classes of the events to call it with, if not all.

        Returns:
            A function that ends the subscription.
        """
        return self._events.subscribe(listener, gate, kinds)

    # Messages

    async def prompt(
        self,
        text: str,
        images: list[ImageContent] | None = None,
        attribution: Attribution = "user",
        attachments: list[dict[str, Any]] | None = None,
        *,
        expand: bool = True,
        source: InputSource = "interactive",
        behavior: Behavior | None = None,
        limits: RunLimits | None = None,
        held: HeldPrompt | None = None,
    ) -> UserMessage | None:
        """Start a run with a message of the user. `activity.idle` waits for its end.

        While a run is ending (during an automatic compaction), the message is accepted and its turn comes after that.

        Args:
            text: What the user says. If it begins with a slash command, that is run or expanded.
            images: Images for the model.
            attribution: Who wrote the message: the user, or an agent.
            attachments: Files that come with the message, as objects in the form of pi-2025.
            expand: Whether slash commands are recognised.
            source: Where the message comes from, for extensions.
            behavior: Whether to queue the message, as `steer` or as `followUp`, if a run is going on.
            limits: What the run may not exceed, instead of the limits of the session. A run that is going on keeps its own.
            held: The same prompt as `queue.hold_prompt` returned it, which may be saved while extensions are at work.

        Returns:
            The message; None if an extension has handled it, so that no run starts.

        Raises:
            BusyError: A run is going on, and there is no `behavior`.
            CompactingError: The session is being compacted on request.
            ConfigError: No model is chosen, it has no credentials, or a slash command cannot be used.
            RunAborted: The session was aborted before the run began.
            SessionError: The message cannot be written. In all these cases nothing has changed.
        """
        await self.history.open()
        return await self._get_intake().prompt(
            text, images, attribution, attachments, expand=expand, source=source, behavior=behavior, limits=limits, held=held
        )

    async def steer(
        self,
        text: str,
        images: list[ImageContent] | None = None,
        attachments: list[dict[str, Any]] | None = None,
        *,
        expand: bool = True,
        source: InputSource = "interactive",
    ) -> UserMessage | None:
        """Queue a message for the next turn of the run.

        The arguments are those of `prompt`. Returns the message; None if an extension has handled it. Raises SessionError if it
        cannot be written, and BadCommand for a command of an extension, which cannot be queued.
        """
        await self.history.open()
        return await self._get_intake().queue("steering", text, images, attachments, expand=expand, source=source)

    async def follow_up(
        self,
        text: str,
        images: list[ImageContent] | None = None,
        attachments: list[dict[str, Any]] | None = None,
        *,
        expand: bool = True,
        source: InputSource = "interactive",
    ) -> UserMessage | None:
        """Queue a message for when the agent would otherwise stop. Returns and raises what `steer` does."""
        await self.history.open()
        return await self._get_intake().queue("followUp", text, images, attachments, expand=expand, source=source)

    # The conversation

    def compact(self, instructions: str | None = None, *, keep_messages: int | None = None) -> asyncio.Task[CompactionResult]:
        """Replace older messages by a summary, after ending the run that is going on. It has begun when this returns.

        Args:
            instructions: What the summary should pay attention to.
            keep_messages: How many of the newest messages stay at most; None: as the settings say.

        Raises:
            CompactingError: The session is being compacted already.
            NothingToCompact, CompactionCancelled, ConfigError, ProviderError: The task raises these; nothing has changed then.
        """
        return self._compactor.request(instructions, keep_messages=keep_messages)

    async def fork(self, entry_id: str) -> str:
        """Continue in a new session that has everything before a message of the user. Returns the text of that message.

        Raises EntryNotFound if there is no such message, MoveCancelled if an extension blocks it.
        """
        return await self._make_moves().fork(entry_id)

    async def navigate(
        self,
        target: str | None,
        *,
        summarise: bool = False,
        instructions: str | None = None,
        replace_instructions: bool = False,
        label: str | None = None,
    ) -> Arrival:
        """Go to another entry of the conversation's tree, after stopping what runs. Later messages form a new branch there.

        Args:
            target: The id of the entry; None is the beginning. For a message of the user or of an extension, the place before it.
            summarise: Whether the model writes a summary of the branch that is left, for itself.
            instructions: What the summary should pay attention to.
            replace_instructions: Whether `instructions` take the place of what the model is told about summaries.
            label: Labels the summary, or the entry if there is none.

        Returns:
            Where the conversation stands, and the text of the user's message there.

        Raises:
            EntryNotFound: There is no such entry.
            MoveCancelled: An extension blocks it. With `summarise` also what `compact` raises. Nothing has changed then.
        """
        return await self._make_moves().navigate(
            target, summarise=summarise, instructions=instructions, replace_instructions=replace_instructions, label=label
        )

    # The end

    async def abort(self) -> None:
        """Stop the run, or a compaction, and wait until it has settled. Queued messages stay queued."""
        await self._stopper.abort()

    async def close(self) -> None:
        """Stop everything, and let other processes have the session's file."""
        self._run.stop_resumably()
        if self._turns is not None:
            await self._turns.close()
        await self._stopper.stop()
        await self.extensions.close()
        await self.tools.close()
        self.todos.stop()
        self._current.close()
        await self.additions.close()
        await self._current.wait_closed()
