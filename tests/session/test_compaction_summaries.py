"""How the older part of a conversation becomes a summary: the requests, their failures and their aborts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from msgspec import structs

from fairlead.core.messages import Usage, UserMessage, user_text
from fairlead.core.model import ModelRequest, ModelStream, StreamEvent
from fairlead.core.runtime import CancelToken
from fairlead.errors import CompactionCancelled, ProviderError
from fairlead.session.compaction.cut import Plan, compact
from fairlead.session.compaction.summary import HISTORY_TASK, SYSTEM_PROMPT, TURN_PREFIX_TASK
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

# The summary


def a_plan(**changes: Any) -> Plan:
    whole: dict[str, Any] = {
        "first_kept_id": "k",
        "to_summarise": [UserMessage("HISTORY", 1)],
        "turn_prefix": [],
        "previous_summary": None,
        "tokens_before": 150,
        "kept_tokens": 7,
        "read_files": [],
        "modified_files": [],
    }
    return Plan(**(whole | changes))


SPLIT: dict[str, Any] = {"turn_prefix": [UserMessage("PREFIX", 1)]}


def asked(request: ModelRequest) -> str:
    (message,) = request.messages
    assert isinstance(message, UserMessage)
    return user_text(message)


async def test_a_history_is_summarised_in_one_request() -> None:
    model = Scripted([Turn(text="  notes\n")])
    done = await compact(a_plan(), SCRIPTED_MODEL, model, cancel=CancelToken(), thinking="low")
    assert (done.summary, done.first_kept_entry_id, done.tokens_before) == ("notes", "k", 150)
    (request,) = model.requests
    assert (request.system_prompt, request.tools, request.thinking) == (SYSTEM_PROMPT, [], "low")
    assert request.max_tokens == 13_107
    assert asked(request) == f"<conversation>\n[User]: HISTORY\n</conversation>\n\n{HISTORY_TASK}"


async def test_the_result_has_the_json_that_hosts_know() -> None:
    made = a_plan(read_files=["a"])
    done = await compact(made, SCRIPTED_MODEL, Scripted([Turn(text="notes", usage=Usage(100, 50))]), cancel=CancelToken())
    shown = msgspec.to_builtins(done)
    cost = shown["usage"].pop("cost")
    assert cost["total"] == pytest.approx(0.00105)
    text = "notes\n\n<read-files>\na\n</read-files>"
    assert shown == {
        "summary": text,
        "firstKeptEntryId": "k",
        "tokensBefore": 150,
        "details": {"readFiles": ["a"], "modifiedFiles": []},
        "estimatedTokensAfter": 7 + -(-len(text) // 4),
        "usage": {"input": 100, "output": 50, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 150},
        "shortSummary": "notes",
    }


async def test_a_split_turn_takes_a_second_request_whose_usage_counts() -> None:
    model = Scripted([Turn(text="history"), Turn(text="prefix")])
    done = await compact(a_plan(**SPLIT), SCRIPTED_MODEL, model, cancel=CancelToken())
    assert done.summary == "history\n\n---\n\n**Turn Context (split turn):**\n\nprefix"
    assert [HISTORY_TASK in asked(request) for request in model.requests] == [True, False]
    assert "PREFIX" in asked(model.requests[1]) and TURN_PREFIX_TASK in asked(model.requests[1])
    assert model.requests[1].max_tokens == 8_192
    assert done.usage is not None and done.usage.total_tokens == 300


async def test_both_requests_are_under_way_at_the_same_time() -> None:
    model_asked = asyncio.Event()

    async def until_both_are_asked() -> None:
        if len(model.requests) == 2:
            model_asked.set()
        await model_asked.wait()

    model = Scripted([Turn(text="notes", pause=until_both_are_asked)])
    await asyncio.wait_for(compact(a_plan(**SPLIT), SCRIPTED_MODEL, model, cancel=CancelToken()), 10)


async def test_without_a_history_the_split_turn_says_so() -> None:
    model = Scripted([Turn(text="prefix")])
    done = await compact(a_plan(to_summarise=[], **SPLIT), SCRIPTED_MODEL, model, cancel=CancelToken())
    assert done.summary == "No prior history.\n\n---\n\n**Turn Context (split turn):**\n\nprefix"
    assert len(model.requests) == 1


async def test_without_new_history_the_previous_summary_is_not_lost() -> None:
    model = Scripted([Turn(text="prefix")])
    made = a_plan(to_summarise=[], previous_summary="old notes", **SPLIT)
    done = await compact(made, SCRIPTED_MODEL, model, cancel=CancelToken())
    assert done.summary == "old notes\n\n---\n\n**Turn Context (split turn):**\n\nprefix"
    assert "old notes" not in asked(model.requests[0])


async def test_a_previous_summary_is_updated() -> None:
    model = Scripted([Turn(text="new notes")])
    done = await compact(a_plan(previous_summary="old notes"), SCRIPTED_MODEL, model, cancel=CancelToken())
    assert done.summary == "new notes"
    assert "<previous-summary>\nold notes\n</previous-summary>" in asked(model.requests[0])


async def test_instructions_reach_every_request() -> None:
    model = Scripted([Turn(text="notes")])
    await compact(a_plan(**SPLIT), SCRIPTED_MODEL, model, cancel=CancelToken(), instructions="Focus on code")
    assert [asked(request).endswith("Focus on code") for request in model.requests] == [True, True]


async def test_a_summary_asks_for_no_more_than_the_model_can_write() -> None:
    model = Scripted([Turn(text="notes")])
    small = structs.replace(SCRIPTED_MODEL, max_tokens=1000)
    await compact(a_plan(), small, model, cancel=CancelToken())
    tiny = structs.replace(SCRIPTED_MODEL, context_window=8_192)
    await compact(a_plan(), tiny, model, cancel=CancelToken())
    await compact(a_plan(), SCRIPTED_MODEL, model, cancel=CancelToken(), reserve_tokens=100)
    assert [request.max_tokens for request in model.requests] == [1000, 3276, 80]


async def test_a_conversation_larger_than_the_context_is_summarised_in_portions() -> None:
    messages = [UserMessage(f"<{n}>" + "x" * 3_000, 1) for n in range(8)]
    model = Scripted([Turn(text="one"), Turn(text="two"), Turn(text="three")])
    small = structs.replace(SCRIPTED_MODEL, context_window=8_192)
    done = await compact(a_plan(to_summarise=messages, previous_summary="zero"), small, model, cancel=CancelToken())
    assert done.summary == "three"
    texts = [asked(request) for request in model.requests]
    assert [[n for n in range(8) if f"<{n}>" in text] for text in texts] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    notes = ["zero", "one", "two"]
    assert all(f"<previous-summary>\n{note}\n" in text for note, text in zip(notes, texts, strict=True))
    assert done.usage is not None and done.usage.total_tokens == 450


async def test_a_long_previous_summary_leaves_less_room_for_the_conversation() -> None:
    messages = [UserMessage("x" * 4_000, 1) for _ in range(2)]
    small = structs.replace(SCRIPTED_MODEL, context_window=8_192)
    requests: list[int] = []
    for previous in ("p" * 1_000, "p" * 4_000):
        model = Scripted([Turn(text="notes")])
        await compact(a_plan(to_summarise=messages, previous_summary=previous), small, model, cancel=CancelToken())
        requests.append(len(model.requests))
    assert requests == [1, 2]


# Failures


async def test_a_provider_that_fails_is_quoted() -> None:
    model = Scripted([Turn(error="400 summarizer broke", status=400)])
    with pytest.raises(ProviderError, match=r"^Summarization failed: 400 summarizer broke$") as caught:
        await compact(a_plan(), SCRIPTED_MODEL, model, cancel=CancelToken())
    assert (caught.value.status, caught.value.transient) == (400, False)


async def test_transient_and_permanent_failures_are_distinguished() -> None:
    model = Scripted([Turn(error="529 Overloaded", status=529, transient=True, retry_after=3.0)])
    with pytest.raises(ProviderError) as caught:
        await compact(a_plan(), SCRIPTED_MODEL, model, cancel=CancelToken())
    assert (caught.value.status, caught.value.transient, caught.value.retry_after) == (529, True, 3.0)


async def test_a_failed_turn_prefix_is_named_and_stops_the_history() -> None:
    never = asyncio.Event()
    model = Scripted([Turn(text="history", pause=never.wait), Turn(error="400 broke")])
    with pytest.raises(ProviderError, match=r"^Turn prefix summarization failed: 400 broke$"):
        await asyncio.wait_for(compact(a_plan(**SPLIT), SCRIPTED_MODEL, model, cancel=CancelToken()), 10)
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    ("turn", "text"),
    [
        (Turn(thinking="hm", text=" \n "), "Summarization failed: scripted-1 answered without any text."),
        (
            Turn(thinking="hm", stop_reason="length"),
            "Summarization failed: scripted-1 answered without any text, having used up its 13107 tokens.",
        ),
        (Turn(text="notes", stop_reason="aborted"), "Summarization failed: the provider gave no reason"),
    ],
)
async def test_an_answer_without_a_summary_is_a_failure(turn: Turn, text: str) -> None:
    with pytest.raises(ProviderError) as caught:
        await compact(a_plan(), SCRIPTED_MODEL, Scripted([turn]), cancel=CancelToken())
    assert str(caught.value) == text


async def raising(request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
    yield []
    raise RuntimeError("boom")


async def endless(request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
    yield []


@pytest.mark.parametrize(
    ("stream", "text"),
    [(raising, "RuntimeError: boom"), (endless, "the model's stream stopped without an end")],
)
async def test_a_stream_that_breaks_its_promise_is_a_failure(stream: ModelStream, text: str) -> None:
    with pytest.raises(ProviderError) as caught:
        await compact(a_plan(), SCRIPTED_MODEL, stream, cancel=CancelToken())
    assert str(caught.value) == f"Summarization failed: {text}"


# Abort


@pytest.mark.parametrize("split", [{}, SPLIT])
async def test_an_abort_in_the_middle_ends_every_request(split: dict[str, Any]) -> None:
    cancel, started, never = CancelToken(), asyncio.Event(), asyncio.Event()

    async def pause() -> None:
        started.set()
        await never.wait()

    model = Scripted([Turn(text="notes", pause=pause)])
    work = asyncio.create_task(compact(a_plan(**split), SCRIPTED_MODEL, model, cancel=cancel))
    await started.wait()
    cancel.fire()
    with pytest.raises(CompactionCancelled, match=r"^Compaction cancelled$"):
        await asyncio.wait_for(work, 10)


async def test_an_abort_between_portions_asks_no_more() -> None:
    cancel = CancelToken()

    async def abort() -> None:
        if len(model.requests) == 2:
            cancel.fire()

    model = Scripted([Turn(text="notes", pause=abort)])
    small = structs.replace(SCRIPTED_MODEL, context_window=8_192)
    messages = [UserMessage("x" * 7_000, 1) for _ in range(5)]
    with pytest.raises(CompactionCancelled):
        await compact(a_plan(to_summarise=messages), small, model, cancel=cancel)
    assert len(model.requests) == 2


async def test_once_aborted_nothing_is_asked() -> None:
    cancel = CancelToken()
    cancel.fire()
    model = Scripted([Turn(text="notes")])
    with pytest.raises(CompactionCancelled):
        await compact(a_plan(**SPLIT), SCRIPTED_MODEL, model, cancel=cancel)
    assert model.requests == []


async def test_an_abort_goes_before_a_failure() -> None:
    cancel = CancelToken()

    async def abort() -> None:
        cancel.fire()

    async def failing(request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
        await abort()
        yield []
        raise RuntimeError("closed")

    with pytest.raises(CompactionCancelled):
        await compact(a_plan(), SCRIPTED_MODEL, failing, cancel=cancel)
