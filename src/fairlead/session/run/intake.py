"""How prompts and other messages reach a session: past extensions, through templates, into a run or a queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct

from fairlead.core.events import ExtensionError, MessageEnd, MessageStart
from fairlead.core.messages import (
    Attribution,
    CustomMessage,
    ImageContent,
    Message,
    UserBlock,
    UserMessage,
    images_in,
    user_message,
)
from fairlead.core.queues import Behavior
from fairlead.core.runtime import CancelToken, Interrupted
from fairlead.errors import BadCommand, BusyError, CompactingError, ConfigError, RunAborted, SessionError
from fairlead.session.additions import SessionAdditions
from fairlead.session.compaction.compactor import AskModel, Compactor
from fairlead.session.events import Notify
from fairlead.session.history.current import CurrentConversation
from fairlead.session.run.message_queue import MessageQueue
from fairlead.session.run.state import RunState
from fairlead.session.selection import Selection
from fairlead.session.todos.lazy import LazyTodos

if TYPE_CHECKING:
    from fairlead.core.limits import RunLimits
    from fairlead.session.history.queue_log import QueueName
    from fairlead.session.hooks import Heard, Hooks, InputSource, Opening

#: Starts a run with messages that are part of the conversation, with a system prompt and with limits; None: the usual ones.
StartRun: TypeAlias = "Callable[[Sequence[Message], CancelToken, str | None, RunLimits | None], None]"

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
        #: Messages are queued in the order in which they were given, however long extensions handle each.
        self._in_order = asyncio.Lock()

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
                heard = await self._heard(hooks, text, images, source, behavior)
                if heard is not None and heard.handled:
                    return None
                text, images = (text, images) if heard is None else (heard.text, heard.images)
                text, images, expand = await self._from_servers(text, images, expand, CancelToken())
                text, expand = await self._expanded(text, None) if expand else text, False
                if self._run.is_active:
                    message = user_message(text, images, self._now_ms(), attribution if is_next else "user")
                    message.attachments = attachments or None
                    if is_next:
                        self._queue.enqueue_prompt(message)
                    else:
                        self._queue.enqueue("steering" if behavior == "steer" else "followUp", message)
                    return message
                is_heard = True  # the run has ended meanwhile: this begins the next one
        elif self._run.is_running:
            heard = await self._heard(hooks, text, images, source, None)
            if heard is not None and heard.handled:
                return None
            raise BusyError("Agent is already processing.")
        with self._preparing() as cancel:
            if hooks is not None and not is_heard and hooks.wants("input"):
                heard = await self._asked(hooks.input(text, images, source, None), cancel)
                if heard.handled:
                    await self._begin_with_sent(cancel)
                    return None
                text, images = heard.text, heard.images
            if not is_heard:
                text, images, expand = await self._from_servers(text, images, expand, cancel)
            text = await self._expanded(text, cancel) if expand else text
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
            opening = await self._opening(message, self._extensions.hooks, images_in(message), cancel)
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
        opening = await self._opening(message, hooks, images, cancel) if isinstance(message, UserMessage) else None
        if self._current.conversation is not conversation:
            raise SessionError("The session was changed while the prompt was being prepared.")
        if self._compactor.is_running:
            raise CompactingError(COMPACTING)
        prompts: list[Message] = [*before, message]
        note = None
        if isinstance(message, UserMessage):
            note, prelude, after = self._todos.note(), self._todos.prelude(message), opening.messages if opening else ()
            prompts = [*prelude, message, *self._queue.next_turn, *after]
        self._write(prompts if note is None else [note, *prompts])  # the host gets no event for the note: the list is its own
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
            for message in taken:
                self._current.conversation.add(message)
            self._notify(self._queue.update())
            self._start_run(taken, cancel, None, None)

    async def _opening(
        self, message: UserMessage, hooks: Hooks | None, images: list[ImageContent] | None, cancel: CancelToken
    ) -> Opening | None:
        if hooks is None or not hooks.wants("before_agent_start"):
            return None
        from fairlead.core.messages import user_text

        await self._additions.prepare(cancel)
        try:
            return await self._asked(hooks.opening(user_text(message), images, self._additions.system_prompt()), cancel)
        except RunAborted:
            return None  # the run begins, so that the message is kept, and ends at once

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

    async def _asked(self, work: Any, cancel: CancelToken) -> Any:
        try:
            return await self._extensions.ask(work, cancel)
        except Interrupted:
            raise RunAborted("The prompt was aborted while an extension was looking at it.") from None

    async def _from_servers(
        self, text: str, images: list[ImageContent] | None, expand: bool, cancel: CancelToken
    ) -> tuple[str, list[ImageContent] | None, bool]:
        """The text and the images of a message that is a command of a server, and whether the text may be another command."""
        servers = self._additions.servers
        if servers is None or not expand or not text.startswith("/"):
            return text, images, expand
        found = await servers.expand(text, cancel)
        if cancel.fired:
            raise RunAborted("The prompt was aborted while it was being prepared.")
        return (text, images, expand) if found is None else (found[0], [*(images or ()), *found[1]] or None, False)

    async def _expanded(self, text: str, cancel: CancelToken | None) -> str:
        """The text that a message stands for, if it begins with a slash command. Raises ConfigError, and RunAborted."""
        if not text.startswith("/"):
            return text
        await self._additions.prepare(cancel)
        return self._additions.expand(text)

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
        heard = await self._heard(hooks, text, images, source, "steer" if line == "steering" else "followUp")
        if heard is not None:
            if heard.handled:
                return None
            text, images = heard.text, heard.images
        text, images, expand = await self._from_servers(text, images, expand, CancelToken())
        text = await self._expanded(text, None) if expand else text
        message = user_message(text, images, self._now_ms())
        message.attachments = attachments or None
        self._queue.enqueue(line, message)
        return message

    async def _heard(
        self, hooks: Hooks | None, text: str, images: list[ImageContent] | None, source: InputSource, behavior: Behavior | None
    ) -> Heard | None:
        """What extensions make of a message before it is queued. An abort does not end this: a queued message outlives a run."""
        if hooks is None or not hooks.wants("input"):
            return None
        from fairlead.session.hook_calls import is_inside

        async with nullcontext() if is_inside() else self._in_order:
            return await self._extensions.ask(hooks.input(text, images, source, behavior), CancelToken())

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
                await self._begin(message, None, None, cancel)
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
        await self._begin(sent[first].message, None, None, cancel, before=[each.message for each in sent[:first]])
        del sent[: first + 1]


def as_json(value: Any) -> Any:
    """Data as it is when read back from a session file. Raises BadCommand if JSON cannot hold it."""
    import msgspec

    from fairlead.core import lenient

    try:
        return msgspec.json.decode(msgspec.json.encode(lenient.scrub(msgspec.to_builtins(value))))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadCommand(f"An extension can keep only JSON data in a session: {error}") from None
