"""Reports the outcome of each prompt: `prompt_result`, and `session_settled` after the last prompt of a run."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct

from fairlead.core.events import AgentEnd, AgentSettled, AgentStart, Event, MessageEnd, SessionReplaced
from fairlead.core.messages import UserMessage
from fairlead.protocol.pi import frames
from fairlead.session.session import Session
from fairlead.wire.messages import Id
from fairlead.wire.pi.encode import EventFrames


class Outcomes:
    """The prompts whose outcome has not been reported yet."""

    def __init__(self, session: Session, to_host: EventFrames) -> None:
        #: The number of runs that started without a prompt from the host.
        self.unprompted_runs = 0
        self._session = session
        self._to_host = to_host
        self._prompts: list[_Accepted] = []
        #: The prompts that are not part of the conversation yet, by the `id()` of their message.
        self._undelivered: dict[int, _Accepted] = {}
        #: Whether the work on all delivered prompts has ended, though the session has not settled.
        self._has_ended = False

    def accepted(self, message: UserMessage, ident: Id) -> None:
        """Record a prompt that started a run or was queued."""
        prompt = _Accepted(message, ident, was_queued=self._session.queue.holds(message))
        self._prompts.append(prompt)
        self._undelivered[id(message)] = prompt

    def refusal(self, ident: Id, error: str) -> frames.PromptResult:
        """Return the outcome of a prompt that was acknowledged but could not start."""
        result = self._without_prompt(ident, "error")
        result.error = frames.PromptError(message=error, retryable=False)
        return result

    async def handled(self, ident: Id, runs_before: int | None = None) -> None:
        """Report the outcome of a prompt that an extension handled.

        If the extension started a run, the outcome is that of the run. `runs_before` is the value of `unprompted_runs` from
        before the extension was called.
        """
        hooks = self._session.extensions.hooks
        before = self.unprompted_runs if runs_before is None else runs_before
        if hooks is not None:
            await hooks.sent()
        if self._session.activity.is_streaming and not self._prompts:
            self._prompts.append(_Accepted(None, ident, was_queued=False, delivered=True))
            return
        result = self._without_prompt(ident, "completed")
        result.agent_invoked = self.unprompted_runs > before
        self._to_host.send(result)

    def observe(self, event: Event) -> None:
        """Update the outcomes for an event, before its frames are sent."""
        if isinstance(event, MessageEnd) and isinstance(event.message, UserMessage):
            prompt = self._undelivered.pop(id(event.message), None)
            if prompt is not None:
                prompt.delivered = True
        elif isinstance(event, AgentEnd):
            self._has_ended = not event.will_retry
        elif isinstance(event, AgentStart):
            self.unprompted_runs += not self._prompts
            if self._has_ended:
                self._freeze()
            self._has_ended = False
        elif isinstance(event, AgentSettled):
            self._has_ended = False
            self._to_host.settle()  # the outcome of a prompt follows the end of its run
            self.report()
            self._to_host.send(frames.SessionSettled())
        elif isinstance(event, SessionReplaced):
            self.report()

    def _freeze(self) -> None:
        """Record the outcomes of the prompts so far: a prompt that was accepted since starts with the next attempt."""
        for prompt in self._prompts:
            if prompt.delivered and prompt.result is None:
                prompt.result = self._outcome(prompt)

    def report(self) -> None:
        """Report the outcome of each prompt that is no longer queued. As in omp, prompts that were queued come first."""
        waits = self._session.queue.holds
        done: list[_Accepted] = []
        left: list[_Accepted] = []
        for prompt in self._prompts:
            (left if prompt.message is not None and waits(prompt.message) else done).append(prompt)
        self._prompts = left
        for prompt in done:
            self._undelivered.pop(id(prompt.message), None)
        for prompt in sorted(done, key=lambda prompt: not prompt.was_queued):
            self._to_host.send(prompt.result or self._outcome(prompt))

    def _without_prompt(self, ident: Id, status: Literal["completed", "error"]) -> frames.PromptResult:
        """Return the outcome of a prompt that never reached the agent."""
        is_settled = not self._session.activity.is_streaming
        return frames.PromptResult(id=ident, agent_invoked=False, status=status, session_settled=is_settled)

    def _outcome(self, prompt: _Accepted) -> frames.PromptResult:
        end = self._session.activity.last_end
        result = frames.PromptResult(id=prompt.id, agent_invoked=prompt.delivered, status="completed", session_settled=True)
        if end is None or end.message.stop_reason == "aborted" or not prompt.delivered:
            result.status = "aborted"
        elif end.message.stop_reason == "error":
            message = end.message
            result.status = "error"
            result.error = frames.PromptError(
                message=message.error_message or "unknown error",
                retryable=end.transient,
                provider=message.provider,
                model=message.model,
                http_status=UNSET if end.status is None else end.status,
            )
        return result


class _Accepted(Struct, eq=False):
    """A prompt whose outcome has not been reported yet."""

    #: None if an extension handled the prompt and sent another one.
    message: UserMessage | None
    id: Id
    was_queued: bool
    #: Whether it has become part of the conversation.
    delivered: bool = False
    #: Its outcome, if that is known before the session settles.
    result: frames.PromptResult | None = None
