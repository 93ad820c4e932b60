"""What is said to a session, on its way into the conversation: past extensions, through templates, into a run or a queue.

A prompt is on its way from the moment it is given until its run has begun, or until it is clear that none will. Meanwhile the
session counts as running: no other prompt can begin, and an abort means this one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
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
    user_message,
)
from fairlead.core.queues import Behavior, Queued
from fairlead.core.runtime import Cancel, Interrupted
from fairlead.errors import BadCommand, BusyError, CompactingError, ConfigError, RunAborted, SessionError

if TYPE_CHECKING:
    from fairlead.session.history.queue_log import QueueName
    from fairlead.session.hooks import Heard, Hooks, InputSource, Opening
    from fairlead.session.session import Session

NO_MODEL = (
    "No model selected.\n\nSet a provider's key in the environment (such as ANTHROPIC_API_KEY), or choose a model "
    "with set_model or --model. `fairlead --list-models` shows what there is."
)
COMPACTING = "Cannot submit a prompt while compaction is in progress. Wait for compaction to finish and retry."

#: When a message of an extension's is heard: as soon as the agent listens, when it would stop, or with the next prompt.
Deliver: TypeAlias = Literal["steer", "follow_up", "next_turn"]


class _Sent(Struct, frozen=True):
    """A message of an extension's on its way."""

    message: CustomMessage
    deliver: Deliver | None
    trigger_turn: bool


class Intake:
    """The way into one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        #: Whether a prompt waits until its model's key is found, and is refused if there is none; else its run fails instead.
        self.waits_for_key = True
        #: What extensions want to go with the next prompt.
        self.next_turn: list[CustomMessage] = []
        #: What extensions have sent while a prompt was on its way: whether there will be a run is not known before it is there.
        self._sent_meanwhile: list[_Sent] = []
        #: Set while no prompt is on its way.
        self._free = asyncio.Event()
        self._free.set()
        #: What is queued stays in the order in which it was said, however long extensions look at each.
        self._in_order = asyncio.Lock()

    @property
    def is_busy(self) -> bool:
        """Whether a prompt is on its way."""
        return not self._free.is_set()

    async def decided(self) -> None:
        """Wait until no prompt is on its way."""
        await self._free.wait()

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
    ) -> UserMessage | None:
        """See `Session.prompt`."""
        session = self._session
        hooks = await session.ready(stoppable=True)
        if hooks is not None and expand and hooks.has_command(text):
            await hooks.run_command(text)
            return None
        is_heard = False
        if behavior is not None:
            await self._decided_for_others()
            if session.is_streaming:
                heard = await self._heard(hooks, text, images, source, behavior)
                if heard is not None and heard.handled:
                    return None
                text, images = (text, images) if heard is None else (heard.text, heard.images)
                text, images, expand = await self._from_servers(text, images, expand, Cancel())
                if session.is_streaming:
                    return await self._enqueue_text("steering" if behavior == "steer" else "followUp", text, images, expand)
                is_heard = True  # the run has ended meanwhile: this begins the next one
        with self._on_its_way() as cancel:
            if hooks is not None and not is_heard and hooks.wants("input"):
                heard = await self._asked(hooks.input(text, images, source, None), cancel)
                if heard.handled:
                    await self._begin_with_sent(cancel)
                    return None
                text, images = heard.text, heard.images
            if not is_heard:
                text, images, expand = await self._from_servers(text, images, expand, cancel)
            text = await self._expanded(text, cancel) if expand else text
            message = user_message(text, images, session.runtime.now_ms(), attribution)
            message.attachments = attachments or None
            await self._begin(message, hooks, images, cancel)
            return message

    async def _begin(
        self,
        message: UserMessage | CustomMessage,
        hooks: Hooks | None,
        images: list[ImageContent] | None,
        cancel: Cancel,
        before: Sequence[Message] = (),
    ) -> None:
        """Start the run of a message, and of what comes `before` it, unless something is in the way by now."""
        session = self._session
        conversation = session.conversation
        if session.model is None:
            raise ConfigError(NO_MODEL)
        if self.waits_for_key:
            await session.turns.stream_of(session.model, cancel)
        opening = await self._opening(message, hooks, images, cancel) if isinstance(message, UserMessage) else None
        if session.conversation is not conversation:
            raise SessionError("The session was changed while the prompt was being prepared.")
        if session.compactor.is_running:
            raise CompactingError(COMPACTING)
        prompts: list[Message] = [*before, message]
        if isinstance(message, UserMessage):
            prompts = [*session.todos.prelude(message), message, *self.next_turn, *(opening.messages if opening else ())]
        self._write(prompts)
        if isinstance(message, UserMessage):
            self.next_turn.clear()
        session.begin(prompts, cancel, opening.system_prompt if opening else None)

    def begin_with_queued(self) -> None:
        """Begin a run with what waits as steering, if anything does. Raises if none can begin now; then it waits on."""
        session, steering = self._session, self._session.queues.steering
        if not len(steering):
            return
        if session.model is None:
            raise ConfigError(NO_MODEL)
        with self._on_its_way() as cancel:
            taken = steering.take()
            for message in taken:
                session.conversation.add(message)
            session.tell(session.queues.update())
            session.begin(taken, cancel, None)

    async def _opening(
        self, message: UserMessage, hooks: Hooks | None, images: list[ImageContent] | None, cancel: Cancel
    ) -> Opening | None:
        if hooks is None or not hooks.wants("before_agent_start"):
            return None
        from fairlead.core.messages import user_text

        await self._session.prepare(cancel)
        return await self._asked(hooks.opening(user_text(message), images, self._session.system_prompt()), cancel)

    def _write(self, prompts: Sequence[Message]) -> None:
        """Write down what a run begins with: all of it or nothing."""
        conversation = self._session.conversation
        before = conversation.log.leaf
        try:
            for each in prompts:
                conversation.ask(each)
        except SessionError:
            conversation.move(before)  # also if only what comes before the prompt could be written
            raise

    @contextmanager
    def _on_its_way(self) -> Generator[Cancel]:
        """A prompt is on its way. Raises if it cannot be now."""
        session = self._session
        if session.is_streaming:
            raise BusyError("Agent is already processing.")
        if session.compactor.is_running:
            raise CompactingError(COMPACTING)
        self._free.clear()
        try:
            yield session.renew_cancel()
        finally:
            self._free.set()
            sent, self._sent_meanwhile = self._sent_meanwhile, []
            for each in sent:
                try:
                    self._add(each)
                except SessionError as error:  # what becomes of the prompt is another matter
                    session.tell(ExtensionError("session", "write", str(error)))

    async def _decided_for_others(self) -> None:
        """Wait for a prompt that is on its way, but not for one that waits for whoever calls."""
        if self.is_busy:
            from fairlead.session.extending import is_inside

            if not is_inside():
                await self._free.wait()

    async def _asked(self, work: Any, cancel: Cancel) -> Any:
        try:
            return await self._session.ask(work, cancel)
        except Interrupted:
            raise RunAborted("The prompt was aborted while an extension was looking at it.") from None

    async def _from_servers(
        self, text: str, images: list[ImageContent] | None, expand: bool, cancel: Cancel
    ) -> tuple[str, list[ImageContent] | None, bool]:
        """What a message stands for that is a command of the servers', and whether what it is then may be another command."""
        servers = self._session.servers
        if servers is None or not expand or not text.startswith("/"):
            return text, images, expand
        found = await servers.expand(text, cancel)
        if cancel.fired:
            raise RunAborted("The prompt was aborted while it was being prepared.")
        return (text, images, expand) if found is None else (found[0], [*(images or ()), *found[1]] or None, False)

    async def _expanded(self, text: str, cancel: Cancel | None) -> str:
        """What a message stands for, if it begins with a slash command. Raises ConfigError, and RunAborted."""
        if not text.startswith("/"):
            return text
        await self._session.prepare(cancel)
        return self._session.expanded(text)

    # Queues

    async def queue(
        self, line: QueueName, text: str, images: list[ImageContent] | None, *, expand: bool, source: InputSource
    ) -> UserMessage | None:
        """See `Session.steer` and `Session.follow_up`."""
        hooks = await self._session.ready(stoppable=True)
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
        text, images, expand = await self._from_servers(text, images, expand, Cancel())
        return await self._enqueue_text(line, text, images, expand)

    async def _heard(
        self, hooks: Hooks | None, text: str, images: list[ImageContent] | None, source: InputSource, behavior: Behavior
    ) -> Heard | None:
        """What extensions make of something that is to be queued. An abort does not end this: what is queued outlives a run."""
        if hooks is None or not hooks.wants("input"):
            return None
        from fairlead.session.extending import is_inside

        async with nullcontext() if is_inside() else self._in_order:
            return await self._session.ask(hooks.input(text, images, source, behavior), Cancel())

    async def _enqueue_text(self, line: QueueName, text: str, images: list[ImageContent] | None, expand: bool) -> UserMessage:
        text = await self._expanded(text, None) if expand else text
        message = user_message(text, images, self._session.runtime.now_ms())
        self._enqueue(line, message)
        return message

    def _enqueue(self, line: QueueName, message: Queued) -> None:
        from fairlead.session.history.entries import QUEUE
        from fairlead.session.history.queue_log import addition

        session = self._session
        session.conversation.note(QUEUE, addition(line, message))
        self.restore(line, message)
        if line != "nextTurn":
            session.tell(session.queues.update())

    def restore(self, line: QueueName, message: Queued) -> None:
        """Let a message wait that is written down already."""
        queues = self._session.queues
        if line != "nextTurn":
            (queues.steering if line == "steering" else queues.follow_up).add(message)
        elif isinstance(message, CustomMessage):
            self.next_turn.append(message)

    def clear(self) -> tuple[list[str], list[str]]:
        """See `Session.clear_queue`."""
        session, queues = self._session, self._session.queues
        queued = [*queues.steering, *queues.follow_up]
        if queued:
            from fairlead.session.history.entries import QUEUE
            from fairlead.session.history.queue_log import cleared

            log = session.conversation.log
            session.conversation.keep(lambda: log.custom(QUEUE, cleared(log, queued), keep=True))
        texts = queues.steering.clear(), queues.follow_up.clear()
        session.tell(queues.update())
        return texts

    def forget(self) -> None:
        """Another conversation has other messages that wait."""
        self._session.queues.steering.clear()
        self._session.queues.follow_up.clear()
        self.next_turn.clear()
        self._sent_meanwhile.clear()

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
        session = self._session
        message = CustomMessage(custom_type, content, display, session.runtime.now_ms(), as_json(details))
        if deliver == "next_turn":
            self._enqueue("nextTurn", message)
        elif self.is_busy:
            self._sent_meanwhile.append(_Sent(message, deliver, trigger_turn))
        elif trigger_turn and not session.is_streaming:
            with self._on_its_way() as cancel:
                await self._begin(message, None, None, cancel)
        else:
            self._add(_Sent(message, deliver, trigger_turn))
        return message

    def _add(self, sent: _Sent) -> None:
        """Add a message that begins no run: at once, or to the queue of the run that is going on."""
        session, message = self._session, sent.message
        if session.is_streaming:
            self._enqueue("followUp" if sent.deliver == "follow_up" else "steering", message)
        else:
            session.conversation.ask(message)
            session.tell(MessageStart(message))
            session.tell(MessageEnd(message))

    async def _begin_with_sent(self, cancel: Cancel) -> None:
        """An extension has seen to a prompt: what it has sent meanwhile may begin a run instead."""
        sent = self._sent_meanwhile
        first = next((place for place, each in enumerate(sent) if each.trigger_turn), None)
        if first is None:
            return
        await self._begin(sent[first].message, None, None, cancel, before=[each.message for each in sent[:first]])
        del sent[: first + 1]


def as_json(value: Any) -> Any:
    """Plain data as a session file would give it back. Raises BadCommand if it cannot be written."""
    import msgspec

    from fairlead.core import lenient

    try:
        return msgspec.json.decode(msgspec.json.encode(lenient.scrub(msgspec.to_builtins(value))))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadCommand(f"What an extension keeps in a session has to be data that JSON can hold: {error}") from None
