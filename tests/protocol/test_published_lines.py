"""What the hosts of the tests compare with the schema: this finds what is not as published."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.published import check, dialect_of

EVENT = {"jsonrpc": "2.0", "method": "agent/event"}


def said(*lines: Any) -> list[bytes]:
    return [json.dumps(line).encode() for line in lines]


def wrote(*lines: Any) -> bytes:
    return b"".join(line + b"\n" for line in said(*lines))


def response(command: str, **more: Any) -> dict[str, Any]:
    return {"type": "response", "id": 1, "command": command, "success": True, **more}


STEER = {"type": "steer", "id": 1, "message": 5}
PING = {"jsonrpc": "2.0", "id": 1, "method": "opal/ping"}
ASKED = {"jsonrpc": "2.0", "id": "s2c-1", "method": "client/input", "params": {"session_id": "a", "prompt": "Who?"}}
UNDECLARED = {"type": "message_delta", "session_id": "a", "delta": "x", "mood": 1}


@pytest.mark.parametrize(
    ("dialect", "written", "heard", "complaint"),
    [
        ("pi", b"", said({"type": "agent_start", "mood": 1}), "AgentStartEvent\n  at /: .*mood"),
        ("pi", b"", said({"type": "ready"}), "'ready' is not an event of pi"),
        ("omp", b"", said({"type": "message_end", "message": {"role": "assistant"}}), 'at /message: "content" is a required'),
        (
            "xcsh",
            b"",
            said(response("get_last_assistant_text", data={"text": 5})),
            "GetLastAssistantTextResponse\n  at /data/text",
        ),
        ("pi", wrote(STEER), said(response("steer")), "SteerCommand\n  at /message"),
        ("pi-2025", wrote({"type": "prompt", "message": 5}), [], "Prompt2025Command\n  at /message"),
        ("opal", wrote(PING), said({"jsonrpc": "2.0", "id": 1, "result": {"mood": 1}}), "PingResult"),
        ("opal", b"", said({**EVENT, "params": UNDECLARED}), "MessageDeltaEvent"),
        ("opal", b"", said({**EVENT, "params": {"type": "mood", "session_id": "a"}}), "an event that is not declared"),
    ],
)
def test_deviations_from_published_types_are_reported(dialect: str, written: bytes, heard: list[bytes], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check(dialect, written, heard)


def test_a_refused_line_may_have_any_content() -> None:
    refused = {"type": "response", "id": 1, "command": "steer", "success": False, "error": "message: expected a string"}
    check("pi", wrote(STEER, [], 5) + b"{\n", said(refused))
    check("pi", wrote({"type": "host_tool_result", "id": 5}), [])
    check("pi-2025", wrote({"type": "prompt", "message": 5}), said({"type": "error", "error": "no"}))
    error = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "Missing required param: session_id"}}
    check("opal", wrote({"jsonrpc": "2.0", "id": 1, "method": "agent/abort"}), said(error))
    check("opal", wrote({"jsonrpc": "2.0", "id": "s2c-1", "result": {"text": 5}}), said(ASKED))


def test_an_id_may_be_used_again() -> None:
    version = {"server_version": "1.0.0", "protocol_version": "0.1.0"}
    answers = [{"jsonrpc": "2.0", "id": 1, "result": result} for result in ({}, version)]
    check("opal", wrote(PING, {**PING, "method": "opal/version"}), said(*answers))
    with pytest.raises(AssertionError, match="an answer to nothing"):
        check("opal", wrote(PING), said(*answers))


def test_the_dialect_is_that_of_the_command_line() -> None:
    assert dialect_of(["fairlead", "--mode", "rpc", "--dialect", "omp"]) == "omp"
    assert dialect_of(["fairlead", "--mode", "opal"]) == "opal"
    assert dialect_of(["fairlead", "--mode", "rpc"], {"FAIRLEAD_DIALECT": "xcsh"}) == "xcsh"
    assert dialect_of(["python", "-m", "fairlead", "--mode", "rpc"]) == "omp"
    assert dialect_of(["bin/pi", "--mode", "rpc"]) == "pi"
    assert dialect_of(["bin/opal-server"]) == "opal"
    assert dialect_of(["fairlead", "--mode", "json", "--dialect", "pi"]) is None
    assert dialect_of(["node", "cli.js", "--mode", "rpc"]) is None
