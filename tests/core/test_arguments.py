"""Arguments that almost fit a tool are changed so that they do; what cannot fit is named."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from fairlead.core.calls.arguments import fit_arguments, problems


def schema(required: tuple[str, ...] = (), /, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


NUMBER, INTEGER, STRING, BOOLEAN = ({"type": name} for name in ("number", "integer", "string", "boolean"))
EDIT = schema(old=STRING)
OPTIONAL = {"anyOf": [STRING, {"type": "null"}]}


@pytest.mark.parametrize(
    ("declared", "sent", "used"),
    [
        (NUMBER, "5", 5),
        (NUMBER, "0.25", 0.25),
        (INTEGER, "5", 5),
        (INTEGER, "5.0", 5),
        (INTEGER, 5.0, 5.0),
        (STRING, 5, "5"),
        (STRING, 2.5, "2.5"),
        (STRING, True, "true"),
        (BOOLEAN, "true", True),
        (BOOLEAN, 0, False),
        ({"type": "array", "items": STRING}, "one", ["one"]),
        ({"type": "array", "items": STRING}, 5, ["5"]),
        ({"type": "array", "items": EDIT}, {"old": 1}, [{"old": "1"}]),
        (EDIT, {"old": 1}, {"old": "1"}),
        (OPTIONAL, None, None),
        (OPTIONAL, 5, "5"),
        ({"type": ["integer", "string"]}, "5", "5"),
    ],
)
def test_a_value_becomes_what_the_schema_declares(declared: dict[str, Any], sent: Any, used: Any) -> None:
    assert fit_arguments(schema(value=declared), {"value": sent}) == {"value": used}


@pytest.mark.parametrize(
    ("declared", "sent"),
    [
        (NUMBER, "soon"),
        (NUMBER, "1e999"),
        (NUMBER, ["5"]),
        (INTEGER, "5.5"),
        (STRING, ["a", "b"]),
        (STRING, {"a": 1}),
        (BOOLEAN, "yes"),
        (EDIT, "text"),
    ],
)
def test_ambiguous_arguments_are_not_repaired(declared: dict[str, Any], sent: Any) -> None:
    assert fit_arguments(schema(value=declared), {"value": sent}) == {"value": sent}


def test_null_leaves_out_an_optional_field_alone() -> None:
    assert fit_arguments(schema(("a",), a=STRING, b=STRING), {"a": None, "b": None}) == {"a": None}


def test_unknown_fields_stay() -> None:
    assert fit_arguments(schema(a=STRING), {"a": "x", "more": None}) == {"a": "x", "more": None}


def test_references_inside_the_schema_are_followed() -> None:
    refers = {**schema(edits={"type": "array", "items": {"$ref": "#/$defs/Edit"}}), "$defs": {"Edit": EDIT}}
    assert fit_arguments(refers, {"edits": [{"old": 1}]}) == {"edits": [{"old": "1"}]}


def test_a_schema_that_refers_to_itself_ends() -> None:
    loop = {**schema(a={"$ref": "#/$defs/A"}), "$defs": {"A": {"$ref": "#/$defs/A"}}}
    assert fit_arguments(loop, {"a": "x"}) == {"a": "x"}


def test_the_arguments_of_the_model_are_not_changed() -> None:
    sent = {"edits": [{"old": 1}]}
    fit_arguments(schema(edits={"type": "array", "items": EDIT}), sent)
    assert sent == {"edits": [{"old": 1}]}


def test_problems_are_named_in_the_words_of_pi() -> None:
    declared = schema(
        ("command",), command=STRING, timeout=NUMBER, edits={"type": "array", "items": schema(("old",), old=STRING)}
    )
    arguments: dict[str, Any] = {"timeout": "soon", "edits": [{}]}
    found = problems(jsonschema_rs.validator_for(declared), declared, arguments)
    assert sorted(found) == ["command: missing", "edits.0.old: missing", "timeout: expected number, got string"]
