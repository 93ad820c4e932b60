"""The published schemas of the pi family: complete, meaningful, and each with an example that can be read."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from fairlead.protocol.pi.frames import Response
from fairlead.protocol.pi.host_requests import REPLIES, UI_REQUEST_FIELDS, ExtensionUiRequest
from fairlead.protocol.pi.pi_examples import COMMAND_EXAMPLES, EXAMPLES_2025, LINE_EXAMPLES
from fairlead.protocol.schema.builder import Schema
from fairlead.protocol.schema.family import Lines, answer_name, command_name, event_name, response_name
from fairlead.wire.dialects import dialect_named
from fairlead.wire.pi.pi_schema import COMMANDS, FRAMES
from fairlead.wire.pi.profile import PROFILES

DIALECTS = list(PROFILES)
FAMILY = [name for name in PROFILES if name != "pi-2025"]


def schema(dialect: str, *, closed: bool = False) -> Schema:
    return dialect_named(dialect).load().schema(dialect, closed=closed)


def lines(dialect: str) -> Lines:
    implementation: Any = dialect_named(dialect).load()
    return implementation.lines(dialect)


def tag(declared: Any) -> str:
    return str(declared.__struct_config__.tag)


def read(example: Any, declared: Any) -> None:
    msgspec.json.decode(json.dumps(example), type=declared)


@cache
def validator(dialect: str, name: str | None = None) -> jsonschema_rs.Draft202012Validator:
    """Of all lines of a dialect, or of those that one definition is about."""
    document = schema(dialect)
    return jsonschema_rs.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": document["$defs"]} if name else document)


def test_every_command_has_an_example() -> None:
    assert set(COMMAND_EXAMPLES) == set(COMMANDS), "add an example to fairlead.protocol.pi.pi_examples"


def test_every_event_and_every_answer_has_an_example() -> None:
    declared = {tag(each) for each in (*FRAMES, *REPLIES) if each is not Response}
    assert set(LINE_EXAMPLES) == declared, "add an example to fairlead.protocol.pi.pi_examples"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_command_response_event_and_answer_is_defined(dialect: str) -> None:
    spoken = lines(dialect)
    expected = [command_name(each) for each in spoken.commands.values()] + [event_name(each) for each in spoken.events]
    expected += [answer_name(each) for each in spoken.answers]
    if spoken.responses:
        expected += [response_name(each) for each in spoken.commands.values()] + ["ErrorResponse"]
    defined = schema(dialect)["$defs"]
    assert {name for name, each in defined.items() if "examples" in each} == set(expected)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_schema_is_one_and_every_example_satisfies_it_to_the_last_field(dialect: str) -> None:
    document = schema(dialect, closed=True)
    jsonschema_rs.meta.validate(document)
    whole = jsonschema_rs.Draft202012Validator(document)
    for name, defined in document["$defs"].items():
        for example in defined.get("examples", ()):
            one = jsonschema_rs.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": document["$defs"]})
            one.validate(example)
            assert whole.is_valid(example), name


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_example_can_be_read(dialect: str) -> None:
    spoken = lines(dialect)
    defined = schema(dialect)["$defs"]
    for name, command in spoken.commands.items():
        read(defined[command_name(command)]["examples"][0], command)
        if spoken.responses and command.result is not None:
            read(defined[response_name(command)]["examples"][0]["data"], command.result)
        assert defined[command_name(command)]["examples"][0]["type"] == name
    for event in spoken.events:
        read(defined[event_name(event)]["examples"][0], event)
    for answer in spoken.answers:
        read(defined[answer_name(answer)]["examples"][0], answer)


def test_the_fields_of_a_ui_request_depend_on_its_method() -> None:
    words = {word.rstrip("?") for fields in UI_REQUEST_FIELDS.values() for word in fields.split()}
    assert words | {"id", "method"} == set(ExtensionUiRequest.__struct_fields__), "say in UI_REQUEST_FIELDS which methods have it"
    request = {"type": "extension_ui_request", "id": "1"}
    event = validator("pi", "ExtensionUiRequestEvent")
    assert event.is_valid(request | {"method": "select", "title": "Which?", "options": ["a"]})
    assert not event.is_valid(request | {"method": "select", "title": "Which?"})
    assert not event.is_valid(request | {"method": "confirm", "title": "Sure?", "options": ["a"]})


def test_members_of_the_family_differ_in_their_events() -> None:
    sent = {name: {tag(event) for event in lines(name).events} for name in PROFILES}
    assert "ready" not in sent["pi"]
    assert {"ready", "prompt_result", "auto_compaction_end"} <= sent["omp"]
    assert not sent["omp"] & {"queue_update", "compaction_end", "response"}
    assert "prompt_result" not in sent["xcsh"]
    assert sent["pi-2025"] >= set(EXAMPLES_2025)
    assert "agent_settled" not in sent["pi-2025"]


LINES: list[tuple[Any, bool]] = [
    ({"type": "prompt", "message": "hi"}, True),
    ({"type": "prompt", "message": "hi", "id": {"any": ["json"]}, "images": None, "later": 1}, True),
    ({"type": "prompt"}, False),
    ({"type": "prompt", "message": 5}, False),
    ({"type": "set_thinking_level", "level": "deep"}, False),
    ({"type": "set_todos", "phases": [{"name": "Work", "tasks": [{"content": "x"}]}]}, True),
    ({"type": "set_todos", "phases": [{"name": "Work", "tasks": [{}]}]}, False),
    ({"type": "nonsense"}, False),
    ({"type": "response", "command": "get_state", "success": True}, False),
    ({"type": "response", "command": "fork", "success": False, "error": "no"}, True),
    ({"type": "response", "command": "fork", "success": False}, False),
    ({"type": "message_end", "message": {"role": "assistant"}}, False),
    ({"type": "subagent_event", "payload": {"id": "a", "event": {"type": "turn_start"}}}, True),
    ({"type": "subagent_event", "payload": {"id": "a", "event": {"type": "turned"}}}, False),
]


@pytest.mark.parametrize("dialect", FAMILY)
@pytest.mark.parametrize(("line", "valid"), LINES)
def test_lines_are_distinguished_by_type(dialect: str, line: dict[str, Any], valid: bool) -> None:
    assert validator(dialect).is_valid(line) is valid


def test_absent_fields_are_not_sent_as_null() -> None:
    message = LINE_EXAMPLES["message_end"]["message"]
    ends = validator("pi", "MessageEndEvent")
    assert ends.is_valid({"type": "message_end", "message": message})
    assert not ends.is_valid({"type": "message_end", "message": {**message, "errorMessage": None}})


def test_the_schema_describes_messages_models_and_usage() -> None:
    defined = schema("pi")["$defs"]
    assert {each["$ref"] for each in defined["Message"]["anyOf"]} >= {"#/$defs/AssistantMessage", "#/$defs/UserMessage"}
    assert defined["SetModelResponse"]["properties"]["data"] == {"$ref": "#/$defs/Model"}
    assert defined["Usage"]["properties"]["input"] == {"type": "integer"}
    assert "totalTokens" in defined["Usage"]["required"]
    assert defined["RpcSessionState"]["properties"]["todoPhases"]["items"] == {"$ref": "#/$defs/TodoPhase"}
