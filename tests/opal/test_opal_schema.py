"""Opal's protocol as published here is the one that Opal publishes, and every example of it is valid."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from tests.support.json_values import is_array, is_object

from fairlead.protocol.opal.opal_events import EVENTS, SERVER_REQUESTS, MessageDelta, SubAgentStart, inner
from fairlead.protocol.opal.opal_examples import EVENT_EXAMPLES, METHOD_EXAMPLES, SERVER_REQUEST_EXAMPLES
from fairlead.protocol.opal.opal_methods import METHODS
from fairlead.protocol.schema.json_rpc import event_name, exact_definitions, opal_schema, params_name, result_name
from fairlead.wire.opal.opal_codec import decode

PUBLISHED = Path(__file__).resolve().parents[1] / "golden" / "opal" / "rpc_schema.json"

#: Keys whose values have names of the protocol as keys, rather than keywords.
NAMES = {"properties", "methods", "server_requests", "events"}

#: Everything in which the two differ.
ADDITIONS = {
    "definitions.examples",
    "definitions.inner_events",
    "definitions.types",
    "definitions.methods.agent/resume",
    "definitions.methods.auth/set_key",
    "definitions.methods.agent/state.result.properties.token_usage",
    "definitions.methods.auth/status.result.properties.auth.properties.providers",
    "definitions.methods.session/start.result.properties.auth.properties.providers",
    "definitions.methods.session/start.params.properties.tools",
    "definitions.methods.session/start.params.properties.features.required",
    "definitions.methods.opal/config/set.params.properties.features.required",
    *(f"definitions.server_requests.client/confirm.params.properties.{name}" for name in ("tool", "call_id", "args", "diff")),
    "definitions.server_requests.client/confirm.result.properties.reason",
}


def differences(ours: Any, theirs: Any, place: str = "", *, names: bool = True) -> Iterator[str]:
    if not is_object(ours) or not is_object(theirs):
        if ours != theirs:
            yield place
        return
    for key in ours.keys() | theirs.keys():
        if key == "description" and not names:
            continue
        inside = f"{place}.{key}" if place else key
        if key not in ours or key not in theirs:
            yield inside
        elif key == "required" and not names:
            if set(ours[key]) != set(theirs[key]):
                yield inside
        else:
            yield from differences(ours[key], theirs[key], inside, names=key in NAMES)


def test_the_schema_is_opals_but_for_the_additions() -> None:
    ours, theirs = opal_schema(), json.loads(PUBLISHED.read_text())
    assert set(differences(ours, theirs, names=False)) == ADDITIONS


def test_everything_has_a_description_of_its_own() -> None:
    definitions = opal_schema()["definitions"]
    for group in ("methods", "server_requests", "events"):
        told = [each["description"] for each in definitions[group].values()]
        assert all(told), group
        assert len(set(told)) == len(told), group


def test_nothing_refers_to_anything_else() -> None:
    assert "$ref" not in json.dumps(opal_schema())


def test_every_method_request_and_event_has_an_example() -> None:
    assert set(METHOD_EXAMPLES) == set(METHODS)
    assert set(SERVER_REQUEST_EXAMPLES) == set(SERVER_REQUESTS)
    assert set(EVENT_EXAMPLES) == set(EVENTS)


@pytest.mark.parametrize("closed", [False, True])
def test_every_example_is_valid(closed: bool) -> None:
    plain = opal_schema()["definitions"]
    exact = exact_definitions(closed=closed)

    def valid(name: str, plainly: Any, value: Any) -> None:
        jsonschema_rs.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": exact}).validate(value)
        jsonschema_rs.Draft7Validator(_with_nulls(plainly)).validate(value)

    for group, declared, examples in (
        ("methods", METHODS, METHOD_EXAMPLES),
        ("server_requests", SERVER_REQUESTS, SERVER_REQUEST_EXAMPLES),
    ):
        for name, each in declared.items():
            valid(params_name(each), plain[group][name]["params"], examples[name]["params"])
            valid(result_name(each), plain[group][name]["result"], examples[name]["result"])
    for name, event in EVENTS.items():
        valid(event_name(event), plain["events"][name], EVENT_EXAMPLES[name])


def _with_nulls(schema: Any) -> Any:
    """The schema in standard keywords: Opal says `nullable` of what may be null."""
    if is_array(schema):
        return [_with_nulls(each) for each in schema]
    if not is_object(schema):
        return schema
    changed = {key: _with_nulls(value) for key, value in schema.items() if key != "nullable"}
    return {"anyOf": [changed, {"type": "null"}]} if schema.get("nullable") is True else changed


def test_every_example_can_be_read() -> None:
    for name, declared in METHODS.items():
        assert isinstance(decode(declared, METHOD_EXAMPLES[name]["params"]), declared)
        msgspec.convert(METHOD_EXAMPLES[name]["result"], declared.result)
    for name, declared in SERVER_REQUESTS.items():
        msgspec.convert(SERVER_REQUEST_EXAMPLES[name]["params"], declared)
        msgspec.convert(SERVER_REQUEST_EXAMPLES[name]["result"], declared.result)
    for name, event in EVENTS.items():
        msgspec.convert(EVENT_EXAMPLES[name], event)


def test_an_event_of_a_sub_agent_has_no_session_of_its_own() -> None:
    assert inner(MessageDelta("s", "hi")) == {"type": "message_delta", "delta": "hi"}
    assert inner(SubAgentStart("m", "look", ["grep"]))["type"] == "sub_agent_start"
