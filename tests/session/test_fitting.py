"""Conversations that are made to fit: how long they become, and what the model still sees."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairlead.core.messages import (
    AssistantMessage,
    ImageContent,
    ModelMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from fairlead.session.context.overflow import NO_ROOM_FOR_IMAGE, Fitter, shorten_text
from fairlead.session.context.tokens import characters


def user(size: int) -> UserMessage:
    return UserMessage("u" * size, 1)


def answer(size: int, *calls: ToolCall) -> AssistantMessage:
    return AssistantMessage([TextContent("a" * size), *calls], "api", "p", "m", Usage(), "stop", 1)


def turn(size: int) -> list[ModelMessage]:
    call = ToolCall("c", "write", {"content": "w" * size})
    return [user(size), answer(size, call), ToolResultMessage("c", "write", [TextContent("r" * size)], False, 1)]


@given(st.lists(st.integers(0, 9_000), min_size=1, max_size=30), st.integers(2_500, 40_000))
def test_the_whole_fits_and_its_end_stays(sizes: list[int], budget: int) -> None:
    messages: list[ModelMessage] = [user(size) if index % 2 else answer(size) for index, size in enumerate(sizes)]
    fitted = Fitter().fit(messages, budget)
    assert sum(map(characters, fitted)) <= budget
    assert type(fitted[-1]) is type(messages[-1])
    if sum(sizes) <= budget:
        assert fitted == messages


@given(st.integers(1, 40), st.integers(0, 5_000), st.integers(2_500, 20_000))
def test_no_result_is_parted_from_its_call(turns: int, size: int, budget: int) -> None:
    fitted = Fitter().fit([message for _ in range(turns) for message in turn(size)], budget)
    for before, message in pairwise(fitted):
        if isinstance(message, ToolResultMessage):
            assert isinstance(before, AssistantMessage) and before.tool_calls()


def test_short_messages_stay_as_they_are_and_long_ones_lose_their_middle() -> None:
    short, long = user(100), UserMessage("first " + "x" * 50_000 + " last", 1)
    kept, cut = Fitter().fit([short, long], 4_000)
    assert kept is short and isinstance(cut, UserMessage) and isinstance(cut.content, str)
    assert cut.content.startswith("first ") and cut.content.endswith(" last")
    assert "characters left out because they do not fit the model's context window" in cut.content


def test_the_same_message_is_shortened_once() -> None:
    fitter, long = Fitter(), user(50_000)
    first = fitter.fit([long, user(10)], 4_000)[0]
    assert fitter.fit([long, user(10), user(1)], 4_000)[0] is first, "adapters keep its encoding"


def test_where_even_short_messages_are_too_many_the_oldest_go_and_the_request_is_repeated() -> None:
    request = UserMessage("Tidy up the attic.", 1)
    work: list[ModelMessage] = [answer(400) for _ in range(100)]
    note, *rest = Fitter().fit([request, *work], 3_000)
    assert isinstance(note, UserMessage) and isinstance(note.content, str)
    assert "earlier messages left out" in note.content and "Tidy up the attic." in note.content
    assert rest[-1] == work[-1] or characters(rest[-1]) <= 400


def test_an_image_that_does_not_fit_is_replaced_by_a_note() -> None:
    message = UserMessage([TextContent("look"), ImageContent("aaaa", "image/png")], 1)
    (fitted,) = Fitter().fit([message], 1_000)
    assert isinstance(fitted, UserMessage) and fitted.content == [TextContent("look"), TextContent(NO_ROOM_FOR_IMAGE)]


def test_thinking_goes_first_and_no_answer_is_left_empty() -> None:
    blocks: list[Any] = [ThinkingContent("t" * 9_000, "signed"), TextContent("done", "id")]
    thought = AssistantMessage(blocks, "api", "p", "m", Usage(), "stop", 1)
    only = AssistantMessage([ThinkingContent("t" * 9_000)], "api", "p", "m", Usage(), "stop", 1)
    first, second, _ = Fitter().fit([thought, only, user(10)], 2_500)
    assert isinstance(first, AssistantMessage) and first.content == [TextContent("done")]
    assert isinstance(second, AssistantMessage) and second.text()


def test_a_note_says_how_much_is_missing() -> None:
    short = shorten_text("a" * 500 + "b" * 500, 300)
    assert "[... 790 characters left out" in short and len(short) <= 310
