"""Runs that end because a limit is reached: the number of turns, or calls that go round in circles."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from tests.support.json_values import is_array

from fairlead.core.limits import Limits
from fairlead.core.messages import ImageContent, TextContent, ToolCall
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
        limits.answered()
        outcomes = turn if is_array(turn) else [turn]
        told = [limits.add_result(made, None, came, failed) for made, came, failed in outcomes]
        assert all(text is None or HINT in text for text in told)
        hints.append([text is not None for text in told])
        limits.turn_ended()
        if limits.why_stop() is not None:
            break
    return hints


def test_the_second_identical_call_gets_a_hint_and_the_fourth_ends_the_run() -> None:
    limits = Limits(0, 4)
    assert play(limits, A, A, A, A, A) == [[False], [True], [True], [True]]
    assert limits.why_stop() == (
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
def test_work_that_goes_on_is_not_ended(turns: list[Any]) -> None:
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


def test_a_message_of_the_user_makes_it_start_anew() -> None:
    limits = Limits(0, 4)
    play(limits, A, A, A)
    limits.heard_user(model_was_done=False)
    assert play(limits, A, A, A, A, A) == [[False], [True], [True], [True]]


@pytest.mark.parametrize(("limit", "turns"), [(0, 50), (1, 2), (2, 2), (3, 3), (10, 10)])
def test_the_limit_can_be_chosen(limit: int, turns: int) -> None:
    hints = play(Limits(0, limit), *[A] * 50)
    assert len(hints) == turns
    assert any(hint for [hint] in hints) == bool(limit)


def test_arguments_that_cannot_be_read_are_compared_as_they_were_written() -> None:
    limits = Limits(0, 4)
    for number in range(20):
        limits.answered()
        limits.add_result(call(), f'{{"a": {number}', result("no"), True)
        limits.turn_ended()
        assert limits.why_stop() is None


def test_turns_are_counted_until_the_model_is_done() -> None:
    limits = Limits(3, 0)
    assert len(play(limits, A, B, C, A)) == 3
    assert limits.exhausted
    assert limits.why_stop() == (
        "The run was stopped after 3 turns (maxTurns), before the model was done."
        " Prompt again to let it continue, or raise the limit."
    )
    limits.heard_user(model_was_done=False)
    assert limits.exhausted
    limits.heard_user(model_was_done=True)
    assert not limits.exhausted
