"""What a prompt came to: its `Result`, and the record of the run that becomes one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct

from fairlead.core.events import AgentSettled, CompactionEnd, Event, MessageEnd, SubagentEvent
from fairlead.core.limits import RunLimits
from fairlead.core.message_updates import MessageUpdate
from fairlead.core.messages import AssistantMessage, Message, StopReason, Usage, add_usage, readable_error
from fairlead.errors import FairleadError, LimitReached, ProviderError, RunAborted, RunTimeout, SessionLost
from fairlead.session.session import Session

T_co = TypeVar("T_co", covariant=True)

#: Seconds until a run that has used up its time is told to stop again.
_AGAIN = 0.05


class Result(Struct, Generic[T_co], frozen=True, kw_only=True):
    """What `Agent.ask` returns. `str(result)` is its text."""

    #: The text of the last answer; empty if an extension handled the prompt.
    text: str
    #: The answer as a value of the `output_type`. Without an `output_type` it is the text.
    output: T_co
    #: All messages that the run added, from the prompt to the last answer. Answers that failed and were retried are included.
    messages: list[Message]
    #: The tokens of all model calls, including retries, repairs, compactions and sub-agents, and their cost by kind.
    usage: Usage
    #: What all of that cost, in US dollars.
    cost: float
    #: Why the last answer ended; None if there was no model call.
    stop_reason: StopReason | None
    #: The id of the session.
    session_id: str
    #: How long it took, in seconds.
    duration: float

    def __str__(self) -> str:
        return self.text


def usage_in(event: Event) -> Usage | None:
    """Return what a model call has used, if an event reports one: of an answer or a summary, also those of sub-agents."""
    inner = event.event if isinstance(event, SubagentEvent) else event
    if isinstance(inner, MessageEnd) and isinstance(inner.message, AssistantMessage):
        return inner.message.usage
    if isinstance(inner, CompactionEnd) and inner.result is not None:
        return inner.result.usage
    return None


class RunRecord:
    """Records what the runs of one prompt add and cost, and stops them at the limits of the prompt.

    A prompt has one run, and another one for each repair of its output. The limits apply to all of them together.
    """

    def __init__(self, session: Session, max_turns: int | None, max_cost: float | None, timeout: float | None) -> None:
        self.messages: list[Message] = []
        self.usage = Usage()
        self._session = session
        self._max_turns = max_turns
        self._max_cost = max_cost
        self._timeout = timeout
        self._began = time.monotonic()
        #: How many model calls were answered.
        self._turns = 0
        #: The limit that ended the run.
        self._reached: Literal["cost", "time"] | None = None

    # Limits

    def limits(self) -> RunLimits:
        """Return the limits of the next run. Raises LimitReached if it may not make any model call."""
        if self._max_turns and self._turns >= self._max_turns:
            turns = "1 turn" if self._max_turns == 1 else f"{self._max_turns} turns"
            raise LimitReached(f"The prompt has used all of its {turns} (max_turns).", result=self.result())
        if self._over_budget() is not None or self._reached is not None:
            raise self._limit_error()
        return RunLimits(self._max_turns and self._max_turns - self._turns, self._over_budget)

    async def wait_for_other_run(self) -> None:
        """Wait until a run that is being aborted, or the automatic work after one, is over. Raises RunTimeout."""
        activity = self._session.activity
        if activity.is_streaming:
            # A loop over `Agent.run` that was left just now aborts its run in a task of asyncio, which may not have begun.
            for _ in range(2):
                await asyncio.sleep(0)
        try:
            async with asyncio.timeout(self._time_left):
                while activity.accepts_next_prompt or activity.is_stopping:
                    await activity.idle()
        except TimeoutError:
            self._reached = "time"
            raise self._limit_error() from None

    @property
    def _time_left(self) -> float | None:
        return None if self._timeout is None else max(0.0, self._began + self._timeout - time.monotonic())

    @contextmanager
    def stopping_in_time(self) -> Generator[None]:
        """Abort the run that happens meanwhile when the prompt has used up its time."""
        left = self._time_left
        if left is None:
            yield
            return
        loop = asyncio.get_running_loop()

        def stop() -> None:
            nonlocal timer
            self._reached = self._reached or "time"
            self._session.activity.cancel()
            # Again, until the run has ended: a prompt that is being prepared may have just passed from one step to the next.
            timer = loop.call_later(_AGAIN, stop)

        timer = loop.call_later(left, stop)
        try:
            yield
        finally:
            timer.cancel()

    def watch(self) -> RunLimits:
        """Record the run that starts now, and stop it at its limits. Returns those that the loop has to check."""
        watching = ExitStack()
        watching.enter_context(self.stopping_in_time())

        def receive(event: Event) -> None:
            self.see(event)
            if isinstance(event, AgentSettled):
                watching.close()

        watching.callback(self._session.subscribe(receive))
        return self.limits()

    def see(self, event: Event) -> None:
        """Record an event of the run."""
        if isinstance(event, MessageUpdate):  # by far the most frequent event
            return
        is_good = False
        if isinstance(event, MessageEnd):
            self.messages.append(event.message)
            is_good = isinstance(event.message, AssistantMessage) and event.message.stop_reason not in ("error", "aborted")
            self._turns += is_good
        usage = usage_in(event)
        if usage is not None:
            self._spend(usage, stops=not is_good)

    def _spend(self, usage: Usage, *, stops: bool = True) -> None:
        """Count a model call. After a good answer of the agent itself, the loop asks whether it may continue; otherwise stop."""
        self.usage = add_usage(self.usage, usage)
        if stops and usage.cost.total and self._reached is None and self._over_budget() is not None:
            self._reached = "cost"
            self._session.activity.cancel()

    def _over_budget(self) -> str | None:
        if self._max_cost is None or self.usage.cost.total < self._max_cost:
            return None
        return (
            f"The run was stopped because it has cost ${self.usage.cost.total:.4g}, and max_cost is ${self._max_cost:g}."
            " Prompt again to let it continue, or raise the limit."
        )

    # The outcome

    def result(self, output: Any = None) -> Result[Any]:
        """Return the result so far."""
        last = next(self._answers(), None)
        return Result(
            text=self.text,
            output=output,
            messages=self.messages,
            usage=self.usage,
            cost=self.usage.cost.total,
            stop_reason=None if last is None else last.stop_reason,
            session_id=self._session.history.id,
            duration=time.monotonic() - self._began,
        )

    @property
    def text(self) -> str:
        """The text of the last answer. If it failed without any, the text of the one before it."""
        for answer in self._answers():
            if answer.stop_reason not in ("error", "aborted") or answer.text():
                return answer.text()
        return ""

    def _answers(self) -> Iterator[AssistantMessage]:
        """The answers of the model, the last one first."""
        return (message for message in reversed(self.messages) if isinstance(message, AssistantMessage))

    def raise_if_stopped(self) -> None:
        """Raise the error of a limit that ended the run before it had begun."""
        if self._reached is not None:
            raise self._limit_error()

    def raise_failure(self) -> None:
        """Raise SessionLost, ProviderError, LimitReached or RunAborted if the last run did not end with a good answer."""
        lost = self._session.activity.lost
        if lost is not None:
            raise SessionLost(str(lost), self.result())
        end = self._session.activity.last_end
        if end is None:  # the task of the run was cancelled, as all tasks are when a loop ends
            raise RunAborted("The run was cancelled.", self.result())
        message = end.message
        if message.stop_reason not in ("error", "aborted"):
            return
        if self._reached is not None:
            raise self._limit_error()
        if message.stop_reason == "aborted":
            raise RunAborted(message.error_message or "The run was aborted.", self.result())
        if end.is_final:
            raise LimitReached(message.error_message or "The run reached a limit.", result=self.result())
        raise ProviderError(
            readable_error(message.error_message or "The model failed without saying why."),
            status=end.status,
            retry_after=end.retry_after,
            transient=end.transient,
            result=self.result(),
        )

    def _limit_error(self) -> FairleadError:
        if self._reached == "time":
            return RunTimeout(f"The prompt took longer than {self._timeout:g} seconds (timeout).", result=self.result())
        return LimitReached(self._over_budget() or "The run reached a limit.", result=self.result())
