"""The messages of extensions: into a run, a queue or the conversation. A session that gets none does not load this."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from fairlead.core import lenient
from fairlead.core.events import ExtensionError, MessageEnd, MessageStart
from fairlead.core.messages import CustomMessage, Message, UserBlock
from fairlead.core.runtime import CancelToken
from fairlead.errors import SessionError
from fairlead.session.history.current import CurrentConversation
from fairlead.session.run.message_queue import MessageQueue
from fairlead.session.run.state import RunState
from fairlead.session.session_events import Notify

#: When the model sees a message: in its next turn, when it would stop, or with the next prompt.
Deliver: TypeAlias = Literal["steer", "follow_up", "next_turn"]
#: Begins a run with a message and with those before it. Raises if none can begin.
Begin: TypeAlias = Callable[[CustomMessage, Sequence[Message], CancelToken], Awaitable[None]]


class _Sent(Struct, frozen=True):
    message: CustomMessage
    deliver: Deliver | None
    trigger_turn: bool


class ExtensionMessages:
    """Accepts the messages of extensions for one session.

    Args:
        preparing: Opens the preparation of a run. Raises if none can begin now.
        begin: Begins a run within it.
    """

    def __init__(
        self,
        current: CurrentConversation,
        queue: MessageQueue,
        run: RunState,
        *,
        preparing: Callable[[], AbstractContextManager[CancelToken]],
        begin: Begin,
        notify: Notify,
        now_ms: Callable[[], int],
    ) -> None:
        self._current = current
        self._queue = queue
        self._run = run
        self._preparing = preparing
        self._begin = begin
        self._notify = notify
        self._now_ms = now_ms
        #: What was sent while a prompt was being prepared: until then it is not known whether there will be a run.
        self._meanwhile: list[_Sent] = []

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
        """See `MessageQueue.send_message`."""
        message = CustomMessage(custom_type, content, display, self._now_ms(), lenient.to_json_data(details))
        if deliver == "next_turn":
            self._queue.enqueue("nextTurn", message)
        elif self._run.is_preparing:
            self._meanwhile.append(_Sent(message, deliver, trigger_turn))
        elif trigger_turn and not self._run.is_active:
            await self._run.wait_announced()
            with self._preparing() as cancel:
                await self._begin(message, (), cancel)
        else:
            self._add(_Sent(message, deliver, trigger_turn))
        return message

    async def begin_with_sent(self, cancel: CancelToken) -> None:
        """Begin a run with what an extension has sent while it handled a prompt, if it asked for that."""
        sent = self._meanwhile
        first = next((place for place, each in enumerate(sent) if each.trigger_turn), None)
        if first is None:
            return
        await self._begin(sent[first].message, [each.message for each in sent[:first]], cancel)
        del sent[: first + 1]

    def add_sent(self) -> None:
        """Add what was sent while a prompt was being prepared, now that this is over."""
        sent, self._meanwhile = self._meanwhile, []
        for each in sent:
            try:
                self._add(each)
            except SessionError as error:  # the prompt itself may still succeed
                self._notify(ExtensionError("session", "write", str(error)))

    def _add(self, sent: _Sent) -> None:
        """Add a message that does not start a run: immediately, or to the queue of the active run."""
        message = sent.message
        if self._run.is_active:
            self._queue.enqueue("followUp" if sent.deliver == "follow_up" else "steering", message)
        else:
            self._current.conversation.ask(message)
            self._notify(MessageStart(message))
            self._notify(MessageEnd(message))
