from __future__ import annotations

import base64
import gc
import random
import re
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from tests.models.asking import PIXEL, a_model, a_request, a_result, an_answer

from fairlead.core.messages import (
    AssistantMessage,
    ImageContent,
    ModelMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from fairlead.models.adapters import open_stream
from fairlead.models.apis import sendable_history
from fairlead.models.apis.request_building import EncodedMessages, PrefixCache, encode_json
from fairlead.models.apis.sendable_history import sendable_messages
from fairlead.models.credentials import RequestAuth
from fairlead.models.http.http_client import Http

API = "anthropic-messages"
MODEL = a_model(API)
BLIND = a_model(API, input=["text"])
HI = UserMessage("hi", 1)


def call(*ids: str, **fields: Any) -> Any:
    return an_answer(API, *(ToolCall(id, "bash", {}) for id in ids), stop_reason="toolUse", **fields)


def test_unchanged_messages_stay_the_same_objects() -> None:
    messages: list[Any] = [
        HI,
        an_answer(API, ThinkingContent("hm", "sig"), TextContent("a", "text-sig"), ToolCall("t1", "bash", {}, "sig")),
        a_result("t1", TextContent("out"), ImageContent(PIXEL, "image/png")),
        UserMessage([TextContent("look"), ImageContent(PIXEL, "image/png")], 1),
    ]
    accepted = sendable_messages(messages, MODEL)
    assert all(mine is theirs for mine, theirs in zip(accepted, messages, strict=True))


def test_replacements_are_the_same_objects_from_call_to_call() -> None:
    messages: list[Any] = [HI, call("t1", "t2", provider="other"), a_result("t1", TextContent("")), UserMessage("", 1)]
    first, second = sendable_messages(messages, BLIND), sendable_messages([*messages, HI], BLIND)
    assert len(first) == 5
    assert all(one is two for one, two in zip(first, second, strict=False))


def test_replacements_depend_on_the_model() -> None:
    message = UserMessage([ImageContent(PIXEL, "image/png")], 1)
    assert sendable_messages([message], BLIND)[0].content == [TextContent(sendable_history.NO_IMAGE)]
    assert sendable_messages([message], MODEL)[0] is message
    assert sendable_messages([message], BLIND)[0].content == [TextContent(sendable_history.NO_IMAGE)]


def test_failed_and_aborted_answers_go_with_the_results_of_their_calls() -> None:
    messages: list[Any] = [
        HI,
        an_answer(API, ToolCall("t1", "bash", {}), stop_reason="aborted"),
        a_result("t1", TextContent("x")),
        an_answer(API, TextContent("half"), stop_reason="error"),
        HI,
    ]
    assert sendable_messages(messages, MODEL) == [HI, HI]


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    answer = call("t1", "t2")
    accepted = sendable_messages([HI, answer, a_result("t2", TextContent("two"))], MODEL)
    assert accepted[2:] == [
        ToolResultMessage("t1", "bash", [TextContent("No result provided")], True, answer.timestamp),
        a_result("t2", TextContent("two")),
    ]


def test_results_follow_their_calls_before_later_user_messages() -> None:
    answer, one, two = call("t1", "t2"), a_result("t1", TextContent("1")), a_result("t2", TextContent("2"))
    steer = UserMessage("stop that", 1)
    accepted = sendable_messages([HI, answer, two, steer, one, an_answer(API, TextContent("done"))], MODEL)
    assert accepted[1:5] == [answer, one, two, steer]


def test_a_result_of_no_call_is_left_out() -> None:
    assert sendable_messages([HI, a_result("t0", TextContent("x")), HI], MODEL) == [HI, HI]


def test_the_same_id_in_two_turns_means_two_calls() -> None:
    first, second = a_result("call_0", TextContent("1")), a_result("call_0", TextContent("2"))
    accepted = sendable_messages([HI, call("call_0"), first, call("call_0"), second], MODEL)
    assert [message for message in accepted if isinstance(message, ToolResultMessage)] == [first, second]


def test_thinking_of_another_model_becomes_text_and_loses_its_signatures() -> None:
    answer = an_answer(
        API,
        ThinkingContent("plan", "sig"),
        ThinkingContent("", "hidden", redacted=True),
        TextContent("a", "sig"),
        ToolCall("t1", "bash", {"x": 1}, "sig"),
        model="m-0",
    )
    accepted = sendable_messages([HI, answer, a_result("t1", TextContent("x"))], MODEL)
    assert accepted[1].content == [TextContent("plan"), TextContent("a"), ToolCall("t1", "bash", {"x": 1})]
    assert isinstance(answer.content[0], ThinkingContent), "the original is not changed"


def test_unsigned_thinking_becomes_text() -> None:
    accepted = sendable_messages([HI, an_answer(API, ThinkingContent("cut off"), ThinkingContent(" "), TextContent("a"))], MODEL)
    assert accepted[1].content == [TextContent("cut off"), TextContent("a")]


def test_empty_blocks_and_messages_are_left_out() -> None:
    messages: list[Any] = [
        UserMessage([TextContent(""), ImageContent(PIXEL, "image/png")], 1),
        an_answer(API, TextContent(" \n")),
        UserMessage([TextContent("")], 1),
    ]
    accepted = sendable_messages(messages, MODEL)
    assert [message.content for message in accepted] == [[ImageContent(PIXEL, "image/png")], sendable_history.EMPTY_MESSAGE]


def test_images_in_results_are_noted_for_a_model_that_reads_text() -> None:
    accepted = sendable_messages([HI, call("t1"), a_result("t1", ImageContent(PIXEL, "image/png"))], BLIND)
    assert accepted[2].content == [TextContent(sendable_history.NO_IMAGE)]


def test_ids_that_the_api_refuses_are_replaced_in_call_and_result_alike() -> None:
    ids = ["call_1|fc_2", "a b", "a:b", "x" * 100, "y" * 64]
    answer = call(*ids, provider="other")
    accepted = sendable_messages([HI, answer, *(a_result(id, TextContent(id)) for id in ids)], MODEL)
    new_ids = [block.id for block in accepted[1].content if isinstance(block, ToolCall)]
    assert new_ids[0] == "call_1"
    assert new_ids[4] == "y" * 64
    assert all(len(id) <= 64 and id.replace("_", "").replace("-", "").isalnum() for id in new_ids)
    assert len(set(new_ids)) == len(ids)
    assert [message.tool_call_id for message in accepted[2:] if isinstance(message, ToolResultMessage)] == new_ids
    shorter = sendable_messages([HI, answer], a_model("openai-completions"))
    assert max(len(block.id) for block in shorter[1].content if isinstance(block, ToolCall)) <= 40


def results_in(messages: Sequence[ModelMessage]) -> list[ToolResultMessage]:
    return [message for message in messages if isinstance(message, ToolResultMessage)]


def call_ids(message: ModelMessage) -> list[str]:
    assert isinstance(message, AssistantMessage)
    return [block.id for block in message.tool_calls()]


def text_of(result: ToolResultMessage) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


def test_the_models_own_ids_are_left_alone() -> None:
    own = call("call_1|fc_2")
    assert sendable_messages([HI, own, a_result("call_1|fc_2", TextContent("x"))], MODEL)[1] is own


@pytest.mark.parametrize(
    ("api", "allowed"),
    [
        (API, r"[a-zA-Z0-9_-]{1,128}"),
        ("openai-completions", r"[a-zA-Z0-9_-]{1,64}"),
        ("openai-responses", r"[a-zA-Z0-9_-]{1,64}"),
        ("google-generative-ai", r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"),
    ],
)
@pytest.mark.parametrize("name", ["", "bad name", "9é", "x" * 300, "a\nb", "-" * 300])
def test_names_that_the_api_refuses_are_replaced_in_call_and_result_alike(api: str, allowed: str, name: str) -> None:
    answer = an_answer(api, ToolCall("t1", name, {"x": 1}, "sig"), ToolCall("t2", name, {}), stop_reason="toolUse")
    result = ToolResultMessage("t1", name, [TextContent(f"Tool {name} not found")], True, 1)
    messages: list[Any] = [HI, answer, result]
    accepted = sendable_messages(messages, a_model(api))
    first, second = accepted[1].content
    assert isinstance(first, ToolCall) and isinstance(second, ToolCall)
    assert re.fullmatch(allowed, first.name)
    assert (first.id, first.arguments, first.thought_signature) == ("t1", {"x": 1}, "sig")
    assert second.name == first.name
    assert [message.tool_name for message in results_in(accepted)] == [first.name, first.name]
    assert all(one is two for one, two in zip(accepted, sendable_messages(messages, a_model(api)), strict=True))
    assert answer.tool_calls()[0].name == result.tool_name == name, "the originals are not changed"


@pytest.mark.parametrize(
    ("api", "name"), [(API, "n" * 128), ("google-generative-ai", "server.tool:x"), ("openai-completions", "n-_9" * 16)]
)
def test_names_that_the_api_takes_are_left_alone(api: str, name: str) -> None:
    messages: list[Any] = [
        HI,
        an_answer(api, ToolCall("t1", name, {}), stop_reason="toolUse"),
        ToolResultMessage("t1", name, [TextContent("ok")], False, 1),
    ]
    assert all(mine is theirs for mine, theirs in zip(sendable_messages(messages, a_model(api)), messages, strict=True))


@pytest.mark.parametrize("provider", ["fake", "other"])
def test_calls_sharing_an_id_are_renamed_and_keep_their_results(provider: str) -> None:
    one, two, three = (a_result("same", TextContent(text)) for text in "123")
    answer = call("same", "same", "same_2", "same", "x" * 64, "x" * 64, provider=provider)
    messages: list[Any] = [HI, answer, one, two, three, a_result("same_2", TextContent("other")), HI]
    accepted = sendable_messages(messages, MODEL)
    ids = call_ids(accepted[1])
    assert len(set(ids)) == 6 and ids[0] == "same"
    assert all(len(id) <= 64 for id in ids)
    results = results_in(accepted)
    assert [result.tool_call_id for result in results] == ids
    texts = [text_of(result) for result in results]
    assert texts == ["1", "2", "other", "3", sendable_history.NO_RESULT, sendable_history.NO_RESULT]
    assert all(first is second for first, second in zip(accepted, sendable_messages(messages, MODEL), strict=True))


def test_ids_of_one_call_with_several_items_are_distinguished() -> None:
    model = a_model("openai-responses")
    answer = an_answer("openai-responses", ToolCall("c|1", "bash", {}), ToolCall("c|2", "bash", {}), stop_reason="toolUse")
    accepted = sendable_messages([HI, answer, a_result("c|2", TextContent("two")), a_result("c|1", TextContent("one"))], model)
    assert call_ids(accepted[1]) == ["c|1", "c_2"]
    assert [(result.tool_call_id, text_of(result)) for result in results_in(accepted)] == [("c|1", "one"), ("c_2", "two")]


def test_nothing_is_remembered_of_messages_that_are_gone() -> None:
    gc.collect()
    known = sendable_history._known  # pyright: ignore[reportPrivateUsage]
    before = len(known)
    messages: list[Any] = [UserMessage("", 1), call("t1", provider="other"), a_result("t1", TextContent(""))]
    sendable_messages(messages, MODEL)
    assert len(known) == before + 3
    messages.clear()
    gc.collect()
    assert len(known) == before


def test_encodings_are_kept_while_their_messages_appear() -> None:
    encoded: list[Any] = []

    def encode(message: Any) -> bytes:
        encoded.append(message)
        return encode_json(message)

    cache: EncodedMessages[Any] = EncodedMessages()
    one, two, three = UserMessage("1", 1), UserMessage("2", 1), UserMessage("3", 1)
    cache.parts([one, two], encode)
    assert cache.parts([one, two, three], encode) == [encode_json(one), encode_json(two), encode_json(three)]
    assert encoded == [one, two, three]
    cache.parts([three], encode)
    cache.parts([one, three], encode)
    assert encoded == [one, two, three, one]


def test_text_that_has_no_utf8_is_mended() -> None:
    assert encode_json({"a": "\ud800", "b": ["\ud83d\ude00", UserMessage("\udc00", 1)]}) == (
        b'{"a":"\xef\xbf\xbd","b":["\xf0\x9f\x98\x80",{"role":"user","content":"\xef\xbf\xbd","timestamp":1}]}'
    )


def encode(adapter: Any, messages: list[Any]) -> None:
    adapter._request(a_request(*messages, tools=[]))


def work(ask: Any) -> int:
    """How many functions are called, of Python's own and of others."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        ask()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("api", ["anthropic-messages", "openai-completions", "openai-responses", "google-generative-ai"])
def test_a_request_works_on_what_is_new_in_a_conversation(api: str) -> None:
    adapter: Any = open_stream(a_model(api), RequestAuth("key"), Http(), lambda: 1)

    def conversation(length: int) -> list[Any]:
        messages: list[Any] = []
        for number in range(length):
            messages.append(UserMessage(f"question {number}", number))
            messages.append(an_answer(api, ToolCall(f"t{number}", "bash", {}), stop_reason="toolUse"))
            messages.append(a_result(f"t{number}", TextContent("out")))
            messages.append(an_answer(api, TextContent("done")))
        return messages

    def next_request(length: int) -> int:
        messages = conversation(length)
        encode(adapter, messages)
        messages += [UserMessage("one more", 1), an_answer(api, TextContent("again")), UserMessage("and more", 1)]
        return work(lambda: encode(adapter, messages))

    assert next_request(400) < next_request(4) + 50


def test_incremental_conversion_equals_a_fresh_one() -> None:
    chance = random.Random(7)
    before: PrefixCache[Any] = PrefixCache()
    messages: list[Any] = []
    for step in range(600):
        kind = chance.randrange(9)
        if kind == 0:
            messages = messages[: chance.randrange(len(messages) + 1)]  # another branch
        elif kind == 1:
            messages = [UserMessage("a summary", step), *messages[chance.randrange(len(messages) + 1) :]]
        elif kind in (2, 3):
            messages.append(call(f"t{step}", f"u{step}", provider=chance.choice(["fake", "other"])))
        elif kind in (4, 5):
            known = [id for message in messages if hasattr(message, "tool_calls") for id in message.tool_calls()]
            messages.append(a_result(chance.choice(known).id if known else "none", TextContent("out")))
        elif kind == 6:
            messages.append(an_answer(API, TextContent("done"), stop_reason=chance.choice(["stop", "error"])))
        else:
            messages.append(UserMessage(f"{step}", step))
        assert sendable_messages(list(messages), MODEL, before) == sendable_messages(list(messages), MODEL)


def png_of(width: int, height: int) -> ImageContent:
    """The beginning of a PNG that says it has this size."""
    start = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x06\0\0\0"
    return ImageContent(base64.b64encode(start).decode(), "image/png")


@pytest.mark.parametrize(("width", "height"), [(20_000, 20_000), (9_000, 10), (2**31 - 1, 2**31 - 1)])
def test_unsupported_images_are_replaced_by_a_note(width: int, height: int) -> None:
    for message in (UserMessage([png_of(width, height)], 1), a_result("t", png_of(width, height))):
        messages: list[Any] = [HI, call("t"), message]
        (block,) = sendable_messages(messages, MODEL)[-1].content
        assert block == TextContent(f"(an image of {width}x{height} pixels was here; it is too large to be sent)")


def test_images_of_usual_sizes_are_sent() -> None:
    message = UserMessage([png_of(6_000, 6_000)], 1)
    assert sendable_messages([message], MODEL) == [message]
