from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from tests.models.asking import (
    PIXEL,
    Answer,
    Outcome,
    a_model,
    a_request,
    a_result,
    an_answer,
    ask,
    assert_encoded_once,
    odd_events,
    serving,
    sse,
)
from tests.models.asking import outcome as outcome_at

from fairlead.core.messages import ImageContent, TextContent, ThinkingContent, ToolCall, UserMessage
from fairlead.core.model import BlockEnd, BlockStart, ModelRequest
from fairlead.core.partial_message import PartialMessage
from fairlead.models.apis.google import GoogleReader

API = "google-generative-ai"
SIGNATURE = "c2lnbmF0dXJl"

TURN = {
    "thinking": "Let me see.",
    "text": "Running it: é🙂",
    "toolCalls": [
        {"id": "call_a", "name": "bash", "arguments": {"command": "ls"}},
        {"id": "call_b", "name": "bash", "arguments": {"command": "pwd"}},
    ],
    "usage": {"input": 60, "output": 50, "cacheRead": 40, "reasoning": 20},
}


def outcome(answer: Answer, request: ModelRequest | None = None, **options: Any) -> Outcome:
    return outcome_at(API, answer, request, path="/v1beta", **options)


def chunk(*parts: Any, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": list(parts)}}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "responseId": "r-1", **fields}


def finished(*parts: Any, finish: str = "STOP") -> str:
    return sse(*(chunk(part) for part in parts), chunk(finish=finish))


# the whole of an answer


def test_an_answer_arrives_as_blocks_in_order():
    result = outcome(TURN)
    assert result.message.content == [
        ThinkingContent("Let me see.", "thought"),
        TextContent("Running it: é🙂"),
        ToolCall("call_a", "bash", {"command": "ls"}, SIGNATURE),
        ToolCall("call_b", "bash", {"command": "pwd"}),
    ]
    assert result.message.stop_reason == "toolUse"
    assert (result.message.response_id or "").startswith("google-")
    usage = result.message.usage
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.total_tokens) == (60, 50, 40, 0, 150)
    marks = [(type(event), event.index) for event in result.events if isinstance(event, BlockStart | BlockEnd)]
    assert marks == [(kind, index) for index in range(4) for kind in (BlockStart, BlockEnd)]
    ends = [event.block for event in result.events if isinstance(event, BlockEnd)]
    assert ends[2] == result.message.content[2]


@pytest.mark.parametrize(
    "answer",
    [TURN, {"text": "Hello"}, {"text": "Half an ans", "stopReason": "MAX_TOKENS"}],
    ids=["everything", "text", "length"],
)
async def test_googles_own_client_sees_the_same(answer: Any):
    from google import genai
    from google.genai import types

    async with serving(answer) as server:
        ours = (await ask(server, API, path="/v1beta")).message
        options = types.HttpOptions(base_url=server.url, api_version="v1beta")
        async with genai.Client(api_key="k", http_options=options).aio as client:
            stream = await client.models.generate_content_stream(model="m-1", contents="hi")
            chunks = [each async for each in stream]
    candidates = [candidate for each in chunks for candidate in each.candidates or []]
    parts = [part for candidate in candidates for part in (candidate.content and candidate.content.parts) or []]
    assert ours.text() == "".join(part.text for part in parts if part.text and not part.thought)
    thoughts = "".join(part.text for part in parts if part.text and part.thought)
    assert "".join(block.thinking for block in ours.content if isinstance(block, ThinkingContent)) == thoughts
    calls = [(part.function_call, part.thought_signature) for part in parts if part.function_call]
    assert [(call.id, call.name, call.arguments) for call in ours.tool_calls()] == [
        (call.id, call.name, call.args) for call, _ in calls
    ]
    signatures = [base64.b64encode(signature).decode() if signature else None for _, signature in calls]
    assert [call.thought_signature for call in ours.tool_calls()] == signatures
    reason = candidates[-1].finish_reason
    assert reason is not None
    assert ours.stop_reason == ("length" if reason.name == "MAX_TOKENS" else "toolUse" if calls else "stop")
    usage = chunks[-1].usage_metadata
    assert usage is not None
    assert ours.usage.input + ours.usage.cache_read == usage.prompt_token_count
    assert ours.usage.cache_read == (usage.cached_content_token_count or 0)
    assert ours.usage.output == (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
    assert ours.usage.total_tokens == usage.total_token_count


HARDENED: dict[str, tuple[str, list[Any], str]] = {
    "calls without ids": (
        finished({"functionCall": {"name": "bash", "args": {"command": "ls"}}}, {"functionCall": {"name": "bash"}}),
        [ToolCall("", "bash", {"command": "ls"}), ToolCall("", "bash", {})],
        "toolUse",
    ),
    "calls with the same id": (
        finished({"functionCall": {"id": "a", "name": "bash"}}, {"functionCall": {"id": "a", "name": "read", "args": None}}),
        [ToolCall("a", "bash", {}), ToolCall("", "read", {})],
        "toolUse",
    ),
    "a signature after its text": (
        finished({"text": "Ok"}, {"text": "", "thoughtSignature": SIGNATURE}),
        [TextContent("Ok", SIGNATURE)],
        "stop",
    ),
    "two signatures": (
        finished({"text": "a", "thoughtSignature": "YQ=="}, {"text": "b", "thoughtSignature": "Yg=="}, {"text": "c"}),
        [TextContent("a", "YQ=="), TextContent("b", "Yg=="), TextContent("c")],
        "stop",
    ),
    "a signed thought": (
        finished({"text": "Hm.", "thought": True, "thoughtSignature": SIGNATURE}, {"text": "Ok"}),
        [ThinkingContent("Hm.", SIGNATURE), TextContent("Ok")],
        "stop",
    ),
    "parts of other kinds": (
        finished({"executableCode": {"code": "1"}}, {"inlineData": {"data": PIXEL}}, {"text": "Ok"}),
        [TextContent("Ok")],
        "stop",
    ),
    "a reason with the last part": (sse(chunk({"text": "Ok"}, finish="STOP")), [TextContent("Ok")], "stop"),
    "usage after the reason": (sse(chunk({"text": "Ok"}, finish="STOP"), {"usageMetadata": {}}), [TextContent("Ok")], "stop"),
    "wrong types all over": (
        sse(
            {"candidates": None, "usageMetadata": 1, "promptFeedback": []},
            {"candidates": [None, {"content": None}, {"content": {"parts": {}}}], "responseId": 5},
            chunk(None, {"text": 5}, {"text": "Ok", "thought": None, "thoughtSignature": 5}, {"functionCall": "x"}),
            chunk(finish="STOP", usageMetadata={"promptTokenCount": "7", "candidatesTokenCount": None}),
        ),
        [TextContent("Ok")],
        "stop",
    ),
    "half a surrogate pair": (
        'data: {"candidates":[{"content":{"parts":[{"text":"a\\ud83d"}]},"finishReason":"STOP"}]}\n\n',
        [TextContent("a\ufffd")],
        "stop",
    ),
    "garbage between events": ("data: {not json\n\n" + finished({"text": "Ok"}), [TextContent("Ok")], "stop"),
}


@pytest.mark.parametrize("case", HARDENED)
def test_odd_answers_are_understood(case: str):
    stream, content, stop_reason = HARDENED[case]
    message = outcome(stream).message
    ids = [call.id for call in message.tool_calls()]
    assert all(ids) and len(set(ids)) == len(ids)
    for ours, wanted in zip(message.content, content, strict=True):
        if isinstance(ours, ToolCall) and wanted.id == "":
            ours.id = ""
        assert ours == wanted
    assert (message.stop_reason, message.error_message) == (stop_reason, None)


@settings(max_examples=300, deadline=None, database=None, derandomize=True)
@given(
    odd_events(
        "candidates",
        "content",
        "parts",
        "text",
        "thought",
        "thoughtSignature",
        "functionCall",
        "name",
        "args",
        "id",
        "index",
        "finishReason",
        "STOP",
        "usageMetadata",
        "promptTokenCount",
        "promptFeedback",
        "blockReason",
        "error",
        "message",
    )
)
def test_no_event_is_too_odd(events: list[Any]):
    partial = PartialMessage(a_model(API), 1)
    reader = GoogleReader(partial)
    for event in events:
        reader.read(b"", json.dumps(event).encode())
    partial.take()
    reader.on_close()
    partial.finish("stop")
    assert partial.finished is not None


# what goes wrong


@pytest.mark.parametrize(
    ("event", "text", "transient"),
    [
        ({"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}, "Overloaded", True),
        ({"error": {"code": 400, "message": "Bad", "status": "INVALID_ARGUMENT"}}, "Bad", False),
        (chunk(finish="SAFETY"), "Google stopped the answer (SAFETY).", False),
        (chunk(finish="MALFORMED_FUNCTION_CALL"), "Google stopped the answer (MALFORMED_FUNCTION_CALL).", True),
        (
            {"candidates": [{"finishReason": "OTHER", "finishMessage": "because"}]},
            "Google stopped the answer (OTHER): because",
            False,
        ),
        (
            {"promptFeedback": {"blockReason": "SAFETY"}},
            "Google blocked the prompt (SAFETY). Rephrase it, or ask another model.",
            False,
        ),
    ],
)
def test_an_error_inside_the_stream_fails_the_message(event: dict[str, Any], text: str, transient: bool):
    end = outcome(sse(chunk({"text": "Some"}), event)).end
    assert (end.message.stop_reason, end.message.error_message, end.transient) == ("error", text, transient)
    assert end.message.content == [TextContent("Some")]


def test_an_http_error_carries_status_and_delay():
    end = outcome({"status": 429, "error": "slow down", "headers": {"retry-after": "7"}}).end
    assert (end.message.stop_reason, end.status, end.retry_after, end.transient) == ("error", 429, 7.0, True)
    assert "slow down" in (end.message.error_message or "")


@pytest.mark.parametrize("broken", [{"dropAfter": 1}, {}], ids=["dropped", "ended"])
def test_an_answer_that_breaks_off_is_an_error_and_keeps_what_arrived(broken: dict[str, Any]):
    end = outcome({"raw": sse(chunk({"text": "Half"})), **broken}).end
    assert (end.message.stop_reason, end.transient) == ("error", True)
    assert end.message.content == [TextContent("Half")]


def test_an_abort_ends_the_message_and_keeps_what_arrived():
    message = outcome({"text": "Half an answer", "chunk": 4, "hangAfter": 1}, abort_at_first_delta=True).message
    assert message.stop_reason == "aborted"
    assert message.content == [TextContent("Half")]


# requests


def a_long_conversation() -> list[Any]:
    return [
        UserMessage([TextContent("look"), ImageContent(PIXEL, "image/png")], 1),
        an_answer(
            API,
            ThinkingContent("Hm.", "thought"),
            ThinkingContent("Signed.", "YQ=="),
            TextContent("Looking", "Yg=="),
            ToolCall("call_a", "bash", {"command": "ls"}, SIGNATURE),
            ToolCall("call_b", "bash", {"command": "pwd"}),
            stop_reason="toolUse",
        ),
        a_result("call_a", TextContent("one"), TextContent("two"), ImageContent(PIXEL, "image/png")),
        a_result("call_b", TextContent("broken"), is_error=True),
        UserMessage("and?", 1),
    ]


def test_a_request_is_one_that_google_accepts():
    from google.genai import types

    asked = outcome(TURN, a_request(*a_long_conversation(), thinking="high", max_tokens=500), id="gemini-2.5-flash").asked
    assert asked.path == "/v1beta/models/gemini-2.5-flash:streamGenerateContent"
    assert asked.query == "alt=sse"
    assert asked.headers["x-goog-api-key"] == "sk-test"
    assert asked.headers["x-extra"] == "1"
    body = asked.body
    assert set(body) == {"contents", "systemInstruction", "tools", "generationConfig"}
    for content in (*body["contents"], body["systemInstruction"]):
        types.Content.model_validate_json(json.dumps(content))
    (tool,) = body["tools"]
    types.Tool.model_validate(tool)
    types.GenerationConfig.model_validate(body["generationConfig"])
    assert body["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert tool["functionDeclarations"][0]["name"] == "bash"
    assert tool["functionDeclarations"][0]["parametersJsonSchema"]["required"] == ["command"]
    assert body["generationConfig"] == {
        "maxOutputTokens": 500,
        "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 24576},
    }


def test_the_contents_say_what_the_conversation_says():
    picture = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
    assert outcome(TURN, a_request(*a_long_conversation())).asked.body["contents"] == [
        {"role": "user", "parts": [{"text": "look"}, picture]},
        {
            "role": "model",
            "parts": [
                {"text": "Signed.", "thought": True, "thoughtSignature": "YQ=="},
                {"text": "Looking", "thoughtSignature": "Yg=="},
                {"functionCall": {"id": "call_a", "name": "bash", "args": {"command": "ls"}}, "thoughtSignature": SIGNATURE},
                {"functionCall": {"id": "call_b", "name": "bash", "args": {"command": "pwd"}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "call_a", "name": "bash", "response": {"output": "one\ntwo"}}},
                {"functionResponse": {"id": "call_b", "name": "bash", "response": {"error": "broken"}}},
                picture,
            ],
        },
        {"role": "user", "parts": [{"text": "and?"}]},
    ]


def test_a_bare_request_has_nothing_but_contents_and_the_models_limit():
    contents = [{"role": "user", "parts": [{"text": "hi"}]}]
    bare = a_request(system_prompt="", tools=[])
    assert outcome(TURN, bare, reasoning=False, max_tokens=0).asked.body == {"contents": contents}
    limited = outcome(TURN, bare, reasoning=False).asked.body
    assert limited == {"contents": contents, "generationConfig": {"maxOutputTokens": 8_000}}


def test_a_full_resource_name_is_used_as_it_is():
    assert outcome(TURN, id="tunedModels/mine").asked.path == "/v1beta/tunedModels/mine:streamGenerateContent"


def test_calls_of_other_models_pass_the_check_of_signatures():
    foreign = an_answer("anthropic-messages", ToolCall("a", "bash", {}), ToolCall("b", "bash", {}), stop_reason="toolUse")
    for id, signature in (("gemini-3-pro-preview", "skip_thought_signature_validator"), ("gemini-2.5-pro", None)):
        contents = outcome(TURN, a_request(UserMessage("hi", 1), foreign), id=id).asked.body["contents"]
        assert [part.get("thoughtSignature") for part in contents[1]["parts"]] == [signature, None]


def test_lone_surrogates_do_not_reach_the_wire():
    contents = outcome(TURN, a_request(UserMessage("a\ud800b", 1))).asked.body["contents"]
    assert contents[0]["parts"] == [{"text": "a\ufffdb"}]


def test_messages_and_images_are_encoded_once():
    assert_encoded_once(API)


def test_a_message_that_only_thought_is_left_out():
    answer = an_answer(API, ThinkingContent("Hm.", "thought"))
    contents = outcome(TURN, a_request(UserMessage("hi", 1), answer, UserMessage("more", 1))).asked.body["contents"]
    assert [content["role"] for content in contents] == ["user", "user"]


@pytest.mark.parametrize(
    ("fields", "level", "thinking"),
    [
        ({"id": "gemini-2.5-pro"}, "off", {"thinkingBudget": 128}),
        ({"id": "gemini-2.5-pro"}, "xhigh", {"includeThoughts": True, "thinkingBudget": 32768}),
        ({"id": "gemini-2.5-flash"}, "off", {"thinkingBudget": 0}),
        ({"id": "gemini-2.5-flash"}, "low", {"includeThoughts": True, "thinkingBudget": 900}),
        ({"id": "gemini-3-pro-preview"}, "medium", {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        ({"id": "gemini-3.1-pro-preview"}, "medium", {"includeThoughts": True, "thinkingLevel": "MEDIUM"}),
        ({"id": "gemini-3.1-pro-preview"}, "off", {"thinkingLevel": "LOW"}),
        ({"id": "gemini-3-flash"}, "low", {"includeThoughts": True, "thinkingLevel": "LOW"}),
        ({"id": "gemini-3-flash"}, "off", {"thinkingLevel": "MINIMAL"}),
        (
            {"id": "gemini-3-flash", "thinking_level_map": {"high": "MEDIUM"}},
            "high",
            {"includeThoughts": True, "thinkingLevel": "MEDIUM"},
        ),
        ({"thinking_level_map": {"high": "4096"}}, "high", {"includeThoughts": True, "thinkingBudget": 4096}),
        ({}, "high", {"includeThoughts": True, "thinkingBudget": -1}),
        ({}, "off", None),
        ({"id": "gemini-2.5-pro", "reasoning": False}, "high", None),
    ],
)
def test_thinking_levels_become_budgets_or_levels(fields: dict[str, Any], level: Any, thinking: Any):
    body = outcome(TURN, a_request(thinking=level), budgets={"low": 900}, **fields).asked.body
    assert body.get("generationConfig", {}).get("thinkingConfig") == thinking


def test_a_request_has_budgets_of_its_own():
    request = a_request(thinking="low", thinking_budgets={"low": 901})
    body = outcome(TURN, request, budgets={"low": 900}, id="gemini-2.5-pro").asked.body
    assert body["generationConfig"]["thinkingConfig"]["thinkingBudget"] == 901
