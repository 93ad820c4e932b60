"""Which prompts a session has accepted, and how the work on each of them ended. It works for every protocol."""

from __future__ import annotations

from typing import Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct

from fairlead.core.events import AgentEnd, AgentSettled, AgentStart, Event, MessageEnd
from fairlead.core.messages import UserMessage
from fairlead.core.model import StreamEnd
from fairlead.session.session import Session

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
