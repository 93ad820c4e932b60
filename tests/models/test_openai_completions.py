"""Answers of OpenAI's chat completions: the blocks they become, and what goes wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.models.asking import ask, outcome, serving, sse
from tests.models.openai_chunks import API, FULL, USAGE, call, chunk, finished

from fairlead.core.messages import TextContent, ThinkingContent, ToolCall
from fairlead.core.model import BlockDelta, BlockEnd, BlockStart

# the whole of an answer


def test_an_answer_arrives_as_blocks_in_order():
    result = outcome(API, FULL)
    assert result.message.content == [
        ThinkingContent("Let me see.", "reasoning_content"),
        TextContent("Running it: é🙂"),
        ToolCall("call_a", "bash", {"command": "ls"}),
        ToolCall("call_b", "bash", {"command": "pwd"}),
    ]
    assert result.message.stop_reason == "toolUse"
    assert result.message.response_id == "chatcmpl-1"
    usage = result.message.usage
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.total_tokens) == (60, 50, 40, 0, 150)
    assert usage.cost.total == pytest.approx((60 * 3 + 50 * 15 + 40 * 0.3) / 1e6)
    marks = [(type(event), event.index) for event in result.events if isinstance(event, BlockStart | BlockEnd)]
    assert marks == [(kind, index) for index in range(4) for kind in (BlockStart, BlockEnd)]
    texts = [event.delta for event in result.events if isinstance(event, BlockDelta) and event.index == 1]
    assert "".join(texts) == "Running it: é🙂"


ANSWERS: list[Any] = [
    FULL,
    {
        "thinking": "Let me see.",
        "text": "Running it",
        "toolCalls": [
            {"id": "a", "name": "bash", "arguments": {"command": "ls"}},
            {"id": "b", "name": "read", "arguments": {}},
        ],
        "usage": {"input": 60, "output": 50, "cacheRead": 40, "reasoning": 20},
    },
    finished({"role": "assistant", "content": "Hello"}, {"content": " there"}, usage=USAGE),
    finished({"content": "Half an ans"}, finish="length"),
    finished({"content": None, "refusal": "I will not."}),
]


@pytest.mark.parametrize("answer", ANSWERS, ids=["everything", "a scripted turn", "text", "length", "refusal"])
async def test_openais_own_client_sees_the_same(answer: Any):
    from openai import AsyncOpenAI

    async with serving(answer) as server:
        ours = (await ask(server, API)).message
        async with AsyncOpenAI(api_key="sk-test", base_url=f"{server.url}/v1", max_retries=0) as client:
            asked = {key: value for key, value in server.requests[0].body.items() if key != "stream"}
            async with client.chat.completions.stream(**asked) as theirs:
                chunks = [event.chunk async for event in theirs if event.type == "chunk"]
                snapshot = theirs.current_completion_snapshot
    choice = snapshot.choices[0]
    assert ours.text() == (choice.message.content or "") + (choice.message.refusal or "")
    calls = [(each.id, each.function.name, json.loads(each.function.arguments)) for each in choice.message.tool_calls or []]
    assert [(each.id, each.name, each.arguments) for each in ours.tool_calls()] == calls
    assert ours.stop_reason == {"stop": "stop", "length": "length", "tool_calls": "toolUse"}[choice.finish_reason]
    usage = next((each.usage for each in chunks if each.usage), None)
    if usage is not None:
        assert usage.prompt_tokens_details is not None
        assert (ours.usage.input + ours.usage.cache_read, ours.usage.output) == (usage.prompt_tokens, usage.completion_tokens)
        assert ours.usage.cache_read == usage.prompt_tokens_details.cached_tokens


# what goes wrong


@pytest.mark.parametrize(
    ("event", "text", "status", "transient"),
    [
        ({"error": {"message": "No more tokens", "code": 429, "type": "x"}}, "No more tokens", 429, True),
        ({"error": {"message": "Too long", "type": "invalid_request_error", "code": None}}, "Too long", None, False),
        ({"error": {"message": "Sorry", "type": "server_error"}}, "Sorry", None, True),
        ({"error": "plain text"}, "plain text", None, False),
        ({"object": "error", "message": "vLLM says no", "code": 400}, "vLLM says no", 400, False),
        ({"error": {"detail": 5}}, '{"detail":5}', None, False),
        (chunk({"content": ""}, "error", error={"code": 502, "message": "upstream"}), "upstream", 502, True),
    ],
)
def test_an_error_inside_the_stream_fails_the_message(event: dict[str, Any], text: str, status: int | None, transient: bool):
    result = outcome(API, sse(chunk({"content": "Some"}), event))
    assert result.message.stop_reason == "error"
    assert result.message.error_message == text
    assert result.message.content == [TextContent("Some")]
    assert (result.end.status, result.end.transient) == (status, transient)


def test_a_content_filter_fails_the_message_with_a_clear_text():
    message = outcome(API, finished({"content": "Some"}, finish="content_filter")).message
    assert message.stop_reason == "error"
    assert "content filter" in (message.error_message or "")


def test_arguments_that_are_not_json_are_reported_as_received():
    end = outcome(API, finished(call("bash", '{"command": ls}', index=0, id="call_a"))).end
    assert end.bad_arguments == {"call_a": '{"command": ls}'}
    assert end.message.tool_calls() == [ToolCall("call_a", "bash", {})]


def test_an_http_error_carries_status_and_delay():
    end = outcome(API, {"status": 429, "error": "slow down", "headers": {"retry-after": "7"}}).end
    assert (end.message.stop_reason, end.status, end.retry_after, end.transient) == ("error", 429, 7.0, True)
    assert "slow down" in (end.message.error_message or "")


@pytest.mark.parametrize("broken", [{"dropAfter": 1}, {}], ids=["dropped", "ended"])
def test_an_answer_that_breaks_off_is_an_error_and_keeps_what_arrived(broken: dict[str, Any]):
    end = outcome(API, {"raw": sse(chunk({"content": "Half"})), **broken}).end
    assert (end.message.stop_reason, end.transient) == ("error", True)
    assert end.message.content == [TextContent("Half")]


def test_an_abort_ends_the_message_and_keeps_what_arrived():
    message = outcome(API, {"text": "Half an answer", "chunk": 4, "hangAfter": 1}, abort_at_first_delta=True).message
    assert message.stop_reason == "aborted"
    assert message.content == [TextContent("Half")]
