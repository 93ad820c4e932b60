"""Which failures of a model are worth another attempt, and how long to wait before it."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable

from msgspec import Struct

from fairlead.config.settings import RetrySettings
from fairlead.core.model import StreamEnd
from fairlead.errors import FairleadError
from fairlead.session.context.overflow import is_overflow

#: A delay is shortened by up to this part of itself, so that many agents that failed together do not return together.
JITTER = 0.25
#: Past this many doublings every delay is at its cap.
_MOST_DOUBLINGS = 32

#: Statuses below 500 that may pass. Every other 4xx says that the request itself is wrong.
_PASSING_STATUSES = frozenset({408, 409, 425, 429})

_PASSING_TROUBLE = (
    r"overloaded",
    r"rate.?limit",
    r"too many requests",
    # A number alone may be anything: it has to stand where a status stands.
    r"(?:^|\b(?:status|code|https?|error)\b)\W{0,3}(?:429|500|502|503|504|520|524|529)\b",
    r"service.?(?:is.?)?(?:temporarily.?)?unavailable",
    r"(?:server|internal).?error",
    r"provider.?returned.?error",
    r"(?:network|connection).?(?:error|refused|lost|reset|closed)",
    r"fetch failed",
    r"socket hang up",
    r"other side closed",
    r"upstream connect",
    r"reset before headers",
    r"ended without",
    r"time(?:d ?|-)?out",
    r"\bterminated\b",
    r"retry.?delay",
    r"websocket.?(?:closed|error)",
)

#: Money and long allowances do not come back within a minute.
_SPENT = (
    r"insufficient.?(?:quota|funds|credits?|balance)",
    r"out of (?:budget|credits?)|credit balance",
    r"usage.?limit",
)
#: Texts for both a spent allowance and, with Google, a limit per minute.
_SPENT_OR_LIMITED = (
    r"quota.{0,20}(?:exceeded|exhausted)|exceeded.{0,30}quota",
    r"billing",
)
_PER_DAY = r"per.?(?:day|month)\b|\b(?:daily|monthly)\b"

#: "Please try again in 1m9.8s" (OpenAI, Groq), "Please retry in 41.8s" and "retryDelay": "41s" (Google).
_ASKED_WAIT = r"(?:(?:try again|retry) in|retry_?delay\W{1,8})\s*(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)\s?(ms|s))?"


#: Seconds; a number of hundreds of digits means no more than this.
_LONGEST_WAIT = 1e9


class WaitTooLong(FairleadError):
    """The provider asks for a longer wait than the settings allow."""


class RetryPolicy(Struct, frozen=True):
    """How soon to try again. Attempts are counted from 1 and start again after a good answer."""

    base_delay_ms: int
    max_delay_ms: int

    @classmethod
    def from_settings(cls, settings: RetrySettings) -> RetryPolicy:
        return cls(settings.base_delay_ms, settings.max_agent_delay_ms)

    def delay_ms(self, attempt: int, retry_after: float | None, random: Callable[[], float]) -> int:
        """The wait before `attempt`: `base_delay_ms`, doubled with each attempt, at most `max_delay_ms`, less up to a quarter.

        `retry_after` is what the provider asked for, in seconds. The wait is never shorter than that; the quarter
        is then added instead. Asked for more than `max_delay_ms`, this raises WaitTooLong: to come back sooner than
        told wastes the attempt and may prolong the limit, and a host cannot tell an hour's silence from a hang.
        `random` gives numbers from 0 to 1.
        """
        doubled = self.base_delay_ms << min(attempt - 1, _MOST_DOUBLINGS)
        spread = JITTER * random()
        delay = round(min(doubled, self.max_delay_ms) * (1 - spread))
        if retry_after is None:
            return delay
        asked = math.ceil(retry_after * 1000)
        if asked > self.max_delay_ms:
            raise WaitTooLong(
                f"The provider asks to wait {_seconds(asked)} before the next attempt, longer than the setting "
                f"retry.maxAgentDelayMs allows ({_seconds(self.max_delay_ms)}). Try again later, or raise that setting."
            )
        return min(max(delay, round(asked * (1 + spread))), self.max_delay_ms)


def is_retryable(end: StreamEnd) -> bool:
    """Whether the same request may succeed later.

    Not if the answer was aborted, if the request is wrong or too large (that is what compaction is for), if the server cannot
    read an image in it, or if money or an allowance ran out.
    """
    text = end.message.error_message or ""
    if end.message.stop_reason != "error" or end.refused or is_overflow(text, end.status):
        return False
    patterns = _patterns()
    if patterns.spent.search(text) or (patterns.spent_or_limited.search(text) and not _is_short_limit(end, patterns)):
        return False
    if end.status is not None and end.status >= 400:
        return end.status in _PASSING_STATUSES or end.status >= 500
    return end.transient or patterns.passing.search(text) is not None


def wait_asked_for(end: StreamEnd) -> float | None:
    """The seconds that the provider asks to wait: from its headers, else from the error's text."""
    if end.retry_after is not None:
        return end.retry_after
    found = _patterns().asked_wait.search(end.message.error_message or "")
    if found is None or not any(found.groups()):
        return None
    hours, minutes, amount, unit = found.groups()
    seconds = float(amount or 0) * (0.001 if unit == "ms" else 1)
    return min(float(hours or 0) * 3600 + float(minutes or 0) * 60 + seconds, _LONGEST_WAIT)


class _Patterns(Struct, frozen=True):
    passing: re.Pattern[str]
    spent: re.Pattern[str]
    spent_or_limited: re.Pattern[str]
    per_day: re.Pattern[str]
    asked_wait: re.Pattern[str]


@functools.cache
def _patterns() -> _Patterns:
    texts = ("|".join(_PASSING_TROUBLE), "|".join(_SPENT), "|".join(_SPENT_OR_LIMITED), _PER_DAY, _ASKED_WAIT)
    return _Patterns(*(re.compile(text, re.IGNORECASE) for text in texts))


def _is_short_limit(end: StreamEnd, patterns: _Patterns) -> bool:
    """Google words a limit per minute like an exhausted account, but then says when to come back."""
    text = end.message.error_message or ""
    return patterns.per_day.search(text) is None and wait_asked_for(end) is not None


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:g} s"
