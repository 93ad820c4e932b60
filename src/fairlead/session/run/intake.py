"""How prompts and other messages reach a session: into a run or a queue.

`fairlead.session.run.rewriting` knows what extensions, servers and templates make of them first.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from fairlead.core.events import ExtensionError, MessageEnd, MessageStart
from fairlead.core.messages import (
    AssistantMessage,
    Attribution,
    CustomMessage,
    ImageContent,
    Message,
    UserBlock,
    UserMessage,
    images_in,
    user_message,
)
from fairlead.core.queues import Behavior, Queued
from fairlead.core.runtime import CancelToken
from fairlead.errors import BadCommand, BusyError, CompactingError, ConfigError, NothingToResume, RunAborted, SessionError
from fairlead.session.additions import SessionAdditions
from fairlead.session.compaction.compactor import AskModel, Compactor
from fairlead.session.events import Notify
from fairlead.session.history.call_log import Interruption, find_interruption, finish_calls
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.current import CurrentConversation
from fairlead.session.run.message_queue import MessageQueue
from fairlead.session.run.state import RunState
from fairlead.session.selection import Selection
from fairlead.session.todos.lazy import LazyTodos

if TYPE_CHECKING:
    from fairlead.core.limits import RunLimits
    from fairlead.session.history.queue_log import QueueName
    from fairlead.session.hooks import Hooks, InputSource
    from fairlead.session.run.rewriting import Rewriting


class StartRun(Protocol):
    """Starts a run with messages that are part of the conversation.

    `system_prompt` and `limits` replace the usual ones. With `interruption`, the run continues one that was interrupted there.
    """

    def __call__(
        self,
        prompts: Sequence[Message],
        cancel: CancelToken,
        system_prompt: str | None,
        limits: RunLimits | None,
        interruption: Interruption | None = None,
        /,
    ) -> None: ...


NO_MODEL = (
    "No model selected.\n\nSet a provider's key in the environment (such as ANTHROPIC_API_KEY, OPENAI_API_KEY or "
    "GEMINI_API_KEY), store one with `fairlead login`, or start a model server on this machine. `fairlead doctor` shows what "
    "was found."
)
COMPACTING = "Cannot submit a prompt while compaction is in progress. Wait for compaction to finish and retry."

#: When the model sees a message of an extension: in its next turn, when it would stop, or with the next prompt.
Deliver: TypeAlias = Literal["steer", "follow_up", "next_turn"]


class _Sent(Struct, frozen=True):
    """A message of an extension that was sent while a prompt was being prepared."""

    message: CustomMessage
    deliver: Deliver | None
    trigger_turn: bool


class Intake:
    """Accepts the messages for one session.

    With `waits_for_key`, a prompt is refused if its model has no key, and waits until the key is found. Without it, the run
    fails instead.
    """

    def __init__(
        self,
        current: CurrentConversation,
        queue: MessageQueue,
        run: RunState,
        selection: Selection,
        additions: SessionAdditions,
        compactor: Compactor,
        todos: LazyTodos,
        *,
        ask_model: AskModel,
        start_run: StartRun,
        set_system_prompt: Callable[[str | None], None],
        notify: Notify,
        now_ms: Callable[[], int],
        waits_for_key: bool,
    ) -> None:
        self._current = current
        self._queue = queue
        self._run = run
        self._selection = selection
        self._additions = additions
        self._extensions = additions.extensions
        self._compactor = compactor
        self._todos = todos
        self._ask_model = ask_model
        self._start_run = start_run
        self._set_system_prompt = set_system_prompt
        self._notify = notify
        self._now_ms = now_ms
        self._waits_for_key = waits_for_key
        #: What extensions have sent while a prompt was being prepared: until then it is not known whether there will be a run.
        self._sent_meanwhile: list[_Sent] = []

    @cached_property
    def _rewriting(self) -> Rewriting:
        # Only extensions and slash commands need it.
        from fairlead.session.run.rewriting import Rewriting

        return Rewriting(self._additions)

    # Prompts

    async def prompt(
        self,
        text: str,
        images: list[ImageContent] | None,
        attribution: Attribution,
        attachments: list[dict[str, Any]] | None,
        *,
        expand: bool,
        source: InputSource,
        behavior: Behavior | None,
        limits: RunLimits | None,
    ) -> UserMessage | None:
        """See `Session.prompt`."""
        hooks = await self._extensions.ready(stoppable=True)
        if hooks is not None and expand and hooks.has_command(text):
            await hooks.run_command(text)
            return None
        await self._run.announced()
        is_heard = False
        is_next = behavior is None and self._accepts_next_prompt()
        if behavior is not None or is_next:
            await self._wait_for_other_prompt()
            if self._run.is_active:
                heard = None if hooks is None else await self._rewriting.queued(hooks, text, images, source, behavior)
                if heard is not None and heard.handled:
                    return None
                text, images = (text, images) if heard is None else (heard.text, heard.images)
                if expand and text.startswith("/"):
                    text, images = await self._rewriting.expanded(text, images, None)
                expand = False
                if self._run.is_active:
                    message = user_message(text, images, self._now_ms(), attribution if is_next else "user")
                    message.attachments = attachments or None
                    if is_next:
                        self._queue.enqueue_prompt(message)
                    else:
                        self._queue.enqueue("steering" if behavior == "steer" else "followUp", message)
                    await self._current.conversation.written()
                    return message
                is_heard = True  # the run has ended meanwhile: this begins the next one
        elif self._run.is_running:
            heard = None if hooks is None else await self._rewriting.queued(hooks, text, images, source, None)
            if heard is not None and heard.handled:
                return None
            raise BusyError("Agent is already processing.")
        with self._preparing() as cancel:
            heard = None if hooks is None or is_heard else await self._rewriting.prompted(hooks, text, images, source, cancel)
            if heard is not None:
                if heard.handled:
                    await self._begin_with_sent(cancel)
                    return None
                text, images = heard.text, heard.images
            if expand and text.startswith("/"):
                text, images = await self._rewriting.expanded(text, images, cancel)
            message = user_message(text, images, self._now_ms(), attribution)
            message.attachments = attachments or None
            await self._begin(message, hooks, images, cancel, limits=limits)
            return message

    def _accepts_next_prompt(self) -> bool:
        """Whether a run is still active, but a prompt may already be accepted: it starts when the automatic work is over."""
        return self._run.is_running and (self._run.is_ending or self._compactor.is_automatic)

    async def open_prompt(self, message: UserMessage, cancel: CancelToken) -> Sequence[Message]:
        """Prepare a prompt that was accepted while a run was ending, and that this run continues with.

        Returns the messages that follow it, and sets the system prompt. An abort keeps nothing from the conversation.
        """
        self._todos.prelude(message)
        if (note := self._todos.note()) is not None:
            self._current.conversation.add(note)
            self._todos.told()
        try:
            hooks = self._extensions.hooks
            opening = None if hooks is None else await self._rewriting.opening(message, hooks, images_in(message), cancel)
        except RunAborted:
            opening = None
        self._set_system_prompt(opening.system_prompt if opening else None)
        following = [*self._queue.next_turn, *(opening.messages if opening else ())]
        self._queue.next_turn.clear()
        return following

    async def _begin(
        self,
        message: UserMessage | CustomMessage,
        hooks: Hooks | None,
        images: list[ImageContent] | None,
        cancel: CancelToken,
        before: Sequence[Message] = (),
        limits: RunLimits | None = None,
    ) -> None:
        """Start a run with a message, and with those `before` it. Raises if it cannot start by now."""
        conversation, model = self._current.conversation, self._selection.model
        if model is None:
            raise ConfigError(NO_MODEL)
        if self._waits_for_key:
            await self._ask_model(model, cancel)
        opening = None if hooks is None else await self._rewriting.opening(message, hooks, images, cancel)
        if self._current.conversation is not conversation:
            raise SessionError("The session was changed while the prompt was being prepared.")
        if self._compactor.is_running:
            raise CompactingError(COMPACTING)
        after = opening.messages if opening else ()
        prompts: list[Message] = [*before, message, *after]
        note = None
        if isinstance(message, UserMessage):
            note, prelude = self._todos.note(), self._todos.prelude(message)
            prompts = [*prelude, message, *self._queue.next_turn, *after]
        finish_calls(self._current.conversation, self._now_ms())
        self._write(prompts if note is None else [note, *prompts])  # the host gets no event for the note: the list is its own
        await conversation.written()
        if isinstance(message, UserMessage):
            self._todos.told()
            self._queue.next_turn.clear()
        self._start_run(prompts, cancel, opening.system_prompt if opening else None, limits)

    def begin_with_queued(self) -> None:
        """See `MessageQueue.start_run`. If no run can start now, the messages keep waiting."""
        steering = self._queue.steering
        if not len(steering):
            return
        if self._selection.model is None:
            raise ConfigError(NO_MODEL)
        with self._preparing() as cancel:
            taken = steering.take()
            finish_calls(self._current.conversation, self._now_ms())
            for message in taken:
                self._current.conversation.add(message)
            self._notify(self._queue.update())
            self._start_run(taken, cancel, None, None)

    async def resume(self, limits: RunLimits | None) -> None:
        """See `Activity.resume`."""
        hooks = await self._extensions.ready(stoppable=True)
        await self._run.announced()
        with self._preparing() as cancel:
            conversation, model = self._current.conversation, self._selection.model
            self._interruption()
            if model is None:
                raise ConfigError(NO_MODEL)
            if self._waits_for_key:
                await self._ask_model(model, cancel)
            # The messages that extensions add to a prompt are part of the conversation already.
            asked = next((each for each in reversed(conversation.messages) if isinstance(each, UserMessage)), None)
            opening = None
            if hooks is not None and asked is not None:
                opening = await self._rewriting.opening(asked, hooks, images_in(asked), cancel)
            if self._current.conversation is not conversation:
                raise SessionError("The session was changed while the run was being resumed.")
            if self._compactor.is_running:
                raise CompactingError(COMPACTING)
            interruption = self._interruption()
            prompts: list[Queued] = []
            if interruption is None:
                prompts = self._queue.steering.take() or self._queue.follow_up.take()
                for message in prompts:
                    conversation.add(message)
                self._notify(self._queue.update())
            self._start_run(prompts, cancel, opening.system_prompt if opening else None, limits, interruption)

    @property
    def is_interrupted(self) -> bool:
        """See `Activity.is_interrupted`."""
        try:
            self._interruption()
        except NothingToResume:
            return False
        return not self._run.is_active

    def _interruption(self) -> Interruption | None:
        """Where the last run stopped; None if it has ended, but messages wait. Raises NothingToResume if none wait."""
        conversation = self._current.conversation
        found = find_interruption(conversation.log) if conversation.has_begun else None
        if found is None and (not len(self._queue) or _was_aborted(conversation)):
            raise NothingToResume
        return found

    def _write(self, prompts: Sequence[Message]) -> None:
        """Write what a run begins with: all of it or nothing."""
        conversation = self._current.conversation
        before = conversation.log.leaf
        try:
            for each in prompts:
                conversation.ask(each)
        except SessionError:
            conversation.move(before)  # also if only what comes before the prompt could be written
            raise

    @contextmanager
    def _preparing(self) -> Generator[CancelToken]:
        """Prepare a prompt. Raises if none can begin now."""
        if self._run.is_active:
            raise BusyError("Agent is already processing.")
        if self._compactor.is_running:
            raise CompactingError(COMPACTING)
        try:
            with self._run.preparing() as cancel:
                yield cancel
        finally:
            sent, self._sent_meanwhile = self._sent_meanwhile, []
            for each in sent:
                try:
                    self._add(each)
                except SessionError as error:  # the prompt itself may succeed all the same
                    self._notify(ExtensionError("session", "write", str(error)))

    async def _wait_for_other_prompt(self) -> None:
        """Wait for a prompt that is being prepared, unless it waits for the caller itself."""
        if self._run.is_preparing:
            from fairlead.session.hook_calls import is_inside

            if not is_inside():
                await self._run.decided()

    # Queues

    async def queue(
        self,
        line: QueueName,
        text: str,
        images: list[ImageContent] | None,
        attachments: list[dict[str, Any]] | None,
        *,
        expand: bool,
        source: InputSource,
    ) -> UserMessage | None:
        """See `Session.steer` and `Session.follow_up`."""
        hooks = await self._extensions.ready(stoppable=True)
        if hooks is not None and expand and hooks.has_command(text):
            name = text.split(maxsplit=1)[0]
            raise BadCommand(
                f'Extension command "{name}" cannot be queued. Use prompt() or execute the command when not streaming.'
            )
        behavior: Behavior = "steer" if line == "steering" else "followUp"
        heard = None if hooks is None else await self._rewriting.queued(hooks, text, images, source, behavior)
        if heard is not None:
            if heard.handled:
                return None
            text, images = heard.text, heard.images
        if expand and text.startswith("/"):
            text, images = await self._rewriting.expanded(text, images, None)
        message = user_message(text, images, self._now_ms())
        message.attachments = attachments or None
        self._queue.enqueue(line, message)
        await self._current.conversation.written()
        return message

    # Messages of extensions

    async def send(
        self,
        custom_type: str,
        content: str | list[UserBlock],
        *,
        display: bool,
        details: Any,
        deliver: Deliver | None,
        trigger_turn: bool,
    ) -> CustomMessage:
        """See `Session.send_message`."""
        message = CustomMessage(custom_type, content, display, self._now_ms(), as_json(details))
        if deliver == "next_turn":
            self._queue.enqueue("nextTurn", message)
        elif self._run.is_preparing:
            self._sent_meanwhile.append(_Sent(message, deliver, trigger_turn))
        elif trigger_turn and not self._run.is_active:
            await self._run.announced()
            with self._preparing() as cancel:
                await self._begin(message, self._extensions.hooks, None, cancel)
        else:
            self._add(_Sent(message, deliver, trigger_turn))
        return message

    def _add(self, sent: _Sent) -> None:
        """Add a message that begins no run: at once, or to the queue of the run that is going on."""
        message = sent.message
        if self._run.is_active:
            self._queue.enqueue("followUp" if sent.deliver == "follow_up" else "steering", message)
        else:
            self._current.conversation.ask(message)
            self._notify(MessageStart(message))
            self._notify(MessageEnd(message))

    async def _begin_with_sent(self, cancel: CancelToken) -> None:
        """Begin a run with what an extension has sent while it handled a prompt, if it asked for that."""
        sent = self._sent_meanwhile
        first = next((place for place, each in enumerate(sent) if each.trigger_turn), None)
        if first is None:
            return
        before = [each.message for each in sent[:first]]
        await self._begin(sent[first].message, self._extensions.hooks, None, cancel, before)
        del sent[: first + 1]


def _was_aborted(conversation: Conversation) -> bool:
    """Whether the last answer was aborted: messages that wait stay queued then."""
    last = next((each for each in reversed(conversation.messages) if isinstance(each, AssistantMessage)), None)
    return last is not None and last.stop_reason == "aborted"


def as_json(value: Any) -> Any:
    """Data as it is when read back from a session file. Raises BadCommand if JSON cannot hold it."""
    import msgspec

    from fairlead.core import lenient

    try:
        return msgspec.json.decode(msgspec.json.encode(lenient.scrub(msgspec.to_builtins(value))))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadCommand(f"An extension can keep only JSON data in a session: {error}") from None
