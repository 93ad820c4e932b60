"""A session: one conversation and the one run it may have going.

Everything happens on one asyncio loop. Listeners are called in order, at once, and must not block; a
`gate` makes the run wait while whoever listens cannot keep up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from fairlead.core.events import AgentSettled, Event, ExtensionError, MessageEnd, SessionInfoChanged, SessionReplaced
from fairlead.core.loop import Turn
from fairlead.core.messages import Attachment, Attribution, CustomMessage, ImageContent, Message, UserMessage, user_message
from fairlead.core.model import Model, ModelStream, Request, StreamEnd, ThinkingLevel
from fairlead.core.queues import Queue, Queues
from fairlead.core.runtime import Cancel
from fairlead.core.tool import Tool
from fairlead.errors import BadCommand, BusyError, CompactingError, ConfigError, FairleadError, SessionError
from fairlead.session.attempts import Attempts
from fairlead.session.compactor import Compactor
from fairlead.session.conversation import Conversation
from fairlead.session.models import failing, stopped
from fairlead.session.options import Gate, SessionOptions
from fairlead.session.running import Running, report
from fairlead.session.selection import Selection
from fairlead.session.sessions import Sessions
from fairlead.session.tokens import is_good_answer
from fairlead.session.toolbox import Toolbox
from fairlead.session.user_bash import BashDone, UserCommands
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from fairlead.session.log import Log
    from fairlead.session.todo_keeper import TodoKeeper
    from fairlead.session.todos import TodoPhase
    from fairlead.session.waiting import Line

NO_MODEL = (
    "No model selected.\n\nSet a provider's key in the environment (such as ANTHROPIC_API_KEY), or choose a model "
    "with set_model or --model. `fairlead --list-models` shows what there is."
)
COMPACTING = "Cannot submit a prompt while compaction is in progress. Wait for compaction to finish and retry."


class Session:
    def __init__(self, options: SessionOptions) -> None:
        self.queues = Queues()
        self.runtime = options.runtime
        self.gate: Gate | None = None
        #: The language tag of the user, if the host named one.
        self.locale: str | None = None
        #: How the last model call of the last run ended.
        self.last_end: StreamEnd | None = None
        self.sessions = options.sessions or Sessions(workspace=options.workspace, now_ms=options.runtime.now_ms)
        self.selection = Selection(options.models, options.model, options.thinking, options.scoped, self.tell)
        self.attempts = Attempts(options.retry, options.runtime, self.tell)
        self.compactor = Compactor(self, options.compaction)
        self.commands = UserCommands(options.workspace, options.runtime.now_ms, self._ran)
        self.additions = options.additions
        self.subagents = options.subagents
        if self.subagents is not None:
            self.subagents.attach(self)
        self._options = options
        self._listeners: list[Callable[[Event], None]] = []
        self.toolbox = Toolbox(options.tools, options.active_tools)
        self._todos: TodoKeeper | None = None
        self.rules = options.rules(self) if options.rules is not None else None
        self._run: asyncio.Task[None] | None = None
        self._cancel = Cancel()
        self._deferred: list[Message] = []
        #: Conversations that were left while something of them could not be written.
        self.unsaved: list[Conversation] = []
        self.conversation = options.conversation or self.sessions.new()
        #: What was wrong with the conversation that it began with.
        self.problems = self._take_up(options.model_goes_first, options.thinking_goes_first)

    # Listening

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call `listener` with every event; the returned function takes it back."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def tell(self, event: Event) -> None:
        for listener in list(self._listeners):
            try:
                listener(event)
            except Exception as error:  # a listener's bug must neither end the run nor keep the event from the others
                report(error)

    async def emit(self, event: Event) -> None:
        """Tell of an event, and wait while whoever listens cannot keep up."""
        self.tell(event)
        if isinstance(event, MessageEnd) and is_good_answer(event.message):
            self.attempts.answered()
        gate = self.gate
        if gate is not None and gate.paused:
            await gate.wait(self._cancel)

    # Running

    @property
    def id(self) -> str:
        return self.conversation.id

    @property
    def model(self) -> Model | None:
        return self.selection.model

    @property
    def thinking(self) -> ThinkingLevel:
        """The level in force: what was asked for, as far as the model has it."""
        return self.selection.thinking

    @property
    def is_streaming(self) -> bool:
        """True from the acceptance of a prompt until the run is settled."""
        return self._run is not None

    async def prompt(
        self,
        text: str,
        images: list[ImageContent] | None = None,
        attribution: Attribution = "user",
        attachments: list[Attachment] | None = None,
        *,
        expand: bool = True,
    ) -> UserMessage:
        """Start a run. Raises if it cannot start; then nothing has changed. With `expand`, a text that begins with a slash
        command stands for what that is made of."""
        if self.model is None:
            raise ConfigError(NO_MODEL)
        text = self.expanded(text) if expand else text
        cancel, conversation = Cancel(), self.conversation
        if self._run is None and not self.compactor.is_running:
            # From here on an abort means this run, also while its key is being looked up.
            self._cancel = cancel
            await self.stream_of(self.model, cancel)
        if self.conversation is not conversation:
            raise SessionError("The session was changed while the model's key was being looked up.")
        if self._run is not None:
            raise BusyError("Agent is already processing.")
        if self.compactor.is_running:
            raise CompactingError(COMPACTING)
        message = user_message(text, images, self.runtime.now_ms(), attribution)
        message.attachments = attachments or None
        prompts: list[Message] = [message]
        if self._todos is not None:
            self._todos.begin()
            prelude = self._todos.prelude(text)
            if prelude is not None:
                prompts.insert(0, prelude)
        before = conversation.log.leaf
        try:
            for each in prompts:
                conversation.ask(each)
        except SessionError:
            conversation.move(before)  # also if only what comes before the prompt could be written
            raise
        self._cancel = cancel
        self._run = asyncio.create_task(Running(self, prompts, cancel).go(), name="fairlead-run")
        return message

    def steer(self, text: str, images: list[ImageContent] | None = None) -> UserMessage:
        """Queue a message for the next moment at which the agent listens. Raises SessionError if it cannot be kept."""
        return self._enqueue(self.queues.steering, "steering", text, images)

    def follow_up(self, text: str, images: list[ImageContent] | None = None) -> UserMessage:
        """Queue a message for when the agent would otherwise stop. Raises SessionError if it cannot be kept."""
        return self._enqueue(self.queues.follow_up, "followUp", text, images)

    def expanded(self, text: str) -> str:
        """What a message stands for, if it begins with a slash command. Raises ConfigError if that cannot be used."""
        return text if self.additions is None else self.additions.expand(text, self.workspace.cwd)

    def clear_queue(self) -> tuple[list[str], list[str]]:
        """Forget all queued messages; returns their texts, steering and follow-ups."""
        queued = [*self.queues.steering.messages, *self.queues.follow_up.messages]
        if queued:
            from fairlead.session.entries import WAITING
            from fairlead.session.waiting import cleared

            log = self.conversation.log
            self.conversation.keep(lambda: log.custom(WAITING, cleared(log, queued), keep=True))
        texts = self.queues.steering.clear(), self.queues.follow_up.clear()
        self.tell(self.queues.update())
        return texts

    def cancel(self) -> None:
        """Tell the run, and a compaction, to stop, without waiting for them."""
        self._cancel.fire()
        self.compactor.cancel()

    async def abort(self) -> None:
        """Stop the run, or a compaction, and wait until it has settled. Queued messages stay queued."""
        self.cancel()
        await self.run_ended()
        if self.subagents is not None:
            await self.subagents.ended()
        await self.compactor.idle()

    async def run_ended(self) -> None:
        """Wait until the run that is going on has settled."""
        if self._run is not None:
            await asyncio.wait([self._run])

    async def idle(self) -> None:
        """Wait until no run is going."""
        while self._run is not None:
            await asyncio.wait([self._run])
        await self.compactor.idle()

    async def stop(self) -> None:
        """Stop everything that runs, the host's own commands too, and wait until it has ended."""
        self.commands.abort_all()
        await self.abort()
        await self.commands.ended()
        self.add_deferred()

    async def close(self) -> None:
        """Stop everything, and let other processes have the session's file."""
        await self.stop()
        if self._todos is not None:
            self._todos.stop()
        for conversation in (*self.unsaved, self.conversation):
            conversation.close()

    # The conversation

    def adopt(self, conversation: Conversation) -> None:
        """Go on with another conversation. Nothing may be running."""
        queued = len(self.queues)
        left, self.conversation = self.conversation, conversation
        self.unsaved = [each for each in (*self.unsaved, left) if each is not conversation and not each.close()]
        self.queues.steering.messages.clear()
        self.queues.follow_up.messages.clear()
        self.last_end = None
        if self.additions is not None:
            self.additions.reload()
        if self.subagents is not None:
            self.subagents.forget()
        problems = self._take_up()
        self.tell(SessionReplaced())
        if queued or len(self.queues):
            self.tell(self.queues.update())
        for problem in problems:
            self.tell(ExtensionError("session", "open", problem))

    def set_name(self, name: str) -> None:
        name = name.strip()
        if not name:
            raise BadCommand("Session name cannot be empty")
        self.conversation.log.session_info(name)
        self.tell(SessionInfoChanged(name))

    def stands_elsewhere(self) -> None:
        """The conversation is another one, or has moved within its tree: what is read from it is read anew."""
        log = self.conversation.log if self.conversation.has_begun else None
        if self.rules is not None:
            self.rules.take_up()
        if self._todos is not None:
            self._todos.take_up(log)
        elif log is not None and _has_todos(log):
            self._todos = self.todos

    # Todos

    @property
    def todos(self) -> TodoKeeper:
        if self._todos is None:
            from fairlead.session.todo_keeper import TodoKeeper

            options = self._options
            eager = options.eager_todos if options.todo.eager is None else options.todo.eager
            self._todos = TodoKeeper(self, options.todo, options.todo_clear_delay, eager=eager)
            if self.conversation.has_begun:
                self._todos.take_up(self.conversation.log)
        return self._todos

    def todo_reminder(self) -> CustomMessage | None:
        """What the model is told if it stops although there is something left to do."""
        return self._todos.reminder() if self._todos is not None else None

    def todo_phases(self) -> list[TodoPhase]:
        return self._todos.phases if self._todos is not None else []

    # Tools

    @property
    def workspace(self) -> Workspace:
        return self._options.workspace

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self.toolbox.tools

    @property
    def active_tools(self) -> list[str]:
        return self.toolbox.active

    def set_active_tools(self, names: Sequence[str]) -> None:
        self.toolbox.activate(names)

    def system_prompt(self) -> str:
        text = self._options.system_prompt(list(self.toolbox.active_tools().values()))
        return f"{text}\nAnswer in the language of the user's locale: {self.locale}" if self.locale else text

    # For a run

    async def stream_of(self, model: Model, cancel: Cancel) -> ModelStream:
        """How to ask the model. Finding its key may take long; an abort does not wait for it."""
        known = self._options.models.known(model)
        if known is not None:
            return known
        finding = asyncio.ensure_future(self._options.models.stream(model))
        forget = cancel.on_fire(finding.cancel)
        try:
            return await finding
        except asyncio.CancelledError:
            if not cancel.fired:
                raise
            return stopped(model, self.runtime.now_ms())
        finally:
            forget()

    async def next_turn(self) -> Turn:
        options, model = self._options, self.model
        assert model is not None, "a run needs a model, and a model is never unset"
        if self.rules is not None:
            self.rules.begin()
        tools = self.toolbox.active_tools()
        request = Request(
            system_prompt=self.system_prompt(),
            messages=self.conversation.for_model(),
            tools=[tool.spec() for tool in tools.values()],
            thinking=self.thinking,
            session_id=self.id,
        )
        try:
            stream = await self.stream_of(model, self._cancel)
        except FairleadError as error:
            stream = failing(model, str(error), self.runtime.now_ms())
        schedule = options.schedule_immediate if self.queues.interrupt == "immediate" else options.schedule
        return Turn(model, stream, request, tools, schedule, options.concurrent_tools)

    def add_deferred(self) -> None:
        """Give the host's commands that ended meanwhile their place in the conversation, if it may have them now."""
        if self._run is None and not self.compactor.is_running:
            for message in self._deferred:
                self.conversation.add(message)
            self._deferred.clear()

    def settle(self) -> None:
        """The run is over."""
        self._run = None
        self.add_deferred()
        self.conversation.flush()
        self.unsaved = [conversation for conversation in self.unsaved if not conversation.close()]
        self.tell(AgentSettled())

    # Inside

    def _enqueue(self, queue: Queue, line: Line, text: str, images: list[ImageContent] | None) -> UserMessage:
        from fairlead.session.entries import WAITING
        from fairlead.session.waiting import waits

        message = user_message(self.expanded(text), images, self.runtime.now_ms())
        self.conversation.note(WAITING, waits(line, message))
        queue.messages.append(message)
        self.tell(self.queues.update())
        return message

    def _ran(self, done: BashDone) -> None:
        """A command of the host's has ended."""
        message = done.message
        if self._run is None and not self.compactor.is_running:
            self.conversation.add(message)
            return
        # It must not come between a tool call and its result, nor onto a branch that is about to be left; but the host is
        # about to be told, so it is written down.
        from fairlead.session.entries import WAITING
        from fairlead.session.waiting import waits

        conversation = self.conversation
        conversation.keep(lambda: conversation.log.custom(WAITING, waits("bash", message), keep=True))
        self._deferred.append(message)

    def _take_up(self, model_goes_first: bool = False, thinking_goes_first: bool = False) -> list[str]:
        """Begin to work with the present conversation. Returns what is wrong with it, in sentences."""
        conversation, selection = self.conversation, self.selection
        conversation.on_trouble = self._unwritten
        conversation.on_begin = selection.write_down
        selection.on_model, selection.on_level = conversation.choose_model, conversation.choose_level
        problems = list(conversation.problems)
        self.stands_elsewhere()
        if not conversation.has_begun:
            return problems
        from fairlead.session.waiting import still_waiting

        problems += selection.take_over(conversation.log, model=not model_goes_first, level=not thinking_goes_first)
        problems += self._follow(conversation.log.header.cwd)
        for waiting in still_waiting(conversation.log):
            match waiting.message:
                case UserMessage() as message:
                    queue = self.queues.steering if waiting.line == "steering" else self.queues.follow_up
                    queue.messages.append(message)
                case message:
                    conversation.add(message)
        return problems

    def _follow(self, cwd: str) -> list[str]:
        """Work where the conversation took place, as pi does."""
        from pathlib import Path

        workspace = self.workspace
        if not cwd or Path(cwd) == workspace.cwd:
            return []
        if Path(cwd).is_dir():
            workspace.cwd = Path(cwd)
            return []
        return [f"The session's working directory {cwd} does not exist any more; work goes on in {workspace.cwd}."]

    def _unwritten(self, error: SessionError) -> None:
        self.tell(ExtensionError("session", "write", f"{error} What could not be written is kept and will be written later."))


def _has_todos(log: Log) -> bool:
    from fairlead.session.entries import TODOS, CustomEntry

    return any(isinstance(entry, CustomEntry) and entry.custom_type == TODOS for entry in log.entries())
