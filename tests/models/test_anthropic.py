from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.models.asking import BASH, PIXEL, a_model, a_request, a_result, an_answer, ask, assert_valid, outcome, serving
from tests.models.raw_server import until

from fairlead.core.messages import (
    AssistantMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    Usage,
    UserMessage,
)
from fairlead.core.model import BlockDelta, BlockEnd, BlockStart, StreamEnd, StreamStart, ToolSpec
from fairlead.core.runtime import CancelToken
from fairlead.models.apis.anthropic import AnthropicMessages
from fairlead.models.credentials import RequestAuth
from fairlead.models.http.client import Http
from fairlead.testing import ProviderServer

API = "anthropic-messages"
EPHEMERAL = {"type": "ephemeral"}


def stream(*events: dict[str, Any] | str) -> str:
    """Events as they go over the wire."""

    def frame(event: dict[str, Any] | str) -> str:
        return event if isinstance(event, str) else f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"

    return "".join(map(frame, events))


def start(**usage: int) -> dict[str, Any]:
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
    }
    return {"type": "message_start", "message": {**message, "usage": {"input_tokens": 5, "output_tokens": 1, **usage}}}


def block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text_block(index: int, text: str) -> list[dict[str, Any]]:
    return block(index, {"type": "text", "text": ""}, {"type": "text_delta", "text": text})


def stop(reason: str | None = "end_turn", **delta: Any) -> list[dict[str, Any]]:
    return [
        {"type": "message_delta", "delta": {"stop_reason": reason, **delta}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]


# the SDK of the vendor reads the same stream


TURNS: dict[str, dict[str, Any]] = {
    "text": {"text": "Hello there, friend. Ünïcödé 🎉", "chunk": 5},
    "thinking": {"thinking": "Let me see.", "text": "Done."},
    "tool calls": {
        "thinking": "A tool.",
        "text": "Running.",
        "toolCalls": [{"name": "bash", "arguments": {"command": "ls -l"}}, {"name": "bash", "arguments": {}}],
    },
    "cache": {"text": "x", "usage": {"input": 7, "output": 8, "cacheRead": 900, "cacheWrite": 30}},
    "cut off": {"text": "x", "stopReason": "max_tokens"},
    "garbage between": {"text": "one two three", "garbageAfter": 1, "chunk": 3},
}

STOP_REASONS = {"end_turn": "stop", "max_tokens": "length", "tool_use": "toolUse"}


async def read_with_sdk(server: ProviderServer) -> Any:
    from anthropic import AsyncAnthropic

    question: Any = {"model": "m-1", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
    async with (
        AsyncAnthropic(api_key="x", base_url=server.url, max_retries=0) as client,
        client.messages.stream(**question) as answer,
    ):
        return await answer.get_final_message()


@pytest.mark.parametrize("name", [name for name in TURNS if name != "garbage between"])
async def test_the_vendors_sdk_sees_the_same_message(name: str) -> None:
    async with serving(TURNS[name]) as server:
        theirs = await read_with_sdk(server)
        ours = (await ask(server, API, path="")).message
    seen: list[Any] = []
    for block in theirs.content:
        if block.type == "text":
            seen.append(TextContent(block.text))
        elif block.type == "thinking":
            seen.append(ThinkingContent(block.thinking, block.signature))
        else:
            seen.append(ToolCall(block.id, block.name, block.input))
    for mine, other in zip(ours.content, seen, strict=True):
        if isinstance(mine, ThinkingContent):
            # Signatures and ids of the two answers differ by the number of the request.
            assert mine.thinking == other.thinking
            assert mine.thinking_signature and mine.thinking_signature.startswith("sig")
        elif isinstance(mine, ToolCall):
            assert (mine.name, mine.arguments) == (other.name, other.arguments)
        else:
            assert mine == other
    usage = theirs.usage
    assert (ours.usage.input, ours.usage.output) == (usage.input_tokens, usage.output_tokens)
    assert (ours.usage.cache_read, ours.usage.cache_write) == (
        usage.cache_read_input_tokens,
        usage.cache_creation_input_tokens,
    )
    assert ours.stop_reason == STOP_REASONS[theirs.stop_reason]


def test_an_unreadable_event_is_skipped() -> None:
    message = outcome(API, TURNS["garbage between"]).message
    assert message.text() == "one two three"
    assert message.stop_reason == "stop"


def test_a_message_arrives_block_by_block() -> None:
    result = outcome(API, {"thinking": "Hm.", "text": "Hi.", "toolCalls": [{"name": "bash", "arguments": {"command": "ls"}}]})
    kinds = [(type(event), getattr(event, "index", None)) for event in result.events]
    assert kinds == [
        (StreamStart, None),
        *((kind, index) for index in range(3) for kind in (BlockStart, BlockDelta, BlockEnd)),
        (StreamEnd, None),
    ]
    message = result.message
    assert message.stop_reason == "toolUse"
    assert message.api == API
    assert message.response_id is not None and message.response_id.startswith("msg_")
    assert message.usage.total_tokens == 150
    assert message.usage.cost.total == pytest.approx(100 * 3e-6 + 50 * 15e-6)


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


def test_what_is_empty_is_not_sent() -> None:
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


def test_thinking_that_is_hidden_keeps_its_data() -> None:
    message = outcome(API, stream(start(), *block(0, {"type": "redacted_thinking", "data": "blob"}), *stop())).message
    assert message.content == [ThinkingContent("", "blob", redacted=True)]


def test_unknown_events_blocks_and_deltas_lose_nothing_else() -> None:
    answer = stream(
        start(),
        "event: ping\ndata: {}\n\n",
        {"type": "something_new", "index": "zero"},
        *block(
            0,
            {"type": "server_tool_use", "id": "x", "name": "search", "input": {}},
            {"type": "input_json_delta", "partial_json": "{"},
            {"type": "text_delta", "text": "not for us"},
        ),
        *block(
            1,
            {"type": "text", "text": ""},
            {"type": "text_delta", "text": "kept"},
            {"type": "citations_delta", "citation": {"type": "x"}},
            {"type": "text_delta", "text": " whole"},
        ),
        *stop(),
    )
    message = outcome(API, answer).message
    assert message.content == [TextContent("kept whole")]
    assert message.stop_reason == "stop"


def test_imitators_may_send_arguments_whole_and_forget_starts_and_stops() -> None:
    answer = stream(
        start(),
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "no start"}},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}},
        },
        *stop("end_turn"),
    )
    result = outcome(API, answer)
    assert result.message.content == [TextContent("no start"), ToolCall("t1", "bash", {"command": "ls"})]
    assert result.message.stop_reason == "toolUse"
    bounds = [(type(event), event.index) for event in result.events if isinstance(event, BlockStart | BlockEnd)]
    assert bounds == [(BlockStart, 0), (BlockEnd, 0), (BlockStart, 1), (BlockEnd, 1)]


def test_arguments_in_pieces_replace_those_at_the_start() -> None:
    piece = {"type": "input_json_delta", "partial_json": '{"command": "pwd"}'}
    call = {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}}
    message = outcome(API, stream(start(), *block(0, call, piece), *stop("tool_use"))).message
    assert message.tool_calls() == [ToolCall("t1", "bash", {"command": "pwd"})]


def test_arguments_that_are_no_json_are_kept_as_they_came() -> None:
    end = outcome(API, {"toolCalls": [{"name": "bash", "arguments": '{"command": ', "id": "t1"}]}).end
    assert end.message.tool_calls() == [ToolCall("t1", "bash", {})]
    assert end.bad_arguments == {"t1": '{"command": '}


def test_half_an_emoji_in_an_escape_does_not_lose_its_piece() -> None:
    odd = 'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\\ud83d"}}\n\n'
    begin, *rest = text_block(0, "b")
    message = outcome(API, stream(start(), begin, odd, *rest, *stop())).message
    assert message.text() == "a\ufffdb"


def test_usage_of_the_end_completes_that_of_the_start() -> None:
    end = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 20, "input_tokens": 11, "cache_read_input_tokens": None},
    }
    answer = stream(start(cache_read_input_tokens=3), *text_block(0, "x"), end, {"type": "message_stop"})
    usage = outcome(API, answer).message.usage
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write) == (11, 20, 3, 0)
    assert usage.total_tokens == 34


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("reason_of_tomorrow", "stop"),
        (None, "stop"),
    ],
)
def test_reasons_to_stop(reason: str | None, expected: str) -> None:
    assert outcome(API, stream(start(), *text_block(0, "x"), *stop(reason))).message.stop_reason == expected


def test_a_refusal_is_an_error_that_explains_itself() -> None:
    details = {"stop_details": {"type": "refusal", "category": "bio", "explanation": "Too dangerous."}}
    end = outcome(API, stream(start(), *text_block(0, "I"), *stop("refusal", **details))).end
    assert end.message.stop_reason == "error"
    assert end.message.error_message == "The model refused to complete the request: Too dangerous."
    assert end.message.text() == "I"
    assert not end.transient


@pytest.mark.parametrize(
    ("kind", "transient"),
    [("overloaded_error", True), ("api_error", True), ("rate_limit_error", True), ("invalid_request_error", False)],
)
def test_an_error_in_the_stream_ends_it_and_keeps_what_came(kind: str, transient: bool) -> None:
    error = {"type": "error", "error": {"type": kind, "message": "Sorry"}}
    end = outcome(API, stream(start(), *text_block(0, "half"), error)).end
    assert end.message.stop_reason == "error"
    assert end.message.error_message == json.dumps(error)
    assert end.message.text() == "half"
    assert end.transient == transient


def test_an_error_that_is_no_json_is_shown() -> None:
    end = outcome(API, stream(start(), "event: error\ndata: upstream fell over\n\n")).end
    assert end.message.error_message == "upstream fell over"


def test_a_stream_without_its_last_event_is_whole_if_a_reason_to_stop_came() -> None:
    reason, _ = stop()
    assert outcome(API, stream(start(), *text_block(0, "x"), reason)).message.stop_reason == "stop"


def test_aborted_messages_keep_what_came() -> None:
    message = outcome(API, {"text": "word " * 50, "hangAfter": 3}, abort_at_first_delta=True).message
    assert message.stop_reason == "aborted"
    assert message.error_message == "Request was aborted"
    assert message.text().startswith("word")


async def test_a_conversation_continues_over_one_connection() -> None:
    async with serving({"text": "x" * 5000, "chunk": 10}) as server:
        http = Http(env={})
        adapter = AnthropicMessages(a_model(API, server.url), RequestAuth(), http, lambda: 1)
        for _ in range(3):
            async for batch in adapter(a_request(), CancelToken()):
                # The consumer stops at the end, as a loop does that has seen all it needs.
                if isinstance(batch[-1], StreamEnd):
                    break
            await until(lambda: http.idle_connections == 1)
        assert server.connections == 1
        await http.close()


def test_the_same_turns_of_another_provider_are_told_as_text() -> None:
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
