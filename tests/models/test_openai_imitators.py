"""Servers that imitate OpenAI's chat completions, each in its own way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from tests.models.asking import a_model, a_request, odd_events, outcome, sse
from tests.models.openai_chunks import API, FULL, USAGE, call, chunk, finished

from fairlead.core.messages import TextContent, ThinkingContent, ToolCall, UserMessage
from fairlead.core.partial_message import PartialMessage
from fairlead.models.apis.openai_completions import ChatReader

HARDENED: dict[str, tuple[str, list[Any], str]] = {
    "thinking in `reasoning`": (
        finished({"reasoning": "Hm."}, {"content": "Ok"}),
        [ThinkingContent("Hm.", "reasoning"), TextContent("Ok")],
        "stop",
    ),
    "thinking in two fields at once": (
        finished({"reasoning": "Hm.", "reasoning_content": "Hm."}, {"content": "Ok"}),
        [ThinkingContent("Hm.", "reasoning_content"), TextContent("Ok")],
        "stop",
    ),
    "thinking in `thinking`": (
        finished({"thinking": "Hm."}, {"content": "Ok"}),
        [ThinkingContent("Hm.", "thinking"), TextContent("Ok")],
        "stop",
    ),
    "thinking between texts": (
        finished({"content": "a"}, {"reasoning": "b"}, {"content": "c"}),
        [TextContent("a"), ThinkingContent("b", "reasoning"), TextContent("c")],
        "stop",
    ),
    "content as a list of parts": (
        finished(
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": "Ok"}]}
        ),
        [ThinkingContent("Hm.", "thinking"), TextContent("Ok")],
        "stop",
    ),
    "a tool's name in every piece": (
        finished(
            *(call("bash", piece, index=0, id="call_a") for piece in ('{"comm', 'and": "l', 's"}')),
            finish="tool_calls",
        ),
        [ToolCall("call_a", "bash", {"command": "ls"})],
        "toolUse",
    ),
    "a tool's name in every piece, with neither index nor id": (
        finished(*(call("bash", piece) for piece in ('{"a":', '{"b":', "1}}", '{"a":', "2}")), finish="tool_calls"),
        [ToolCall("", "bash", {"a": {"b": 1}}), ToolCall("", "bash", {"a": 2})],
        "toolUse",
    ),
    "no index": (
        finished(
            call("bash", '{"command":', id="call_a"), call(None, '"ls"}'), call("read", "{}", id="call_b"), finish="tool_calls"
        ),
        [ToolCall("call_a", "bash", {"command": "ls"}), ToolCall("call_b", "read", {})],
        "toolUse",
    ),
    "index 0 for every call": (
        finished(call("bash", '{"command":"ls"}', index=0, id="call_a"), call("read", "{}", index=0, id="call_b")),
        [ToolCall("call_a", "bash", {"command": "ls"}), ToolCall("call_b", "read", {})],
        "toolUse",
    ),
    "another id in every piece": (
        finished(call("bash", '{"command":', index=0, id="call_a"), call(None, '"ls"}', index=0, id="call_x")),
        [ToolCall("call_a", "bash", {"command": "ls"})],
        "toolUse",
    ),
    "the same id for two calls": (
        finished(call("bash", "{}", index=0, id="call_a"), call("read", "{}", index=1, id="call_a")),
        [ToolCall("call_a", "bash", {}), ToolCall("", "read", {})],
        "toolUse",
    ),
    "no id": (
        finished(call("bash", "{}", index=0), call("read", "{}", index=1)),
        [ToolCall("", "bash", {}), ToolCall("", "read", {})],
        "toolUse",
    ),
    "a name after the first arguments": (
        finished(call(None, '{"command":', index=0, id="call_a"), call("bash", '"ls"}', index=0)),
        [ToolCall("call_a", "bash", {"command": "ls"})],
        "toolUse",
    ),
    "calls whose pieces take turns": (
        finished(
            call("bash", '{"command":', index=0, id="call_a"),
            call("read", '{"path":', index=1, id="call_b"),
            call(None, '"ls"}', index=0),
            call(None, '"x"}', index=1),
        ),
        [ToolCall("call_a", "bash", {"command": "ls"}), ToolCall("call_b", "read", {"path": "x"})],
        "toolUse",
    ),
    "arguments as an object": (
        finished(call("bash", {"command": "ls"}, index=0, id="call_a")),
        [ToolCall("call_a", "bash", {"command": "ls"})],
        "toolUse",
    ),
    "the old function_call": (
        finished({"function_call": {"name": "bash", "arguments": '{"command":'}}, {"function_call": {"arguments": '"ls"}'}}),
        [ToolCall("", "bash", {"command": "ls"})],
        "toolUse",
    ),
    "tool calls with the reason stop": (
        finished(call("bash", "{}", index=0, id="call_a"), finish="stop"),
        [ToolCall("call_a", "bash", {})],
        "toolUse",
    ),
    "the reason tool_calls without any": (finished({"content": "Ok"}, finish="tool_calls"), [TextContent("Ok")], "stop"),
    "no reason, but [DONE]": (sse(chunk({"content": "Ok"}), "[DONE]"), [TextContent("Ok")], "stop"),
    "a reason, but no [DONE]": (sse(chunk({"content": "Ok"}), chunk({}, "stop")), [TextContent("Ok")], "stop"),
    "the whole message at once": (
        sse(chunk(choices=[{"message": {"role": "assistant", "content": "Ok"}, "finish_reason": "stop"}]), "[DONE]"),
        [TextContent("Ok")],
        "stop",
    ),
    "other choices": (
        sse(chunk(choices=[{"index": 0, "delta": {"content": "a"}}, {"index": 1, "delta": {"content": "b"}}]), "[DONE]"),
        [TextContent("a")],
        "stop",
    ),
    "wrong types all over": (
        sse(
            {"id": 7, "choices": None},
            {"id": None, "choices": [None, {"delta": None}, {"index": "0", "delta": {"content": 5, "tool_calls": "none"}}]},
            {"choices": [{"delta": {"content": "Ok", "role": 1, "tool_calls": [None]}, "finish_reason": False}], "usage": "?"},
            {"choices": [{"delta": {}, "finish_reason": "stop", "logprobs": 3}], "usage": {"prompt_tokens": "many"}},
            "[DONE]",
        ),
        [TextContent("Ok")],
        "stop",
    ),
    "a number beyond all bounds": (
        'data: {"choices":[{"delta":{"content":"Ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1e999}}\n\n',
        [TextContent("Ok")],
        "stop",
    ),
    "half a surrogate pair": (
        'data: {"choices":[{"delta":{"content":"a\\ud83d"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
        [TextContent("a\ufffd")],
        "stop",
    ),
    "garbage between events": ("data: {not json\n\n" + finished({"content": "Ok"}), [TextContent("Ok")], "stop"),
}


@pytest.mark.parametrize("case", HARDENED)
def test_answers_of_imitators_are_understood(case: str):
    stream, content, stop_reason = HARDENED[case]
    message = outcome(API, stream).message
    ids = [each.id for each in message.tool_calls()]
    assert all(ids) and len(set(ids)) == len(ids)
    for ours, wanted in zip(message.content, content, strict=True):
        if isinstance(ours, ToolCall) and wanted.id == "":
            ours.id = ""
        assert ours == wanted
    assert message.stop_reason == stop_reason
    assert message.error_message is None


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"usage": USAGE}, (60, 50, 40, 0)),
        ({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": USAGE}]}, (60, 50, 40, 0)),
        ({"x_groq": {"id": "req", "usage": USAGE}}, (60, 50, 40, 0)),
        ({"usage": {"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 4}}, (6, 5, 4, 0)),
        ({"usage": {"prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 4}}, (6, 5, 4, 0)),
        (
            {
                "usage": {
                    "prompt_tokens": 10,
                    "completion_tokens": 5,
                    "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
                }
            },
            (3, 5, 4, 3),
        ),
        (
            {
                "usage": {
                    "prompt_tokens": 10,
                    "completion_tokens": 5,
                    "total_tokens": 22,
                    "completion_tokens_details": {"reasoning_tokens": 7},
                }
            },
            (10, 12, 0, 0),
        ),
    ],
    ids=["last chunk", "in the choice", "x_groq", "deepseek", "moonshot", "cache writes", "reasoning apart"],
)
def test_usage_is_read_wherever_it_is(usage: dict[str, Any], expected: tuple[int, ...]):
    last = chunk({}, "stop") | usage
    message = outcome(API, sse(chunk({"content": "Ok"}), last, "[DONE]")).message
    assert message.stop_reason == "stop"
    assert (message.usage.input, message.usage.output, message.usage.cache_read, message.usage.cache_write) == expected


def test_openrouters_details_of_thinking_go_back_whole():
    details = [
        {"type": "reasoning.text", "text": "Let me ", "index": 0, "format": "anthropic-claude-v1"},
        {"type": "reasoning.text", "text": "see.", "index": 0},
        {"type": "reasoning.text", "signature": "sig", "index": 0},
        {"type": "reasoning.encrypted", "data": "xyz", "index": 1},
    ]
    stream = finished(
        *({"reasoning": detail.get("text", ""), "reasoning_details": [detail]} for detail in details[:3]),
        {"content": "Ok"},
        {"reasoning_details": [details[3]]},
    )
    answer = outcome(API, stream).message
    assert [type(block) for block in answer.content] == [ThinkingContent, TextContent]
    assert isinstance(answer.content[0], ThinkingContent) and answer.content[0].thinking == "Let me see."
    sent = outcome(API, FULL, a_request(UserMessage("hi", 1), answer, UserMessage("go on", 1))).asked.body["messages"]
    assert sent[2]["reasoning_details"] == [
        {"type": "reasoning.text", "text": "Let me see.", "index": 0, "format": "anthropic-claude-v1", "signature": "sig"},
        {"type": "reasoning.encrypted", "data": "xyz", "index": 1},
    ]


@settings(max_examples=300, deadline=None, database=None, derandomize=True)
@given(
    odd_events(
        "id",
        "choices",
        "delta",
        "message",
        "content",
        "tool_calls",
        "function",
        "function_call",
        "name",
        "arguments",
        "index",
        "text",
        "thinking",
        "reasoning",
        "reasoning_details",
        "summary",
        "type",
        "usage",
        "prompt_tokens",
        "finish_reason",
        "x_groq",
    )
)
def test_no_event_is_too_odd(events: list[Any]):
    partial = PartialMessage(a_model(API), 1)
    reader = ChatReader(partial)
    for event in events:
        reader.read(b"", json.dumps(event).encode())
    partial.take()
    reader.read(b"", b"[DONE]")
    reader.on_close()
    partial.finish("stop")
    assert partial.finished is not None
