"""Requests to OpenAI's responses API: the conversation, what goes back to it, and the efforts of thinking."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.models.asking import PIXEL, a_request, a_result, an_answer, assert_encoded_once, assert_valid, outcome, sse
from tests.models.openai_items import API, REASONING, TURN, a_message, done, ended

from fairlead.core.messages import ImageContent, TextContent, ThinkingContent, ToolCall, UserMessage


def a_long_conversation() -> list[Any]:
    return [
        UserMessage([TextContent("look"), ImageContent(PIXEL, "image/png")], 1),
        an_answer(
            API,
            ThinkingContent("Hm.", json.dumps({**REASONING, "status": "completed"})),
            TextContent("Looking", "msg_1"),
            ToolCall("call_a|fc_1", "bash", {"command": "ls"}),
            ToolCall("call_b", "bash", {"command": "pwd"}),
            stop_reason="toolUse",
        ),
        a_result("call_a|fc_1", TextContent("one"), ImageContent(PIXEL, "image/png")),
        a_result("call_b"),
        UserMessage("and?", 1),
    ]


def test_a_request_is_one_that_openai_accepts():
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

    request = a_request(*a_long_conversation(), thinking="high", session_id="s" * 80, max_tokens=5)
    asked = outcome(API, TURN, request).asked
    assert asked.path == "/v1/responses"
    assert asked.headers["authorization"] == "Bearer sk-test"
    assert asked.headers["x-extra"] == "1"
    assert_valid(asked.body, ResponseCreateParamsStreaming)
    asked.body.pop("input")
    assert asked.body == {
        "model": "m-1",
        "stream": True,
        "store": False,
        "instructions": "Be brief.",
        "max_output_tokens": 16,
        "prompt_cache_key": "s" * 64,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "high", "summary": "auto"},
        "tools": [
            {
                "type": "function",
                "name": "bash",
                "description": "Run a command",
                "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
                "strict": False,
            }
        ],
    }


def test_the_input_says_what_the_conversation_says():
    picture = {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PIXEL}"}
    assert outcome(API, TURN, a_request(*a_long_conversation())).asked.body["input"] == [
        {"role": "user", "content": [{"type": "input_text", "text": "look"}, picture]},
        REASONING,
        a_message("Looking"),
        {"type": "function_call", "call_id": "call_a", "name": "bash", "arguments": '{"command":"ls"}'},
        {"type": "function_call", "call_id": "call_b", "name": "bash", "arguments": '{"command":"pwd"}'},
        {"type": "function_call_output", "call_id": "call_a", "output": [{"type": "input_text", "text": "one"}, picture]},
        {"type": "function_call_output", "call_id": "call_b", "output": "(no output)"},
        {"role": "user", "content": [{"type": "input_text", "text": "and?"}]},
    ]


def sent(*content: Any) -> list[dict[str, Any]]:
    """The input items that an earlier answer becomes."""
    answer = an_answer(API, *content)
    items = outcome(API, TURN, a_request(UserMessage("hi", 1), answer, UserMessage("more", 1))).asked.body["input"]
    return items[1:-1]


def test_received_items_are_sent_back():
    answer = outcome(API, TURN).message
    body = outcome(API, TURN, a_request(UserMessage("hi", 1), answer)).asked.body
    kinds = [item.get("type") for item in body["input"][1:]]
    assert kinds == ["reasoning", "message", "function_call", "function_call", "function_call_output", "function_call_output"]


def test_the_phase_of_a_message_goes_back():
    phased = a_message("Ok", phase="commentary")
    message = outcome(API, sse(done(phased), ended())).message
    assert sent(*message.content) == [phased]


def test_reasoning_that_the_server_cannot_read_stays_out_and_so_do_ids():
    unreadable: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": []}
    items = sent(ThinkingContent("Hm.", json.dumps(unreadable)), TextContent("Ok", "msg_1"))
    assert items == [{"type": "message", "role": "assistant", "content": "Ok"}]
    assert sent(ThinkingContent("Hm.", "not json"), TextContent("Ok", "{neither")) == items


def test_reasoning_that_led_to_nothing_stays_out():
    signature = json.dumps(REASONING)
    assert sent(TextContent("Ok"), ThinkingContent("Hm.", signature)) == [
        {"type": "message", "role": "assistant", "content": "Ok"}
    ]


def test_messages_and_images_are_encoded_once():
    assert_encoded_once(API)


def test_lone_surrogates_do_not_reach_the_wire():
    assert outcome(API, TURN, a_request(UserMessage("a\ud800b", 1))).asked.body["input"][0]["content"][0]["text"] == "a\ufffdb"


@pytest.mark.parametrize(
    ("fields", "level", "reasoning"),
    [
        ({}, "off", None),
        ({}, "minimal", {"effort": "low", "summary": "auto"}),
        ({"id": "gpt-5"}, "off", {"effort": "minimal", "summary": "auto"}),
        ({"thinking_level_map": {"off": "none", "xhigh": "xhigh"}}, "off", {"effort": "none", "summary": "auto"}),
        ({"thinking_level_map": {"off": "none", "xhigh": "xhigh"}}, "xhigh", {"effort": "xhigh", "summary": "auto"}),
        ({"reasoning": False}, "high", None),
    ],
)
def test_thinking_levels_become_efforts(fields: dict[str, Any], level: Any, reasoning: Any):
    body = outcome(API, TURN, a_request(thinking=level), **fields).asked.body
    assert body.get("reasoning") == reasoning
    assert ("include" in body) == fields.get("reasoning", True)
