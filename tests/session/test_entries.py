"""Entries as lines of JSON, and the messages in them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from fairlead.core.messages import AssistantMessage, ImageContent, TextContent, ToolResultMessage, UserMessage, decode_message
from fairlead.session.context.tokens import for_model
from fairlead.session.history.entries import (
    CompactionEntry,
    ContextEditEntry,
    CustomMessageEntry,
    LabelEntry,
    MessageEntry,
    NotAnEntry,
    OtherEntry,
    Replacement,
    decode_line,
    encode_line,
    messages_of,
    role_of,
)
from fairlead.stores.headers import milliseconds, new_header
from fairlead.stores.paths import iso

BASE = {"id": "0000000a", "parentId": None, "timestamp": "2026-01-02T03:04:05.678Z"}

LINES: list[dict[str, Any]] = [
    {"type": "message", **BASE, "message": {"role": "user", "content": "hi", "timestamp": 1}},
    {"type": "model_change", **BASE, "provider": "p", "modelId": "m"},
    {"type": "thinking_level_change", **BASE, "thinkingLevel": "high"},
    {"type": "compaction", **BASE, "summary": "s", "firstKeptEntryId": "x", "tokensBefore": 7, "details": {"a": [1]}},
    {"type": "branch_summary", **BASE, "fromId": "x", "summary": "s", "fromHook": True},
    {"type": "custom", **BASE, "customType": "t", "data": {"n": 1}},
    {"type": "custom_message", **BASE, "customType": "t", "content": "c", "display": True},
    {"type": "label", **BASE, "targetId": "x", "label": "l"},
    {"type": "label", **BASE, "targetId": "x"},
    {"type": "session_info", **BASE, "name": "n"},
    {"type": "context_edit", **BASE, "targetId": "x", "replacement": None},
    {"type": "context_edit", **BASE, "targetId": "x", "replacement": {"content": "c"}},
]


def entry(**fields: Any) -> Any:
    return decode_line(json.dumps({**BASE, **fields}).encode())[0]


@pytest.mark.parametrize("value", LINES, ids=lambda value: value["type"])
def test_every_type_of_entry_is_written_as_it_was_read(value: dict[str, Any]) -> None:
    found, _ = decode_line(json.dumps(value).encode())
    assert not isinstance(found, OtherEntry)
    assert json.loads(encode_line(found)) == value


def test_the_header_is_that_of_pi() -> None:
    header = new_header("an-id", "/work", 1767323045678, "/old.jsonl")
    assert json.loads(encode_line(header)) == {
        "type": "session",
        "version": 3,
        "id": "an-id",
        "timestamp": "2026-01-02T03:04:05.678Z",
        "cwd": "/work",
        "parentSession": "/old.jsonl",
    }
    assert "parentSession" not in json.loads(encode_line(new_header("an-id", "/work", 0)))


def test_an_unknown_type_keeps_its_place_and_its_bytes() -> None:
    line = b'{"type":"hologram", "id":"1","parentId":"0","timestamp":"t","size":1e400,"deep":{"a":[1.50]}}'
    found, kept = decode_line(line)
    assert found == OtherEntry("hologram", "1", "0", "t")
    assert kept == line


def test_a_known_type_in_an_unknown_form_is_kept_too() -> None:
    found, _ = decode_line(json.dumps({"type": "model_change", **BASE, "model": "provider/id"}).encode())
    assert isinstance(found, OtherEntry)
    assert found.type == "model_change"


@pytest.mark.parametrize("line", [b'{"type":"session","id":"x"}', b'{"type":"message"}', b"[1]", b"3"])
def test_invalid_entries_are_distinguished_from_invalid_json(line: bytes) -> None:
    with pytest.raises(NotAnEntry):
        decode_line(line)


@pytest.mark.parametrize("line", [b"", b"{", b'{"type":"message","id":', b"\0\0\0", b"[" * 100_000, b'{"type":7,"id":'])
def test_invalid_json_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError) as caught:
        decode_line(line)
    assert not isinstance(caught.value, NotAnEntry)


def test_half_a_surrogate_pair_becomes_a_replacement_character() -> None:
    line = json.dumps({"type": "message", **BASE, "message": {"role": "user", "content": "\ud83d!", "timestamp": 1}}).encode()
    found, kept = decode_line(line)
    assert isinstance(found, MessageEntry)
    assert decode_message(found.message) == UserMessage("\ufffd!", 1)
    assert json.loads(kept)["message"]["content"] == "\ufffd!"


def test_nothing_but_half_a_surrogate_pair_changes() -> None:
    line = rb'{"type":"hologram","id":"1", "parentId":null,"size":1e400,"text":"\ud83d\ude00 \ud83d \\ud800 \ude00"}'
    found, kept = decode_line(line)
    assert found == OtherEntry("hologram", "1", None, "")
    assert kept == line.replace(rb" \ud83d ", rb" \ufffd ").replace(rb" \ude00", rb" \ufffd")


def test_half_a_surrogate_pair_can_be_written() -> None:
    assert json.loads(encode_line(LabelEntry("1", None, "t", "0", "\udc00")))["label"] == "\ufffd"


def test_times_go_both_ways() -> None:
    assert iso(1767323045678) == "2026-01-02T03:04:05.678Z"
    for ms in (0, 1, 999, 1767323045678, 4102444800001):
        assert milliseconds(iso(ms)) == ms
    assert milliseconds("yesterday") == 0


def test_the_role_is_known_without_the_message() -> None:
    assert role_of(entry(type="message", message={"role": "system", "anything": [1, 2]})) == "system"
    assert role_of(entry(type="message", message="no object")) == ""
    assert role_of(entry(type="label", targetId="x")) == ""


def test_a_message_with_an_unknown_role_is_left_out() -> None:
    assert decode_message(b'{"role":"system","content":"","timestamp":1}') is None
    assert decode_message(b'"text"') is None


def test_messages_not_quite_in_form_keep_what_can_be_understood() -> None:
    assert decode_message(b'{"role":"user","content":null,"timestamp":1}') == UserMessage([], 1)
    result = decode_message(
        b'{"role":"toolResult","toolCallId":"c","toolName":"t","isError":false,"timestamp":1,"details":[1],'
        b'"content":[{"type":"text","text":"a"},{"type":"video"},7]}'
    )
    assert result == ToolResultMessage("c", "t", [TextContent("a")], False, 1, [1])
    answer = decode_message(
        b'{"role":"assistant","content":"plain","api":"a","provider":"p","model":"m","stopReason":"deferred","timestamp":1}'
    )
    assert isinstance(answer, AssistantMessage)
    assert (answer.text(), answer.stop_reason, answer.usage.total_tokens) == ("plain", "stop", 0)


def shown(found: Any, edit: ContextEditEntry | None = None) -> list[Any]:
    return [msgspec.json.decode(raw) for raw in messages_of(found, edit)]


def test_entries_other_than_messages_contribute_messages() -> None:
    time = milliseconds(BASE["timestamp"] or "")
    compaction = entry(type="compaction", summary="s", firstKeptEntryId="x", tokensBefore=7)
    assert shown(compaction) == [{"role": "compactionSummary", "summary": "s", "tokensBefore": 7, "timestamp": time}]
    branch = entry(type="branch_summary", summary="s", fromId="x")
    assert shown(branch) == [{"role": "branchSummary", "summary": "s", "fromId": "x", "timestamp": time}]
    custom = entry(type="custom_message", customType="t", content="c", display=False, details={"d": 1})
    expected = {"role": "custom", "customType": "t", "content": "c", "display": False, "details": {"d": 1}, "timestamp": time}
    assert shown(custom) == [expected]
    assert shown(entry(type="custom", customType="t", data=1)) == []
    assert shown(entry(type="branch_summary", summary="", fromId="x")) == []


def test_the_system_prompt_of_a_compaction_comes_before_its_summary() -> None:
    system = {"role": "system", "content": "", "timestamp": 1}
    compaction = entry(type="compaction", summary="s", firstKeptEntryId="x", tokensBefore=7, systemMessage=system)
    assert isinstance(compaction, CompactionEntry)
    assert [message["role"] for message in shown(compaction)] == ["system", "compactionSummary"]


@pytest.mark.parametrize(
    ("role", "expected"),
    [("user", "new"), ("custom", "new"), ("assistant", [{"type": "text", "text": "new"}]), ("system", "old")],
)
def test_an_edit_replaces_the_content_alone(role: str, expected: Any) -> None:
    message = {"role": role, "content": "old", "extra": 1}
    edit = ContextEditEntry("1", None, "t", "0", Replacement("new"))
    assert shown(entry(type="message", message=message), edit) == [{**message, "content": expected}]


def test_an_edit_without_replacement_removes_the_message() -> None:
    custom = CustomMessageEntry("1", None, "t", "kind", "text", True)
    assert len(shown(custom)) == 1
    assert shown(custom, ContextEditEntry("2", None, "t", "1", None)) == []


def test_attached_files_are_kept_as_they_came_and_shown_to_the_model() -> None:
    document = {"id": "1", "type": "document", "fileName": "a.pdf", "mimeType": "application/pdf", "size": 1, "content": "eA=="}
    image = {**document, "type": "image", "mimeType": "image/png", "future": [1]}
    line = json.dumps(
        {
            "role": "user",
            "content": "look",
            "timestamp": 1,
            "attachments": [{**document, "extractedText": "the text"}, image, {**document, "content": "/w=="}, {"type": 1}],
        },
        separators=(",", ":"),
    ).encode()
    message = decode_message(line)
    assert message is not None and msgspec.json.encode(message) == line
    shown = for_model(message)
    assert shown is not None
    assert shown.content == [
        TextContent("look"),
        TextContent("\n\n[Document: a.pdf]\nthe text"),
        TextContent(
            "\n\n[Document: a.pdf]\n(application/pdf, 1 bytes; its content is not text, and the host did not extract any)"
        ),
        ImageContent("eA==", "image/png"),
    ]
