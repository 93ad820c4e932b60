"""Runs that end because a limit is reached: the number of turns, or calls that go round in circles."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from tests.support.json_values import is_array

from fairlead.core.limits import Limits
from fairlead.core.messages import AssistantBlock, ImageContent, TextContent, ThinkingContent, ToolCall
from fairlead.core.model import BlockDelta, BlockEnd, BlockStart
from fairlead.core.tool import ToolResult

HINT = "This is the same call with the same result as before."


def call(name: str = "edit", **arguments: Any) -> ToolCall:
    return ToolCall("any", name, arguments)


def result(text: str, **details: Any) -> ToolResult:
    return ToolResult([TextContent(text)], details)


A = (call(path="a"), result("no"), True)
B = (call(path="b"), result("no"), True)
C = (call("bash", command="c"), result("c"), False)
QUIET = (call("bash", command="true"), result("(no output)"), False)


def play(limits: Limits, *turns: Any) -> list[list[bool]]:
    """Make the calls of each turn, up to the one that ends the run. Which of them got a hint."""
    hints: list[list[bool]] = []
    for turn in turns:
        limits.on_answer()
        outcomes = turn if is_array(turn) else [turn]
        told = [limits.add_result(made, None, came, failed) for made, came, failed in outcomes]
        assert all(text is None or HINT in text for text in told)
        hints.append([text is not None for text in told])
        limits.on_turn_end()
        if limits.find_stop_reason() is not None:
            break
    return hints


def test_the_second_identical_call_gets_a_hint_and_the_fourth_ends_the_run() -> None:
    limits = Limits(0, 4)
    assert play(limits, A, A, A, A, A) == [[False], [True], [True], [True]]
    assert limits.find_stop_reason() == (
        "The run was stopped because it went round in circles: the model made the same calls (edit) 4 times in a row, with the"
        " same results each time. Tell the model what to do differently, or change the setting maxRepeatedCalls (0: no limit)."
    )


def test_a_call_that_succeeds_counts_as_well() -> None:
    assert play(Limits(0, 4), *[C] * 9) == [[False], [True], [True], [True]]


@pytest.mark.parametrize(
    ("circle", "turns"),
    [([A, B], 8), ([A, B, C], 12), ([[A, B]], 4), ([[A, B], C], 8), ([QUIET, C], 8)],
    ids=["two turns", "three turns", "one turn of two calls", "turns of different length", "with a silent call"],
)
def test_turns_that_come_again_and_again_are_a_circle(circle: list[Any], turns: int) -> None:
    assert len(play(Limits(0, 4), *circle * 20)) == turns


def test_the_order_of_the_calls_of_a_turn_does_not_matter() -> None:
    assert len(play(Limits(0, 4), *[[A, B], [B, A]] * 20)) == 4


def test_the_hint_of_a_longer_circle_comes_when_it_closes() -> None:
    assert play(Limits(0, 4), A, B, A, B, A) == [[False], [False], [False], [True], [True]]


def test_the_order_of_arguments_does_not_matter() -> None:
    turns = [(call(a=1, b=2), result("x"), True), (call(b=2, a=1), result("x"), True)]
    assert len(play(Limits(0, 4), *turns * 9)) == 4


def test_long_output_whose_log_has_another_name_each_time_is_the_same() -> None:
    turns = [(call(), result(f"a\n\n[Full output: /tmp/{n}.log]", fullOutputPath=f"/tmp/{n}.log"), True) for n in range(9)]
    assert len(play(Limits(0, 4), *turns)) == 4


@pytest.mark.parametrize(
    "turns",
    [
        [(call(path="a"), result(f"{n} left"), False) for n in range(50)],
        [(call(path=f"{n}"), result("no"), True) for n in range(50)],
        [(call("x" * (n + 1)), result("no"), True) for n in range(50)],
        [(call(), result("no"), n in (3, 6)) for n in range(8)],
        [QUIET] * 200,
        [(call("bash", command="true"), ToolResult([]), False)] * 200,
        [(call("see"), ToolResult([ImageContent(f"{n}", "image/png")]), False) for n in range(50)],
        [A, A, A, B] * 3 + [A, A, A, C],
    ],
    ids=["results", "arguments", "tools", "failures", "no output", "no content", "images", "too seldom"],
)
def test_repeated_work_that_progresses_is_not_ended(turns: list[Any]) -> None:
    assert len(play(Limits(0, 4), *turns)) == len(turns)


def test_long_calls_are_compared_whole_and_not_kept() -> None:
    def write(last: str) -> Any:
        return call("write", content="x" * 1_000_000 + last), result("y" * 1_000_000 + last), False

    tracemalloc.start()
    limits = Limits(0, 4)
    assert play(limits, write("a"), write("b"), write("a"), write("c")) == [[False]] * 4
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 100_000
    assert play(limits, write("c"), write("c")) == [[True], [True]]


def test_identical_calls_of_one_turn_count_once() -> None:
    limits = Limits(0, 4)
    assert play(limits, [A] * 6, [B] * 6) == [[False] * 6, [False] * 6]


def test_a_user_message_resets_the_limits() -> None:
    limits = Limits(0, 4)
    play(limits, A, A, A)
    limits.on_user_message(model_was_done=False)
    assert play(limits, A, A, A, A, A) == [[False], [True], [True], [True]]


@pytest.mark.parametrize(("limit", "turns"), [(0, 50), (1, 2), (2, 2), (3, 3), (10, 10)])
def test_the_limit_can_be_chosen(limit: int, turns: int) -> None:
    hints = play(Limits(0, limit), *[A] * 50)
    assert len(hints) == turns
    assert any(hint for [hint] in hints) == bool(limit)


def test_arguments_that_cannot_be_read_are_compared_as_they_were_written() -> None:
    limits = Limits(0, 4)
    for number in range(20):
        limits.on_answer()
        limits.add_result(call(), f'{{"a": {number}', result("no"), True)
        limits.on_turn_end()
        assert limits.find_stop_reason() is None


def test_turns_are_counted_until_the_model_is_done() -> None:
    limits = Limits(3, 0)
    assert len(play(limits, A, B, C, A)) == 3
    assert limits.exhausted
    assert limits.find_stop_reason() == (
        "The run was stopped after 3 turns (maxTurns), before the model was done."
        " Prompt again to let it continue, or raise the limit."
    )
    limits.on_user_message(model_was_done=False)
    assert limits.exhausted
    limits.on_user_message(model_was_done=True)
    assert not limits.exhausted


# Answers that repeat themselves


class Clock:
    """A time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def write(passages: list[str], block: AssistantBlock | None = None, *, seconds: float = 1) -> int | None:
    """Write passages one after another, and return the number of the one that ended the answer; None if none did."""
    clock = Clock()
    watch = Limits(max_repeated_text=1_000).watch_answer(clock)
    assert watch is not None
    assert watch.feed(BlockStart(0, block or TextContent(""))) is None
    for number, passage in enumerate(passages):
        clock.now += int(seconds * 1000)
        if (reason := watch.feed(BlockDelta(0, passage))) is not None:
            assert "repeated itself" in reason and "maxRepeatedText" in reason
            return number
    return None


LOOPS = {
    "a letter": "a",
    "space": "\n",
    "a word": "again ",
    "a sentence": "I will now look at the file to see what it does. ",
    "lines": "- one\n- two\n- three\n\n",
    "a paragraph": "".join(f"sentence {number} of a paragraph. " for number in range(7)),
    "other scripts": "思考する🙂 ",
}


@pytest.mark.parametrize("passage", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("piece", [1, 7, 100, 5_000])
def test_an_answer_that_repeats_itself_without_end_is_stopped(passage: str, piece: int) -> None:
    text = "It begins like any other answer. " * 2 + passage * (40_000 // len(passage))
    pieces = [text[at : at + piece] for at in range(0, len(text), piece)]
    for block in (TextContent(""), ThinkingContent("")):
        assert write(pieces, block, seconds=11) is not None


def test_repetitions_end_an_answer_only_if_they_last() -> None:
    assert write(["again "] * 100_000, seconds=0) is None
    assert write(["again " * 50] * 100, seconds=3) is not None


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"{number}. Do the next thing." for number in range(5_000)),
        "\n".join(f"| {number:04} | 0 | 0 | 0 |" for number in range(5_000)),
        "".join(f"{name}\n{'-' * 900}\n" for name in map(str, range(40))),
        "def f():\n    pass\n\n\n" * 40 + "The end of the example.\n" + "x = 1\n" * 120 + "Done.",
    ],
    ids=["a list", "a table", "rules", "code"],
)
def test_text_that_only_looks_alike_is_not_a_repetition(text: str) -> None:
    pieces = [text[at : at + 50] for at in range(0, len(text), 50)]
    assert write(pieces, seconds=5) is None


def test_arguments_of_tools_may_repeat_more_than_text() -> None:
    zeros = ["0, " * 10] * 100
    assert write(zeros, seconds=5) is not None
    assert write(zeros, call("write"), seconds=5) is None
    assert write(zeros * 100, call("write"), seconds=5) is not None


def test_a_repetition_that_ends_in_time_is_forgotten() -> None:
    line = "the same line again\n" * 10
    once = [line] * 7 + ["something else entirely, which is not a repetition. " * 3]
    assert write(once * 20, seconds=2) is None


def test_blocks_are_watched_apart_and_the_next_one_starts_from_zero() -> None:
    clock = Clock()
    watch = Limits(max_repeated_text=1_000).watch_answer(clock)
    assert watch is not None
    for number in range(50):
        clock.now += 60_000
        watch.feed(BlockStart(number, TextContent("")))
        assert watch.feed(BlockDelta(number, "again " * 150)) is None
        watch.feed(BlockEnd(number, TextContent("")))
    assert Limits().watch_answer(clock) is None
