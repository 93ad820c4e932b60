"""Keeps a provider's prompt cache warm while a long tool call runs, or between runs.

A request that is sent again before its entry in the cache expires, with an answer of one token, costs little and renews the
entry. Without it, the next request pays for the whole conversation again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from msgspec import Raw, Struct
from msgspec.structs import replace

from fairlead.core.events import EntryAppended
from fairlead.core.messages import AssistantMessage, Cost, ModelMessage, Usage
from fairlead.core.model import Model, ModelRequest, ModelStream, StreamEnd, StreamEvent
from fairlead.core.runtime import CancelToken, Interrupted
from fairlead.session.hooks import WarmingAction, WarmingDecision

if TYPE_CHECKING:
    from fairlead.config.settings import WarmingMode
    from fairlead.session.additions import Extensions
    from fairlead.session.history.conversation import Conversation
    from fairlead.session.history.current import CurrentConversation
    from fairlead.session.selection import Selection
    from fairlead.session.session_events import Notify

#: Seconds after a request until its cache is left alone: while its run is active, and after that.
_LONGEST, _LONGEST_IDLE = 3600.0, 1800.0
#: The dollars that a refresh must be expected to save.
_LEAST_SAVINGS = 0.05
#: How likely a request arrives in time while the session is idle. The figure is pi's.
_IDLE_PROBABILITY = 0.15


class _Asked(Struct):
    """A request that was answered, and how to send it again."""

    model: Model
    request: ModelRequest
    stream: ModelStream
    conversation: Conversation
    #: What the conversation consisted of then.
    messages: list[ModelMessage]
    lifetime: float
    since: float
    #: When its entry in the cache was last read.
    read_at: float
    cancel: CancelToken


class CacheWarmer:
    """Keeps the cache of one session's last request warm."""

    def __init__(
        self,
        mode: WarmingMode,
        current: CurrentConversation,
        selection: Selection,
        extensions: Extensions,
        notify: Notify,
    ) -> None:
        self._mode = mode
        self._current = current
        self._selection = selection
        self._extensions = extensions
        self._notify = notify
        self._asked: _Asked | None = None
        self._is_idle = False
        self._timer: asyncio.TimerHandle | None = None
        self._refreshing: asyncio.Task[None] | None = None

    def watch(self, model: Model, request: ModelRequest, stream: ModelStream) -> ModelStream:
        """Return the stream for a request of a run. What it asks is kept warm once it is answered."""
        self.stop()
        lifetime = cache_lifetime(model, request)
        if self._mode == "off" or lifetime is None or delay(lifetime) is None:
            return stream
        conversation = self._current.conversation
        messages = conversation.for_model()

        async def stream_and_schedule(request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
            self.stop()
            now = time.monotonic()
            async for events in stream(request, cancel):
                end = events[-1] if events else None
                if isinstance(end, StreamEnd) and end.message.stop_reason not in ("error", "aborted"):
                    self._asked = _Asked(model, request, stream, conversation, messages, lifetime, now, now, CancelToken())
                    self._schedule(self._asked)
                yield events

        return stream_and_schedule

    def on_settle(self) -> None:
        """The run has settled: nothing is warmed any more, or less long."""
        self._is_idle = True
        if self._mode != "idle":
            self.stop()

    def stop(self) -> None:
        """Leave the cache alone until the next request."""
        self._is_idle = False
        asked, self._asked = self._asked, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if asked is not None:
            asked.cancel.fire()

    async def close(self) -> None:
        """Leave the cache alone from now on, because the session is closed."""
        self.stop()
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait([self._refreshing])

    def _schedule(self, asked: _Asked) -> None:
        wait = delay(asked.lifetime)
        assert wait is not None, "else nothing is kept warm"
        due = asked.read_at + wait
        if due - asked.since > (_LONGEST_IDLE if self._is_idle else _LONGEST):
            self.stop()
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(due - time.monotonic(), 0), self._on_due, asked)

    def _on_due(self, asked: _Asked) -> None:
        self._timer = None
        self._refreshing = asyncio.get_running_loop().create_task(self._refresh(asked), name="fairlead-warming")

    async def _refresh(self, asked: _Asked) -> None:
        if not self._is_current(asked) or _is_too_late(asked):
            return self._give_up(asked)
        planned = decision(asked.model, _prompt_tokens(asked.conversation), is_idle=self._is_idle)
        action = await self._decide(planned)
        if action == "stop" or not self._is_current(asked) or _is_too_late(asked):
            return self._give_up(asked)
        asked.read_at = time.monotonic()
        message = await _answer(asked)
        if not self._is_current(asked):
            return self._give_up(asked)
        if message is not None:
            self._record(asked, message, "" if action == planned.action else "extension override")
        self._schedule(asked)

    async def _decide(self, planned: WarmingDecision) -> WarmingAction:
        """What extensions make of a decision."""
        hooks, calls = self._extensions.hooks, self._extensions.calls
        if hooks is None or calls is None or not hooks.wants("cache_warming_decision"):
            return planned.action
        try:
            return await calls.ask(hooks.warming(planned))
        except Interrupted:
            return "stop"

    def _is_current(self, asked: _Asked) -> bool:
        """Whether the next request would begin as this one did."""
        if asked is not self._asked or asked.conversation is not self._current.conversation:
            return False
        now, before = asked.conversation.for_model(), asked.messages
        return (
            self._selection.model == asked.model
            and len(now) >= len(before)
            and (not before or now[len(before) - 1] is before[-1])
        )

    def _give_up(self, asked: _Asked) -> None:
        if asked is self._asked:
            self.stop()

    def _record(self, asked: _Asked, message: AssistantMessage, note: str) -> None:
        """Write down what the refresh has cost."""
        conversation, log = asked.conversation, asked.conversation.log
        conversation.keep(lambda: log.usage("cache_warm", message.provider, message.model, message.usage, note, keep=True))
        self._notify(EntryAppended(Raw(log.last_line)))


async def _answer(asked: _Asked) -> AssistantMessage | None:
    """Send the request again. Returns the answer; None if it failed, which does not matter."""
    request = replace(asked.request, max_tokens=1, wait_listener=None)
    async for events in asked.stream(request, asked.cancel):
        for event in events:
            if isinstance(event, StreamEnd):
                return None if event.message.stop_reason in ("error", "aborted") else event.message
    return None


def _is_too_late(asked: _Asked) -> bool:
    """Whether the entry may have expired, so that a refresh would pay for the whole request."""
    wait = delay(asked.lifetime) or 0
    return time.monotonic() > asked.read_at + wait + (asked.lifetime - wait) / 2


def cache_lifetime(model: Model, request: ModelRequest) -> float | None:
    """Return the seconds that a provider keeps the cache of a request.

    None: that is not known, or the same request with a shorter answer would not use the cache.
    """
    lifetime = None if model.prompt_cache is None else model.prompt_cache.short
    # With a budget for thinking, which depends on the longest answer, the repetition would be another request.
    compat = model.compat or {}
    adapts = compat.get("forceAdaptiveThinking") is True or compat.get("thinking") == "adaptive"
    has_budget = model.api == "anthropic-messages" and model.reasoning and request.thinking != "off" and not adapts
    return None if has_budget or model.is_virtual else lifetime


def delay(lifetime: float) -> float | None:
    """Return the seconds after which to refresh a cache: 90 % of its lifetime, and at least ten seconds before its end."""
    return None if lifetime <= 10 else min(lifetime * 0.9, lifetime - 10)


def decision(model: Model, prompt_tokens: int, *, is_idle: bool) -> WarmingDecision:
    """Return what a refresh costs and may save, and whether that is worth it."""
    read = _price(model, cache_read=prompt_tokens)
    whole = _price(model, cache_write=prompt_tokens) if model.cost.cache_write > 0 else _price(model, input=prompt_tokens)
    warm, miss = _price(model, cache_read=prompt_tokens, output=1), max(0.0, whole - read)
    probability = _IDLE_PROBABILITY if is_idle else 1.0
    return WarmingDecision(warm, miss, probability, "warm" if probability * miss - warm >= _LEAST_SAVINGS else "stop")


def _price(model: Model, *, input: int = 0, output: int = 0, cache_read: int = 0, cache_write: int = 0) -> float:
    usage = Usage(input=input, output=output, cache_read=cache_read, cache_write=cache_write, total_tokens=0, cost=Cost())
    return model.fill_in_cost(usage).cost.total


def _prompt_tokens(conversation: Conversation) -> int:
    """Return the size of the last request that was answered, as the provider counted it."""
    last = conversation.last_answer()
    return 0 if last is None else last.usage.input + last.usage.cache_read + last.usage.cache_write
