"""Answers of Anthropic's messages API: as the vendor's own client reads them, and when they are odd."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.models.asking import a_model, a_request, ask, outcome, serving
from tests.models.raw_server import until
from tests.support.connections import count_idle

from fairlead.core.messages import TextContent, ThinkingContent, ToolCall
from fairlead.core.model import BlockDelta, BlockEnd, BlockStart, StreamEnd, StreamStart
from fairlead.core.runtime import CancelToken
from fairlead.models.apis.anthropic import AnthropicMessages
from fairlead.models.credentials import RequestAuth
from fairlead.models.http.http_client import Http
from fairlead.testing import ProviderServer

API = "anthropic-messages"


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


def test_arguments_that_are_not_json_are_kept_unchanged() -> None:
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


def test_an_error_body_that_is_not_json_is_shown() -> None:
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
            await until(lambda: count_idle(http) == 1)
        assert server.connections == 1
        await http.close()
