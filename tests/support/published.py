"""Whether what went over the wire is what the published schema of the dialect says.

Every frame that was sent has to be declared, to its last field. A line of the host's has to be declared if it was accepted: a
command that was carried out, an answer that its declaration can be read from. What a test sends in order to be refused is not
looked at.
"""

from __future__ import annotations

import base64
import json
import os
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
from tests.support import acp_schema
from tests.support.json_values import is_object

from fairlead.protocol.opal.opal_events import EVENTS, NOTIFICATION, SERVER_REQUESTS
from fairlead.protocol.opal.opal_methods import METHODS
from fairlead.protocol.opal.opal_objects import Method
from fairlead.protocol.pi.commands import Command
from fairlead.protocol.pi.host_requests import REPLIES
from fairlead.protocol.pi.session_commands import COMMANDS_2025
from fairlead.protocol.schema import json_rpc
from fairlead.protocol.schema.builder import list_mentioned
from fairlead.protocol.schema.family import Lines, answer_name, command_name, event_name, response_name
from fairlead.wire.dialects import DEFAULT_DIALECT, DIALECTS, dialect_named, dialect_of_program

Frame = dict[str, Any]

#: Bytes of a line beyond which it is not looked at: nothing is in it but what was made to be long.
TOO_LONG = 4 << 20

_REPLIES = {str(answer.__struct_config__.tag): answer for answer in REPLIES}


def dialect_of(argv: Sequence[str | bytes], env: Mapping[str, str] | None = None) -> str | None:
    """The dialect in which a command line serves a host; None if it does not, and for another program."""
    words = [os.fsdecode(word) for word in argv]
    values = dict(pairwise(words))
    mode, name = values.get("--mode"), values.get("--as") or _launched_as(words[0]) or Path(words[0]).name
    name = name.partition("@")[0]
    if {"--version", "-v"} & set(words):
        return None
    if mode in ("opal", "acp"):
        return mode
    if words[1:2] == ["acp"]:
        return "acp"
    started_as = name if name in DIALECTS else getattr(dialect_of_program(name), "name", None)
    chosen = values.get("--dialect") or (env or {}).get("FAIRLEAD_DIALECT") or started_as
    if chosen is None and (name.startswith("fairlead") or values.get("-m") == "fairlead"):
        chosen = DEFAULT_DIALECT
    is_served = mode in ("rpc", "rpc-ui") or (mode is None and chosen == "opal" and "schema" not in words)
    return chosen if is_served else None


def _launched_as(program: str) -> str | None:
    """What a launcher starts fairlead as; None if the program is not a launcher."""
    try:
        found = re.search(r"-m fairlead --as (\S+)", Path(program).read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    return found and found[1]


def check(dialect: str, written: bytes, heard: Sequence[bytes]) -> None:
    """Raises AssertionError for the first line of the agent, or of its host, that is not as published."""
    frames: list[Frame] = [_read(line) for line in heard]
    if dialect == "opal":
        _check_opal(written, frames)
    elif dialect == "acp":
        acp_schema.check(_objects(written), frames)
    else:
        _check_family(dialect, written, frames)


# The pi family


def _check_family(dialect: str, written: bytes, frames: Sequence[Frame]) -> None:
    for frame in (*frames, *_joined_chunks(frames)):
        _check(dialect, _frame_name(dialect, frame), frame)
    accepted = _find_accepted(frames)
    of_2025 = dialect == "pi-2025" and not any(frame["type"] == "error" for frame in frames)
    for line in _objects(written):
        kind, ident = str(line.get("type")), json.dumps(line.get("id"))
        if kind in _REPLIES and dialect != "pi-2025":
            if _can_be_read(_REPLIES[kind], line):
                _check(dialect, answer_name(_REPLIES[kind]), line)
        elif (kind, ident) in accepted or (of_2025 and kind in COMMANDS_2025):
            _check(dialect, command_name(_commands(dialect)[kind]), line)


def _frame_name(dialect: str, frame: Frame) -> str:
    """The name of the definition that the frame should satisfy."""
    kind = frame.get("type")
    if kind == "response":
        if not frame.get("success"):
            return "ErrorResponse"
        command = _commands(dialect).get(frame["command"])
        assert command is not None, f"a response to {frame['command']!r}, which is not a command of {dialect}: {_format(frame)}"
        return response_name(command)
    event = _events(dialect).get(str(kind))
    assert event is not None, f"{kind!r} is not an event of {dialect}; see fairlead.wire.pi.pi_schema.events: {_format(frame)}"
    return event


def _lines(dialect: str) -> Lines:
    implementation: Any = dialect_named(dialect).load()
    return implementation.lines(dialect)


@cache
def _commands(dialect: str) -> Mapping[str, type[Command]]:
    return _lines(dialect).commands


@cache
def _events(dialect: str) -> dict[str, str]:
    return {str(event.__struct_config__.tag): event_name(event) for event in _lines(dialect).events}


def _find_accepted(frames: Iterable[Frame]) -> set[tuple[str, str]]:
    """The commands, by name and id, to which every response says that they were carried out."""
    outcomes: dict[tuple[str, str], bool] = {}
    for frame in frames:
        if frame.get("type") == "response":
            key = (frame["command"], json.dumps(frame.get("id")))
            outcomes[key] = outcomes.get(key, True) and frame["success"]
    return {key for key, carried_out in outcomes.items() if carried_out}


def _joined_chunks(frames: Iterable[Frame]) -> list[Frame]:
    """The frames that came in pieces, and whose last piece has come."""
    pieces: dict[str, list[Frame]] = {}
    for frame in frames:
        if frame.get("type") == "rpc_chunk":
            pieces.setdefault(frame["chunkId"], []).append(frame)
    whole = [chunks for chunks in pieces.values() if len(chunks) == chunks[0]["count"]]
    return [json.loads(b"".join(base64.b64decode(chunk["data"]) for chunk in chunks)) for chunks in whole]


def _can_be_read(declared: type[msgspec.Struct], line: Frame) -> bool:
    try:
        msgspec.convert(line, declared)
    except (msgspec.ValidationError, UnicodeEncodeError, RecursionError):
        return False
    return True


# Opal


def _check_opal(written: bytes, frames: Sequence[Frame]) -> None:
    lines = _objects(written)
    asked: dict[str, list[Frame]] = {}
    for line in lines:
        if "method" in line and "id" in line:
            asked.setdefault(json.dumps(line["id"]), []).append(line)
    questions: dict[str, type[Method]] = {}
    for frame in frames:
        assert frame.get("jsonrpc") == "2.0", f"not JSON-RPC 2.0: {_format(frame)}"
        ident = json.dumps(frame.get("id"))
        if frame.get("method") == NOTIFICATION:
            event = EVENTS.get(frame["params"].get("type"))
            assert event is not None, f"an event that is not declared: {_format(frame)}"
            _check("opal", json_rpc.event_name(event), frame["params"])
        elif "method" in frame:
            question = SERVER_REQUESTS.get(frame["method"])
            assert question is not None, f"a request that is not declared: {_format(frame)}"
            _check("opal", json_rpc.params_name(question), frame["params"])
            questions[ident] = question
        else:
            requests = asked.get(ident, [])
            _check_opal_response(frame, requests.pop(0) if requests else None)
    for line in lines:
        question = questions.get(json.dumps(line.get("id")))
        if question is not None and "result" in line and _can_be_read(question.result, line["result"]):
            _check("opal", json_rpc.result_name(question), line["result"])


def _check_opal_response(response: Frame, request: Frame | None) -> None:
    if "error" in response:
        code, message = response["error"].get("code"), response["error"].get("message")
        assert isinstance(code, int) and isinstance(message, str), f"an error without a code or a message: {_format(response)}"
        return
    assert request is not None, f"an answer to nothing: {_format(response)}"
    method = METHODS[request["method"]]
    _check("opal", json_rpc.result_name(method), response["result"])
    if isinstance(request.get("params"), dict):
        _check("opal", json_rpc.params_name(method), request["params"])


# Both


#: A schema is made from parsed sources, and Python 3.11 cannot parse in two threads at once ("AST ... recursion depth mismatch").
_making = threading.Lock()


@cache
def _definitions(dialect: str) -> dict[str, Any]:
    with _making:
        if dialect == "opal":
            return json_rpc.exact_definitions(closed=True)
        return dialect_named(dialect).load().schema(dialect, closed=True)["$defs"]


@cache
def _validator(dialect: str, name: str) -> jsonschema_rs.Draft202012Validator:
    definitions = _definitions(dialect)
    needed = {each: definitions[each] for each in (name, *list_mentioned([definitions[name]], definitions))}
    return jsonschema_rs.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": needed})


def _check(dialect: str, name: str, value: Any) -> None:
    validator = _validator(dialect, name)
    if validator.is_valid(value):
        return
    errors = [_innermost(error) for error in validator.iter_errors(value)]
    what = "\n".join(f"  at /{'/'.join(map(str, error.instance_path))}: {error.message[:300]}" for error in errors)
    raise AssertionError(
        f"not as published for {dialect}: {name}\n{what}\n"
        f"Declarations are in src/fairlead/protocol; the content of fields that are passed on, in fairlead.wire.pi.pi_schema.\n"
        f"{_format(value)}"
    )


def _innermost(error: jsonschema_rs.ValidationError) -> jsonschema_rs.ValidationError:
    """What is wrong with the member of a union that was meant: the one whose tag fits."""
    for branch in getattr(error.kind, "context", ()):
        if branch and not any(isinstance(each.kind, jsonschema_rs.ValidationErrorKind.Constant) for each in branch):
            return _innermost(branch[0])
    return error


def _objects(written: bytes) -> list[Frame]:
    """The lines that are JSON objects."""
    found: list[Frame] = []
    for line in written.split(b"\n"):
        if len(line) > TOO_LONG:
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if is_object(value):
            found.append(value)
    return found


def _read(line: bytes) -> Frame:
    try:
        return msgspec.json.decode(line)
    except msgspec.ValidationError:  # an id that is a number of more than 64 bits
        return json.loads(line)


def _format(value: Any) -> str:
    return json.dumps(value)[:1000]
