"""How prompts and other messages reach a session: into a run or a queue.

`fairlead.session.run.rewriting` knows what extensions, servers and templates make of them first.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fairlead.core.messages import (
    AssistantMessage,
    Attribution,
    CustomMessage,
    ImageContent,
    Message,
    UserMessage,
    images_in,
    user_message,
)
from fairlead.core.queues import Behavior, Queued
from fairlead.core.runtime import CancelToken
from fairlead.errors import BadCommand, BusyError, CompactingError, ConfigError, NothingToResume, RunAborted, SessionError
from fairlead.session import hook_calls
from fairlead.session.additions import SessionAdditions
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.run_log import Interruption, find_interruption, finish_calls
from fairlead.session.run import extension_messages, rewriting
from fairlead.session.run.run import Run

if TYPE_CHECKING:
    from fairlead.core.limits import RunLimits
    from fairlead.session.history.run_log import QueueName
    from fairlead.session.hooks import Hooks, InputSource
    from fairlead.session.run.extension_messages import ExtensionMessages
    from fairlead.session.run.message_queue import HeldPrompt
    from fairlead.session.run.run import RunParts
    from fairlead.session.session_options import SessionOptions


NO_MODEL = (
    "No model selected.\n\nSet a provider's key in the environment (such as ANTHROPIC_API_KEY, OPENAI_API_KEY or "
    "GEMINI_API_KEY), store one with `fairlead login`, or name the model of a server on this machine, such as ollama/qwen3:8b. "
    "`fairlead models` lists the models that can be used."
)
COMPACTING = "Cannot submit a prompt while compaction is in progress. Wait for compaction to finish and retry."


class Intake:
    """Accepts the messages for one session, and starts its runs.

    In some dialects a prompt is refused if its model has no key, and waits until the key is found. In the others the run fails.
    """

    def __init__(self, parts: RunParts, additions: SessionAdditions, options: SessionOptions) -> None:
        self._parts = parts
        self._current = parts.current
        self._queue = parts.queues
        self._run = parts.state
        self._selection = parts.selection
        self._additions = additions
        self._extensions = parts.extensions
        self._compactor = parts.compactor
        self._todos = parts.todos
        self._notify = parts.events.notify
        self._now_ms = parts.runtime.now_ms
        self._watch_run = options.watch_run
        self._waits_for_key = options.behaviour.waits_for_key
        #: Made when an extension sends the first message.
        self._extension_messages: ExtensionMessages | None = None

    @cached_property
    def _rewriting(self) -> rewriting.Rewriting:
        # Only extensions and slash commands need it.
        return rewriting.Rewriting(self._additions)

    @property
    def extension_messages(self) -> extension_messages.ExtensionMessages:
        if self._extension_messages is None:
            self._extension_messages = extension_messages.ExtensionMessages(
                self._current,
                self._queue,
                self._run,
                preparing=self._preparing,
                begin=lambda message, before, cancel: self._begin(message, self._extensions.hooks, None, cancel, before),
                notify=self._notify,
                now_ms=self._now_ms,
            )
        return self._extension_messages

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
        held: HeldPrompt | None,
    ) -> UserMessage | None:
        """See `Session.prompt`."""
        began = None
        try:
            message = await self._accept(
                text, images, attribution, attachments, expand=expand, source=source, behavior=behavior, limits=limits, held=held
            )
            began = None if message is None or self._queue.holds(message) else message
            return message
        finally:
            if held is not None:
                held.finish(began)

    async def _accept(
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
        held: HeldPrompt | None,
    ) -> UserMessage | None:
        hooks = await self._extensions.ready(stoppable=True)
        if hooks is not None and expand and hooks.has_command(text):
            await hooks.run_command(text)
            return None
        await self._run.wait_announced()
        is_heard = False
        is_next = behavior is None and self.accepts_next_prompt
        if behavior is not None or is_next:
            await self._wait_for_other_prompt()
            if self._run.is_active:
                rewritten = await self._rewrite(hooks, text, images, source, behavior, expand=expand)
                if rewritten is None:
                    return None
                text, images = rewritten
                expand = False
                if self._run.is_active:
                    message = user_message(text, images, self._time_of(held), attribution if is_next else "user")
                    message.attachments = attachments or None
                    if held is not None:
                        held.take()
                    if is_next:
                        self._queue.enqueue_prompt(message)
                    else:
                        self._queue.enqueue("steering" if behavior == "steer" else "followUp", message)
                    await self._current.conversation.wait_written()
                    return message
                is_heard = True  # the run has ended meanwhile: this begins the next one
        elif self._run.is_running:
            if await self._rewrite(hooks, text, images, source, None, expand=False) is None:
                return None
            raise BusyError("Agent is already processing. Choose 'steer' or 'followUp' to queue the message.")
        with self._preparing() as cancel:
            heard = (
                None if hooks is None or is_heard else await self._rewriting.rewrite_prompt(hooks, text, images, source, cancel)
            )
            if heard is not None:
                if heard.handled:
                    if self._extension_messages is not None:
                        await self._extension_messages.begin_with_sent(cancel)
                    return None
                text, images = heard.text, heard.images
            if expand and text.startswith("/"):
                text, images = await self._rewriting.expand(text, images, cancel)
            message = user_message(text, images, self._time_of(held), attribution)
            message.attachments = attachments or None
            await self._begin(message, hooks, images, cancel, limits=limits, held=held)
            return message

    def _time_of(self, held: HeldPrompt | None) -> int:
        return self._now_ms() if held is None else held.message.timestamp

    @property
    def accepts_next_prompt(self) -> bool:
        """Whether a run is still active, but a prompt may already be accepted: it starts when the automatic work is over."""
        return self._run.is_running and (self._run.is_ending or self._compactor.is_automatic)

    async def open_prompt(self, message: UserMessage, cancel: CancelToken) -> Sequence[Message]:
        """Prepare a prompt that was accepted while a run was ending, and that this run continues with.

        Returns the messages that follow it, and sets the system prompt. An abort keeps nothing from the conversation.
        """
        self._todos.prelude(message)
        if (note := self._todos.note()) is not None:
            self._current.conversation.add(note)
            self._todos.mark_announced()
        try:
            hooks = self._extensions.hooks
            opening = None if hooks is None else await self._rewriting.opening(message, hooks, images_in(message), cancel)
        except RunAborted:
            opening = None
        self._run.system_prompt = opening.system_prompt if opening else None
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
        held: HeldPrompt | None = None,
    ) -> None:
        """Start a run with a message, and with those `before` it. Raises if it cannot start by now."""
        conversation, model = self._current.conversation, self._selection.model
        if model is None:
            raise ConfigError(NO_MODEL)
        if self._waits_for_key:
            await self._selection.open_stream(model, cancel)
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
        if held is not None:
            held.take()
        self._write(prompts if note is None else [note, *prompts])  # the host gets no event for the note: the list is its own
        await conversation.wait_written()
        if isinstance(message, UserMessage):
            self._todos.mark_announced()
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
        await self._run.wait_announced()
        with self._preparing() as cancel:
            conversation, model = self._current.conversation, self._selection.model
            self._interruption()
            if model is None:
                raise ConfigError(NO_MODEL)
            if self._waits_for_key:
                await self._selection.open_stream(model, cancel)
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

    def _start_run(
        self,
        prompts: Sequence[Message],
        cancel: CancelToken,
        system_prompt: str | None,
        limits: RunLimits | None,
        interruption: Interruption | None = None,
    ) -> None:
        """Start a run with messages that are part of the conversation. `system_prompt` and `limits` replace the usual ones.

        With `interruption`, the run continues the one that was interrupted there.
        """
        self._run.system_prompt = system_prompt
        if limits is None and self._watch_run is not None:
            limits = self._watch_run()
        self._run.start(Run(self._parts, prompts, cancel, limits, interruption, self.open_prompt).go())

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
            if self._extension_messages is not None:
                self._extension_messages.add_sent()

    async def _wait_for_other_prompt(self) -> None:
        """Wait for a prompt that is being prepared, unless it waits for the caller itself."""
        if self._run.is_preparing and not hook_calls.is_inside():
            await self._run.wait_decided()

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
        rewritten = await self._rewrite(hooks, text, images, source, behavior, expand=expand)
        if rewritten is None:
            return None
        message = user_message(*rewritten, self._now_ms())
        message.attachments = attachments or None
        self._queue.enqueue(line, message)
        await self._current.conversation.wait_written()
        return message

    async def _rewrite(
        self,
        hooks: Hooks | None,
        text: str,
        images: list[ImageContent] | None,
        source: InputSource,
        behavior: Behavior | None,
        *,
        expand: bool,
    ) -> tuple[str, list[ImageContent] | None] | None:
        """Return what a message for the active run becomes before it is queued. None: an extension has handled it."""
        heard = None if hooks is None else await self._rewriting.rewrite_queued(hooks, text, images, source, behavior)
        if heard is not None:
            if heard.handled:
                return None
            text, images = heard.text, heard.images
        if expand and text.startswith("/"):
            text, images = await self._rewriting.expand(text, images, None)
        return text, images


def _was_aborted(conversation: Conversation) -> bool:
    """Whether the last answer was aborted: messages that wait stay queued then."""
    last = next((each for each in reversed(conversation.messages) if isinstance(each, AssistantMessage)), None)
    return last is not None and last.stop_reason == "aborted"
