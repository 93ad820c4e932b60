from __future__ import annotations

import gc
from typing import Any

from asking import PIXEL, a_model, a_result, an_answer

from fairlead.core.messages import ImageContent, TextContent, ThinkingContent, ToolCall, ToolResultMessage, UserMessage
from fairlead.models import history
from fairlead.models.encoding import EncodedMessages, acceptable, encode_json

API = "anthropic-messages"
MODEL = a_model(API)
BLIND = a_model(API, input=["text"])
HI = UserMessage("hi", 1)


def call(*ids: str, **fields: Any) -> Any:
    return an_answer(API, *(ToolCall(id, "bash", {}) for id in ids), stop_reason="toolUse", **fields)


def test_what_needs_no_change_stays_the_same_objects() -> None:
    messages: list[Any] = [
        HI,
        an_answer(API, ThinkingContent("hm", "sig"), TextContent("a", "text-sig"), ToolCall("t1", "bash", {}, "sig")),
        a_result("t1", TextContent("out"), ImageContent(PIXEL, "image/png")),
        UserMessage([TextContent("look"), ImageContent(PIXEL, "image/png")], 1),
    ]
    accepted = acceptable(messages, MODEL)
    assert all(mine is theirs for mine, theirs in zip(accepted, messages, strict=True))


def test_replacements_are_the_same_objects_from_call_to_call() -> None:
    messages: list[Any] = [HI, call("t1", "t2", provider="other"), a_result("t1", TextContent("")), UserMessage("", 1)]
    first, second = acceptable(messages, BLIND), acceptable([*messages, HI], BLIND)
    assert len(first) == 5
    assert all(one is two for one, two in zip(first, second, strict=False))


def test_replacements_depend_on_the_model() -> None:
    message = UserMessage([ImageContent(PIXEL, "image/png")], 1)
    assert acceptable([message], BLIND)[0].content == [TextContent(history.NO_IMAGE)]
    assert acceptable([message], MODEL)[0] is message
    assert acceptable([message], BLIND)[0].content == [TextContent(history.NO_IMAGE)]


def test_failed_and_aborted_answers_go_with_the_results_of_their_calls() -> None:
    messages: list[Any] = [
        HI,
        an_answer(API, ToolCall("t1", "bash", {}), stop_reason="aborted"),
        a_result("t1", TextContent("x")),
        an_answer(API, TextContent("half"), stop_reason="error"),
        HI,
    ]
    assert acceptable(messages, MODEL) == [HI, HI]


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    answer = call("t1", "t2")
    accepted = acceptable([HI, answer, a_result("t2", TextContent("two"))], MODEL)
    assert accepted[2:] == [
        ToolResultMessage("t1", "bash", [TextContent("No result provided")], True, answer.timestamp),
        a_result("t2", TextContent("two")),
    ]


def test_results_follow_their_calls_in_order_before_what_the_user_said_meanwhile() -> None:
    answer, one, two = call("t1", "t2"), a_result("t1", TextContent("1")), a_result("t2", TextContent("2"))
    steer = UserMessage("stop that", 1)
    accepted = acceptable([HI, answer, two, steer, one, an_answer(API, TextContent("done"))], MODEL)
    assert accepted[1:5] == [answer, one, two, steer]


def test_a_result_of_no_call_is_left_out() -> None:
    assert acceptable([HI, a_result("t0", TextContent("x")), HI], MODEL) == [HI, HI]


def test_the_same_id_in_two_turns_means_two_calls() -> None:
    first, second = a_result("call_0", TextContent("1")), a_result("call_0", TextContent("2"))
    accepted = acceptable([HI, call("call_0"), first, call("call_0"), second], MODEL)
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
    accepted = acceptable([HI, answer, a_result("t1", TextContent("x"))], MODEL)
    assert accepted[1].content == [TextContent("plan"), TextContent("a"), ToolCall("t1", "bash", {"x": 1})]
    assert isinstance(answer.content[0], ThinkingContent), "the original is not changed"


def test_unsigned_thinking_becomes_text() -> None:
    accepted = acceptable([HI, an_answer(API, ThinkingContent("cut off"), ThinkingContent(" "), TextContent("a"))], MODEL)
    assert accepted[1].content == [TextContent("cut off"), TextContent("a")]


def test_empty_blocks_and_messages_are_left_out() -> None:
    messages: list[Any] = [
        UserMessage([TextContent(""), ImageContent(PIXEL, "image/png")], 1),
        an_answer(API, TextContent(" \n")),
        UserMessage([TextContent("")], 1),
    ]
    accepted = acceptable(messages, MODEL)
    assert [message.content for message in accepted] == [[ImageContent(PIXEL, "image/png")], history.EMPTY_MESSAGE]


def test_images_in_results_are_noted_for_a_model_that_reads_text() -> None:
    accepted = acceptable([HI, call("t1"), a_result("t1", ImageContent(PIXEL, "image/png"))], BLIND)
    assert accepted[2].content == [TextContent(history.NO_IMAGE)]


def test_ids_that_the_api_refuses_are_replaced_in_call_and_result_alike() -> None:
    ids = ["call_1|fc_2", "a b", "a:b", "x" * 100, "y" * 64]
    answer = call(*ids, provider="other")
    accepted = acceptable([HI, answer, *(a_result(id, TextContent(id)) for id in ids)], MODEL)
    new_ids = [block.id for block in accepted[1].content if isinstance(block, ToolCall)]
    assert new_ids[0] == "call_1"
    assert new_ids[4] == "y" * 64
    assert all(len(id) <= 64 and id.replace("_", "").replace("-", "").isalnum() for id in new_ids)
    assert len(set(new_ids)) == len(ids)
    assert [message.tool_call_id for message in accepted[2:] if isinstance(message, ToolResultMessage)] == new_ids
    shorter = acceptable([HI, answer], a_model("openai-completions"))
    assert max(len(block.id) for block in shorter[1].content if isinstance(block, ToolCall)) <= 40


def test_the_models_own_ids_are_left_alone() -> None:
    own = call("call_1|fc_2")
    assert acceptable([HI, own, a_result("call_1|fc_2", TextContent("x"))], MODEL)[1] is own


def test_nothing_is_remembered_of_messages_that_are_gone() -> None:
    gc.collect()
    before = len(history._known)
    messages: list[Any] = [UserMessage("", 1), call("t1", provider="other"), a_result("t1", TextContent(""))]
    acceptable(messages, MODEL)
    assert len(history._known) == before + 3
    messages.clear()
    gc.collect()
    assert len(history._known) == before


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
