"""Numbers that cannot be, wherever a provider can put one."""

from __future__ import annotations

from typing import Any

import pytest
from tests.models.asking import a_model, outcome, sse

from fairlead.core.messages import Usage
from fairlead.core.model import Price
from fairlead.models.apis.adapter import retry_after

HUGE = ["9" * 400, "9" * 5_000, "1e400", "-1", "-" + "9" * 400, "1e300"]


@pytest.mark.parametrize("number", HUGE)
def test_usage_that_cannot_be_counts_as_not_reported(number: str) -> None:
    events: dict[str, list[str]] = {
        "anthropic-messages": [
            '{"type":"message_start","message":{"id":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}',
            '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
            '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}',
            '{"type":"message_delta","delta":{"stop_reason":"end_turn"}}',
            '{"type":"message_delta","delta":{},"usage":{"input_tokens":N,"output_tokens":N,"cache_read_input_tokens":N}}',
            '{"type":"message_stop"}',
        ],
        "openai-completions": [
            '{"choices":[{"index":0,"delta":{"content":"hi"}}]}',
            '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
            '{"choices":[],"usage":{"prompt_tokens":N,"completion_tokens":N,"total_tokens":N}}',
            "[DONE]",
        ],
    }
    for api, parts in events.items():
        end = outcome(api, sse(*(part.replace("N", number) for part in parts))).end
        assert (end.message.stop_reason, end.message.text()) == ("stop", "hi"), end.message.error_message
        assert 0 <= end.message.usage.total_tokens < 10**15
        assert 0 <= end.message.usage.cost.total < 1e12


def test_a_price_of_any_size_gives_a_cost_that_is_a_number() -> None:
    model = a_model("anthropic-messages", cost=Price(1e308, 1e308))
    assert model.fill_in_cost(Usage(10**14, 10**14)).cost.total < float("inf")


@pytest.mark.parametrize("name", ["retry-after", "retry-after-ms"])
@pytest.mark.parametrize("number", ["9" * 300, "9" * 400, "9" * 5_000, "1e400", "inf"])
def test_a_wait_of_any_length_is_a_long_one(name: str, number: str) -> None:
    assert retry_after({name: number}) == 1e9


@pytest.mark.parametrize(
    "value",
    ["-1", "nan", "", "soon", "Mon, {} Jan 2026 10:00:00 GMT", "Mon, 01 Jan {} 10:00:00 GMT", "Mon, 01 Jan 2026 10:00:00 +{}"],
)
def test_an_unreadable_retry_delay_is_ignored(value: str) -> None:
    assert retry_after({"retry-after": value.format("9" * 400)}) is None


def test_a_session_says_how_full_it_is_whatever_its_file_says() -> None:
    from fairlead.core.messages import add_usage
    from fairlead.session.context.budget import Totals
    from fairlead.session.context.tokens import tokens_since

    huge: Any = Usage(10**400, 5, -3, 0, 10**400)
    sums = Totals()
    sums.add(huge)
    sums.add(huge)
    assert sums.tokens.total == 10
    assert add_usage(huge, Usage(1, 1, 1, 1, 4)).total_tokens == 4
    from tests.models.asking import an_answer

    assert tokens_since([an_answer("anthropic-messages", usage=huge)], 0) == 0
