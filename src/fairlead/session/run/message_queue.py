"""The messages that wait for a run of a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fairlead.core.messages import CustomMessage, ImageContent, UserBlock, UserMessage, user_message
from fairlead.core.queues import Queued, Queues
from fairlead.session.history import run_log
from fairlead.session.history.current import CurrentConversation
from fairlead.session.history.entries import QUEUE
from fairlead.session.session_events import Notify

if TYPE_CHECKING:
    from fairlead.session.history.conversation import Conversation
    from fairlead.session.history.run_log import QueueName
    from fairlead.session.run.extension_messages import Deliver
    from fairlead.session.run.intake import Intake


class HeldPrompt:
    """A prompt that is not in the conversation or in a queue yet, while extensions are at work on it.

    Once it is saved it is like a queued message: the host may be told that it was accepted, and a killed process does not lose
    it.
    """

    def __init__(self, message: UserMessage, current: CurrentConversation) -> None:
        self.message = message
        self._current = current
        self._saved_in: Conversation | None = None
        self._is_taken = False

    def take(self) -> None:
        """Let the conversation or a queue keep it from now on: it is about to be written there."""
        self._is_taken = True

    async def save(self) -> None:
        """Save the prompt, if it is not saved yet. Raises SessionError if it cannot be written."""
        conversation = self._current.conversation
        if self._saved_in is None and not self._is_taken:
            conversation.note(QUEUE, run_log.addition("followUp", self.message))
            self._saved_in = conversation
        await conversation.wait_written()

    def finish(self, began: UserMessage | None) -> None:
        """Save that the prompt is not held any more: a run `began` with its message; None: none did.

        The conversation has that message then, so that nothing more has to be saved if it is the same.
        """
        conversation = self._saved_in
        if conversation is None or conversation is not self._current.conversation or began == self.message:
            return
        conversation.keep(lambda: conversation.log.note(QUEUE, run_log.removal(self.message)))


class MessageQueue(Queues):
    """The queues of a session. `steering.mode`, `follow_up.mode` and `interrupt` say when its messages reach the model."""

    def __init__(
        self, current: CurrentConversation, notify: Notify, intake: Callable[[], Intake], now_ms: Callable[[], int]
    ) -> None:
        super().__init__()
        #: Messages of extensions that go with the next prompt.
        self.next_turn: list[CustomMessage] = []
        #: The prompts among the follow-ups: they were accepted while a run was ending, and their turn comes in any case.
        self._prompts: list[Queued] = []
        self._current = current
        self._notify = notify
        self._intake = intake
        self._now_ms = now_ms

    def start_run(self) -> None:
        """Begin a run with the messages that wait as steering, if there are any. Raises what `Session.prompt` raises."""
        self._intake().begin_with_queued()

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
        """Add a message of an extension. During a run it is queued; else it is added at once.

        Args:
            custom_type: What kind of message it is; the extension chooses the name.
            content: What the model sees.
            display: Whether the host shows it.
            details: JSON data for the host.
            deliver: The queue during a run: `steer` (the default) or `follow_up`. `next_turn` waits for the next prompt.
            trigger_turn: Whether to begin a run with it if none is going on.

        Raises:
            SessionError: It cannot be written.
            BadCommand: The details are not JSON. With `trigger_turn` also what `prompt` raises.
        """
        return await self._intake().extension_messages.send(
            custom_type, content, display=display, details=details, deliver=deliver, trigger_turn=trigger_turn
        )

    def hold_prompt(self, text: str, images: list[ImageContent] | None, attachments: list[dict[str, Any]] | None) -> HeldPrompt:
        """Return what saves a prompt of the user while it waits for extensions, for `Session.prompt`."""
        message = user_message(text, images, self._now_ms())
        message.attachments = attachments or None
        return HeldPrompt(message, self._current)

    def enqueue_prompt(self, message: UserMessage) -> None:
        """Let a prompt wait for the end of automatic work. Raises SessionError if it cannot be written."""
        self.enqueue("followUp", message)
        self._prompts.append(message)

    @property
    def has_prompts(self) -> bool:
        """Whether a prompt waits that was accepted while a run was ending."""
        self._prompts = [message for message in self._prompts if self.follow_up.holds(message)]
        return bool(self._prompts)

    def take_prompts(self, *, every: bool) -> list[Queued]:
        """Remove and return the first prompt that waits, or every one."""
        taken = self._prompts[: None if every else 1] if self.has_prompts else []
        for message in taken:
            self.follow_up.remove(message)
        return taken

    def enqueue(self, line: QueueName, message: Queued) -> None:
        """Let a message wait. Raises SessionError if it cannot be written."""
        self._current.conversation.note(QUEUE, run_log.addition(line, message))
        self.restore(line, message)
        if line != "nextTurn":
            self._notify(self.update())

    def restore(self, line: QueueName, message: Queued) -> None:
        """Let a message wait that has been written already."""
        if line != "nextTurn":
            (self.steering if line == "steering" else self.follow_up).add(message)
        elif isinstance(message, CustomMessage):
            self.next_turn.append(message)

    def clear(self) -> tuple[list[str], list[str]]:
        """Remove all messages that wait for a run. Returns the texts of the user, as steering and as follow-ups."""
        queued = [*self.steering, *self.follow_up]
        if queued:
            log = self._current.log
            self._current.conversation.keep(lambda: log.note(QUEUE, run_log.make_clearing(log, queued)))
        texts = self.steering.clear(), self.follow_up.clear()
        self._notify(self.update())
        return texts

    def forget(self) -> None:
        """Drop everything: another conversation has its own messages that wait."""
        self.steering.clear()
        self.follow_up.clear()
        self.next_turn.clear()
        self._prompts.clear()
