"""Reports the outcome of each prompt: `prompt_result`, and `session_settled` after the last prompt of a run."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET

from fairlead.core.events import AgentSettled, AgentStart, Event, SessionReplaced
from fairlead.core.messages import UserMessage
from fairlead.protocol.pi import frames
from fairlead.session.session import Session
from fairlead.wire.messages import Id
from fairlead.wire.pi.encode import EventFrames
from fairlead.wire.prompts import AcceptedPrompts, PromptOutcome


class Outcomes:
    """The prompts whose outcome has not been reported yet."""

    def __init__(self, session: Session, to_host: EventFrames) -> None:
        #: The number of runs that started without a prompt from the host.
        self.unprompted_runs = 0
        self._session = session
        self._to_host = to_host
        self._prompts: AcceptedPrompts[Id] = AcceptedPrompts(session)

    def accepted(self, message: UserMessage, ident: Id) -> None:
        """Record a prompt that started a run or was queued."""
        self._prompts.add(message, ident)

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
            self._prompts.add(None, ident)
            return
        result = self._without_prompt(ident, "completed")
        result.agent_invoked = self.unprompted_runs > before
        self._to_host.send(result)

    def observe(self, event: Event) -> None:
        """Update the outcomes for an event, before its frames are sent."""
        if isinstance(event, AgentStart):
            self.unprompted_runs += not self._prompts
        self._prompts.observe(event)
        if isinstance(event, AgentSettled):
            self._to_host.settle()  # the outcome of a prompt follows the end of its run
            self.report()
            self._to_host.send(frames.SessionSettled())
        elif isinstance(event, SessionReplaced):
            self.report()

    def report(self) -> None:
        """Report the outcome of each prompt that is no longer queued. As in omp, prompts that were queued come first."""
        for ident, outcome in self._prompts.take_finished():
            self._to_host.send(_result(ident, outcome))

    def _without_prompt(self, ident: Id, status: Literal["completed", "error"]) -> frames.PromptResult:
        """Return the outcome of a prompt that never reached the agent."""
        is_settled = not self._session.activity.is_streaming
        return frames.PromptResult(id=ident, agent_invoked=False, status=status, session_settled=is_settled)


def _result(ident: Id, outcome: PromptOutcome) -> frames.PromptResult:
    result = frames.PromptResult(id=ident, agent_invoked=outcome.delivered, status=outcome.status, session_settled=True)
    if outcome.status == "error" and outcome.end is not None:
        message = outcome.end.message
        result.error = frames.PromptError(
            message=message.error_message or "unknown error",
            retryable=outcome.end.transient,
            provider=message.provider,
            model=message.model,
            http_status=UNSET if outcome.end.status is None else outcome.end.status,
        )
    return result
