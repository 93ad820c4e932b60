"""A session: one conversation and the one run it may have going.

Everything happens on one asyncio loop. Listeners are called in order, at once, and must not block; a
`gate` makes the run wait while whoever listens cannot keep up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from fairlead.core.events import (
    AgentSettled,
    EntryAppended,
    Event,
    ExtensionError,
    MessageEnd,
    SessionInfoChanged,
)
from fairlead.core.messages import (
    Attribution,
    CustomMessage,
    ImageContent,
    Message,
    UserBlock,
    UserMessage,
)
from fairlead.core.model import Model, StreamEnd, ThinkingLevel
from fairlead.core.queues import Behavior, Queues
from fairlead.core.runtime import Cancel, Interrupted
from fairlead.core.tool import Tool
from fairlead.errors import BadCommand, RunAborted, SessionError
from fairlead.session.compaction.compactor import Compactor
from fairlead.session.context.budget import Room
from fairlead.session.context.tokens import is_good_answer
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.sessions import Sessions
from fairlead.session.options import Gate, SessionOptions
from fairlead.session.run.attempts import Attempts
from fairlead.session.run.run import Running, report
from fairlead.session.selection import Selection
from fairlead.session.todos.lazy import LateTodos
from fairlead.session.toolbox import Toolbox
from fairlead.session.user_bash import UserCommands
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from fairlead.core.ui import Ui
    from fairlead.session.additions import SlashCommand
    from fairlead.session.context.unreadable_images import UnreadableImages
    from fairlead.session.extending import Extending
    from fairlead.session.hooks import CallHooks, Hooks, InputSource, LateHooks
    from fairlead.session.run.intake import Deliver, Intake
    from fairlead.session.run.turns import Turns

T = TypeVar("T")


class Session:
    def __init__(self, options: SessionOptions) -> None:
        self.approver = options.approver
        #: Where extensions may step in, if there are any; and how they are asked, from when they are first needed.
        self._late_hooks = options.hooks
        self.extending: Extending | None = None
        self.queues = Queues()
        self._intake: Intake | None = None
        self._images: UnreadableImages | None = None
        self.runtime = options.runtime
        self.gate: Gate | None = None
        #: Makes `ui` when that is first needed; None: nobody is there to be asked.
        self.make_ui: Callable[[], Ui] | None = None
        #: The language tag of the user, if the host named one.
        self.locale: str | None = None
        #: How the last model call of the last run ended.
        self.last_end: StreamEnd | None = None
        self.sessions = options.sessions or Sessions(workspace=options.workspace, now_ms=options.runtime.now_ms)
        self.selection = Selection(options.models, options.model, options.thinking, options.scoped, self.tell)
        self.attempts = Attempts(options.retry, options.runtime, self.tell)
        self.compactor = Compactor(self, options.compaction)
        self.room = Room(self, options.models)
        self.commands = UserCommands(self)
        self.additions = options.additions
        #: Stop whatever waits for what users added to be read.
        self._stops: set[Cancel] = set()
        self.servers = options.servers
        self.subagents = options.subagents
        if self.subagents is not None:
            self.subagents.attach(self)
        self._options = options
        self._listeners: list[Callable[[Event], None]] = []
        self.toolbox = Toolbox(options.tools, options.active_tools)
        self.todos = LateTodos(self, options)
        self.rules = options.rules(self) if options.rules is not None else None
        self._run: asyncio.Task[None] | None = None
        #: Stops the present run, or the prompt that is on its way.
        self._cancel = Cancel()
        #: Conversations that were left while something of them could not be written.
        self.unsaved: list[Conversation] = []
        self.conversation = options.conversation or self.sessions.new()
        #: What was wrong with the conversation that it began with.
        self.problems = self.take_up(options.model_goes_first, options.thinking_goes_first)

    # Listening

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call `listener` with every event; the returned function takes it back."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def tell(self, event: Event) -> None:
        if self.extending is not None:
            self.extending.overhear(event)
        self._pass_on(event)

    def _pass_on(self, event: Event) -> None:
        for listener in list(self._listeners):
            try:
                listener(event)
            except Exception as error:  # a listener's bug must neither end the run nor keep the event from the others
                report(error)

    async def emit(self, event: Event) -> None:
        """Tell of an event, extensions first, and wait while whoever listens cannot keep up."""
        if self.extending is not None:
            await self.extending.hear(event, self._cancel)
        self._pass_on(event)
        if isinstance(event, MessageEnd) and is_good_answer(event.message):
            self.attempts.answered()
        gate = self.gate
        if gate is not None and gate.paused:
            await gate.wait(self._cancel)

    @cached_property
    def ui(self) -> Ui:
        """Asks and tells the person behind the host."""
        if self.make_ui is not None:
            return self.make_ui()
        from fairlead.core.ui import NoUi

        return NoUi()

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
        """True from the acceptance of a prompt until the run is settled, and while it is not clear whether it is accepted."""
        return self._run is not None or (self._intake is not None and self._intake.is_busy)

    @property
    def run_cancel(self) -> Cancel | None:
        """Fires when the run that is going on is aborted; None if there is none."""
        return self._cancel if self.is_streaming else None

    @property
    def is_at_rest(self) -> bool:
        """Whether anything may be added to the conversation: there is neither a run nor a compaction."""
        return self._run is None and not self.compactor.is_running

    @property
    def intake(self) -> Intake:
        """The way in for everything that is said to it."""
        if self._intake is None:
            from fairlead.session.run.intake import Intake

            self._intake = Intake(self)
        return self._intake

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
    ) -> UserMessage | None:
        """Start a run. Raises if it cannot start; then nothing has changed. None: an extension has seen to it, and no run starts.

        With `expand`, a text that begins with a slash command runs it, or stands for what that is made of. With a
        `behavior`, the message is queued if a run is going on already.
        """
        return await self.intake.prompt(text, images, attribution, attachments, expand=expand, source=source, behavior=behavior)

    async def steer(
        self,
        text: str,
        images: list[ImageContent] | None = None,
        *,
        expand: bool = True,
        source: InputSource = "interactive",
    ) -> UserMessage | None:
        """Queue a message for the next moment at which the agent listens. Raises SessionError if it cannot be kept.

        None: an extension has seen to it. Extension commands cannot be queued: BadCommand."""
        return await self.intake.queue("steering", text, images, expand=expand, source=source)

    async def follow_up(
        self,
        text: str,
        images: list[ImageContent] | None = None,
        *,
        expand: bool = True,
        source: InputSource = "interactive",
    ) -> UserMessage | None:
        """Queue a message for when the agent would otherwise stop. As `steer`."""
        return await self.intake.queue("followUp", text, images, expand=expand, source=source)

    async def send_message(
        self,
        custom_type: str,
        content: str | list[UserBlock],
        *,
        display: bool = True,
        details: Any = None,
        deliver: Deliver | None = None,
        trigger_turn: bool = False,
    ) -> CustomMessage:
        """Add a message of an extension's. While a run goes on it is queued, as steering unless `deliver` says otherwise;
        else it is added at once, and begins a run if `trigger_turn` is set. `next_turn` waits for the next prompt.

        Raises SessionError if it cannot be kept, and what `prompt` raises if it is to begin a run; then nothing has changed.
        """
        return await self.intake.send(
            custom_type, content, display=display, details=details, deliver=deliver, trigger_turn=trigger_turn
        )

    async def prepare(self, cancel: Cancel | None = None) -> None:
        """Have everything that users add read, without blocking the event loop.

        Raises RunAborted once `cancel` fires; without one, on `abort`.
        """
        reading = None if self.additions is None else self.additions.prepare(self.workspace.cwd)
        if reading is None:
            return
        stop = cancel or Cancel()
        self._stops.add(stop)
        try:
            await self.runtime.bounded(reading, stop, timeout=None, grace=0)
        except Interrupted:
            raise RunAborted("Aborted while instructions, skills and templates were being read.") from None
        finally:
            self._stops.discard(stop)

    def slash_commands(self) -> list[SlashCommand]:
        """What a prompt can begin with to stand for something else."""
        commands = [] if self.hooks is None else self.hooks.commands()
        if self.additions is not None:
            commands += self.additions.commands(self.workspace.cwd)
        return commands if self.servers is None else commands + self.servers.commands()

    def expanded(self, text: str) -> str:
        """What a message stands for, if it begins with a slash command. Raises ConfigError if that cannot be used."""
        return text if self.additions is None else self.additions.expand(text, self.workspace.cwd)

    def clear_queue(self) -> tuple[list[str], list[str]]:
        """Forget all queued messages; returns the texts of the user's, steering and follow-ups."""
        return self.intake.clear()

    def cancel(self) -> None:
        """Tell the run, a compaction, and whatever waits for an extension, to stop, without waiting for them."""
        self.cancel_run()
        self.compactor.cancel()
        if self.extending is not None:
            self.extending.cancel()

    def cancel_run(self) -> None:
        """Tell the run alone to stop, or the prompt that is on its way."""
        self._cancel.fire()

    async def abort(self) -> None:
        """Stop the run, or a compaction, and wait until it has settled. Queued messages stay queued."""
        self.cancel()
        for stop in list(self._stops):
            stop.fire()
        await self.run_ended()
        if self.subagents is not None:
            await self.subagents.ended()
        await self.compactor.idle()

    async def run_ended(self) -> None:
        """Wait until the run that is going on has settled, or the one whose prompt is on its way."""
        if self._intake is not None:
            await self._intake.decided()
        if self._run is not None:
            await asyncio.wait([self._run])

    async def idle(self) -> None:
        """Wait until no run is going."""
        while self.is_streaming:
            await self.run_ended()
        await self.compactor.idle()

    async def stop(self) -> None:
        """Stop everything that runs, the host's own commands too, and wait until it has ended."""
        self.commands.abort_all()
        await self.abort()
        await self.commands.ended()
        self.commands.take_places()

    async def close(self) -> None:
        """Stop everything, and let other processes have the session's file."""
        await self.stop()
        if self.extending is not None:
            await self.extending.farewell()
        await self.toolbox.close()
        self.todos.stop()
        for conversation in (*self.unsaved, self.conversation):
            conversation.close()
        if self.servers is not None:
            await self.servers.close()

    # The conversation

    def set_name(self, name: str, *, lasting: bool = True) -> None:
        """Name the session. Unless it is `lasting`, the name alone does not make a file. Raises BadCommand, SessionError."""
        name = name.strip()
        if not name:
            raise BadCommand("Session name cannot be empty")
        (self.conversation.lasting_log if lasting else self.conversation.log).session_info(name)
        self.tell(SessionInfoChanged(name))

    def append_entry(self, custom_type: str, data: Any = None) -> str:
        """Keep state of an extension's in the session; the model is not told. Returns the entry's id. Raises SessionError."""
        from msgspec import UNSET, Raw

        from fairlead.session.history.entries import QUEUE, TASKS, TODOS
        from fairlead.session.run.intake import as_json

        if custom_type in (TASKS, TODOS, QUEUE):
            raise BadCommand(f'Entries of type "{custom_type}" are kept by fairlead itself; choose another name.')
        log = self.conversation.lasting_log
        entry = log.custom(custom_type, UNSET if data is None else as_json(data))
        self.tell(EntryAppended(Raw(log.last_line)))
        return entry.id

    def set_label(self, entry_id: str, label: str | None) -> str:
        """Bookmark an entry, or take its bookmark away. Returns the id of the entry that says so. Raises EntryNotFound."""
        return self.conversation.lasting_log.label(entry_id, label).id

    def stands_elsewhere(self) -> None:
        """The conversation is another one, or has moved within its tree: what is read from it is read anew."""
        if self.rules is not None:
            self.rules.take_up()
        self.todos.take_up(self.conversation.log if self.conversation.has_begun else None)
        if self.hooks is not None:
            self.hooks.stands_elsewhere()

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

    # Extensions

    @property
    def hooks(self) -> Hooks | None:
        """Where extensions step in; None before they are loaded, and if there are none."""
        return None if self.extending is None else self.extending.hooks

    @property
    def call_hooks(self) -> CallHooks | None:
        """What is asked about each tool call: the hooks, or those of the session that this one works for."""
        return self.hooks or self._options.call_hooks

    @property
    def may_be_extended(self) -> bool:
        """Whether there are extensions, as far as is known."""
        return self._late_hooks is not None

    async def ready(self, *, stoppable: bool = False) -> Hooks | None:
        """The hooks, if there are any, once they are loaded and know of this session. Raises RunAborted if it is `stoppable`, and
        the session is told to stop meanwhile: extensions may take their time, or wait for the user."""
        if self._late_hooks is None:
            return None
        if self.extending is None:
            if not self._late_hooks.exist():
                self._late_hooks = None
                return None
            from fairlead.session.extending import Extending

            self.extending = Extending(self, self._late_hooks)
        return await (self.extending.ready_or_stopped() if stoppable else self.extending.ready())

    def take_hooks(self, late: LateHooks, hooks: Hooks) -> None:
        """There are extensions after all, which are ready and are told by the caller that they are part of the session."""
        from fairlead.session.extending import Extending

        self._late_hooks, self.extending = late, Extending(self, late, hooks)

    async def ask(self, work: Awaitable[T], cancel: Cancel | None = None) -> T:
        """The answer of a hook. Raises Interrupted once `cancel` fires; without one, once the session is told to stop."""
        assert self.extending is not None, "without hooks nobody is asked"
        return await self.extending.ask(work, cancel)

    # For a run

    @cached_property
    def turns(self) -> Turns:
        from fairlead.session.run.turns import Turns

        return Turns(self, self._options)

    @property
    def images(self) -> UnreadableImages:
        """The images that servers could not read."""
        if self._images is None or self._images.conversation is not self.conversation:
            from fairlead.session.context.unreadable_images import UnreadableImages

            self._images = UnreadableImages(self.conversation)
        return self._images

    def renew_cancel(self) -> Cancel:
        """From here on an abort means what is about to begin."""
        self._cancel = Cancel()
        return self._cancel

    def begin(self, prompts: Sequence[Message], cancel: Cancel, system_prompt: str | None) -> None:
        """Start a run. What it begins with is part of the conversation already. None: the usual system prompt."""
        self.turns.system_prompt = system_prompt
        self._run = asyncio.create_task(Running(self, prompts, cancel).go(), name="fairlead-run")

    def settle(self) -> None:
        """The run is over."""
        self._run = None
        self.turns.system_prompt = None
        self.commands.take_places()
        self.conversation.flush()
        self.unsaved = [conversation for conversation in self.unsaved if not conversation.close()]
        self.tell(AgentSettled())

    # Inside

    def take_up(self, model_goes_first: bool = False, thinking_goes_first: bool = False) -> list[str]:
        """Begin to work with the present conversation. Returns what is wrong with it, in sentences."""
        conversation, selection = self.conversation, self.selection
        conversation.on_trouble, conversation.on_notice = self._unwritten, self._noticed
        conversation.on_begin = selection.write_down
        selection.on_model, selection.on_level = conversation.choose_model, conversation.choose_level
        self.stands_elsewhere()
        if not conversation.has_begun:
            return list(conversation.problems)
        from fairlead.session.history.resuming import resume

        return resume(self, model=not model_goes_first, level=not thinking_goes_first)

    def _unwritten(self, error: SessionError) -> None:
        self.tell(ExtensionError("session", "write", f"{error} What could not be written is kept and will be written later."))

    def _noticed(self, text: str) -> None:
        self.tell(ExtensionError("session", "write", text))
