"""Whether what went over the wire is what the official schema of ACP says, and what fairlead declares.

Every line of the agent has to fit both. So has a request of the client that was carried out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

from fairlead.protocol.acp.acp_catalog import AGENT_REQUESTS, CLIENT_NOTIFICATIONS, CLIENT_REQUESTS
from fairlead.protocol.schema.json_rpc import acp_schema

Frame = dict[str, Any]

SCHEMA = Path(__file__).parent.parent / "acp" / "official" / "schema.json"


@cache
def official() -> dict[str, Any]:
    """The definitions of the official schema."""
    return json.loads(SCHEMA.read_text())["$defs"]


def official_name(method: str, kind: str) -> str:
    """The name of the official definition: `kind` is Request, Response or Notification."""
    found = [name for name, each in official().items() if each.get("x-method") == method and name.endswith(kind)]
    assert len(found) == 1, f"{method} has no {kind} in the official schema: {found}"
    return found[0]


def check(lines: Sequence[Frame], frames: Sequence[Frame]) -> None:
    """Raises AssertionError for the first line that is not as published."""
    asked = {json.dumps(line["id"]): line for line in lines if "method" in line and "id" in line}
    answered: set[str] = set()
    for frame in frames:
        assert frame.get("jsonrpc") == "2.0", f"not JSON-RPC 2.0: {format_value(frame)}"
        if "method" in frame:
            _check_told(frame)
            continue
        ident = json.dumps(frame.get("id"))
        if frame.get("id") is not None:
            assert ident not in answered, f"a second answer: {format_value(frame)}"
            answered.add(ident)
        _check_answer(frame, asked.get(ident))
    _check_tool_calls(asked, answered, frames)


def _check_told(frame: Frame) -> None:
    """Check a request or a notification of the agent."""
    method = frame["method"]
    kind = "Request" if "id" in frame else "Notification"
    _check(_official_validator(official_name(method, kind)), frame["params"], f"{method} in the official schema")
    declared = CLIENT_REQUESTS[method] if "id" in frame else (CLIENT_NOTIFICATIONS[method],)
    names = [each.__name__ for each in declared]
    if not any(_own_validator(name).is_valid(frame["params"]) for name in names):
        _check(_own_validator(names[0]), frame["params"], f"{method} as fairlead declares it")


def _check_answer(frame: Frame, request: Frame | None) -> None:
    if "error" in frame:
        _check(_official_validator("Error"), frame["error"], "an error")
        return
    assert request is not None, f"an answer to nothing: {format_value(frame)}"
    method = request["method"]
    _check(_official_validator(official_name(method, "Response")), frame["result"], f"the result of {method}")
    _check(_own_validator(AGENT_REQUESTS[method].result.__name__), frame["result"], f"the result of {method}, as declared")


def _check_tool_calls(asked: dict[str, Frame], answered: set[str], frames: Sequence[Frame]) -> None:
    """Every tool call ends, once all prompts are answered; and it is announced before anything else is said about it."""
    statuses: dict[tuple[str, str], str] = {}
    for frame in frames:
        if frame.get("method") != "session/update":
            continue
        session, update = frame["params"]["sessionId"], frame["params"]["update"]
        if update["sessionUpdate"] == "tool_call":
            statuses[session, update["toolCallId"]] = update["status"]
        elif update["sessionUpdate"] == "tool_call_update":
            key = session, update["toolCallId"]
            assert key in statuses, f"a tool call that was not announced: {format_value(frame)}"
            assert statuses[key] not in ("completed", "failed"), f"a tool call that had ended: {format_value(frame)}"
            statuses[key] = update.get("status", statuses[key])
    if {ident for ident, line in asked.items() if line["method"] == "session/prompt"} <= answered:
        left = {key: status for key, status in statuses.items() if status not in ("completed", "failed")}
        assert not left, f"tool calls that never ended: {left}"


@cache
def _official_validator(name: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": official()})


@cache
def _own() -> dict[str, Any]:
    return acp_schema(closed=True)["$defs"]


@cache
def _own_validator(name: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": _own()})


def _check(validator: jsonschema_rs.Draft202012Validator, value: Any, what: str) -> None:
    if not validator.is_valid(value):
        errors = "\n".join(
            f"  at /{'/'.join(map(str, each.instance_path))}: {each.message[:300]}" for each in validator.iter_errors(value)
        )
        raise AssertionError(f"not as published: {what}\n{errors}\n{format_value(value)}")


def format_value(value: Any) -> str:
    return json.dumps(value)[:1000]
