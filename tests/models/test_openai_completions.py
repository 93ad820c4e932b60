from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from tests.models.asking import (
    PIXEL,
    a_model,
    a_request,
    a_result,
    an_answer,
    ask,
    assert_encoded_once,
    assert_valid,
    odd_events,
    outcome,
    serving,
    sse,
)

from fairlead.core.messages import (
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    UserMessage,
)
from fairlead.core.model import BlockDelta, BlockEnd, BlockStart
from fairlead.core.partial_message import PartialMessage
from fairlead.errors import ConfigError
from fairlead.models.apis.openai_completions import ChatReader

API = "openai-completions"


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **extra: Any) -> dict[str, Any]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    known = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": choices}
    return known | extra


def call(name: str | None = None, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {"tool_calls": [{"type": "function", "function": function, **fields}]}


USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 50,
    "total_tokens": 150,
    "prompt_tokens_details": {"cached_tokens": 40},
    "completion_tokens_details": {"reasoning_tokens": 20},
}

FULL = sse(
    chunk({"role": "assistant", "content": ""}),
    chunk({"reasoning_content": "Let me "}),
    chunk({"reasoning_content": "see."}),
    chunk({"content": "Running "}),
    chunk({"content": "it: é🙂"}),
    chunk(call("bash", "", index=0, id="call_a")),
    chunk(call(None, '{"command":', index=0)),
    chunk(call(None, ' "ls"}', index=0)),
    chunk(call("bash", '{"command": "pwd"}', index=1, id="call_b")),
    chunk({}, "tool_calls"),
    chunk(usage=USAGE),
    "[DONE]",
)


def finished(*deltas: dict[str, Any], finish: str | None = "stop", **last: Any) -> str:
    return sse(*(chunk(delta) for delta in deltas), chunk({}, finish, **last), "[DONE]")


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


# imitators

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
    reader.closed()
    partial.finish("stop")
    assert partial.finished is not None


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


# requests


def a_long_conversation() -> list[Any]:
    return [
        UserMessage([TextContent("look"), ImageContent(PIXEL, "image/png")], 1),
        an_answer(
            API,
            ThinkingContent("Hm.", "reasoning_content"),
            TextContent("Looking"),
            ToolCall("call_a", "bash", {"command": "ls"}),
            ToolCall("call_b", "bash", {"command": "pwd"}),
            stop_reason="toolUse",
        ),
        a_result("call_a", TextContent("one"), TextContent("two"), ImageContent(PIXEL, "image/png")),
        a_result("call_b"),
        UserMessage("and?", 1),
        an_answer(API, TextContent("Done.")),
        UserMessage([TextContent("thanks")], 1),
    ]


def test_a_request_is_one_that_openai_accepts():
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    request = a_request(*a_long_conversation(), thinking="high", session_id="s" * 80, max_tokens=500)
    asked = outcome(API, FULL, request, provider="openai", id="gpt-5").asked
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == "Bearer sk-test"
    assert asked.headers["x-extra"] == "1"
    assert_valid(asked.body, CompletionCreateParamsStreaming)
    messages = asked.body.pop("messages")
    assert asked.body == {
        "model": "gpt-5",
        "stream": True,
        "stream_options": {"include_usage": True},
        "store": False,
        "prompt_cache_key": "s" * 64,
        "max_completion_tokens": 500,
        "reasoning_effort": "high",
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "bash",
                    "description": "Run a command",
                    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
                    "strict": False,
                },
            }
        ],
    }
    assert [message["role"] for message in messages] == [
        *("developer", "user", "assistant", "tool", "tool", "user", "user", "assistant", "user")
    ]


def test_messages_say_what_the_conversation_says():
    messages = outcome(API, FULL, a_request(*a_long_conversation())).asked.body["messages"]
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    assert messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "look"}, picture]},
        {
            "role": "assistant",
            "content": "Looking",
            "reasoning_content": "Hm.",
            "tool_calls": [
                {"id": "call_a", "type": "function", "function": {"name": "bash", "arguments": '{"command":"ls"}'}},
                {"id": "call_b", "type": "function", "function": {"name": "bash", "arguments": '{"command":"pwd"}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_a", "content": "one\ntwo"},
        {"role": "tool", "tool_call_id": "call_b", "content": "(no output)"},
        {"role": "user", "content": [{"type": "text", "text": "From the tool bash:"}, picture]},
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "thanks"},
    ]


def test_lone_surrogates_do_not_reach_the_wire():
    answer = an_answer(API, ToolCall("call_a", "bash", {"command": "\udc00"}), stop_reason="toolUse")
    messages = outcome(API, FULL, a_request(UserMessage("a\ud800b", 1), answer)).asked.body["messages"]
    assert messages[1]["content"] == "a\ufffdb"
    assert json.loads(messages[2]["tool_calls"][0]["function"]["arguments"]) == {"command": "\ufffd"}


def test_messages_and_images_are_encoded_once():
    assert_encoded_once(API)


# compat


def body_of(request: Any = None, **fields: Any) -> dict[str, Any]:
    return outcome(API, FULL, request, **fields).asked.body


def test_mistral_gets_what_it_insists_on():
    body = body_of(a_request(*a_long_conversation(), thinking="high"), provider="mistral")
    assert not {"store", "stream_options", "reasoning_effort", "max_completion_tokens"} & set(body)
    assert body["max_tokens"] == 8_000
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool", "assistant", "user", "user", "assistant", "user"]
    results = [message for message in body["messages"] if message["role"] == "tool"]
    assert [message["name"] for message in results] == ["bash", "bash"]
    called = [each["id"] for message in body["messages"] for each in message.get("tool_calls", [])]
    assert [message["tool_call_id"] for message in results] == called
    assert all(len(id) == 9 and id.isalnum() for id in called) and len(set(called)) == 2


def test_thinking_goes_back_as_text_where_it_must():
    answer = an_answer(API, ThinkingContent("Hm.", "thinking"), TextContent("Ok"), provider="mistral")
    body = body_of(a_request(UserMessage("hi", 1), answer, UserMessage("more", 1)), provider="mistral")
    assert body["messages"][2] == {"role": "assistant", "content": "Hm.\n\nOk"}


def test_deepseek_gets_reasoning_content_in_every_answer():
    answers = [an_answer(API, TextContent("Ok"), provider="deepseek")]
    body = body_of(a_request(UserMessage("hi", 1), *answers, UserMessage("more", 1)), provider="deepseek")
    assert body["messages"][2] == {"role": "assistant", "content": "Ok", "reasoning_content": ""}


@pytest.mark.parametrize(
    ("fields", "level", "expected"),
    [
        ({"id": "gpt-5-mini-2025-08-07"}, "off", {"reasoning_effort": "minimal"}),
        ({"id": "gpt-5"}, "minimal", {"reasoning_effort": "minimal"}),
        ({}, "off", {}),
        ({}, "minimal", {"reasoning_effort": "low"}),
        ({}, "medium", {"reasoning_effort": "medium"}),
        ({}, "xhigh", {"reasoning_effort": "high"}),
        ({"thinking_level_map": {"xhigh": "max", "off": "none"}}, "xhigh", {"reasoning_effort": "max"}),
        ({"thinking_level_map": {"xhigh": "max", "off": "none"}}, "off", {"reasoning_effort": "none"}),
        ({"thinking_level_map": {"medium": None, "low": None, "minimal": None}}, "medium", {"reasoning_effort": "high"}),
        ({"thinking_level_map": {"high": None, "xhigh": None}}, "xhigh", {"reasoning_effort": "medium"}),
        ({"reasoning": False}, "high", {}),
        ({"provider": "xai"}, "high", {}),
        ({"provider": "openrouter"}, "xhigh", {"reasoning": {"effort": "xhigh"}}),
        ({"provider": "openrouter"}, "off", {"reasoning": {"effort": "none"}}),
        ({"provider": "openrouter", "thinking_level_map": {"off": None}}, "off", {}),
        ({"provider": "zai"}, "low", {"thinking": {"type": "enabled"}}),
        ({"provider": "zai"}, "off", {"thinking": {"type": "disabled"}}),
        ({"provider": "deepseek"}, "high", {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
        ({"provider": "deepseek"}, "off", {"thinking": {"type": "disabled"}}),
        ({"provider": "together"}, "low", {"reasoning": {"enabled": True}, "reasoning_effort": "low"}),
        ({"provider": "qwen"}, "low", {"enable_thinking": True, "thinking_budget": 900}),
        ({"provider": "qwen"}, "off", {"enable_thinking": False}),
        ({"compat": {"thinkingFormat": "qwen-chat-template"}}, "low", {"chat_template_kwargs": {"enable_thinking": True}}),
        ({"compat": {"supportsReasoningEffort": False}}, "high", {}),
        ({"compat": {"thinkingFormat": "chat-template"}}, "high", {}),
        ({"compat": {"thinkingFormat": "baseten"}, "provider": "deepseek"}, "high", {}),
        ({"compat": {"thinkingFormat": "string-thinking"}, "provider": "qwen"}, "low", {}),
        ({"compat": {"thinkingFormat": "ant-ling"}}, "off", {}),
    ],
)
def test_thinking_is_asked_for_in_the_endpoints_way(fields: dict[str, Any], level: Any, expected: dict[str, Any]):
    body = body_of(a_request(thinking=level), budgets={"low": 900}, **fields)
    names = ("reasoning_effort", "reasoning", "thinking", "enable_thinking", "thinking_budget", "chat_template_kwargs")
    assert {name: body[name] for name in names if name in body} == expected


def test_cache_marks_are_set_where_anthropics_cache_is_behind():
    body = body_of(a_request(*a_long_conversation()), provider="openrouter", id="anthropic/claude")
    mark = {"type": "ephemeral"}
    assert body["tools"][-1]["cache_control"] == mark
    assert body["messages"][0]["content"] == [{"type": "text", "text": "Be brief.", "cache_control": mark}]
    assert body["messages"][-1]["content"] == [{"type": "text", "text": "thanks", "cache_control": mark}]
    assert json.dumps(body).count("cache_control") == 3
    assert "cache_control" not in json.dumps(body_of(provider="openrouter", id="openai/gpt"))


def test_what_a_model_says_of_itself_wins_over_guesses():
    compat = {"maxTokensField": "max_completion_tokens", "supportsStore": True, "requiresToolResultName": None}
    body = body_of(provider="ollama", compat=compat)
    assert body["max_completion_tokens"] == 8_000
    assert body["store"] is False
    assert body_of(provider="ollama")["max_tokens"] == 8_000


@pytest.mark.parametrize(
    ("base_url", "field"),
    [
        ("https://api.deepseek.com/v1", "max_tokens"),
        ("http://localhost:11434/v1", "max_tokens"),
        ("https://eu.api.deepseek.com", "max_tokens"),
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("https://mine.openai.azure.com/openai/v1", "max_completion_tokens"),
        ("https://notapi.openai.com.example.org", "max_tokens"),
    ],
)
def test_endpoints_are_known_by_their_address(base_url: str, field: str):
    from fairlead.models.apis.openai_completions_compat import completions_compat

    assert completions_compat(a_model(API, base_url)).max_tokens_field == field


@pytest.mark.parametrize(
    ("compat", "explained"),
    [
        ({"thinkingFormat": "loud"}, 'thinkingFormat is "loud", but must be one of "openai", "openrouter"'),
        ({"supportsStore": "yes"}, 'supportsStore is "yes", but must be true or false'),
        ({"openRouterRouting": 1}, "openRouterRouting is 1, but must be an object"),
    ],
)
def test_unusable_compat_is_explained(compat: dict[str, Any], explained: str):
    with pytest.raises(ConfigError) as caught:
        body_of(compat=compat)
    assert explained in str(caught.value)
    assert "fake/m-1" in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "limit"),
    [({}, 8_000), ({"max_tokens": 128_000}, 32_000), ({"max_tokens": 0}, None), ({"context_window": 8_000}, None)],
)
def test_the_longest_answer_leaves_room_for_the_question(fields: dict[str, Any], limit: int | None):
    assert body_of(**fields).get("max_tokens") == limit


@pytest.mark.parametrize(
    ("id", "field"),
    [("gpt-5.2", "max_completion_tokens"), ("openai/o4-mini", "max_completion_tokens"), ("gpt-oss-20b", "max_tokens")],
)
def test_a_gateway_to_newer_models_of_openai_gets_the_name_that_those_know(id: str, field: str):
    assert body_of(id=id)[field] == 8_000
