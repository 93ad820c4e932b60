"""From the pieces of an answer to its blocks: every piece counts once, in the message and in the deltas alike."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from tests.models.asking import a_model, outcome, sse

from fairlead.core.messages import TextContent, ThinkingContent, ToolCall
from fairlead.core.model import BlockDelta, BlockEnd, StreamEvent
from fairlead.core.partial_message import PartialMessage
from fairlead.models.apis.anthropic import AnthropicReader
from fairlead.models.apis.google import GoogleReader
from fairlead.models.apis.openai_completions import ChatReader
from fairlead.models.apis.openai_responses import ResponsesReader

ANTHROPIC, COMPLETIONS = "anthropic-messages", "openai-completions"
RESPONSES, GOOGLE = "openai-responses", "google-generative-ai"

STOP = ({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"})
COMPLETED = {"type": "response.completed", "response": {"status": "completed"}}


def started(index: int, kind: str = "text", **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **fields}}


def stopped(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def piece(index: int, text: str, kind: str = "text") -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": f"{kind}_delta", kind: text}}


def json_piece(index: int, text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": text}}


def output(index: int, text: str, kind: str = "output_text") -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "output_index": index, "delta": text}


def added(index: int, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: int, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def chat(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta}]}


def part(**fields: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": [fields]}}]}


def said(events: list[StreamEvent]) -> dict[int, str]:
    """What a host reads that puts the deltas of each block together."""
    texts: dict[int, str] = {}
    for event in events:
        if isinstance(event, BlockDelta):
            texts[event.index] = texts.get(event.index, "") + event.delta
    return texts


# cost


def forgotten_ends(block: int) -> list[dict[str, Any]]:
    return [started(block), piece(block, "x")]


def items(block: int) -> list[dict[str, Any]]:
    call = {"type": "function_call", "call_id": f"c{block}", "name": "bash"}
    return [added(block, **call), output(block, "{}", "function_call_arguments"), done(block, **call, arguments="{}")]


def calls_by_id(block: int) -> list[dict[str, Any]]:
    return [chat(tool_calls=[{"id": f"c{block}", "function": {"name": "bash", "arguments": "{}"}}])]


def calls_by_index(block: int) -> list[dict[str, Any]]:
    return [chat(tool_calls=[{"index": block, "id": f"c{block}", "function": {"name": "bash", "arguments": "{}"}}])]


def alternating(block: int) -> list[dict[str, Any]]:
    return [part(text="x", thought=block % 2 == 0)]


def work_for(reader: Callable[[PartialMessage], Any], events: Callable[[int], list[dict[str, Any]]], blocks: int) -> int:
    """How many instructions of Python it takes to read so many blocks."""
    partial = PartialMessage(a_model(ANTHROPIC), 1)
    read = reader(partial).read
    encoded = [json.dumps(event).encode() for block in range(blocks) for event in events(block)]
    count = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for data in encoded:
            read(b"", data)
            partial.take()
        partial.finish("stop")
    finally:
        sys.settrace(before)
    assert partial.finished is not None and len(partial.finished.message.content) == blocks
    return count


@pytest.mark.parametrize(
    ("reader", "events"),
    [
        (AnthropicReader, forgotten_ends),
        (ResponsesReader, items),
        (ChatReader, calls_by_id),
        (ChatReader, calls_by_index),
        (GoogleReader, alternating),
    ],
)
def test_twice_the_blocks_are_twice_the_work(reader: Any, events: Any) -> None:
    once, twice = work_for(reader, events, 200), work_for(reader, events, 400)
    assert twice < 2.1 * once


# pieces that come too late


def test_anthropic_deltas_after_the_end_of_a_block_are_ignored() -> None:
    call = started(1, "tool_use", id="t1", name="bash")
    late = [piece(0, "late"), piece(0, "late", "thinking"), json_piece(1, "late")]
    blocks = [started(0), piece(0, "a"), stopped(0), call, json_piece(1, "{}"), stopped(1)]
    result = outcome(ANTHROPIC, sse(*blocks, *late, *STOP))
    assert result.message.content == [TextContent("a"), ToolCall("t1", "bash", {})]
    assert said(result.events) == {0: "a", 1: "{}"}
    assert [event.block for event in result.events if isinstance(event, BlockEnd)] == result.message.content


def test_a_signature_counts_even_after_the_end_of_its_block() -> None:
    signature = {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s"}}
    thought = [started(0, "thinking"), piece(0, "hm", "thinking"), stopped(0)]
    assert outcome(ANTHROPIC, sse(*thought, signature, *STOP)).message.content == [ThinkingContent("hm", "s")]


def test_interleaved_anthropic_blocks_are_complete_in_message_and_deltas() -> None:
    call = started(1, "tool_use", id="t1", name="bash")
    mixed = [piece(0, "b"), json_piece(1, '{"x":'), piece(0, "c"), json_piece(1, "1}"), stopped(1), stopped(0)]
    result = outcome(ANTHROPIC, sse(started(0), piece(0, "a"), call, *mixed, *STOP))
    assert result.message.content == [TextContent("a"), ToolCall("t1", "bash", {"x": 1}), TextContent("bc")]
    assert [said(result.events)[index] for index in (0, 2)] == ["a", "bc"]


def test_responses_deltas_after_the_end_of_an_item_are_ignored() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "bash"}
    late = [output(0, "late"), output(1, "late", "function_call_arguments")]
    result = outcome(
        RESPONSES,
        sse(
            output(0, "a"),
            done(0, type="message", content=[{"type": "output_text", "text": "a"}]),
            added(1, **call),
            done(1, **call, arguments="{}"),
            *late,
            COMPLETED,
        ),
    )
    assert result.message.content == [TextContent("a"), ToolCall("c1", "bash", {})]
    assert said(result.events) == {0: "a", 1: "{}"}


def test_interleaved_responses_items_are_complete_in_message_and_deltas() -> None:
    second = added(1, type="function_call", call_id="c1", name="bash")
    arguments = [output(1, '{"x":', "function_call_arguments"), output(1, "1}", "function_call_arguments")]
    result = outcome(RESPONSES, sse(output(0, "a"), second, arguments[0], output(0, "b"), arguments[1], COMPLETED))
    assert result.message.content == [TextContent("a"), ToolCall("c1", "bash", {"x": 1}), TextContent("b")]
    assert [said(result.events)[index] for index in (0, 2)] == ["a", "b"]


def test_an_item_that_comes_whole_after_the_next_one_started_is_not_lost() -> None:
    message = {"type": "message", "content": [{"type": "output_text", "text": "a"}]}
    result = outcome(RESPONSES, sse(added(0, type="message"), output(1, "b"), done(0, **message), COMPLETED))
    assert result.message.text() == "ba"
    assert "".join(said(result.events).values()) == "ba"


def test_calls_that_are_written_at_the_same_time_get_their_arguments() -> None:
    def call(index: int, arguments: str, **fields: Any) -> dict[str, Any]:
        return chat(tool_calls=[{"index": index, "function": {"arguments": arguments, **fields}}])

    answer = sse(call(0, '{"x":', name="a"), call(1, '{"y":', name="b"), call(0, "1}"), call(1, "2}"), "[DONE]")
    assert [block.arguments for block in outcome(COMPLETIONS, answer).message.tool_calls()] == [{"x": 1}, {"y": 2}]


# ids


def test_calls_that_share_an_id_get_ids_of_their_own() -> None:
    twice = [event for index in (0, 1) for event in (started(index, "tool_use", id="t", name="bash"), stopped(index))]
    first, second = outcome(ANTHROPIC, sse(*twice, *STOP)).message.tool_calls()
    assert first.id == "t" != second.id and second.id
    call = {"type": "function_call", "call_id": "t", "name": "bash", "arguments": "{}"}
    first, second = outcome(RESPONSES, sse(done(0, **call), done(1, **call), COMPLETED)).message.tool_calls()
    assert first.id == "t" != second.id and second.id


# characters in two pieces


def in_pieces(api: str, *texts: str) -> str:
    """An answer of one text, cut anywhere."""
    if api == ANTHROPIC:
        return sse(started(0), *(piece(0, text) for text in texts), stopped(0), *STOP)
    if api == COMPLETIONS:
        return sse(*(chat(content=text) for text in texts), "[DONE]")
    if api == RESPONSES:
        return sse(*(output(0, text) for text in texts), COMPLETED)
    return sse(*(part(text=text) for text in texts), {"candidates": [{"finishReason": "STOP"}]})


@pytest.mark.parametrize("api", [ANTHROPIC, COMPLETIONS, RESPONSES, GOOGLE])
@pytest.mark.parametrize(
    ("texts", "whole"),
    [
        (("a\ud83d", "\ude00b"), "a😀b"),
        (("\ud83d", "\ude00"), "😀"),
        (("é\ud83d", "\ude00\ud83d", "\ude00"), "é😀😀"),
        (("a\ud83d", "b"), "a\ufffdb"),
        (("a\ud83d",), "a\ufffd"),
        (("\ude00", "\ud83d", "\ud83d", "\ude00"), "\ufffd\ufffd😀"),
    ],
)
def test_a_character_whose_halves_come_in_two_pieces_is_whole(api: str, texts: tuple[str, ...], whole: str) -> None:
    result = outcome(api, in_pieces(api, *texts))
    assert result.message.text() == whole
    assert said(result.events) == {0: whole}


def test_halves_that_arrive_at_different_times_are_joined_too() -> None:
    partial = PartialMessage(a_model(ANTHROPIC), 1)
    partial.start_text(0)
    texts: list[str] = []
    for half in ("a\ud83d", "\ude00", "b\ud83d"):
        partial.add(0, half)
        texts += [event.delta for event in partial.take() if isinstance(event, BlockDelta)]
    assert texts == ["a", "😀", "b"]
    (block,) = partial.snapshot().content
    assert block == TextContent("a😀b")
    partial.fail("broken")
    assert said(partial.take()) == {0: "\ufffd"}


def test_halves_in_thinking_and_arguments_are_joined_and_other_fields_are_valid() -> None:
    answer = sse(
        {"type": "message_start", "message": {"id": "m\ud83d"}},
        started(0, "thinking", thinking="\ud83d"),
        piece(0, "\ude00", "thinking"),
        started(1, "tool_use", id="t\ud83d", name="n\ud83d", input={"text": "\ud83d"}),
        stopped(1),
        started(2, "tool_use", id="t2", name="n"),
        json_piece(2, '{"x": "\ud83d'),
        json_piece(2, '\ude00"}'),
        stopped(2),
        *STOP,
    )
    message = outcome(ANTHROPIC, answer).message
    assert message.response_id == "m\ufffd"
    assert message.content == [
        ThinkingContent("😀"),
        ToolCall("t\ufffd", "n\ufffd", {"text": "\ufffd"}),
        ToolCall("t2", "n", {"x": "😀"}),
    ]
