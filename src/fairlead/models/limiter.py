"""Limits the requests that all agents of a process send with one key of a provider.

A request waits while the key is at a limit: of requests at the same time, of requests a minute, of tokens a minute. When a
provider refuses a request (status 429 or 529), the key pauses for as long as the provider asks. Half as many requests run at the
same time after that, and each good answer allows a little more, until there is no such limit again. Waiting requests are let
through by priority, then in order of arrival.

Without limits and refusals, a request is only counted.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from weakref import WeakValueDictionary

from fairlead.config.settings import RateLimit
from fairlead.core.model import StreamEnd, WaitListener
from fairlead.core.runtime import CancelToken
from fairlead.models.http.http_client import RequestAborted

_log = logging.getLogger("fairlead.models")

#: The statuses with which providers refuse a request because there are too many.
_REFUSALS = frozenset({429, 529})
#: Seconds to pause when a provider does not say for how long, and the longest pause that a provider can ask for.
_PAUSE, _LONGEST_PAUSE = 1.0, 300.0
#: A wait of at least this many seconds is reported.
_LONG_WAIT = 1.0
_PAUSED = "The provider refused a request with this key because there were too many, and asked to wait."
_LIMITED = "The limits for this key in the setting rateLimits are reached."
#: How many limiters are kept though no stream uses them.
MOST_KEPT = 1000
#: How many bytes of a request are about one token.
_BYTES_PER_TOKEN = 4


class Ticket:
    """A request that was let through."""

    __slots__ = ("began", "tokens")

    def __init__(self, began: float, tokens: int) -> None:
        self.began = began
        #: Its tokens: an estimate until the request has ended.
        self.tokens = tokens


class _Waiter:
    """A request that waits. The requests with the highest priority come first, and of those the oldest one."""

    __slots__ = ("done", "is_through", "listener", "loop", "order", "reported_until", "tokens")

    def __init__(self, priority: int, number: int, tokens: int, listener: WaitListener | None) -> None:
        self.order = (-priority, number)
        self.listener = listener
        #: The end of the wait that was reported; 0 if none was.
        self.reported_until = 0.0
        self.tokens = tokens
        self.is_through = False
        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[Ticket] = self.loop.create_future()

    def __lt__(self, other: _Waiter) -> bool:
        return self.order < other.order


class KeyLimiter:
    """The limits of one key. Agents on several threads may share it.

    Args:
        limit: the limits that the user set.
        minute: how many seconds a minute has.
        clock: the time, in seconds.
    """

    def __init__(
        self, limit: RateLimit | None = None, *, minute: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limit = limit or RateLimit()
        self._minute = minute
        self._clock = clock
        self._running = 0
        #: The requests of the last minute.
        self._recent: deque[Ticket] = deque()
        self._waiting: list[_Waiter] = []
        self._count = 0
        #: How many requests may run at the same time after a refusal; None: there was none, or it is forgotten.
        self._allowed: float | None = None
        #: How many ran when the first request was refused. Once as many are allowed again, the refusal is forgotten.
        self._before_refusal = 0
        self._paused_until = 0.0
        #: When the provider last refused a request. What began before that says nothing new.
        self._refused_at = 0.0
        self._timer: tuple[asyncio.AbstractEventLoop, asyncio.TimerHandle] | None = None
        self._changing = threading.Lock()

    @property
    def running(self) -> int:
        """How many requests run."""
        return self._running

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return sum(not waiter.done.done() for waiter in self._waiting)

    @property
    def allowed(self) -> int | None:
        """How many requests may run at the same time; None: any number."""
        limits = [self.limit.concurrency] if self.limit.concurrency else []
        if self._allowed is not None:
            limits.append(max(1, int(self._allowed)))
        return min(limits, default=None)

    def restrict(self, limit: RateLimit) -> None:
        """Apply the limits of another agent too. Of two limits the lower one holds."""
        pairs = zip(_numbers(self.limit), _numbers(limit), strict=True)
        self.limit = RateLimit(*(min(filter(None, pair), default=None) for pair in pairs))

    async def enter(self, size: int, priority: int, cancel: CancelToken, listener: WaitListener | None = None) -> Ticket:
        """Wait until a request may be sent, and return its ticket, which `leave` needs.

        Args:
            size: the bytes of the request.
            priority: requests with a higher one come first.
            cancel: ends the wait when it fires.
            listener: is called about a wait of a known length of at least a second.

        Raises:
            RequestAborted: `cancel` fired.
        """
        tokens = size // _BYTES_PER_TOKEN
        with self._changing:
            if not self._is_limited:
                self._running += 1
                return Ticket(self._clock() if self._refused_at else 0.0, tokens)
            self._count += 1
            waiter = _Waiter(priority, self._count, tokens, listener)
            heapq.heappush(self._waiting, waiter)
            self._let_through()
            if not waiter.done.done():
                self._report(waiter)
        if not waiter.done.done():
            _log.info("a request waits, because the limits of its key are reached")
        forget = cancel.on_fire(lambda: waiter.done.cancelled() or waiter.done.cancel())
        try:
            return await waiter.done
        except asyncio.CancelledError:
            self._give_up(waiter)
            if cancel.fired:
                raise RequestAborted from None
            raise
        finally:
            forget()
            if waiter.reported_until and listener is not None:
                listener.proceeds()

    def leave(self, ticket: Ticket, end: StreamEnd | None) -> None:
        """End a request. `end` is the end of its answer; None if the request was given up."""
        with self._changing:
            self._running -= 1
            if not self._is_limited and (end is None or end.status not in _REFUSALS):
                return
            if end is not None:
                usage = end.message.usage
                ticket.tokens = usage.total_tokens or ticket.tokens
                if end.status in _REFUSALS:
                    self._on_refusal(ticket, end.retry_after)
                elif end.message.stop_reason not in ("error", "aborted"):
                    self._on_success()
            self._let_through()

    @property
    def _is_limited(self) -> bool:
        """Whether a request may have to wait."""
        limit = self.limit
        return (
            self._allowed is not None
            or bool(self._waiting)
            or bool(limit.concurrency or limit.requests_per_minute or limit.tokens_per_minute)
        )

    def _on_refusal(self, ticket: Ticket, retry_after: float | None) -> None:
        now = self._clock()
        pause = _PAUSE if retry_after is None else min(retry_after, _LONGEST_PAUSE)
        self._paused_until = max(self._paused_until, now + pause)
        for waiter in self._waiting:
            self._report(waiter)
        ran = self._running + 1
        if self._allowed is None:
            self._before_refusal = ran
            self._allowed = max(1.0, ran / 2)
        elif ticket.began > self._refused_at:
            self._allowed = max(1.0, min(self._allowed, ran) / 2)
        else:
            return  # it was sent before the last refusal
        self._refused_at = now
        if ran > 1:  # else the retry says all there is to say
            _log.warning(
                "the provider refused a request, so at most %d of its key run at the same time for now", int(self._allowed)
            )

    def _on_success(self) -> None:
        if self._allowed is not None and self._clock() >= self._paused_until:
            self._allowed += 1 / self._allowed
            if self._allowed > self._before_refusal:
                self._allowed = None

    def _report(self, waiter: _Waiter) -> None:
        """Tell the listener of a request how long it waits, if that is known, long, and more than the listener knows."""
        now = self._clock()
        pause = self._paused_until - now
        seconds = self._wait(waiter.tokens, now)
        if seconds == float("inf"):  # other requests run, and each of them may take any time
            seconds = pause
        listener, reason = waiter.listener, _PAUSED if pause >= seconds else _LIMITED
        if listener is None or seconds < _LONG_WAIT or now + seconds < waiter.reported_until + _LONG_WAIT:
            return
        waiter.reported_until = now + seconds
        # Not at once: a listener may do anything, and the lock is held.
        _call(waiter.loop, lambda: None if waiter.done.done() else listener.waits(seconds, reason))

    def _let_through(self) -> None:
        """Let requests through that may run now, and look again when the next one may."""
        while self._waiting:
            waiter = self._waiting[0]
            if waiter.done.done():
                heapq.heappop(self._waiting)
                continue
            now = self._clock()
            wait = self._wait(waiter.tokens, now)
            if wait > 0:
                self._look_again(waiter.loop, wait)
                return
            heapq.heappop(self._waiting)
            waiter.is_through = True
            self._running += 1
            ticket = Ticket(now, waiter.tokens)
            if self.limit.requests_per_minute or self.limit.tokens_per_minute:
                self._recent.append(ticket)
            _deliver(waiter, ticket)

    def _wait(self, tokens: int, now: float) -> float:
        """The seconds until a request may run; infinite if one has to end first."""
        allowed = self.allowed
        if allowed is not None and self._running >= allowed:
            return float("inf")
        wait = self._paused_until - now
        recent, limit = self._recent, self.limit
        while recent and recent[0].began <= now - self._minute:
            recent.popleft()
        if limit.requests_per_minute and len(recent) >= limit.requests_per_minute:
            wait = max(wait, recent[-limit.requests_per_minute].began + self._minute - now)
        if limit.tokens_per_minute:
            # A request that is larger than the limit waits for an empty minute: it would wait forever otherwise.
            spent = tokens + sum(ticket.tokens for ticket in recent)
            for ticket in recent:
                if spent <= limit.tokens_per_minute:
                    break
                wait = max(wait, ticket.began + self._minute - now)
                spent -= ticket.tokens
        return wait

    def _look_again(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        if self._timer is not None:
            old, timer = self._timer
            self._timer = None
            _call(old, timer.cancel)
        if seconds == float("inf"):
            return

        def look() -> None:
            with self._changing:
                self._timer = None
                self._let_through()

        if loop is _running_loop():
            self._timer = loop, loop.call_later(seconds, look)
        else:
            _call(loop, look)  # which sets a timer there

    def _give_up(self, waiter: _Waiter) -> None:
        """Forget a request that no longer waits. If it was let through at the same moment, the next one has its place."""
        with self._changing:
            if waiter.is_through:
                self._running -= 1
            self._let_through()


def _numbers(limit: RateLimit) -> tuple[int | None, ...]:
    return limit.concurrency, limit.requests_per_minute, limit.tokens_per_minute


def _deliver(waiter: _Waiter, ticket: Ticket) -> None:
    if waiter.loop is _running_loop():
        waiter.done.set_result(ticket)
    else:
        _call(waiter.loop, lambda: None if waiter.done.done() else waiter.done.set_result(ticket))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _call(loop: asyncio.AbstractEventLoop, work: Callable[[], object]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(work)


_lock = threading.Lock()
#: The limiters that are in use. Keys come and go, for example with each renewal of a login.
_limiters: WeakValueDictionary[tuple[str, str | None], KeyLimiter] = WeakValueDictionary()
#: The last limiters that were asked for: what one agent has used up counts for the next one too.
_latest: dict[tuple[str, str | None], KeyLimiter] = {}


def limiter_for(provider: str, key: str | None) -> KeyLimiter:
    """Return the limiter of a key of a provider. All agents of the process that use the key get the same one."""
    name = provider, key
    with _lock:
        limiter = _limiters.get(name)
        if limiter is None:
            limiter = _limiters[name] = KeyLimiter()
        _latest.pop(name, None)
        _latest[name] = limiter
        if len(_latest) > MOST_KEPT:
            del _latest[next(iter(_latest))]
        return limiter
