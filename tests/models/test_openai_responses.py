"""Answers of OpenAI's responses API: the blocks they become, those of imitators, and what goes wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from tests.models.asking import a_model, ask, odd_events, outcome, serving, sse
from tests.models.openai_items import API, REASONING, TURN, a_message, done, ended

from fairlead.core.messages import TextContent, ThinkingContent, ToolCall
from fairlead.core.model import BlockDelta, BlockEnd, BlockStart
from fairlead.core.partial_message import PartialMessage
from fairlead.models.apis.openai_responses import ResponsesReader


def added(item: dict[str, Any], index: int | None = 0) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def delta(kind: str, piece: Any, index: int | None = 0, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "output_index": index, "delta": piece, **fields}


def a_call(arguments: str = '{"command": "ls"}', **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "id": "fc_1", "call_id": "call_a", "name": "bash", "arguments": arguments, **fields}


# the whole of an answer


def test_an_answer_arrives_as_blocks_in_order():
    result = outcome(API, TURN)
    thinking, *rest = result.message.content
    assert isinstance(thinking, ThinkingContent) and thinking.thinking == "Let me see."
    assert json.loads(thinking.thinking_signature or "")["encrypted_content"].startswith("encrypted-rs_")
    assert isinstance(rest[0], TextContent) and (rest[0].text_signature or "").startswith("msg_")
    assert rest[0].text == "Running it: é🙂"
    assert rest[1:] == [ToolCall("call_a", "bash", {"command": "ls"}), ToolCall("call_b", "bash", {"command": "pwd"})]
    assert result.message.stop_reason == "toolUse"
    usage = result.message.usage
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.total_tokens) == (60, 50, 40, 0, 150)
    marks = [(type(event), event.index) for event in result.events if isinstance(event, BlockStart | BlockEnd)]
    assert marks == [(kind, index) for index in range(4) for kind in (BlockStart, BlockEnd)]
    ends = [event.block for event in result.events if isinstance(event, BlockEnd)]
    assert ends == result.message.content


@pytest.mark.parametrize(
    "answer",
    [TURN, {"text": "Hello"}, {"text": "Half an ans", "stopReason": "max_output_tokens"}],
    ids=["everything", "text", "length"],
)
async def test_openais_own_client_sees_the_same(answer: Any):
    from openai import AsyncOpenAI

    async with serving(answer) as server:
        ours = (await ask(server, API)).message
        async with AsyncOpenAI(api_key="sk-test", base_url=f"{server.url}/v1", max_retries=0) as client:
            create: Any = client.responses.create  # its overloads do not fit a body that is only known at run time
            last = [event async for event in await create(**server.requests[0].body)][-1]
    assert last.type in ("response.completed", "response.incomplete")
    theirs = last.response
    summaries = [part.text for item in theirs.output if item.type == "reasoning" for part in item.summary]
    assert [block.thinking for block in ours.content if isinstance(block, ThinkingContent)] == summaries
    assert ours.text() == theirs.output_text
    calls = [(item.call_id, item.name, json.loads(item.arguments)) for item in theirs.output if item.type == "function_call"]
    assert [(call.id, call.name, call.arguments) for call in ours.tool_calls()] == calls
    incomplete = theirs.incomplete_details is not None and theirs.incomplete_details.reason == "max_output_tokens"
    assert ours.stop_reason == ("length" if incomplete else "toolUse" if calls else "stop")
    assert theirs.usage is not None
    assert (ours.usage.input + ours.usage.cache_read, ours.usage.output) == (
        theirs.usage.input_tokens,
        theirs.usage.output_tokens,
    )
    assert ours.usage.cache_read == theirs.usage.input_tokens_details.cached_tokens


def test_a_block_ends_with_its_item():
    stream = sse(delta("output_text", "Ok"), done(a_message("Ok")))
    events = outcome(API, {"raw": stream, "hangAfter": 1}, abort_at_first_delta=True).events
    assert [event.block for event in events if isinstance(event, BlockEnd)] == [TextContent("Ok", "msg_1")]


def test_the_late_end_of_an_item_does_not_end_the_next():
    first, second = delta("output_text", "a", 0), delta("output_text", "b", 1)
    result = outcome(API, sse(first, second, done(a_message("a"), 0), second, ended()))
    assert result.message.content == [TextContent("a", "msg_1"), TextContent("bb")]
    assert "".join(event.delta for event in result.events if isinstance(event, BlockDelta)) == "abb"


def test_the_id_of_the_response_is_kept():
    created = {"type": "response.created", "response": {"id": "resp_7"}}
    assert outcome(API, sse(created, done(a_message("Ok")), ended())).message.response_id == "resp_7"


def test_cache_writes_are_not_counted_as_input():
    usage = {"input_tokens": 10, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3}}
    ours = outcome(API, sse(done(a_message("Ok")), ended(usage=usage))).message.usage
    assert (ours.input, ours.output, ours.cache_read, ours.cache_write) == (3, 5, 4, 3)


HARDENED: dict[str, tuple[str, list[Any], str]] = {
    "parts of a summary": (
        sse(
            added({"type": "reasoning", "id": "rs_1"}),
            {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 0},
            delta("reasoning_summary_text", "One."),
            {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 1},
            delta("reasoning_summary_text", "Two."),
            ended(),
        ),
        [ThinkingContent("One.\n\nTwo.")],
        "stop",
    ),
    "open reasoning": (
        sse(added({"type": "reasoning"}), delta("reasoning_text", "Hm."), added({"type": "message"}, 1), ended()),
        [ThinkingContent("Hm."), TextContent("")],
        "stop",
    ),
    "a refusal": (
        sse(added({"type": "message", "id": "msg_1"}), delta("refusal", "I will not."), ended()),
        [TextContent("I will not.")],
        "stop",
    ),
    "no deltas": (
        sse(added({"type": "message", "id": "msg_1"}), done(a_message("Ok")), done(a_call(), 1), ended()),
        [TextContent("Ok", "msg_1"), ToolCall("call_a", "bash", {"command": "ls"})],
        "toolUse",
    ),
    "deltas without a beginning": (
        sse(delta("reasoning_text", "Hm.", 0), delta("output_text", "Ok", 1), ended()),
        [ThinkingContent("Hm."), TextContent("Ok")],
        "stop",
    ),
    "arguments before their call": (
        sse(delta("function_call_arguments", '{"command": "ls"}'), done(a_call()), ended()),
        [ToolCall("call_a", "bash", {"command": "ls"})],
        "toolUse",
    ),
    "nothing but the end": (
        sse(ended(output=[REASONING, a_message("Ok"), a_call()])),
        [
            ThinkingContent("Hm.", json.dumps({"summary": REASONING["summary"], **REASONING}, separators=(",", ":"))),
            TextContent("Ok", "msg_1"),
            ToolCall("call_a", "bash", {"command": "ls"}),
        ],
        "toolUse",
    ),
    "item ids instead of places": (
        sse(
            added({"type": "message", "id": "msg_1"}, None),
            delta("output_text", "O", None, item_id="msg_1"),
            delta("output_text", "k", None, item_id="msg_1"),
            ended(),
        ),
        [TextContent("Ok")],
        "stop",
    ),
    "ids that change": (
        sse(
            added({"type": "message", "id": "msg_x"}),
            delta("output_text", "Ok", item_id="msg_y"),
            done(a_message("Ok", id="msg_z")),
            ended(),
        ),
        [TextContent("Ok", "msg_z")],
        "stop",
    ),
    "every end at the same place, some twice": (
        sse(done(a_call("{}")), done(a_call("{}")), done(a_call("{}", call_id="call_b")), ended()),
        [ToolCall("call_a", "bash", {}), ToolCall("call_b", "bash", {})],
        "toolUse",
    ),
    "items of other kinds": (
        sse(
            added({"type": "web_search_call", "id": "ws_1"}), done({"type": "web_search_call"}), done(a_message("Ok"), 1), ended()
        ),
        [TextContent("Ok", "msg_1")],
        "stop",
    ),
    "no call id": (
        sse(added(a_call("", call_id=None, id=None)), delta("function_call_arguments", "{}"), ended()),
        [ToolCall("", "bash", {})],
        "toolUse",
    ),
    "[DONE] for an end": (sse(delta("output_text", "Ok"), "[DONE]"), [TextContent("Ok")], "stop"),
    "[DONE] after the end": (sse(delta("output_text", "Ok"), ended(), "[DONE]"), [TextContent("Ok")], "stop"),
    "types in the event's name alone": (
        'event: response.output_text.delta\ndata: {"output_index": 0, "delta": "Ok"}\n\n' + sse(ended()),
        [TextContent("Ok")],
        "stop",
    ),
    "wrong types all over": (
        sse(
            {"type": "response.created", "response": None},
            {"type": 5},
            added({"type": "message", "id": 5}),
            delta("output_text", 7),
            delta("output_text", "Ok", item_id=9, logprobs="?"),
            ended(usage={"input_tokens": None, "input_tokens_details": []}, output=None),
        ),
        [TextContent("Ok")],
        "stop",
    ),
    "half a surrogate pair": (
        'data: {"type":"response.output_text.delta","output_index":0,"delta":"a\\ud83d"}\n\n' + sse(ended()),
        [TextContent("a\ufffd")],
        "stop",
    ),
    "garbage between events": ("data: {not json\n\n" + sse(delta("output_text", "Ok"), ended()), [TextContent("Ok")], "stop"),
}


@pytest.mark.parametrize("case", HARDENED)
def test_answers_of_imitators_are_understood(case: str):
    stream, content, stop_reason = HARDENED[case]
    message = outcome(API, stream).message
    for ours, wanted in zip(message.content, content, strict=True):
        if isinstance(ours, ToolCall) and wanted.id == "":
            assert ours.id
            ours.id = ""
        assert ours == wanted
    assert (message.stop_reason, message.error_message) == (stop_reason, None)


@settings(max_examples=300, deadline=None, database=None, derandomize=True)
@given(
    odd_events(
        "type",
        "output_index",
        "item_id",
        "delta",
        "item",
        "response",
        "error",
        "output",
        "usage",
        "status",
        "content",
        "summary",
        "text",
        "id",
        "call_id",
        "name",
        "arguments",
        "message",
        "reasoning",
        "function_call",
        "response.output_item.added",
        "response.output_item.done",
        "response.output_text.delta",
        "response.function_call_arguments.delta",
        "response.completed",
    )
)
def test_no_event_is_too_odd(events: list[Any]):
    partial = PartialMessage(a_model(API), 1)
    reader = ResponsesReader(partial)
    for event in events:
        reader.read(b"", json.dumps(event).encode())
    partial.take()
    partial.finish("stop")
    assert partial.finished is not None


# what goes wrong


@pytest.mark.parametrize(
    ("event", "text", "transient"),
    [
        (ended("failed", error={"code": "server_error", "message": "Sorry"}), "Sorry", True),
        (ended("failed", error={"code": "invalid_prompt", "message": "No"}), "No", False),
        (ended("failed", error=None), "The provider ended the response without giving a reason.", False),
        ({"type": "error", "code": "rate_limit_exceeded", "message": "Slow down", "param": None}, "Slow down", True),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "Too long"}}, "Too long", False),
        ({"error": {"message": "Bare", "code": 503}}, "Bare", True),
    ],
)
def test_an_error_inside_the_stream_fails_the_message(event: dict[str, Any], text: str, transient: bool):
    end = outcome(API, sse(delta("output_text", "Some"), event)).end
    assert (end.message.stop_reason, end.message.error_message, end.transient) == ("error", text, transient)
    assert end.message.content == [TextContent("Some")]


def test_a_content_filter_fails_the_message_with_a_clear_text():
    message = outcome(API, {"text": "Some", "stopReason": "content_filter"}).message
    assert message.stop_reason == "error"
    assert "content filter" in (message.error_message or "")


def test_an_http_error_carries_status_and_delay():
    end = outcome(API, {"status": 429, "error": "slow down", "headers": {"retry-after": "7"}}).end
    assert (end.message.stop_reason, end.status, end.retry_after, end.transient) == ("error", 429, 7.0, True)
    assert "slow down" in (end.message.error_message or "")


@pytest.mark.parametrize("broken", [{"dropAfter": 1}, {}], ids=["dropped", "ended"])
def test_an_answer_that_breaks_off_is_an_error_and_keeps_what_arrived(broken: dict[str, Any]):
    end = outcome(API, {"raw": sse(delta("output_text", "Half")), **broken}).end
    assert (end.message.stop_reason, end.transient) == ("error", True)
    assert end.message.content == [TextContent("Half")]


def test_an_abort_ends_the_message_and_keeps_what_arrived():
    message = outcome(API, {"text": "Half an answer", "chunk": 4, "hangAfter": 1}, abort_at_first_delta=True).message
    assert message.stop_reason == "aborted"
    assert message.content == [TextContent("Half")]
