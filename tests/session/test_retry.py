"""Which failures are tried again, and after how long."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.config.settings import RetrySettings
from fairlead.core.messages import AssistantMessage, StopReason, Usage
from fairlead.core.model import StreamEnd
from fairlead.errors import FairleadError
from fairlead.session.run.retry import RetryPolicy, WaitTooLong, is_retryable, wait_asked_for

POLICY = RetryPolicy.from_settings(RetrySettings())

GOOGLE_PER_MINUTE = (
    "429 You exceeded your current quota, please check your plan and billing details. Quota exceeded for metric: "
    "generate_content_free_tier_input_token_count, limit: 250000. Please retry in 41.820516331s. "
    '"quotaId": "GenerateContentInputTokensPerModelPerMinute-FreeTier"'
)
GOOGLE_PER_DAY = GOOGLE_PER_MINUTE.replace("PerMinute", "PerDay")


def failed(
    text: str,
    status: int | None = None,
    *,
    transient: bool = False,
    retry_after: float | None = None,
    stop: StopReason = "error",
) -> StreamEnd:
    message = AssistantMessage([], "api", "provider", "model", Usage(), stop, 1, error_message=text)
    return StreamEnd(message, {}, status, retry_after, transient)


def never() -> float:
    return 0.0


def most() -> float:
    return 1.0


def test_the_policy_is_what_the_settings_say() -> None:
    settings = RetrySettings(base_delay_ms=10, max_agent_delay_ms=20)
    assert RetryPolicy.from_settings(settings) == RetryPolicy(10, 20)


@pytest.mark.parametrize(("attempt", "delay"), [(1, 2000), (2, 4000), (3, 8000), (5, 32000), (6, 60000), (10**9, 60000)])
def test_the_delay_doubles_up_to_its_cap(attempt: int, delay: int) -> None:
    assert POLICY.delay_ms(attempt, None, never) == delay


def test_jitter_takes_off_up_to_a_quarter() -> None:
    assert POLICY.delay_ms(1, None, most) == 1500
    assert POLICY.delay_ms(2, None, lambda: 0.5) == 3500
    assert POLICY.delay_ms(9, None, most) == 45000


@pytest.mark.parametrize(
    ("attempt", "asked", "random", "delay"),
    [
        (1, 10.0, never, 10_000),
        (1, 10.0, most, 12_500),
        (1, 0.0, never, 2_000),
        (3, 1.0, never, 8_000),
        (1, 9.0001, never, 9_001),
        (1, 60.0, most, 60_000),
    ],
)
def test_the_wait_that_the_provider_asks_for_is_kept(attempt: int, asked: float, random: Callable[[], float], delay: int) -> None:
    assert POLICY.delay_ms(attempt, asked, random) == delay


@given(st.integers(1, 50), st.none() | st.floats(0, 60), st.floats(0, 1), st.integers(0, 100_000))
def test_no_delay_is_shorter_than_asked_or_longer_than_the_cap(
    attempt: int, asked: float | None, chance: float, base: int
) -> None:
    delay = RetryPolicy(base, 60_000).delay_ms(attempt, asked, lambda: chance)
    assert 1000 * (asked or 0) <= delay <= 60_000


def test_asked_for_more_than_the_cap_it_gives_up_and_says_why() -> None:
    with pytest.raises(WaitTooLong) as caught:
        POLICY.delay_ms(1, 3600, never)
    assert isinstance(caught.value, FairleadError)
    assert str(caught.value) == (
        "The provider asks to wait 3600 s before the next attempt, longer than the setting retry.maxAgentDelayMs allows "
        "(60 s). Try again later, or raise that setting."
    )


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 520, 524, 529])
def test_statuses_that_may_pass_are_tried_again(status: int) -> None:
    assert is_retryable(failed("whatever", status))


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 413, 422])
def test_statuses_that_blame_the_request_are_not(status: int) -> None:
    assert not is_retryable(failed("Overloaded: provider returned error, 503 timeout", status, transient=True))


def test_the_flag_of_an_adapter_is_believed() -> None:
    assert is_retryable(failed("who knows", transient=True))
    assert not is_retryable(failed("who knows"))


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
        "Rate limit reached for requests",
        "rate_limit_error",
        "Too Many Requests",
        "429 slow down",
        "503",
        '{"code":502}',
        '{"code": 524}',
        "HTTP 520",
        "status code: 504",
        "error 529",
        "Service Unavailable",
        "service_unavailable",
        "The service is temporarily unavailable",
        "The server had an error: server_error",
        "internal error encountered",
        "Internal Server Error",
        "Provider returned error",
        "network error",
        "Connection error.",
        "connection refused",
        "Connection lost",
        "fetch failed",
        "socket hang up",
        "other side closed",
        "upstream connect error or disconnect",
        "reset before headers",
        "stream ended without a final event",
        "The request timed out",
        "ETIMEDOUT",
        "Gateway Timeout",
        "terminated",
        "exceeded the maximum retry delay",
        "WebSocket closed 1006",
        "websocket error",
    ],
)
def test_texts_of_passing_trouble_are_tried_again(text: str) -> None:
    assert is_retryable(failed(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The model refused to complete the request",
        "at most 500 tools are allowed",
        "max 503 images",
        "the file has 429 lines",
        "undetermined",
    ],
)
def test_other_texts_are_not(text: str) -> None:
    assert not is_retryable(failed(text))


@pytest.mark.parametrize(
    "text",
    [
        '{"error":{"message":"You exceeded your current quota, please check your plan","code":"insufficient_quota"}}',
        "You exceeded your current quota, please check your plan and billing details.",
        "Quota exceeded",
        "Your account has a billing problem",
        "Your credit balance is too low",
        "out of budget",
        "Insufficient balance",
        "You have hit your usage limit. Please try again in 5s",
        "insufficient_quota: rate limit, try again in 5s",
        GOOGLE_PER_DAY,
    ],
)
def test_spent_money_and_allowances_are_never_tried_again(text: str) -> None:
    assert not is_retryable(failed(text, 429, transient=True))
    assert not is_retryable(failed(text, None, transient=True))


def test_a_limit_per_minute_that_is_worded_like_a_spent_quota_is_tried_again() -> None:
    assert is_retryable(failed(GOOGLE_PER_MINUTE, 429))
    assert is_retryable(failed("429 Quota exceeded", 429, retry_after=3))
    assert not is_retryable(failed(GOOGLE_PER_MINUTE, 403))


def test_an_overflow_is_left_to_compaction() -> None:
    assert not is_retryable(failed("500 the input length exceeds the context length", 500, transient=True))
    assert not is_retryable(failed("Provider returned error: prompt is too long", transient=True))


@pytest.mark.parametrize("stop", ["aborted", "stop", "length", "toolUse"])
def test_only_errors_are_tried_again(stop: StopReason) -> None:
    assert not is_retryable(failed("Overloaded", 529, transient=True, stop=stop))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Rate limit reached. Please try again in 9.816s. Visit", 9.816),
        ("Please try again in 250ms.", 0.25),
        ("Please try again in 1m9.5s.", 69.5),
        ("Please try again in 2h3m4s", 7384),
        ("Please try again in 6m0s.", 360),
        ("Please retry in 41.820516331s.", 41.820516331),
        ('"retryDelay": "26s"', 26),
        ('\\"retryDelay\\": \\"26s\\"', 26),
        ("retry_delay: 12s", 12),
        ("try again in a while", None),
        ("try again later", None),
        ("", None),
    ],
)
def test_the_wait_is_read_from_the_error_where_no_header_names_it(text: str, seconds: float | None) -> None:
    assert wait_asked_for(failed(text)) == (None if seconds is None else pytest.approx(seconds))


def test_a_header_goes_before_the_text() -> None:
    assert wait_asked_for(failed("try again in 9s", retry_after=2.5)) == 2.5
