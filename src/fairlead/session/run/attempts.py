"""Retries of a model call that failed in a way that may pass."""

from __future__ import annotations

from fairlead.config.settings import RetrySettings
from fairlead.core.events import ExtensionError, RetryEnd, RetryStart
from fairlead.core.model import StreamEnd
from fairlead.core.runtime import CancelToken
from fairlead.session.events import Notify
from fairlead.session.runtime import AsyncioRuntime

CANCELLED = "Retry cancelled"


class Attempts:
    """Counts the attempts of each run, and sends events about them. `enabled` says whether there are any retries."""

    def __init__(self, settings: RetrySettings, runtime: AsyncioRuntime, notify: Notify) -> None:
        self.enabled = settings.enabled
        self._settings = settings
        self._runtime = runtime
        self._notify = notify
        self._attempt = 0
        self._waiting: CancelToken | None = None

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

    async def wait(self, end: StreamEnd, delay_ms: int, cancel: CancelToken) -> bool:
        """Announce the next attempt and wait for its time. Returns False if it was cancelled meanwhile."""
        self._attempt += 1
        error = end.message.error_message or ""
        self._notify(RetryStart(self._attempt, self._settings.max_retries, delay_ms, error))
        waiting = self._waiting = CancelToken()
        forget = cancel.on_fire(waiting.fire)
        try:
            await self._runtime.sleep(delay_ms / 1000, waiting)
        finally:
            forget()
            self._waiting = None
        if waiting.fired:
            self._notify(RetryEnd(False, self._attempt, CANCELLED))
            self._attempt = 0
        return not waiting.fired

    def cancel(self) -> None:
        """Make no further attempt, if the run is waiting for one."""
        if self._waiting is not None:
            self._waiting.fire()

    def ended(self, end: StreamEnd) -> None:
        """The run is over: if its last attempt failed too, say so."""
        if self._attempt:
            error = CANCELLED if end.message.stop_reason == "aborted" else end.message.error_message
            self._notify(RetryEnd(False, self._attempt, error))
            self._attempt = 0
