"""Whatever a host writes, the process lives, answers, and changes nothing it was not told to change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.host import Frame, Host
from tests.support.stage import HELD, says, stage

ASK = b'{"id":"%b","type":"get_last_assistant_text"}'
NOT_COMMANDS = {
    "words": b"this is not json",
    "an unfinished object": b'{"id":"t","type":"get_state"',
    "an unfinished string": b'{"id":"t","type":"get_sta',
    "two objects": b'{"type":"get_state"}{"type":"get_state"}',
    "a list": b"[1,2]",
    "an empty list": b"[]",
    "a number": b"42",
    "a string": b'"str"',
    "null": b"null",
    "true": b"true",
    "NaN": b"NaN",
    "a value that is no JSON": b'{"type":"get_state","id":NaN}',
    "a raw control character": b'{"type":"get_\x01state"}',
    "a byte order mark": b'\xef\xbb\xbf{"id":"bom","type":"get_state"}',
    "bytes that are no text": b"\xff\xfe\x00\x80",
    "a NUL": b"\x00",
    "an empty object": b"{}",
    "an object without a type": b'{"kind":"get_state"}',
    "a type of null": b'{"type":null}',
    "deeply nested lists": b"[" * 10_000 + b"]" * 10_000,
    "deeply nested objects": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "lists that never close": b"[" * 10_000,
    "a deeply nested id": b'{"type":"get_state","id":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
}


def answers(host: Host, line: bytes) -> list[Frame]:
    """What the agent says to one line. A getter follows it, so that silence is noticed too."""
    since = host.mark()
    host.write(line + b"\n" + ASK % b"after" + b"\n")
    host.response("after", since=since)
    return host.frames[since:-1]


def assert_valid(frames: list[Frame]) -> None:
    """No half of a surrogate pair got out."""
    json.dumps(frames, ensure_ascii=False).encode()


# Lines that are no commands


@pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])
def test_a_line_that_is_not_a_command_gets_a_parse_error(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.request("get_state")
        for name, line in NOT_COMMANDS.items():
            found = answers(host, line)
            assert [frame["type"] for frame in found] == ["response"], name
            assert found[0].items() >= {"command": "parse", "success": False}.items(), name
            assert "id" not in found[0], name
            assert found[0]["error"].startswith("Failed to parse command: "), name
        assert host.leave() == 0


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 10_000 + b"]" * 10_000,
        b"[" * 10_000,
        b'{"type":"get_state","id":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        b'{"type":"get_state","id":"\\ud800","extra":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        b'{"type":"get_state","id":"\xff","extra":' + b'{"a":' * 10_000 + b"1" + b"}" * 10_000 + b"}",
    ],
    ids=["a list", "an unfinished list", "an id", "beside half a surrogate pair", "beside bytes that are no text"],
)
def test_deep_nesting_is_called_that(line: bytes, tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        (answer,) = answers(host, line)
        assert answer["error"] == "Failed to parse command: nested too deeply"
        assert host.stderr() == ""


@pytest.mark.parametrize(("dialect", "ident"), [("pi", "x"), ("omp", None), ("xcsh", None)])
def test_an_object_without_a_usable_type_keeps_its_id_in_pi(dialect: str, ident: str | None, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.request("get_state")
        for line in (b'{"id":"x"}', b'{"id":"x","type":5}', b'{"id":"x","type":["get_state"]}'):
            (answer,) = answers(host, line)
            assert answer.items() >= {"command": "parse", "success": False}.items()
            assert answer.get("id") == ident
            assert "type" in answer["error"]


def test_blank_lines_are_ignored(tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        for line in (b"", b"   ", b"\t", b"\r", b" \r"):
            assert answers(host, line) == []


def test_an_answer_to_a_question_never_asked_is_dropped(tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        for kind in (b"extension_ui_response", b"host_tool_result", b"host_tool_update", b"host_uri_result"):
            assert answers(host, b'{"id":"nope","type":"%b","value":"x"}' % kind) == []


def test_an_answer_whose_id_is_that_of_no_question_is_refused(tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        for ident in (b"1", b"null", b'["x"]', b"1e999", b"9" * 400):
            (answer,) = answers(host, b'{"id":%b,"type":"host_tool_result","result":{"content":[]}}' % ident)
            assert answer.items() >= {"command": "host_tool_result", "success": False}.items()
            assert answer["error"].startswith("id: expected that of the frame which asked")
        assert host.stderr() == ""


def test_deep_nesting_in_a_field_that_means_nothing_is_refused_or_ignored(tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        nested = b'{"id":"n","type":"get_last_assistant_text","extra":' + b"[" * 10_000 + b"]" * 10_000 + b"}"
        assert len(answers(host, nested)) == 1


# Framing


def test_a_carriage_return_before_the_line_end_is_dropped(tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        host.write(ASK % b"crlf" + b"\r\n")
        assert host.response("crlf")["success"] is True


def test_other_line_separators_do_not_end_a_line(tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        ident = "a\u2028b\u2029c\u0085d"
        host.write(ASK % ident.encode() + b"\n")
        assert host.response(ident)["success"] is True


def test_a_command_may_arrive_in_two_pieces_cut_anywhere(tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        cuts = range(1, len(ASK % b"0000"))
        for cut in cuts:
            line = ASK % b"%04d" % cut + b"\n"
            host.write(line[:cut])
            host.write(line[cut:])
        host.response(f"{cuts[-1]:04}")
        assert [frame["id"] for frame in host.frames] == [f"{cut:04}" for cut in cuts]


def test_many_commands_in_one_write_are_answered_in_order(tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        host.write(b"".join(ASK % b"%d" % number + b"\n" for number in range(500)))
        host.response("499")
        assert [frame["id"] for frame in host.frames] == [str(number) for number in range(500)]


def test_a_last_line_without_its_end_counts(tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        host.write(ASK % b"last")
        assert host.leave() == 0
        assert [frame["id"] for frame in host.frames] == ["last"]


def test_of_two_prompts_in_one_write_the_second_finds_the_agent_busy(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [says("one"), says("two")]) as host:
        host.write(b'{"id":"a","type":"prompt","message":"A"}\n{"id":"b","type":"prompt","message":"B"}\n')
        host.until("agent_settled")
        assert host.response("a")["success"] is True
        assert host.response("b")["success"] is False
        assert "already processing" in host.response("b")["error"]
        texts = [frame["message"]["content"][0]["text"] for frame in host.frames if frame["type"] == "message_end"]
        assert texts == ["A", "one"]


# Length


def test_a_line_of_the_allowed_length_is_read_and_one_byte_more_is_refused(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", settings={"output": {"lineBytes": 1000}}) as host:
        longest = ASK % (b"x" * (1000 - len(ASK % b"")))
        assert len(longest) == 1000
        (answer,) = answers(host, longest)
        assert answer["success"] is True
        (refusal,) = answers(host, longest + b" ")
        assert refusal.items() >= {"command": "parse", "success": False}.items()
        assert "too long" in refusal["error"]


def test_64_mib_are_allowed(tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        head = b'{"id":"%b","type":"get_last_assistant_text","padding":"'
        line = bytearray(head % b"big")
        line += b"x" * ((64 << 20) - len(line) - 2) + b'"}'
        assert len(line) == 64 << 20
        host.write(bytes(line) + b"\n")
        assert host.response("big")["success"] is True
        (refusal,) = answers(host, bytes(line) + b" ")
        assert refusal.items() >= {"command": "parse", "success": False}.items()


# Text that is no Unicode


@pytest.mark.parametrize("bad", [b"\\ud800", b"\\udc00 \\ud800", b"\xff", b"\xed\xa0\x80", b"\xc3"])
@pytest.mark.parametrize("place", ["id", "message", "elsewhere", "a key", "the type"])
def test_invalid_unicode_becomes_replacement_characters(bad: bytes, place: str, tmp_path: Path) -> None:
    lines = {
        "id": b'{"id":"<%b>","type":"get_last_assistant_text"}',
        "message": b'{"id":"p","type":"prompt","message":"<%b>"}',
        "elsewhere": b'{"id":"e","type":"get_last_assistant_text","extra":{"deep":["<%b>"]}}',
        "a key": b'{"id":"e","type":"get_last_assistant_text","<%b>":1}',
        "the type": b'{"id":"t","type":"<%b>"}',
    }
    with stage(tmp_path, "pi") as host:
        host.write(lines[place] % bad + b"\n")
        answer = host.until("response")
        if place == "message":
            host.until("agent_settled")
            (user,) = [f["message"] for f in host.frames if f["type"] == "message_end" and f["message"]["role"] == "user"]
            text = user["content"][0]["text"]
            assert "\ufffd" in text
            assert (text[0], text[-1]) == ("<", ">")
        elif place == "id":
            assert "\ufffd" in answer["id"]
        assert answer["success"] is (place != "the type")
        assert_valid(host.frames)
        assert host.request("get_messages")["success"] is True


def test_a_surrogate_pair_is_one_character(tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        host.write(ASK % b"\\ud83d\\ude00" + b"\n")
        assert host.response("\U0001f600")["success"] is True


# Ids


@pytest.mark.parametrize(
    "ident", ["7", "-1.5e3", "null", "true", '""', '{"a":[1,{"b":null}]}', "[]", "123456789012345678901234567890", "[1e400]"]
)
@pytest.mark.parametrize("beside", [b"", b',"note":"\xff"'], ids=["", "beside bytes that are no text"])
def test_an_id_of_any_kind_comes_back_as_it_was(ident: str, beside: bytes, tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        host.write(b'{"id":%b,"type":"get_last_assistant_text"%b}\n' % (ident.encode(), beside))
        answer = host.until("response")
        assert "id" in answer
        assert json.dumps(answer["id"]) == json.dumps(json.loads(ident))


def test_no_id_means_none_in_the_answer_and_of_two_the_last_counts(tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        (answer,) = answers(host, b'{"type":"get_last_assistant_text"}')
        assert "id" not in answer
        (answer,) = answers(host, b'{"type":"get_last_assistant_text","id":"one","id":"two"}')
        assert answer["id"] == "two"


# Fields


def _image(data: str) -> dict[str, str]:
    return {"type": "image", "data": data, "mimeType": "image/png"}


@pytest.mark.parametrize(
    ("command", "field"),
    [
        ({"type": "prompt"}, "message"),
        ({"type": "prompt", "message": None}, "message"),
        ({"type": "prompt", "message": 42}, "message"),
        ({"type": "prompt", "message": ["a"]}, "message"),
        ({"type": "prompt", "message": "x", "images": "notalist"}, "images"),
        ({"type": "prompt", "message": "x", "images": [{"type": "text", "text": "x"}]}, "images"),
        ({"type": "prompt", "message": "x", "images": [{"type": "image", "data": "eA=="}]}, "mimeType"),
        ({"type": "prompt", "message": "x", "images": [_image("")]}, "images[0].data"),
        ({"type": "steer", "message": "x", "images": [_image("@@")]}, "images[0].data"),
        ({"type": "abort_and_prompt", "message": "x", "images": [_image("data:x")]}, "images[0].data"),
        ({"type": "prompt", "message": "x", "attachments": [{"type": "image", "content": "?"}]}, "attachments[0].content"),
        ({"type": "prompt", "message": "x", "streamingBehavior": 1}, "streamingBehavior"),
        ({"type": "steer"}, "message"),
        ({"type": "follow_up", "message": {}}, "message"),
        ({"type": "abort_and_prompt"}, "message"),
        ({"type": "bash"}, "command"),
        ({"type": "bash", "command": 5}, "command"),
        ({"type": "set_model"}, "provider"),
        ({"type": "set_model", "provider": "fake"}, "modelId"),
        ({"type": "set_thinking_level"}, "level"),
        ({"type": "set_steering_mode", "mode": "bogus"}, 'mode: expected "all" or "one-at-a-time", got '),
        ({"type": "set_thinking_level", "level": "bogus"}, 'level: expected "high" or "low" or "max" or '),
        ({"type": "set_active_tools", "tools": "all"}, "tools"),
        ({"type": "set_updates", "updates": "some"}, "updates"),
        ({"type": "get_state", "verbose": "yes"}, "verbose"),
    ],
)
def test_a_missing_or_mistyped_field_is_named_and_nothing_happens(command: dict[str, Any], field: str, tmp_path: Path) -> None:
    with stage(tmp_path, "pi") as host:
        before = host.request("get_state")["data"]
        kind = command["type"]
        answer = host.request(kind, id="bad", **{name: value for name, value in command.items() if name != "type"})
        assert answer.items() >= {"id": "bad", "command": kind, "success": False}.items()
        assert field in answer["error"]
        assert host.request("get_state")["data"] == before
        assert [frame["type"] for frame in host.frames] == ["response"] * 3


def test_null_for_an_optional_field_means_that_it_is_absent(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [HELD]) as host:
        assert host.request("get_state", verbose=None)["success"] is True
        assert host.request("bash", command="true", excludeFromContext=None)["success"] is True
        assert host.request("prompt", message="x", images=None, streamingBehavior=None)["success"] is True
        host.update("text_delta")
        refusal = host.request("prompt", message="y", streamingBehavior=None)
        assert "already processing" in refusal["error"]
