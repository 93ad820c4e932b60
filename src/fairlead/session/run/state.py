"""Whether a session is at work, how to stop it, and the attempts of its run."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fairlead.config.settings import RetrySettings
from fairlead.core.events import ExtensionError, RetryEnd, RetryStart
from fairlead.core.message_updates import UpdateMaker
from fairlead.core.model import StreamEnd
from fairlead.core.runtime import CancelToken
from fairlead.errors import SessionLost
from fairlead.session import hook_calls
from fairlead.session.asyncio_runtime import AsyncioRuntime
from fairlead.session.run import retry
from fairlead.session.session_events import Notify

if TYPE_CHECKING:
    from fairlead.core.limits import RunLimits
    from fairlead.session.additions import Extensions, SessionAdditions
    from fairlead.session.compaction.compactor import Compactor
    from fairlead.session.host import Host
    from fairlead.session.run.intake import Intake
    from fairlead.session.subagents.subagents import SessionSubagents


class RunState:
    """The one run that a session may have.

    A prompt counts as a run from the moment it is given: while it is being prepared, no other one can begin, and an abort means
    this one.
    """

    def __init__(self, notify: Notify) -> None:
        #: Sends an event to everything that listens to the session.
        self.notify = notify
        #: How the last model call of the last run ended.
        self.last_end: StreamEnd | None = None
        #: Whether the run has announced its end, though automatic work still follows.
        self.is_ending = False
        #: Stops the present run, or the prompt that is being prepared.
        self.cancel = CancelToken()
        #: Why the present or last run was aborted, if that is because the session was lost.
        self.lost: SessionLost | None = None
        #: Whether the present run was stopped because the session ends, not because the user aborted it.
        self.is_resumable = False
        #: The system prompt of the present run, if an extension has replaced the usual one.
        self.system_prompt: str | None = None
        #: Makes the updates of the answer that is arriving.
        self.answer: UpdateMaker | None = None
        self._task: asyncio.Task[None] | None = None
        #: Set when the prompt that is being prepared is ready; None while there is none.
        self._decided: asyncio.Event | None = None
        #: Announces the end of the last run, while extensions handle it; the event is set when that has happened.
        self._unannounced: Callable[[], None] | None = None
        self._announced: asyncio.Event | None = None

    @property
    def is_active(self) -> bool:
        """Whether a run is going on, or a prompt is being prepared."""
        return self._task is not None or self.is_preparing

    @property
    def is_running(self) -> bool:
        """Whether a run is going on."""
        return self._task is not None

    @property
    def is_preparing(self) -> bool:
        return self._decided is not None

    @contextmanager
    def preparing(self) -> Generator[CancelToken]:
        """Prepare a prompt. An abort fires what this gives."""
        self.announce()
        decided = self._decided = asyncio.Event()
        self.cancel = CancelToken()
        self.is_resumable, self.lost = False, None
        try:
            yield self.cancel
        finally:
            decided.set()
            if self._decided is decided:
                self._decided = None

    def stop_resumably(self) -> None:
        """Note that the run is about to be stopped because the session ends, unless the user has aborted it already."""
        if self.is_active and not self.cancel.fired:
            self.is_resumable = True

    def lose(self, error: SessionLost) -> None:
        """Abort the run, because the session was lost."""
        is_news, self.lost = self.lost is None, error
        self.cancel.fire()
        if is_news:
            self.notify(ExtensionError("session", "write", f"{error} The run was aborted."))

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.create_task(work, name="fairlead-run")

    def settle(self) -> None:
        """The run is over."""
        self._task = None
        self.is_ending = False
        self.system_prompt = None

    def announce_later(self, announce: Callable[[], None]) -> Callable[[], None]:
        """Have `announce` called when extensions have handled the end of the run, or before anything else happens.

        Returns a function that calls it unless it has been called.
        """
        self._unannounced, self._announced = announce, asyncio.Event()
        return lambda: self.announce() if self._unannounced is announce else None

    def announce(self) -> None:
        """Announce the end of the last run now, if it has not been announced yet."""
        announce, self._unannounced = self._unannounced, None
        if self._announced is not None:
            self._announced.set()
            self._announced = None
        if announce is not None:
            announce()

    async def wait_announced(self) -> None:
        """Wait until the end of the last run has been announced. An extension that handles it must not wait for itself:
        then it is announced immediately."""
        if self._unannounced is None or self._announced is None:
            return
        if hook_calls.is_inside():
            self.announce()
        else:
            await self._announced.wait()

    def forget_end(self) -> None:
        self.last_end = None

    async def wait_decided(self) -> None:
        """Wait until no prompt is being prepared."""
        if self._decided is not None:
            await self._decided.wait()

    async def wait_ended(self) -> None:
        """Wait until the run has settled, also the one of a prompt that is being prepared."""
        await self.wait_decided()
        if self._task is not None:
            await asyncio.wait([self._task])
        await self.wait_announced()


class Activity:
    """What is going on in a session, how its last run ended, and what may begin by itself."""

    def __init__(
        self,
        run: RunState,
        compactor: Compactor,
        attempts: Attempts,
        extensions: Extensions,
        intake: Callable[[], Intake],
    ) -> None:
        self._run = run
        self._compactor = compactor
        self._attempts = attempts
        self._extensions = extensions
        self._intake = intake

    # What begins by itself

    @property
    def auto_compaction(self) -> bool:
        """Whether the session is compacted without being asked, when the context is nearly full."""
        return self._compactor.enabled

    @auto_compaction.setter
    def auto_compaction(self, enabled: bool) -> None:
        self._compactor.enabled = enabled

    @property
    def auto_retry(self) -> bool:
        """Whether a model call that failed in a way that may pass is made again."""
        return self._attempts.enabled

    @auto_retry.setter
    def auto_retry(self, enabled: bool) -> None:
        self._attempts.enabled = enabled

    # A run that was interrupted

    @property
    def is_interrupted(self) -> bool:
        """Whether the last run did not reach its end, so that `resume` continues it.

        The process was killed, the session was closed during the run, the model failed, or messages wait that no run has taken.
        A run that the user aborted has ended.
        """
        return self._intake().is_interrupted

    async def resume(self, limits: RunLimits | None = None) -> None:
        """Continue a run that was interrupted. `idle` waits for its end.

        No message is repeated. Calls that had ended keep their results, calls of idempotent tools and calls that had not started
        are made now, and any other gets a result that says that it may have run. Messages that wait are delivered.

        Args:
            limits: What the run may not exceed, instead of the limits of the session.

        Raises:
            NothingToResume: The last run has ended, or there was none.
            BusyError, CompactingError, ConfigError, RunAborted, SessionError: As `Session.prompt`. Nothing has changed then.
        """
        await self._intake().resume(limits)

    # What is going on

    @property
    def is_streaming(self) -> bool:
        """Whether a run is going on. True from the moment a prompt is given until its run has settled."""
        return self._run.is_active

    @property
    def accepts_next_prompt(self) -> bool:
        """Whether automatic work is going on, after which a prompt that comes now has its turn."""
        return self._run.is_running and self._intake().accepts_next_prompt

    @property
    def is_stopping(self) -> bool:
        """Whether the run was aborted and has not ended yet."""
        return self._run.is_active and self._run.cancel.fired

    @property
    def last_end(self) -> StreamEnd | None:
        """How the last model call of the last run ended; None before the first run."""
        return self._run.last_end

    @property
    def lost(self) -> SessionLost | None:
        """Why the last run was aborted, if that is because the session was lost."""
        return self._run.lost

    @property
    def is_compacting(self) -> bool:
        """Whether a compaction is going on, or a branch is being summarised."""
        return self._compactor.is_running

    @property
    def is_at_rest(self) -> bool:
        """Whether anything may be added to the conversation: neither a run nor a compaction is going on."""
        return not self._run.is_running and not self._compactor.is_running

    @property
    def run_cancel(self) -> CancelToken | None:
        """Fires when the run that is going on is aborted; None if there is none."""
        return self._run.cancel if self._run.is_active else None

    def cancel_retry(self) -> None:
        """Make no further attempt, if the session is waiting for one. A run that waits for its key is aborted."""
        self._attempts.cancel()
        if self._attempts.is_held:
            self.cancel()

    def cancel(self, *, resumable: bool = False) -> None:
        """Tell the run, a compaction, and calls that wait for an extension, to stop, without waiting for them.

        `resumable` says that no user aborts the run, but the process or the session ends: `resume` can continue it later.
        """
        if resumable:
            self._run.stop_resumably()
        self._run.announce()
        self._run.cancel.fire()
        self._compactor.cancel()
        self._extensions.cancel()

    async def idle(self) -> None:
        """Wait until no run and no compaction is going on."""
        await self._run.wait_announced()
        while self._run.is_active:
            await self._run.wait_ended()
        await self._compactor.idle()


class Stopper:
    """Stops what is going on in a session: a run, a compaction, sub-agents, commands of the host."""

    def __init__(
        self,
        activity: Activity,
        run: RunState,
        compactor: Compactor,
        additions: SessionAdditions,
        host: Host,
        subagents: SessionSubagents | None,
    ) -> None:
        self._activity = activity
        self._run = run
        self._compactor = compactor
        self._additions = additions
        self._host = host
        self._subagents = subagents

    async def abort(self) -> None:
        """Stop the run, or a compaction, and wait until it has settled."""
        self._activity.cancel()
        self._additions.cancel()
        await self._run.wait_ended()
        if self._subagents is not None:
            await self._subagents.wait_ended()
        await self._compactor.idle()

    async def stop(self) -> None:
        """Stop everything, the commands of the host too, and wait until it has ended."""
        self._host.abort_all_commands()
        await self.abort()
        await self._host.commands_ended()
        self._host.add_finished_commands()


CANCELLED = "Retry cancelled"


class Attempts:
    """Counts the attempts of each run, and sends events about them. `enabled` says whether there are any retries."""

    def __init__(self, settings: RetrySettings, runtime: AsyncioRuntime, notify: Notify) -> None:
        self.enabled = settings.enabled
        self._settings = settings
        self._runtime = runtime
        self._notify = notify
        self._attempt = 0
        #: Fire to end the waits for a next attempt.
        self._waits: list[CancelToken] = []
        #: Whether a wait for a limit of the key was announced, and whether it lasts.
        self._has_waited = False
        self.is_held = False

    @property
    def most(self) -> int:
        """How many attempts follow a failure at most."""
        return self._settings.max_retries

    def begin(self) -> None:
        """A new run: it has all its attempts."""
        self._forget()

    def on_answer(self) -> None:
        """The model gave a good answer: if there were retries, they succeeded."""
        if self._attempt or self._has_waited:
            self._notify(RetryEnd(True, max(self._attempt, 1)))
            self._forget()

    def waits(self, seconds: float, reason: str) -> None:
        """Announce that a request waits because of a limit of its key. That is not an attempt."""
        self._has_waited = self.is_held = True
        self._notify(RetryStart(max(self._attempt, 1), max(self.most, 1), math.ceil(seconds * 1000), reason))

    def proceeds(self) -> None:
        """The wait that was announced has ended."""
        self.is_held = False

    def _forget(self) -> None:
        self._attempt, self._has_waited = 0, False

    def next_delay(self, end: StreamEnd) -> int | None:
        """Milliseconds until the next attempt; None if there is none."""
        return self.delay_after(end, self._attempt)

    def delay_after(self, end: StreamEnd, attempts: int) -> int | None:
        """Milliseconds until a request is sent again that failed after this many further attempts; None if it is not."""
        if end.message.stop_reason != "error" or not self.enabled or attempts >= self._settings.max_retries:
            return None
        if not retry.is_retryable(end):
            return None
        try:
            policy = retry.RetryPolicy.from_settings(self._settings)
            return policy.delay_ms(attempts + 1, retry.wait_asked_for(end), random.random)
        except retry.WaitTooLong as error:
            self._notify(ExtensionError("session", "retry", str(error)))
            return None

    def announce(self, end: StreamEnd, delay_ms: int) -> None:
        """Announce the next attempt."""
        self._attempt += 1
        error = end.message.error_message or ""
        self._notify(RetryStart(self._attempt, self._settings.max_retries, delay_ms, error))

    async def wait(self, delay_ms: int, cancel: CancelToken) -> bool:
        """Wait for the time of the next attempt. Returns False if it was cancelled meanwhile."""
        if await self.sleep(delay_ms, cancel):
            return True
        self._notify(RetryEnd(False, self._attempt, CANCELLED))
        self._forget()
        return False

    async def sleep(self, delay_ms: int, cancel: CancelToken) -> bool:
        """Wait. Returns False if `cancel` fired, or `cancel` was called, meanwhile."""
        stop = CancelToken()
        forget = cancel.on_fire(stop.fire)
        self._waits.append(stop)
        try:
            await self._runtime.sleep(delay_ms / 1000, stop)
        finally:
            forget()
            self._waits.remove(stop)
        return not stop.fired

    def cancel(self) -> None:
        """Make no further attempt, if the session is sleeping before one."""
        for stop in list(self._waits):
            stop.fire()

    def on_end(self, end: StreamEnd) -> None:
        """The run is over: if its last attempt failed too, say so."""
        if self._attempt or self._has_waited:
            error = CANCELLED if end.message.stop_reason == "aborted" else end.message.error_message
            self._notify(RetryEnd(False, max(self._attempt, 1), error))
            self._forget()
