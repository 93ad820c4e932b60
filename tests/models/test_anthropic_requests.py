"""Requests to Anthropic's messages API: the conversation, the headers and the thinking that is requested."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.models.asking import BASH, PIXEL, a_model, a_request, a_result, an_answer, assert_valid, outcome, serving

from fairlead.core.messages import AssistantMessage, ImageContent, TextContent, ThinkingContent, ToolCall, Usage, UserMessage
from fairlead.core.model import ToolSpec
from fairlead.core.runtime import CancelToken
from fairlead.models.apis.anthropic import AnthropicMessages
from fairlead.models.credentials import RequestAuth
from fairlead.models.http.http_client import Http

API = "anthropic-messages"
EPHEMERAL = {"type": "ephemeral"}


# what is sent


def history() -> list[Any]:
    return [
        UserMessage([TextContent("look"), ImageContent(PIXEL, "image/png")], 1),
        an_answer(
            API,
            ThinkingContent("hm", "sig"),
            ThinkingContent("", "hidden", redacted=True),
            TextContent("Two calls."),
            ToolCall("toolu_1", "bash", {"command": "ls"}),
            ToolCall("toolu_2", "bash", {"command": "pwd"}),
            stop_reason="toolUse",
        ),
        a_result("toolu_1", TextContent("a.txt"), ImageContent(PIXEL, "image/png")),
        a_result("toolu_2", is_error=True),
        UserMessage("and now?", 2),
    ]


def sent(*messages: Any, **options: Any) -> Any:
    """The body of the request."""
    fields = {name: options.pop(name) for name in ("thinking", "max_tokens", "tools", "system_prompt") if name in options}
    return outcome(API, {"text": "ok"}, a_request(*messages, **fields), **options).asked.body


def test_a_whole_conversation_is_sent_as_the_api_wants_it() -> None:
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    body = sent(*history(), thinking="medium", max_tokens=20_000)
    assert_valid(body, MessageCreateParamsStreaming)
    assert body == {
        "model": "m-1",
        "max_tokens": 20_000,
        "stream": True,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": EPHEMERAL}],
        "tools": [
            {
                "name": "bash",
                "description": "Run a command",
                "input_schema": BASH.parameters,
                "eager_input_streaming": True,
                "cache_control": EPHEMERAL,
            }
        ],
        "thinking": {"type": "enabled", "budget_tokens": 8192, "display": "summarized"},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "look"}, image]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "sig"},
                    {"type": "redacted_thinking", "data": "hidden"},
                    {"type": "text", "text": "Two calls."},
                    {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls"}},
                    {"type": "tool_use", "id": "toolu_2", "name": "bash", "input": {"command": "pwd"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": [{"type": "text", "text": "a.txt"}, image],
                        "is_error": False,
                    },
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_2",
                        "content": [{"type": "text", "text": "(no output)"}],
                        "is_error": True,
                    },
                ],
            },
            {"role": "user", "content": [{"type": "text", "text": "and now?", "cache_control": EPHEMERAL}]},
        ],
    }


def test_the_last_of_several_results_is_marked_for_the_cache() -> None:
    body = sent(*history()[:-1])
    assert "cache_control" not in body["messages"][-1]["content"][0]
    assert body["messages"][-1]["content"][1]["cache_control"] == EPHEMERAL


def test_only_the_last_tool_is_marked_for_the_cache() -> None:
    body = sent(tools=[BASH, ToolSpec("read", "Read a file", {"type": "object"})])
    assert [tool.get("cache_control") for tool in body["tools"]] == [None, EPHEMERAL]


def test_empty_messages_are_not_sent() -> None:
    body = sent(system_prompt="", tools=[])
    assert "system" not in body
    assert "tools" not in body
    assert "thinking" not in body


@pytest.mark.parametrize("base", ["", "/", "/v1", "/v1/"])
def test_a_base_url_may_have_the_version_or_not(base: str) -> None:
    assert outcome(API, {"text": "x"}, path=base).asked.path == "/v1/messages"


def test_headers_carry_the_key_and_the_version() -> None:
    headers = outcome(API, {"text": "x"}).asked.headers
    assert headers["x-api-key"] == "sk-test"
    assert headers["anthropic-version"] == "2023-06-01"
    assert headers["content-type"] == "application/json"
    assert headers["x-extra"] == "1"
    assert "authorization" not in headers
    assert "anthropic-beta" not in headers


def headers_with(auth: RequestAuth, **fields: Any) -> Any:
    async def run() -> Any:
        async with serving({"text": "x"}) as server:
            http = Http(env={})
            adapter = AnthropicMessages(a_model(API, server.url), auth, http, lambda: 1)
            async for _ in adapter(a_request(**fields), CancelToken()):
                pass
            await http.close()
            return server.requests[0].headers

    return asyncio.run(run())


def test_an_oauth_token_goes_as_a_bearer() -> None:
    headers = headers_with(RequestAuth("sk-ant-oat01-abc"))
    assert headers["authorization"] == "Bearer sk-ant-oat01-abc"
    assert "x-api-key" not in headers
    assert headers["anthropic-beta"] == "oauth-2025-04-20"


def test_configured_headers_win_whatever_their_case() -> None:
    headers = headers_with(RequestAuth("key", {"X-API-Key": "other", "Anthropic-Version": "2099-01-01"}))
    assert headers["x-api-key"] == "other"
    assert headers["anthropic-version"] == "2099-01-01"


def test_without_a_key_none_is_sent() -> None:
    headers = headers_with(RequestAuth())
    assert "x-api-key" not in headers
    assert "authorization" not in headers


@pytest.mark.parametrize(
    ("level", "max_tokens", "budget"),
    [
        ("minimal", 64_000, 1024),
        ("low", 64_000, 2048),
        ("medium", 64_000, 8192),
        ("high", 64_000, 16384),
        ("xhigh", 64_000, 32768),
        ("high", 8_000, 6976),
        ("high", 1_500, 1024),
        ("high", 1_024, None),
        ("off", 64_000, None),
    ],
)
def test_a_budget_of_thinking_leaves_room_for_the_answer(level: str, max_tokens: int, budget: int | None) -> None:
    assert sent(thinking=level, max_tokens=max_tokens).get("thinking", {}).get("budget_tokens") == budget


def test_budgets_can_be_set() -> None:
    assert sent(thinking="high", max_tokens=64_000, budgets={"high": 4000})["thinking"]["budget_tokens"] == 4000


def test_thinking_with_a_budget_is_interleaved_with_tools() -> None:
    asked = outcome(API, {"text": "x"}, a_request(thinking="low")).asked
    assert asked.headers["anthropic-beta"] == "interleaved-thinking-2025-05-14"


def test_a_model_without_reasoning_is_not_asked_to_think() -> None:
    assert "thinking" not in sent(thinking="high", reasoning=False)


ADAPTIVE = {"compat": {"thinking": "adaptive"}}


@pytest.mark.parametrize(
    ("fields", "level", "effort"),
    [
        (ADAPTIVE, "minimal", "low"),
        (ADAPTIVE, "high", "high"),
        (ADAPTIVE, "xhigh", "max"),
        ({"compat": {"forceAdaptiveThinking": True}}, "high", "high"),
        ({"thinking_level_map": {"xhigh": "xhigh", "minimal": None}}, "xhigh", "xhigh"),
        ({"thinking_level_map": {"xhigh": "xhigh", "minimal": None}}, "minimal", "low"),
    ],
)
def test_models_that_think_adaptively_get_an_effort(fields: dict[str, Any], level: str, effort: str) -> None:
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    result = outcome(API, {"text": "x"}, a_request(thinking=level), **fields)
    body = result.asked.body
    assert_valid(body, MessageCreateParamsStreaming)
    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert body["output_config"] == {"effort": effort}
    assert "anthropic-beta" not in result.asked.headers


def test_adaptive_thinking_is_turned_off_where_it_can_be() -> None:
    assert sent(thinking="off", **ADAPTIVE)["thinking"] == {"type": "disabled"}
    always = {"compat": {"thinking": "adaptive"}, "thinking_level_map": {"off": None, "low": "low"}}
    assert "thinking" not in sent(thinking="off", **always)


def test_thinking_does_not_start_in_the_middle_of_a_turn_that_began_without() -> None:
    # The API answers 400 to that.
    call = an_answer(API, ToolCall("toolu_1", "bash", {}), stop_reason="toolUse")
    assert "thinking" not in sent(UserMessage("x", 1), call, a_result("toolu_1", TextContent("y")), thinking="high")
    assert "thinking" in sent(
        UserMessage("x", 1), call, a_result("toolu_1", TextContent("y")), UserMessage("z", 1), thinking="high"
    )


def test_an_imitator_need_not_know_eager_streaming() -> None:
    assert "eager_input_streaming" not in sent(compat={"supportsEagerToolInputStreaming": False})["tools"][0]


def test_lone_surrogates_do_not_stop_a_request() -> None:
    body = sent(UserMessage("bad \ud800 text", 1), system_prompt="\udfff")
    assert body["messages"][0]["content"][0]["text"] == "bad \ufffd text"
    assert body["system"][0]["text"] == "\ufffd"


async def test_earlier_messages_are_not_encoded_again() -> None:
    async with serving({"text": "x"}) as server:
        http = Http(env={})
        adapter = AnthropicMessages(a_model(API, server.url), RequestAuth(), http, lambda: 1)
        first = UserMessage("first", 1)
        messages: list[Any] = [first, an_answer(API, TextContent("one"))]
        for text in ("second", "third"):
            messages.append(UserMessage(text, 1))
            async for _ in adapter(a_request(*messages), CancelToken()):
                pass
            # Whatever is changed in a message that was sent already is not looked at again.
            first.content = "changed"
        await http.close()
        for request in server.requests:
            assert request.body["messages"][0]["content"] == [{"type": "text", "text": "first"}]
        assert "cache_control" not in json.dumps(server.requests[1].body["messages"][:-1])


# what comes back, when it is odd


def test_turns_of_another_provider_are_sent_as_text() -> None:
    other = AssistantMessage(
        [ThinkingContent("secret plan", "gpt-signature"), TextContent("Answer.")],
        "openai-responses",
        "openai",
        "gpt",
        Usage(),
        "stop",
        1,
    )
    body = sent(UserMessage("a", 1), other, UserMessage("b", 1))
    assert body["messages"][1]["content"] == [{"type": "text", "text": "secret plan"}, {"type": "text", "text": "Answer."}]
