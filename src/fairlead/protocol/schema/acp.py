"""ACP as a JSON Schema: its requests and notifications by name, and a definition for each type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from fairlead.protocol.acp import content, elicitation, initialization, sessions
from fairlead.protocol.acp.catalog import AGENT_NOTIFICATIONS, AGENT_REQUESTS, CLIENT_NOTIFICATIONS, CLIENT_REQUESTS
from fairlead.protocol.acp.content import Request
from fairlead.protocol.schema.builder import Refinements, Schema, SchemaBuilder, prose

_ABOUT_ACP = (
    "The Agent Client Protocol, version 1, as lines of JSON-RPC 2.0. `agent_requests` and `agent_notifications` are what a "
    "client sends, `client_requests` and `client_notifications` what fairlead sends. Optional fields of what a client sends "
    "may be null."
)

_SERVERS = [(sessions.McpServerHttp, sessions.McpServerSse, sessions.McpServerStdio)]

#: Unions that msgspec cannot decode, because their members have no tag or only some of them have one.
REFINEMENTS: Refinements = {
    (content.EmbeddedResource, "resource"): (content.TextResourceContents, content.BlobResourceContents),
    (initialization.InitializeResponse, "auth_methods"): [(initialization.AuthMethodTerminal, initialization.AuthMethodAgent)],
    (sessions.NewSessionRequest, "mcp_servers"): _SERVERS,
    (sessions.LoadSessionRequest, "mcp_servers"): _SERVERS,
    (sessions.ResumeSessionRequest, "mcp_servers"): _SERVERS,
    (sessions.SessionConfigSelect, "options"): [(sessions.SessionConfigSelectOption, sessions.SessionConfigSelectGroup)],
    (elicitation.MultiSelectPropertySchema, "items"): (
        elicitation.StringMultiSelectItems,
        elicitation.TitledMultiSelectItems,
    ),
}


def acp_schema(*, closed: bool = False) -> Schema:
    """Return the schema that `fairlead schema --dialect acp` prints. With `closed`, it rejects undeclared fields."""
    builder = _builder(closed=closed)
    requests = {name: _request(builder, declared) for name, declared in AGENT_REQUESTS.items()}
    notifications = {name: builder.of(declared) for name, declared in AGENT_NOTIFICATIONS.items()}
    answers = {name: builder.of(declared[0].result) for name, declared in CLIENT_REQUESTS.items()}
    builder.accepting = False
    for name, declared in AGENT_REQUESTS.items():
        requests[name]["result"] = builder.of(declared.result)
    to_client = {
        name: {"description": prose(declared[0]), "params": builder.of(_one_of(declared)), "result": answers[name]}
        for name, declared in CLIENT_REQUESTS.items()
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Agent Client Protocol",
        "description": _ABOUT_ACP,
        "version": content.PROTOCOL_VERSION,
        "agent_requests": requests,
        "agent_notifications": notifications,
        "client_requests": to_client,
        "client_notifications": {name: builder.of(declared) for name, declared in CLIENT_NOTIFICATIONS.items()},
        "$defs": dict(sorted(builder.definitions.items())),
    }


def acp_definitions() -> dict[str, Schema]:
    """Return the definitions of all types."""
    return acp_schema()["$defs"]


def _builder(*, closed: bool) -> SchemaBuilder:
    unions = {
        "ContentBlock": content.ContentBlock,
        "SessionConfigOption": sessions.SessionConfigOption,
        "ElicitationPropertySchema": elicitation.ElicitationPropertySchema,
    }
    return SchemaBuilder(REFINEMENTS, unions, closed=closed)


def _request(builder: SchemaBuilder, declared: type[Struct]) -> dict[str, Any]:
    return {"description": prose(declared), "params": builder.of(declared)}


def _one_of(declared: Sequence[type[Struct]]) -> Any:
    return declared[0] if len(declared) == 1 else tuple(declared)


def table_rows(requests: Mapping[str, type[Request] | tuple[type[Request], ...]]) -> dict[str, str]:
    """Return the TypeScript types of the params and the result of each request, by its name."""
    rows: dict[str, str] = {}
    for name, declared in requests.items():
        members = declared if isinstance(declared, tuple) else (declared,)
        params = " | ".join(member.__name__ for member in members)
        rows[name] = f"{{ params: {params}; result: {members[0].result.__name__} }}"
    return rows
