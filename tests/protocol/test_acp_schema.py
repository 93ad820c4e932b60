"""The declarations of ACP against the official schema: the same methods, objects, fields and values."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from msgspec import UNSET
from tests.support.acp_schema import official

from fairlead.protocol.acp import acp_catalog, acp_sessions, content, elicitation, initialization, updates
from fairlead.protocol.acp.acp_catalog import AGENT_NOTIFICATIONS, AGENT_REQUESTS, CLIENT_NOTIFICATIONS, CLIENT_REQUESTS

MODULES = (content, initialization, acp_sessions, updates, updates, elicitation, acp_catalog)
DECLARED: dict[str, type[msgspec.Struct]] = {
    name: each
    for module in MODULES
    for name, each in vars(module).items()
    if isinstance(each, type) and issubclass(each, msgspec.Struct)
}
#: Official objects that are part of others here, or that fairlead declares under several names.
ELSEWHERE = {
    "ContentChunk": ("UserMessageChunk", "AgentMessageChunk", "AgentThoughtChunk"),
    "CreateElicitationRequest": ("ElicitationForm", "ElicitationUrl"),
    "ElicitationFormMode": ("ElicitationForm",),
    "ElicitationUrlMode": ("ElicitationUrl",),
    "ElicitationAcceptAction": ("CreateElicitationResponse",),
    "SessionConfigOption": ("SessionConfigSelect", "SessionConfigBoolean"),
}
#: Official objects that are not declared: messages of JSON-RPC itself, and alternatives that are fields of others.
UNDECLARED = {
    "AgentRequest",
    "AgentNotification",
    "ClientRequest",
    "ClientNotification",
    "Error",
    "ElicitationSessionScope",
    "ElicitationRequestScope",
}


def objects() -> list[str]:
    return [name for name, each in official().items() if each.get("type") == "object" and name not in UNDECLARED]


@pytest.mark.parametrize("name", objects())
def test_an_object_has_the_official_fields(name: str) -> None:
    each = official()[name]
    wanted, required = set(each.get("properties", {})), set(each.get("required", ()))
    for found in ELSEWHERE.get(name, (name,)):
        declared = DECLARED[found]
        fields = {field.encode_name: field for field in msgspec.structs.fields(declared)}
        assert wanted <= fields.keys() | {declared.__struct_config__.tag_field}, f"{found} lacks {wanted - fields.keys()}"
        for field in wanted & fields.keys():
            assert fields[field].required == (field in required), f"{found}.{field}"
        if found == name and name not in ("SetSessionConfigOptionRequest", "CreateElicitationResponse"):
            extra = fields.keys() - wanted - {"id", "name", "description", "category", "_meta"}
            assert not extra or name.startswith("SessionConfig"), f"{name} has {extra}, which is not official"


def test_every_declared_object_is_official() -> None:
    known = {*objects(), *(name for names in ELSEWHERE.values() for name in names), *official()}
    ours = {"Object", "Request", "Notification", "Struct", "ToolCallChanged", "CancelledPermission"}
    assert DECLARED.keys() - known - ours == set()


def test_the_methods_are_the_official_ones() -> None:
    wanted: dict[tuple[str, str], set[str]] = {}
    for name, each in official().items():
        if "x-method" in each:
            kind = "Notification" if name.endswith("Notification") else "Request"
            wanted.setdefault((each["x-side"], kind), set()).add(each["x-method"])
    both = wanted.pop(("protocol", "Notification"))
    assert set(AGENT_REQUESTS) == wanted["agent", "Request"]
    assert set(AGENT_NOTIFICATIONS) == wanted["agent", "Notification"] | both
    assert set(CLIENT_REQUESTS) == wanted["client", "Request"]
    assert set(CLIENT_NOTIFICATIONS) == wanted["client", "Notification"] | both


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("StopReason", acp_sessions.StopReason),
        ("ToolKind", updates.ToolKind),
        ("ToolCallStatus", updates.ToolCallStatus),
        ("PermissionOptionKind", updates.PermissionOptionKind),
        ("PlanEntryPriority", updates.PlanEntryPriority),
        ("PlanEntryStatus", updates.PlanEntryStatus),
        ("StringFormat", elicitation.StringFormat),
        ("Role", content.Role),
    ],
)
def test_the_values_are_the_official_ones(name: str, values: Any) -> None:
    alternatives = official()[name].get("oneOf") or official()[name].get("anyOf")
    assert {each["const"] for each in alternatives if "const" in each} == set(get_args(values))


@pytest.mark.parametrize(
    ("name", "union", "field"),
    [
        ("ContentBlock", content.ContentBlock, "type"),
        ("ToolCallContent", updates.ToolCallContent, "type"),
        ("SessionUpdate", updates.SessionUpdate, "sessionUpdate"),
        ("RequestPermissionOutcome", updates.RequestPermissionOutcome, "outcome"),
        ("SessionConfigOption", acp_sessions.SessionConfigOption, "type"),
        ("ElicitationPropertySchema", elicitation.ElicitationPropertySchema, "type"),
        ("CreateElicitationRequest", elicitation.CreateElicitationRequest, "mode"),
    ],
)
def test_the_members_of_a_union_have_the_official_tags(name: str, union: Any, field: str) -> None:
    alternatives = official()[name].get("oneOf") or official()[name].get("anyOf")
    wanted = {each["properties"][field].get("const", UNSET) for each in alternatives if field in each.get("properties", {})}
    found = {member.__struct_config__.tag for member in get_args(union)}
    assert found == wanted - {UNSET}


def test_every_declaration_can_be_decoded() -> None:
    requests = [*AGENT_REQUESTS.values(), *(each for some in CLIENT_REQUESTS.values() for each in some)]
    for declared in (*requests, *AGENT_NOTIFICATIONS.values(), *CLIENT_NOTIFICATIONS.values()):
        msgspec.json.Decoder(declared)
    for declared in requests:
        msgspec.json.Decoder(declared.result)
