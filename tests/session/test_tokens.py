"""The size of a context: what the provider reported, and estimates of the rest."""

from __future__ import annotations

import pytest

from fairlead.core.messages import (
    AssistantBlock,
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    Cost,
    CustomMessage,
    ImageContent,
    Message,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    add_usage,
)
from fairlead.session.context.tokens import estimate, measure_context
from fairlead.session.history.log import Log
from fairlead.stores.headers import new_header


def answer(
    total: int = 0, *, at: int = 1, stop: StopReason = "stop", content: list[AssistantBlock] | None = None
) -> AssistantMessage:
    return AssistantMessage(content or [], "api", "provider", "model", Usage(total_tokens=total), stop, at)


def said(*messages: Message) -> Log:
    log = Log(new_header("session", "/work", 0))
    for message in messages:
        log.message(message)
    return log


def bash(*, excluded: bool) -> BashExecutionMessage:
    return BashExecutionMessage("ls", "a" * 6, False, False, 1, exclude_from_context=excluded)


IMAGE = ImageContent("aGk=", "image/png")


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (UserMessage("", 1), 0),
        (UserMessage("abcd", 1), 1),
        (UserMessage("abcde", 1), 2),
        (UserMessage([TextContent("abcd"), IMAGE], 1), 1201),
        (answer(content=[TextContent("abcd"), ThinkingContent("efgh")]), 2),
        (answer(content=[ToolCall("1", "read", {"path": "é"})]), 4),  # read{"path":"é"}: 16 characters
        (ToolResultMessage("1", "read", [TextContent("abcdefgh"), IMAGE], False, 1), 1202),
        (bash(excluded=False), 2),
        (bash(excluded=True), 0),
        (CustomMessage("note", "abcd", True, 1), 1),
        (CustomMessage("note", [TextContent("abcd")], True, 1), 1),
        (BranchSummaryMessage("abcdefgh", "id", 1), 2),
        (CompactionSummaryMessage("abcdefgh", 9, 1), 2),
    ],
)
def test_a_message_is_estimated_at_a_quarter_of_its_characters_rounded_up(message: Message, tokens: int) -> None:
    assert estimate(message) == tokens


def test_the_last_answer_tells_the_size_and_what_follows_is_estimated() -> None:
    assert measure_context(said(UserMessage("hello", 1), answer(100), answer(150), UserMessage("abcde", 2))).tokens == 152


@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_a_failed_or_aborted_answer_tells_nothing_but_counts(stop: StopReason) -> None:
    failed = answer(7, stop=stop, content=[TextContent("abcd")])
    assert measure_context(said(answer(100), UserMessage("abcd", 1), failed)).tokens == 102


def test_before_the_first_answer_everything_is_estimated() -> None:
    assert measure_context(said()).tokens == 0
    assert measure_context(said(UserMessage("abcde", 1))).tokens == 2


def test_a_provider_that_reports_no_usage_leaves_the_estimate() -> None:
    assert measure_context(said(UserMessage("abcde", 1), answer(0, content=[TextContent("abcd")]))).tokens == 3


def test_a_usage_without_a_total_is_summed_up() -> None:
    message = answer()
    message.usage = Usage(input=1, output=2, cache_read=4, cache_write=8)
    assert measure_context(said(message)).tokens == 15


def test_right_after_a_compaction_the_size_is_unknown_until_the_next_answer() -> None:
    log = said(UserMessage("one", 1), answer(100), UserMessage("two", 2))
    log.compaction("notes", log.path()[1].id, 100)
    assert measure_context(log).tokens is None
    log.message(UserMessage("go on", 3))
    log.message(answer(30, stop="error"))
    assert measure_context(log).tokens is None
    log.message(answer(30))
    assert measure_context(log).tokens == 30


def test_only_the_latest_of_several_compactions_counts() -> None:
    log = said(UserMessage("one", 1), answer(100))
    log.compaction("notes", None, 100)
    log.message(answer(30))
    log.compaction("more notes", None, 30)
    assert measure_context(log).tokens is None


def test_an_answer_that_the_model_no_longer_sees_does_not_count() -> None:
    log = said(UserMessage("abcd", 1), answer(100), answer(200))
    log.context_edit(log.path()[-1].id, None)
    assert measure_context(log).tokens == 100


def test_usages_add_up_with_their_costs() -> None:
    one = Usage(1, 2, 3, 4, 10, Cost(0.1, 0.2, 0.3, 0.4, 1.0))
    other = Usage(10, 20, 30, 40, 100, Cost(1, 2, 3, 4, 10))
    total = add_usage(one, other)
    assert total == Usage(11, 22, 33, 44, 110, Cost(1.1, 2.2, 3.3, 4.4, 11.0))
    assert (one.input, other.input) == (1, 10)
