"""Two protocols on JSON-RPC as JSON Schemas: ACP, and that of Opal.

That of ACP has its requests and notifications by name, and a definition for each type. That of Opal is in the layout that Opal
publishes: draft-07, without references.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec import inspect as types

from fairlead.protocol.acp import acp_sessions, content, elicitation, initialization
from fairlead.protocol.acp.acp_catalog import AGENT_NOTIFICATIONS, AGENT_REQUESTS, CLIENT_NOTIFICATIONS, CLIENT_REQUESTS
from fairlead.protocol.acp.content import Request
from fairlead.protocol.opal.opal_events import EVENTS, NOTIFICATION, SERVER_REQUESTS, Event, SubAgentEvent, SubAgentStart
from fairlead.protocol.opal.opal_examples import EVENT_EXAMPLES, METHOD_EXAMPLES, SERVER_REQUEST_EXAMPLES
from fairlead.protocol.opal.opal_methods import METHODS
from fairlead.protocol.opal.opal_objects import PROTOCOL_VERSION, Method
from fairlead.protocol.schema.builder import Refinements, Schema, SchemaBuilder, marks, prose, reference

_ABOUT_OPAL = (
    "Lines of JSON-RPC 2.0. `methods` are the requests of a client, `server_requests` those of the server, `events` the "
    "params of the notification. `inner_events` occur only inside `sub_agent_event`, as do the other events. `types` describes "
    "objects that the rest calls just `object`. Optional params may be null."
)


def opal_schema() -> Schema:
    """The schema that `fairlead schema --dialect opal` prints."""
    inline = _Inline()
    definitions = {
        "methods": {name: inline.request(declared) for name, declared in sorted(METHODS.items())},
        "server_requests": {name: inline.request(declared) for name, declared in sorted(SERVER_REQUESTS.items())},
        "events": {name: inline.body(declared) for name, declared in sorted(EVENTS.items())},
        "inner_events": {"sub_agent_start": inline.body(SubAgentStart)},
        "notification_method": NOTIFICATION,
    }
    definitions["types"] = inline.open_types()
    definitions["examples"] = {
        "methods": METHOD_EXAMPLES,
        "server_requests": SERVER_REQUEST_EXAMPLES,
        "events": EVENT_EXAMPLES,
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Opal RPC Protocol",
        "description": _ABOUT_OPAL,
        "version": PROTOCOL_VERSION,
        "definitions": definitions,
    }


def exact_definitions(*, closed: bool = False) -> dict[str, Schema]:
    """The params and the result of every request, and every event, under names that are valid for types.

    Unlike Opal's layout, these definitions are exact. `closed` works as in `SchemaBuilder`.
    """
    builder = SchemaBuilder({(SubAgentEvent, "inner"): reference("InnerEvent")}, closed=closed)
    parts = {params_name(each): builder.body(each) for each in METHODS.values()}
    parts |= {result_name(each): builder.body(each.result) for each in SERVER_REQUESTS.values()}
    builder.accepting = False
    parts |= {result_name(each): builder.body(each.result) for each in METHODS.values()}
    parts |= {params_name(each): builder.body(each) for each in SERVER_REQUESTS.values()}
    events = {event_name(each): builder.body(each) for each in EVENTS.values()}
    inner = {"Inner" + event_name(each): builder.body(each, leave_out=["session_id"]) for each in EVENTS.values()}
    inner["SubAgentStart"] = builder.body(SubAgentStart)
    unions = {
        name: {"anyOf": [reference(member) for member in members]} for name, members in (("Event", events), ("InnerEvent", inner))
    }
    return parts | events | inner | unions | dict(sorted(builder.definitions.items()))


def params_name(declared: type[Method]) -> str:
    return f"{declared.__name__}Params"


def result_name(declared: type[Method]) -> str:
    return f"{declared.__name__}Result"


def event_name(declared: type[Event]) -> str:
    return f"{declared.__name__.removesuffix('Event')}Event"


class _Inline(SchemaBuilder):
    """Builds schemas without references, as loose as Opal's: an enumeration is a string, `nullable` marks what may be null."""

    def __init__(self) -> None:
        super().__init__()
        self.accepting = False
        self._open: dict[str, type[Struct]] = {}
        self._plain = True

    def request(self, declared: type[Method]) -> Schema:
        params, result = self.body(declared), self.body(declared.result)
        for part in (params, result):
            part.pop("description", None)
        return {"description": prose(declared), "params": params, "result": result}

    def open_types(self) -> dict[str, Schema]:
        """The objects that occur as `object` without fields."""
        self._plain = False
        return {name: self.body(declared) for name, declared in sorted(self._open.items())}

    def _is_required(self, declared: type[Struct], field: types.Field, given: Any) -> bool:
        return "demanded" in marks(field.type) or super()._is_required(declared, field, given)

    def _add_marks(self, info: types.Type, marks: Collection[str]) -> Schema:
        if "open" in marks and isinstance(info, types.StructType):
            self._open[info.cls.__name__] = info.cls
            return {"type": "object", "description": f"See `types`: {info.cls.__name__}."}
        if "demanded" in marks and isinstance(info, types.UnionType):
            return self._union([member for member in info.types if not isinstance(member, types.NoneType)])
        return super()._add_marks(info, marks)

    def _struct(self, declared: type[Struct]) -> Schema:
        return self.body(declared)

    def _union(self, members: Sequence[types.Type]) -> Schema:
        given = [member for member in members if not isinstance(member, types.NoneType)]
        schema = super()._union(given)
        return schema if len(given) == len(members) else {**schema, "nullable": True}

    def _literal(self, values: Sequence[Any]) -> Schema:
        return {"type": "string"} if self._plain else super()._literal(values)


_ABOUT_ACP = (
    "The Agent Client Protocol, version 1, as lines of JSON-RPC 2.0. `agent_requests` and `agent_notifications` are what a "
    "client sends, `client_requests` and `client_notifications` what fairlead sends. Optional fields of what a client sends "
    "may be null."
)

_SERVERS = [(acp_sessions.McpServerHttp, acp_sessions.McpServerSse, acp_sessions.McpServerStdio)]

#: Unions that msgspec cannot decode, because their members have no tag or only some of them have one.
REFINEMENTS: Refinements = {
    (content.EmbeddedResource, "resource"): (content.TextResourceContents, content.BlobResourceContents),
    (initialization.InitializeResponse, "auth_methods"): [(initialization.AuthMethodTerminal, initialization.AuthMethodAgent)],
    (acp_sessions.NewSessionRequest, "mcp_servers"): _SERVERS,
    (acp_sessions.LoadSessionRequest, "mcp_servers"): _SERVERS,
    (acp_sessions.ResumeSessionRequest, "mcp_servers"): _SERVERS,
    (acp_sessions.SessionConfigSelect, "options"): [
        (acp_sessions.SessionConfigSelectOption, acp_sessions.SessionConfigSelectGroup)
    ],
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
        "SessionConfigOption": acp_sessions.SessionConfigOption,
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
