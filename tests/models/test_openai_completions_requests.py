"""Requests to OpenAI's chat completions, and what other endpoints want to be different in them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.models.asking import PIXEL, a_model, a_request, a_result, an_answer, assert_encoded_once, assert_valid, outcome
from tests.models.openai_chunks import API, FULL

from fairlead.core.messages import ImageContent, TextContent, ThinkingContent, ToolCall, UserMessage
from fairlead.errors import ConfigError

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


def test_declared_model_properties_win_over_guesses():
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


def test_a_request_has_budgets_of_its_own():
    body = body_of(a_request(thinking="low", thinking_budgets={"low": 901}), budgets={"low": 900}, provider="qwen")
    assert body["thinking_budget"] == 901
