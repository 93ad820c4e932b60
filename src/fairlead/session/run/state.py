"""Whether a session is at work, how to stop it, and the attempts of its run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fairlead.config.settings import RetrySettings
from fairlead.core.events import ExtensionError, RetryEnd, RetryStart
from fairlead.core.model import StreamEnd
from fairlead.core.runtime import CancelToken
from fairlead.session.events import Notify
from fairlead.session.runtime import AsyncioRuntime

if TYPE_CHECKING:
    from fairlead.session.additions import Extensions, SessionAdditions
    from fairlead.session.compaction.compactor import Compactor
    from fairlead.session.host import Host
    from fairlead.session.subagents.subagents import SessionSubagents


class RunState:
    """The one run that a session may have.

    A prompt counts as a run from the moment it is given: while it is being prepared, no other one can begin, and an abort means
    this one.
    """

    def __init__(self) -> None:
        #: How the last model call of the last run ended.
        self.last_end: StreamEnd | None = None
        #: Whether the run has announced its end, though automatic work still follows.
        self.is_ending = False
        #: Stops the present run, or the prompt that is being prepared.
        self.cancel = CancelToken()
        self._task: asyncio.Task[None] | None = None
        #: Set while no prompt is being prepared.
        self._decided = asyncio.Event()
        self._decided.set()
        #: Announces the end of the last run, while extensions handle it; the event is set when that has happened.
        self._unannounced: Callable[[], None] | None = None
        self._announced = asyncio.Event()

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
        return not self._decided.is_set()

    @contextmanager
    def preparing(self) -> Generator[CancelToken]:
        """Prepare a prompt. An abort fires what this gives."""
        self.announce()
        self._decided.clear()
        self.cancel = CancelToken()
        try:
            yield self.cancel
        finally:
            self._decided.set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.create_task(work, name="fairlead-run")

    def settle(self) -> None:
        """The run is over."""
        self._task = None
        self.is_ending = False

    def announce_later(self, announce: Callable[[], None]) -> Callable[[], None]:
        """Have `announce` called when extensions have handled the end of the run, or before anything else happens.

        Returns a function that calls it unless it has been called.
        """
        self._unannounced, self._announced = announce, asyncio.Event()
        return lambda: self.announce() if self._unannounced is announce else None

    def announce(self) -> None:
        """Announce the end of the last run now, if it has not been announced yet."""
        announce, self._unannounced = self._unannounced, None
        if announce is not None:
            self._announced.set()
            announce()

    async def announced(self) -> None:
        """Wait until the end of the last run has been announced. An extension that handles it must not wait for itself: it is
        announced at once then."""
        if self._unannounced is None:
            return
        from fairlead.session.hook_calls import is_inside

        if is_inside():
            self.announce()
        else:
            await self._announced.wait()

    def forget_end(self) -> None:
        self.last_end = None

    async def decided(self) -> None:
        """Wait until no prompt is being prepared."""
        await self._decided.wait()

    async def ended(self) -> None:
        """Wait until the run has settled, also the one of a prompt that is being prepared."""
        await self.decided()
        if self._task is not None:
            await asyncio.wait([self._task])
        await self.announced()


class Activity:
    """What is going on in a session, how its last run ended, and what may begin by itself."""

    def __init__(
        self,
        run: RunState,
        compactor: Compactor,
        attempts: Attempts,
        extensions: Extensions,
    ) -> None:
        self._run = run
        self._compactor = compactor
        self._attempts = attempts
        self._extensions = extensions

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

    # What is going on

    @property
    def is_streaming(self) -> bool:
        """Whether a run is going on. True from the moment a prompt is given until its run has settled."""
        return self._run.is_active

    @property
    def accepts_next_prompt(self) -> bool:
        """Whether automatic work is going on, after which a prompt that comes now has its turn."""
        return self._run.is_running and (self._run.is_ending or self._compactor.is_automatic)

    @property
    def is_stopping(self) -> bool:
        """Whether the run was aborted and has not ended yet."""
        return self._run.is_active and self._run.cancel.fired

    @property
    def last_end(self) -> StreamEnd | None:
        """How the last model call of the last run ended; None before the first run."""
        return self._run.last_end

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
        """Make no further attempt, if the run is waiting for one."""
        self._attempts.cancel()

    def cancel(self) -> None:
        """Tell the run, a compaction, and whatever waits for an extension, to stop, without waiting for them."""
        self._run.announce()
        self._run.cancel.fire()
        self._compactor.cancel()
        self._extensions.cancel()

    async def idle(self) -> None:
        """Wait until no run and no compaction is going on."""
        await self._run.announced()
        while self._run.is_active:
            await self._run.ended()
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
        await self._run.ended()
        if self._subagents is not None:
            await self._subagents.ended()
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
        self._retry_cancel: CancelToken | None = None

    def begin(self) -> None:
        """A new run: it has all its attempts."""
        self._attempt = 0

    def answered(self) -> None:
        """The model gave a good answer: if there were retries, they succeeded."""
        if self._attempt:
            self._notify(RetryEnd(True, self._attempt))
            self._attempt = 0

    def next_delay(self, end: StreamEnd) -> int | None:
        """Milliseconds until the next attempt; None if there is none."""
        if end.message.stop_reason != "error" or not self.enabled or self._attempt >= self._settings.max_retries:
            return None
        import random

        from fairlead.session.run.retry import RetryPolicy, WaitTooLong, is_retryable, wait_asked_for

        if not is_retryable(end):
            return None
        try:
            policy = RetryPolicy.from_settings(self._settings)
            return policy.delay_ms(self._attempt + 1, wait_asked_for(end), random.random)
        except WaitTooLong as error:
            self._notify(ExtensionError("session", "retry", str(error)))
            return None

    def announce(self, end: StreamEnd, delay_ms: int) -> None:
        """Announce the next attempt."""
        self._attempt += 1
        error = end.message.error_message or ""
        self._notify(RetryStart(self._attempt, self._settings.max_retries, delay_ms, error))

    async def wait(self, delay_ms: int, cancel: CancelToken) -> bool:
        """Wait for the time of the next attempt. Returns False if it was cancelled meanwhile."""
        retry_cancel = self._retry_cancel = CancelToken()
        forget = cancel.on_fire(retry_cancel.fire)
        try:
            await self._runtime.sleep(delay_ms / 1000, retry_cancel)
        finally:
            forget()
            self._retry_cancel = None
        if retry_cancel.fired:
            self._notify(RetryEnd(False, self._attempt, CANCELLED))
            self._attempt = 0
        return not retry_cancel.fired

    def cancel(self) -> None:
        """Make no further attempt, if the run is waiting for one."""
        if self._retry_cancel is not None:
            self._retry_cancel.fire()

    def ended(self, end: StreamEnd) -> None:
        """The run is over: if its last attempt failed too, say so."""
        if self._attempt:
            error = CANCELLED if end.message.stop_reason == "aborted" else end.message.error_message
            self._notify(RetryEnd(False, self._attempt, error))
            self._attempt = 0
