"""What is pending in every protocol: questions to the host, and prompts that a session has accepted.

Answers of the host may arrive in any order, late, twice, or never.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct

from fairlead.core.events import AgentEnd, AgentSettled, AgentStart, Event, MessageEnd
from fairlead.core.messages import UserMessage
from fairlead.core.model import StreamEnd
from fairlead.core.runtime import CancelToken
from fairlead.wire.routing import HostReply

if TYPE_CHECKING:
    from fairlead.session.session import Session


class Unanswered(Exception):
    """The host did not answer."""


class Withdrawn(Unanswered):
    """The run was aborted before the host answered. The host was notified if the protocol has a frame for it."""


class HostLeft(Unanswered):
    """The host is gone and cannot answer."""


class Expired(Unanswered):
    """The host did not answer in time."""


class HostQuestion(Struct, frozen=True, kw_only=True):
    """What to ask, and which replies to expect. Each question and each withdrawal has a separate id."""

    #: Takes the question's id and returns the frame that asks it.
    ask: Callable[[str], Any]
    #: Takes a new id and the question's id, and returns the frame that withdraws it. None if the protocol has no such frame.
    withdraw: Callable[[str, str], Any] | None = None
    #: The name of the reply that answers the question. None if every reply does.
    answered_by: str | None = None
    #: Seconds that the host has to answer. None for no limit.
    timeout: float | None = None
    #: Whether the question says how long the host has, so that it need not be withdrawn after that.
    shows_timeout: bool = True
    #: Returns a new id. None to use the `new_id` of `Questions`.
    new_id: Callable[[], str] | None = None
    #: Raises FairleadError if the host should get an error for a malformed answer. The caller gets the answer in any case.
    check: Callable[[Any], object] | None = None
    #: The name of the replies that report progress, and what to do with each. Raises FairleadError if one is malformed.
    updated_by: str | None = None
    on_update: Callable[[Any], None] | None = None


class _Open(Struct, frozen=True):
    question: HostQuestion
    outcome: asyncio.Future[HostReply | Exception]


class Questions:
    """The open questions. `send` sends the frames that `HostQuestion` makes."""

    def __init__(self, send: Callable[[Any], None], new_id: Callable[[], str] | None = None) -> None:
        self._send = send
        self._open: dict[str, _Open] = {}
        self._host_left = False
        self._make_id = new_id or random_ids()

    @property
    def can_be_asked(self) -> bool:
        """Whether the host is still there to answer."""
        return not self._host_left

    async def ask(self, question: HostQuestion, cancel: CancelToken) -> HostReply:
        """Ask a question, and return the reply.

        Raises Withdrawn if `cancel` fires first, HostLeft if the host leaves, and Expired after the question's timeout.
        If the waiting task is cancelled, the question is withdrawn as well.
        """
        if self._host_left:
            raise HostLeft
        if cancel.fired:
            raise Withdrawn
        loop = asyncio.get_running_loop()
        ident = self._new_id(question)
        opened = self._open[ident] = _Open(question, loop.create_future())
        forget = cancel.on_fire(lambda: self._withdraw(ident))
        timer = None if question.timeout is None else loop.call_later(question.timeout, self._expire, ident)
        try:
            self._send(question.ask(ident))
            outcome = await opened.outcome
        finally:
            forget()
            if timer is not None:
                timer.cancel()
            self._withdraw(ident)  # does nothing, unless the task was cancelled
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def receive(self, reply: HostReply) -> None:
        """Pass a reply to its question. A reply without an open question is ignored.

        Raises FairleadError if the reply is malformed and the host should get an error.
        """
        opened = None if reply.question is None else self._open.get(reply.question)
        if opened is None or reply.question is None:
            return
        question = opened.question
        if question.answered_by in (None, reply.name):
            self._close(reply.question, reply)
            if question.check is not None:
                question.check(reply.body)
        elif reply.name == question.updated_by and question.on_update is not None:
            question.on_update(reply.body)

    def host_left(self) -> None:
        """Fail all open and all later questions with HostLeft."""
        self._host_left = True
        for ident in list(self._open):
            self._close(ident, HostLeft())

    def _expire(self, ident: str) -> None:
        if ident in self._open and not self._open[ident].question.shows_timeout:
            self._withdraw(ident, Expired())
        else:
            self._close(ident, Expired())

    def _withdraw(self, ident: str, outcome: Unanswered | None = None) -> None:
        opened = self._open.get(ident)
        if opened is not None:
            self._close(ident, outcome or Withdrawn())
            if opened.question.withdraw is not None:
                self._send(opened.question.withdraw(self._new_id(opened.question), ident))

    def _close(self, ident: str, outcome: HostReply | Exception) -> None:
        opened = self._open.pop(ident, None)
        if opened is not None and not opened.outcome.done():  # done already if the waiting task was cancelled
            opened.outcome.set_result(outcome)

    def _new_id(self, question: HostQuestion) -> str:
        return (question.new_id or self._make_id)()


def random_ids() -> Callable[[], str]:
    """Return a function that makes ids.

    They never repeat and start at a random number, so a reply meant for another process does not match a question here.
    """
    numbers = count(int.from_bytes(os.urandom(8)) >> 1)
    return lambda: f"{next(numbers):016x}"


K = TypeVar("K")
PromptStatus: TypeAlias = Literal["completed", "error", "aborted"]


class PromptOutcome(Struct, frozen=True):
    """How the work on a prompt ended."""

    #: Whether the prompt became part of the conversation.
    delivered: bool
    #: The end of the last model call of its run; None if there was none.
    end: StreamEnd | None
    #: Whether the run was aborted. An abort while a failed call waits for its next attempt leaves no aborted message.
    run_aborted: bool = False

    @property
    def status(self) -> PromptStatus:
        if self.end is None or self.end.message.stop_reason == "aborted" or not self.delivered:
            return "aborted"
        if self.end.message.stop_reason != "error":
            return "completed"
        return "aborted" if self.run_aborted else "error"


class _Accepted(Struct, Generic[K], eq=False):
    """A prompt whose outcome has not been reported yet."""

    #: None if an extension handled the prompt and sent another one.
    message: UserMessage | None
    key: K
    was_queued: bool
    #: Whether it has become part of the conversation.
    delivered: bool = False
    #: Its outcome, if that is known before the session settles.
    outcome: PromptOutcome | None = None


class AcceptedPrompts(Generic[K]):
    """The prompts whose outcome has not been reported yet, each with a key that the protocol chooses.

    Call `observe` with every event of the session, and `take_finished` when it has settled.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._prompts: list[_Accepted[K]] = []
        #: The prompts that are not part of the conversation yet, by the `id()` of their message.
        self._undelivered: dict[int, _Accepted[K]] = {}
        #: Whether the work on all delivered prompts has ended, though the session has not settled.
        self._has_ended = False
        #: Whether the last run was aborted.
        self._run_aborted = False

    def __len__(self) -> int:
        return len(self._prompts)

    def add(self, message: UserMessage | None, key: K) -> None:
        """Add a prompt that started a run or was queued; without a message, one whose run an extension started."""
        if message is None:
            self._prompts.append(_Accepted(None, key, was_queued=False, delivered=True))
            return
        prompt = _Accepted(message, key, was_queued=self._session.queue.holds(message))
        self._prompts.append(prompt)
        self._undelivered[id(message)] = prompt

    def expects(self, message: UserMessage) -> bool:
        """Whether a message is a prompt that is not part of the conversation yet."""
        return id(message) in self._undelivered

    def observe(self, event: Event) -> None:
        if isinstance(event, MessageEnd) and isinstance(event.message, UserMessage):
            prompt = self._undelivered.pop(id(event.message), None)
            if prompt is not None:
                prompt.delivered = True
        elif isinstance(event, AgentEnd):
            self._has_ended = not event.will_retry
        elif isinstance(event, AgentStart):
            if self._has_ended and self._undelivered:  # else an extension continues the run
                self._freeze()
            self._has_ended = False
            self._run_aborted = False
        elif isinstance(event, AgentSettled):
            self._has_ended = False
            self._run_aborted = event.aborted

    def _freeze(self) -> None:
        """Record the outcomes of the prompts so far: a prompt that was accepted since starts with the next attempt."""
        for prompt in self._prompts:
            if prompt.delivered and prompt.outcome is None:
                prompt.outcome = self._outcome(prompt)

    def take_finished(self) -> list[tuple[K, PromptOutcome]]:
        """Remove the prompts that are no longer queued, and return their outcomes. Those that were queued come first."""
        waits = self._session.queue.holds
        done: list[_Accepted[K]] = []
        left: list[_Accepted[K]] = []
        for prompt in self._prompts:
            (left if prompt.message is not None and waits(prompt.message) else done).append(prompt)
        self._prompts = left
        for prompt in done:
            self._undelivered.pop(id(prompt.message), None)
        return [
            (prompt.key, prompt.outcome or self._outcome(prompt)) for prompt in sorted(done, key=lambda each: not each.was_queued)
        ]

    def _outcome(self, prompt: _Accepted[K]) -> PromptOutcome:
        return PromptOutcome(prompt.delivered, self._session.activity.last_end, self._run_aborted)
