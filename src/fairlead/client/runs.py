"""Runs: one awaitable per prompt, and how the client knows that the work for it is over.

The agents of the family say it in different ways. pi since 0.80 and fairlead send `agent_settled`; omp since 18.3 sends
`prompt_result` and `session_settled`. Older ones end with `agent_end`, after which a retry or a compaction may still follow. For
these the client asks for the state after `agent_end` and believes an agent that is idle. It stops asking once an agent has
shown that it says so by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractContextManager
from typing import Any, Self, cast

from msgspec import Struct

from fairlead.client.decoding import Event
from fairlead.client.event_stream import EventStream
from fairlead.client.events import (
    AgentEnd,
    AgentSettled,
    AgentStart,
    AutoCompactionEnd,
    AutoCompactionStart,
    AutoRetryEnd,
    AutoRetryStart,
    CompactionEnd,
    CompactionStart,
    MessageEnd,
    MessageUpdate,
    PromptResult,
    SessionSettled,
    TextDelta,
    TodoReminder,
    TtsrTriggered,
)
from fairlead.core.messages import AssistantMessage, Cost, Message, Usage, readable_error
from fairlead.errors import ClientError, RunFailed

#: Seconds between two looks at the state of an agent that does not say when it has settled.
POLL = 0.1
#: How often an agent must be idle before a prompt without a run counts as handled.
IDLE_LOOKS = 3

_CONTINUES = (AutoRetryStart, CompactionStart, AutoCompactionStart, TodoReminder, TtsrTriggered)
_MAYBE_OVER = (AutoRetryEnd, CompactionEnd, AutoCompactionEnd)


class Result(Struct, kw_only=True):
    """The outcome of a prompt."""

    #: The text of the last answer.
    text: str
    #: All messages that the run added, including the prompt.
    messages: list[Message]
    #: The sum over all model calls.
    usage: Usage
    #: Why the last answer ended: `stop`, `length`, `error`, `aborted` and so on; None if there was no answer.
    stop_reason: str | None
    #: Whether the run was aborted.
    aborted: bool
    #: Whether the prompt started no run: a command or an extension handled it.
    handled: bool = False


class Run:
    """A prompt that the agent has accepted. Await it for the `Result`."""

    def __init__(self, id: str, text: str, waits: Callable[[], AbstractContextManager[Any]]) -> None:
        self.id = id
        self.text = text
        #: Whether the agent has started to work on it, and whether that has ended.
        self.started = False
        self.ended = False
        #: Whether the next run of the agent is about this prompt.
        self.may_start = True
        self.abort_asked = False
        self.messages: list[Message] = []
        self._outcome: PromptResult | None = None
        self._waits = waits
        self._result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        # A failure that no caller waits for is not worth a message on stderr.
        self._result.add_done_callback(lambda result: result.cancelled() or result.exception())

    def __await__(self) -> Generator[Any, None, Result]:
        """Wait until the run has settled. Returns its result. Raises RunFailed, CommandRefused or AgentGone."""
        return self.wait().__await__()

    async def wait(self, timeout: float | None = None) -> Result:
        """Wait until the run has settled, at most `timeout` seconds. The run continues after a TimeoutError.

        Returns the result. Raises RunFailed if the run ended with an error, CommandRefused if the agent accepted the prompt and
        then refused it, and AgentGone if the agent ended.
        """
        with self._waits():
            return await asyncio.wait_for(asyncio.shield(self._result), timeout)

    @property
    def done(self) -> bool:
        """Whether the run has settled or failed."""
        return self._result.done()

    def on_done(self, callback: Callable[[], object]) -> None:
        """Call a function when the run has settled or failed."""
        self._result.add_done_callback(lambda _: callback())

    def note(self, outcome: PromptResult) -> None:
        """Keep what the agent says about this prompt."""
        self._outcome = outcome

    def settle(self, *, aborted: bool = False, handled: bool = False) -> None:
        """Resolve the run with what has happened so far."""
        if self._result.done():
            return
        last = next((each for each in reversed(self.messages) if isinstance(each, AssistantMessage)), None)
        status = self._outcome.status if self._outcome else ""
        failed = status == "error" or (not status and last is not None and last.stop_reason == "error")
        stopped = aborted or status == "aborted" or (last is not None and last.stop_reason == "aborted")
        if failed and (self.abort_asked or aborted):
            stopped = True  # pi reports an abort during a tool as an error
        result = Result(
            text=_text(last) if last else "",
            messages=self.messages,
            usage=total_usage(self.messages),
            stop_reason=last.stop_reason if last else None,
            aborted=stopped,
            handled=handled,
        )
        if failed and not stopped:
            said = self._outcome.error.message if self._outcome and self._outcome.error else last.error_message if last else None
            self.fail(RunFailed(readable_error(said or "The run failed."), result))
        else:
            self._result.set_result(result)

    def fail(self, error: ClientError) -> None:
        if not self._result.done():
            self._result.set_exception(error)


class RunStream(AsyncIterator[Event]):
    """A run with its events: iterate over the events with `async for`, and await it for the result.

    The iteration ends when the run has settled or failed. It contains all events of the session in that time.
    """

    def __init__(self, run: Run, stream: EventStream[Event]) -> None:
        self.run = run
        self._stream = stream

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        return await self._stream.__anext__()

    def __await__(self) -> Generator[Any, None, Result]:
        """Wait for the result, as `Run` does."""
        return self.run.__await__()

    async def text(self) -> AsyncGenerator[str]:
        """Iterate over the text of the answers only, in pieces, instead of all events."""
        async for event in self:
            if (piece := text_piece(event)) is not None:
                yield piece

    async def batch(self) -> list[Event]:
        """Wait for events, and return all that are there. An empty list means that there will be no more."""
        return await self._stream.batch()


def text_piece(event: Event) -> str | None:
    """Return the piece of an answer's text that an event adds, or None if it adds none."""
    if not isinstance(event, MessageUpdate):
        return None
    inner = event.assistant_message_event
    return inner.delta if isinstance(inner, TextDelta) else None


def total_usage(messages: list[Message]) -> Usage:
    """Add up the usage of all answers."""
    total, cost = Usage(), Cost()
    for message in messages:
        used: Any = message.usage if isinstance(message, AssistantMessage) else None
        if isinstance(used, Usage):
            for name in ("input", "output", "cache_read", "cache_write", "total_tokens"):
                setattr(total, name, getattr(total, name) + (getattr(used, name) or 0))
            for name in ("input", "output", "cache_read", "cache_write", "total"):
                setattr(cost, name, getattr(cost, name) + (getattr(used.cost, name, 0) or 0))
    total.cost = cost
    return total


class RunTracker:
    """Follows the events of an agent and settles its runs.

    `get_state` asks the agent for its state as JSON. `start_task` runs a coroutine in the background. Without `asks_state`, every
    `agent_end` is the end of a run, as in pi-2025, which has no state to ask for.
    """

    def __init__(
        self,
        get_state: Callable[[], Awaitable[dict[str, Any]]],
        start_task: Callable[[Coroutine[Any, Any, None]], object],
        *,
        asks_state: bool = True,
    ) -> None:
        self._asks_state = asks_state
        self._get_state = get_state
        self._start_task = start_task
        self._runs: list[Run] = []
        #: Whether a run of the agent is in progress.
        self._running = False
        #: Whether the agent says by itself when it has settled.
        self._says_settled = False
        #: Counts the signs that the agent is still at work.
        self._signs = 0

    def on_accept(self, run: Run, data: Any) -> None:
        """Take in a run whose prompt was accepted. `data` is that of the response, which says whether the prompt starts a run."""
        told = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
        disposition = told.get("disposition")
        if disposition == "handled" or told.get("agentInvoked") is False:
            self.remove(run)
            run.settle(handled=True)
        elif disposition is None and run.text.startswith("/") and not run.done and self._asks_state:
            self._start_task(self._watch_for_handled(run))

    def add(self, run: Run, *, joins: bool) -> None:
        """Begin to follow a run, before its prompt is sent.

        If it `joins`, it belongs to the run in progress, if any. Otherwise it starts after the prompt was accepted.
        """
        run.started = joins and self._running
        run.may_start = joins
        self._runs.append(run)

    def remove(self, run: Run) -> None:
        if run in self._runs:
            self._runs.remove(run)

    def find(self, id: object) -> Run | None:
        return next((run for run in self._runs if run.id == id), None)

    def newest_without_a_run(self) -> Run | None:
        """Return the prompt that came last, unless the run in progress is its own."""
        if not self._runs or (len(self._runs) == 1 and self._runs[0].started):
            return None
        return self._runs[-1]

    def fail_all(self, error: ClientError) -> None:
        """Fail every run, because the agent is gone."""
        runs, self._runs, self._running = self._runs, [], False
        for run in runs:
            run.fail(error)

    def abort_asked(self) -> None:
        """Remember that the host aborted what is running."""
        for run in self._runs:
            run.abort_asked = True

    async def wait_until_aborted(self, seconds: float | None) -> None:
        """Wait until the aborted runs have settled, at most some seconds: in pi-2025 no response says so."""
        for run in [run for run in self._runs if run.abort_asked]:
            with contextlib.suppress(ClientError, TimeoutError):
                await run.wait(seconds)

    def session_replaced(self) -> None:
        """Look whether a run was cut off without an event, as old versions of pi do when the session changes."""
        if any(run.started for run in self._runs):
            self._start_task(self._look_until_idle(cut_off=True))

    def handle(self, event: Event) -> None:
        """Take an event into account."""
        match event:
            case MessageEnd():
                for run in self._runs:
                    if run.started:
                        run.messages.append(event.message)
            case AgentStart():
                self._running = True
                self._signs += 1
                for run in self._runs:
                    run.started, run.ended = run.may_start, False
            case AgentEnd():
                self._handle_end(event)
            case AgentSettled() | SessionSettled():
                self._says_settled = True
                self._settle(aborted=event.raw.get("aborted") is True)
            case PromptResult():
                self._handle_prompt_result(event)
            case _ if isinstance(event, _CONTINUES):
                self._signs += 1
            case _ if isinstance(event, _MAYBE_OVER):
                self._signs += 1
                self._look()
            case _:
                pass

    # Inside

    def _handle_end(self, event: AgentEnd) -> None:
        self._running = False
        # Only omp 18 sends isTerminal. Other agents need not decode the frame twice.
        if event.will_retry is True or (not self._says_settled and event.raw.get("isTerminal") is False):
            return
        for run in self._runs:
            run.ended = run.started
        if self._asks_state:
            self._look()
        else:
            self._settle()

    def _handle_prompt_result(self, event: PromptResult) -> None:
        run = self.find(event.id)
        if run is None:
            return
        run.note(event)
        if event.agent_invoked is False or event.session_settled is not False:
            self.remove(run)
            run.settle(handled=event.agent_invoked is False)

    def _settle(self, *, aborted: bool = False) -> None:
        for run in [run for run in self._runs if run.ended]:
            self._runs.remove(run)
            run.settle(aborted=aborted)

    def _look(self) -> None:
        if not self._says_settled and any(run.ended for run in self._runs):
            self._start_task(self._look_until_idle())

    async def _look_until_idle(self, *, cut_off: bool = False) -> None:
        """Settle the runs that have ended, once the agent is idle and nothing has begun meanwhile."""
        signs = self._signs
        with contextlib.suppress(ClientError):
            while not (self._says_settled and not cut_off):
                busy = _is_busy(await self._get_state())
                if self._signs != signs:
                    return
                if not busy:
                    for run in self._runs:
                        run.ended = run.ended or (cut_off and run.started)
                    self._settle(aborted=cut_off)
                    return
                await asyncio.sleep(POLL)

    async def _watch_for_handled(self, run: Run) -> None:
        """Settle a slash command that starts no run. Agents before pi 1.5 do not say so."""
        idle = 0
        with contextlib.suppress(ClientError):
            while idle < IDLE_LOOKS and not run.started and not run.done:
                idle = 0 if _is_busy(await self._get_state()) else idle + 1
                await asyncio.sleep(POLL)
            if not run.started and not run.done:
                self.remove(run)
                run.settle(handled=True)


def _text(message: AssistantMessage) -> str:
    content: Any = message.content  # an agent may leave it out
    return message.text() if isinstance(content, list) else ""


def _is_busy(state: dict[str, Any]) -> bool:
    return bool(state.get("isStreaming") or state.get("isCompacting") or state.get("isSettled") is False)
