"""Tools may return anything. The run continues, and the host and the model get what JSON can hold of it."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.core.test_loop import Answer, Stage, calls, play

from fairlead.core import events as e
from fairlead.core.lenient import cut_deep_json, json_data
from fairlead.core.messages import ToolResultMessage
from fairlead.core.tool import StructuredResult, Tool, ToolContext, ToolResult
from fairlead.testing import Scripted

TEXT = ToolResult.text("kept").content
LOOP: list[Any] = [1]
LOOP.append(LOOP)


def nested(depth: int) -> Any:
    value: Any = "deep"
    for _ in range(depth):
        value = [value]
    return value


class Angry:
    def __repr__(self) -> str:
        raise ValueError("no")


LEAVES: list[Callable[[random.Random], Any]] = [
    lambda r: r.choice([None, True, False, 0, -1, 2**53, 2**63, 2**64, -(2**80), 2**5000, 0.5, 1e300]),
    lambda r: r.choice([float("nan"), float("inf"), -float("inf")]),
    lambda r: r.choice(["", "text", "\ud800", "\0", "\U0001f600", "x" * 5000, b"\xff", bytearray(b"a")]),
    lambda r: r.choice([object(), Angry(), Angry, len, 1j, {1, "a"}, range(3), datetime.datetime.now(datetime.UTC), LOOP]),
    lambda r: nested(r.choice([3, 99, 101, 400])),
]


def odd_value(r: random.Random, depth: int = 0) -> Any:
    if depth > 3 or r.random() < 0.5:
        return r.choice(LEAVES)(r)
    if r.random() < 0.5:
        return [odd_value(r, depth + 1) for _ in range(r.randrange(4))]
    keys: list[Any] = ["a", "fullOutputPath", "patch", "phases", "progress", "results", "\ud800", 5, None, (1, 2)]
    return {r.choice(keys): odd_value(r, depth + 1) for _ in range(r.randrange(4))}


def odd_result(r: random.Random) -> Any:
    def fail() -> Any:
        raise ValueError("no data")

    content: Any = r.choice([TEXT, [*TEXT, odd_value(r)], odd_value(r)])
    fields: dict[str, Any] = {"details": odd_value(r), "usage": r.choice([None, odd_value(r)]), "failed": odd_value(r)}
    if r.random() < 0.3:
        value = odd_value(r)
        return StructuredResult(content, **fields, structured=r.choice([fail, lambda: value]))
    return ToolResult(content, **fields)


@pytest.mark.parametrize("seed", range(60))
def test_no_result_of_a_tool_ends_the_run(seed: int) -> None:
    r = random.Random(seed)

    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        context.update(odd_result(r))
        return odd_result(r)

    tool = Tool("odd", "", {"type": "object"}, run)
    stage = Stage(Scripted([*[calls("x", tool="odd") for _ in range(5)], Answer(text="done")]), [tool])
    play(stage)
    results = [message for message in stage.added if isinstance(message, ToolResultMessage)]
    assert len(results) == 5 and stage.bugs == []
    for message in results:
        msgspec.json.decode(msgspec.json.encode(message))
    for end in [event for event in stage.events if isinstance(event, e.ToolEnd)]:
        msgspec.json.encode(None if end.structured is None else end.structured())


@pytest.mark.parametrize("details", [[1, 2], "text", 5, 0, False, [], {"a": [None]}, nested(50)])
def test_details_of_any_kind_reach_the_host(details: Any) -> None:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult(list(TEXT), details)

    stage = Stage(Scripted([calls("x", tool="odd"), Answer(text="done")]), [Tool("odd", "", {"type": "object"}, run)])
    play(stage)
    [message] = [message for message in stage.added if isinstance(message, ToolResultMessage)]
    assert (message.details, message.content) == (details, TEXT)


@pytest.mark.parametrize("levels", [3, 150, 151, 5000])
def test_json_is_cut_where_it_has_too_many_levels(levels: int) -> None:
    line = (
        '{"a":' + "[" * (levels - 1) + "]" * (levels - 1) + ',"b":"[[\\"[[","c":' + '{"x":' * 300 + "1" + "}" * 300 + ',"d":[1]}'
    )
    cut = msgspec.json.decode(cut_deep_json(line.encode()))
    assert (cut["b"], cut["d"]) == ('[["[[', [1])
    assert ("nested too deeply" in str(cut["a"])) is (levels > 150) and "nested too deeply" in str(cut["c"])
    assert cut_deep_json(b'{"a":[1]}') == b'{"a":[1]}'


def test_data_that_json_cannot_hold_becomes_text() -> None:
    assert json_data({1: {2}, "a": float("nan"), "b": 2**64, "c": object()}) == {
        "1": [2],
        "a": None,
        "b": float(2**64),
        "c": "[object]",
    }
    assert json_data(LOOP) == [1, "[nested too deeply to be kept]"]
    assert json_data(2**2000) is None
