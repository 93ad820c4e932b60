"""What a line of an Opal client is, and how it is answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.opal import batch, opal, request

from fairlead.protocol.opal.opal_events import NOTIFICATION, AskUser, MessageDelta
from fairlead.protocol.opal.opal_objects import Nothing
from fairlead.wire import jsonrpc
from fairlead.wire.jsonrpc import RpcError, read
from fairlead.wire.routing import HostReply, Problem, Request

PARSE, INVALID, UNKNOWN = (-32700, "Parse error"), (-32600, "Invalid request"), -32601


def refused(line: str | bytes | None) -> tuple[int, str]:
    answer = read(line.encode() if isinstance(line, str) else line)
    assert isinstance(answer, Problem) and isinstance(answer.error, RpcError)
    return answer.error.code, answer.error.message


# Classification


@pytest.mark.parametrize("id", ["1", '"a"', "null", "1.5", "18446744073709551616", '"\\u00e9"'])
def test_a_request_keeps_its_id_as_it_was_written(id: str) -> None:
    line = read(f'{{"jsonrpc":"2.0","id":{id},"method":"m","params":{{"a":1}}}}'.encode())
    assert isinstance(line, Request) and isinstance(line.id, msgspec.Raw)
    assert (bytes(line.id).decode(), line.name, line.body) == (id, "m", {"a": 1})


def test_an_invalid_utf_8_id_is_repaired_before_it_is_echoed() -> None:
    line = read(b'{"jsonrpc":"2.0","id":"a\xff","method":"m"}')
    assert isinstance(line, Request) and isinstance(line.id, msgspec.Raw)
    assert json.loads(bytes(line.id)) == "a\ufffd"


def test_params_that_are_absent_are_an_empty_object() -> None:
    line = read(b'{"jsonrpc":"2.0","id":1,"method":"m"}')
    assert isinstance(line, Request)
    assert line.body == {}


def test_a_method_goes_before_a_result() -> None:
    assert isinstance(read(b'{"jsonrpc":"2.0","id":1,"method":"m","result":{}}'), Request)


def test_answers_are_distinguished_from_requests() -> None:
    assert read(b'{"jsonrpc":"2.0","id":"s2c-1","result":{"action":"allow"}}') == HostReply(
        "result", jsonrpc.NULL, "s2c-1", {"action": "allow"}
    )
    failed = read(b'{"jsonrpc":"2.0","id":"s2c-1","error":{"code":1,"message":"no"}}')
    assert failed == HostReply("error", jsonrpc.NULL, "s2c-1", {"code": 1, "message": "no"})


def test_a_notification_is_a_request_without_an_id_and_gets_no_answer() -> None:
    told = read(b'{"jsonrpc":"2.0","method":"m","params":{"a":1}}')
    assert isinstance(told, Request)
    assert (told.name, told.id, told.body) == ("m", msgspec.UNSET, {"a": 1})
    codec = jsonrpc.JsonRpcCodec()
    assert codec.result(told, {}) == []
    assert codec.error(told, RpcError(-1, "no")) == []


@pytest.mark.parametrize(
    "line",
    [
        '[{"jsonrpc":"2.0","id":1,"method":"opal/ping"}]',
        "[]",
        "5",
        '"text"',
        "null",
        "{}",
        '{"id":1,"method":"opal/ping"}',
        '{"jsonrpc":"1.0","id":1,"method":"opal/ping"}',
        '{"jsonrpc":2.0,"id":1,"method":"opal/ping"}',
        '{"jsonrpc":"2.0","id":1}',
        '{"jsonrpc":"2.0","result":{}}',
    ],
)
def test_json_that_is_not_a_message_is_an_invalid_request(line: str) -> None:
    assert refused(line) == INVALID


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[1,",
        "nope",
        '{"jsonrpc":"2.0","id":1,"method":"m",}',
        "[" * 100_000,
        '{"a":NaN}',
        '{"jsonrpc":"2.0","id":1,"method":"m","params":[1e999]}',
    ],
)
def test_invalid_json_is_a_parse_error(line: str) -> None:
    assert refused(line) == PARSE


def test_a_line_that_is_too_long_is_a_parse_error() -> None:
    assert refused(None) == PARSE


def test_a_method_that_is_not_a_string_is_quoted_in_the_error() -> None:
    line = read(b'{"jsonrpc":"2.0","id":1,"method":5}')
    assert isinstance(line, Request)
    assert line.name == "5"


@pytest.mark.parametrize(
    ("text", "heard"), [(rb"\ud800", "�"), (b"\xff", "�"), (rb"\ud83d\ude00", "😀")], ids=["surrogate", "utf-8", "pair"]
)
def test_invalid_unicode_in_texts_is_repaired(text: bytes, heard: str) -> None:
    line = read(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"text":"' + text + b'"}}')
    assert isinstance(line, Request)
    assert line.body == {"text": heard}


# What is sent


def test_responses_events_and_requests_are_messages_of_version_2() -> None:
    ident = jsonrpc.Raw(b'"a"')
    assert json.loads(jsonrpc.result_line(ident, Nothing())) == {"jsonrpc": "2.0", "id": "a", "result": {}}
    assert json.loads(jsonrpc.error_line(ident, RpcError(-1, "no"))) == {
        "jsonrpc": "2.0",
        "id": "a",
        "error": {"code": -1, "message": "no"},
    }
    assert json.loads(jsonrpc.error_line(jsonrpc.NULL, RpcError(-1, "no", "why")))["error"]["data"] == "why"
    assert json.loads(jsonrpc.notification_line(NOTIFICATION, MessageDelta("s", "hi"))) == {
        "jsonrpc": "2.0",
        "method": "agent/event",
        "params": {"type": "message_delta", "session_id": "s", "delta": "hi"},
    }
    asked = AskUser(session_id="s", question="?", choices=[])
    assert json.loads(jsonrpc.question_line("s2c-1", asked.method, asked)) == {
        "jsonrpc": "2.0",
        "id": "s2c-1",
        "method": "client/ask_user",
        "params": {"session_id": "s", "question": "?", "choices": []},
    }


def test_an_undecodable_file_name_does_not_block_a_frame() -> None:
    line = jsonrpc.notification_line(NOTIFICATION, MessageDelta("s", "file \udcff"))
    assert json.loads(line)["params"]["delta"] == "file �"


# Over a pipe


def error(code: int, message: str, id: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}


def test_bad_lines_are_answered_with_a_null_id_and_the_server_continues(tmp_path: Path) -> None:
    with opal(tmp_path) as client:
        assert client.raw("{") == error(*PARSE)
        assert client.raw('{"jsonrpc":"2.0","id":7}') == error(*INVALID)
        assert client.raw("[]") == error(*INVALID)
        assert client.raw('{"jsonrpc":"2.0","id":null,"method":"nope"}') == error(UNKNOWN, "Method not found: nope")
        assert client.raw('{"jsonrpc":"2.0","id":1,"method":5}') == error(UNKNOWN, "Method not found: 5", 1)
        assert client.call("opal/ping") == {}
        assert client.host.leave() == 0


def test_lines_may_end_in_crlf_be_blank_come_in_parts_and_be_long(tmp_path: Path) -> None:
    with opal(tmp_path) as client:
        client.host.write(b'\r\n\n  \n{"jsonrpc":"2.0","id":1,"met')
        client.host.write(b'hod":"opal/version"}\r\n')
        assert client.response(1)["result"]["protocol_version"] == "0.1.0"
        client.host.write(json.dumps(request(2, "settings/save", settings={"long": "x" * 200_000})).encode() + b"\n")
        assert len(client.response(2)["result"]["settings"]["long"]) == 200_000


def test_notifications_and_answers_to_nothing_get_no_answer(tmp_path: Path) -> None:
    with opal(tmp_path) as client:
        client.host.write(
            batch(
                {"jsonrpc": "2.0", "method": "opal/ping"},
                {"jsonrpc": "2.0", "id": "s2c-9", "result": {}},
                {"jsonrpc": "2.0", "id": 12, "error": {"code": 1, "message": "?"}},
                request("last", "opal/ping"),
            )
        )
        client.response("last")
        assert len(client.host.frames) == 1


def test_requests_in_one_write_are_answered_in_their_order(tmp_path: Path) -> None:
    methods = ["opal/version", "session/list", "models/list", "auth/status", "settings/get", "nope", "opal/version"]
    with opal(tmp_path) as client:
        client.host.write(batch(*(request(number, method) for number, method in enumerate(methods))))
        client.response(len(methods) - 1)
        assert [frame["id"] for frame in client.host.frames] == list(range(len(methods)))
