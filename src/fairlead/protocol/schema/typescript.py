"""The definitions of a JSON Schema as TypeScript types, under the names that the wire has."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from textwrap import wrap
from types import UnionType
from typing import Any, get_args, get_origin

from fairlead.protocol.acp.acp_catalog import AGENT_NOTIFICATIONS, AGENT_REQUESTS, CLIENT_NOTIFICATIONS, CLIENT_REQUESTS
from fairlead.protocol.http.fleet import FLEET_OPERATIONS
from fairlead.protocol.http.operations import OPERATIONS
from fairlead.protocol.opal.opal_events import NOTIFICATION, SERVER_REQUESTS
from fairlead.protocol.opal.opal_methods import METHODS
from fairlead.protocol.opal.opal_objects import Method
from fairlead.protocol.schema.builder import Schema
from fairlead.protocol.schema.claude import claude_schema
from fairlead.protocol.schema.claude import table_rows as claude_rows
from fairlead.protocol.schema.family import Lines, command_name, family_schema, response_name
from fairlead.protocol.schema.json_rpc import acp_definitions, exact_definitions, params_name, result_name, table_rows
from fairlead.protocol.schema.openapi import openapi_document

WIDTH = 110
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_WORDS = {"string": "string", "boolean": "boolean", "integer": "number", "number": "number", "null": "null"}


def family_types(title: str, lines: Lines) -> str:
    """The types of one dialect of the pi family: each command, response, event and reply, and their unions."""
    definitions: dict[str, Schema] = family_schema(title, lines)["$defs"]
    parts = [f"// {title}.", *(_definition(name, schema) for name, schema in definitions.items())]
    if lines.responses:
        rows = {
            name: f"{{ command: {command_name(each)}; response: {response_name(each)} }}" for name, each in lines.commands.items()
        }
        parts.append(_table("Commands", "The command and its successful response, by the name of the command.", rows))
    return "\n".join(parts)


def opal_types(title: str) -> str:
    """The types of Opal's protocol: params and result of each method and of each request to the client, and each event."""
    parts = [f"// {title}.", *(_definition(name, schema) for name, schema in exact_definitions().items())]
    parts.append(_requests("Methods", "The requests of a client.", METHODS))
    parts.append(_requests("ServerRequests", "The requests of the server.", SERVER_REQUESTS))
    notification = {"jsonrpc": '"2.0"', "method": json.dumps(NOTIFICATION), "params": "Event"}
    parts.append(_table("Notification", "The notification that carries an event.", notification))
    parts += _upstream_names([*METHODS, *SERVER_REQUESTS])
    return "\n".join(parts)


def acp_types(title: str) -> str:
    """The types of ACP: each object, and the params and results of all requests by their names."""

    def map_names(notifications: Mapping[str, type]) -> dict[str, str]:
        return {name: declared.__name__ for name, declared in notifications.items()}

    return "\n".join(
        [
            f"// {title}.",
            *(_definition(name, schema) for name, schema in acp_definitions().items()),
            _table("AgentRequests", "The requests of a client.", table_rows(AGENT_REQUESTS)),
            _table("AgentNotifications", "The notifications of a client.", map_names(AGENT_NOTIFICATIONS)),
            _table("ClientRequests", "The requests of the agent.", table_rows(CLIENT_REQUESTS)),
            _table("ClientNotifications", "The notifications of the agent.", map_names(CLIENT_NOTIFICATIONS)),
        ]
    )


def claude_types(title: str) -> str:
    """The types of the claude protocol: each line, control request, result and frame, and the requests by their names."""
    definitions: dict[str, Schema] = claude_schema()["$defs"]
    parts = [f"// {title}.", *(_definition(name, schema) for name, schema in definitions.items())]
    return "\n".join([*parts, _table("HostRequests", "The control requests of a host.", claude_rows())])


def http_types(title: str) -> str:
    """The types of the HTTP interface: each body, result and event, and the params and the result of each operation."""
    definitions: dict[str, Schema] = openapi_document("", FLEET_OPERATIONS)["components"]["schemas"]
    event = definitions["ServeEvent"]
    definitions["ServeEvent"] = {"description": event["description"], "anyOf": event["oneOf"]}
    rows: dict[str, str] = {}
    for each in (*OPERATIONS, *FLEET_OPERATIONS):
        query = [f"{_key(one.name)}?: {_WORDS[one.type]}" for one in each.parameters if one.place == "query"]
        params = f"{{ {'; '.join(query)} }}" if query else "Record<string, never>"
        if each.body is not None:
            params = _http_name(each.body, definitions)
        result = "void" if each.content in ("application/json", "text/event-stream") else "string"
        if each.result is not None:
            result = _http_name(each.result, definitions)
        rows[each.name] = f"{{ params: {params}; result: {result} }}"
    return "\n".join(
        [
            f"// {title}.",
            *(_definition(name, schema) for name, schema in definitions.items()),
            _table("Operations", "The params and the result of each operation, by its name.", rows),
        ]
    )


def _http_name(declared: Any, definitions: Mapping[str, Schema]) -> str:
    """The type of a body or a result."""
    if get_origin(declared) is list:
        return f"{_http_name(get_args(declared)[0], definitions)}[]"
    if isinstance(declared, UnionType):
        return " | ".join(_http_name(each, definitions) for each in get_args(declared))
    name = getattr(declared, "__name__", "")
    return name if name in definitions else "unknown"


def _upstream_names(requests: Sequence[str]) -> list[str]:
    """The names in the types that Opal publishes, for programs that were written against those."""
    constants = [f"  {re.sub(r'[^A-Z]', '_', name.upper())}: {json.dumps(name)}," for name in requests]
    return [
        "\n".join([*comment("The names of all requests."), "export const Methods = {", *constants, "} as const;", ""]),
        "\n".join(
            [
                *comment("The params and the result of every request, by its name."),
                "export interface MethodTypes extends Methods, ServerRequests {}",
                "",
            ]
        ),
        "\n".join([*comment("An event, under Opal's name."), "export type AgentEvent = Event;", ""]),
    ]


def _requests(title: str, note: str, requests: Mapping[str, type[Method]]) -> str:
    rows = {name: f"{{ params: {params_name(each)}; result: {result_name(each)} }}" for name, each in requests.items()}
    return _table(title, note, rows)


def _table(name: str, note: str, rows: Mapping[str, str]) -> str:
    lines = [f"  {_key(key)}: {value};" for key, value in rows.items()]
    return "\n".join([*comment(note), f"export interface {name} {{", *lines, "}", ""])


def _definition(name: str, schema: Schema) -> str:
    lines = comment(schema.get("description", ""))
    if not schema.get("properties"):
        return "\n".join([*lines, f"export type {name} = {_type(schema)};", ""])
    return "\n".join([*lines, f"export interface {name} {{", *_members(schema), "}", ""])


def _members(schema: Schema) -> list[str]:
    required = schema.get("required", ())
    lines: list[str] = []
    for name, member in schema["properties"].items():
        lines += comment(member.get("description", ""), "  ")
        lines.append(f"  {_key(name)}{'' if name in required else '?'}: {_type(member)};")
    return lines


def _type(schema: Schema) -> str:
    match schema:
        case {"$ref": target}:
            return str(target).rsplit("/", 1)[1]
        case {"const": value}:
            return json.dumps(value)
        # `suggested`: other strings are accepted too, but no host should send them.
        case {"enum": values} | {"suggested": values}:
            return _union([json.dumps(value) for value in values])
        case {"anyOf": members}:
            return _union([_type(member) for member in members])
        case {"type": "array", "items": items}:
            item = _type(items)
            return f"({item})[]" if " " in item else f"{item}[]"
        case {"type": "object", "properties": {}}:
            return "Record<string, never>"
        case {"type": "object"}:
            return f"Record<string, {_type(schema.get('additionalProperties', {}))}>"
        case {"type": word}:
            return _WORDS[word]
        case _:
            return "unknown"


def _union(members: Sequence[str]) -> str:
    return " | ".join(dict.fromkeys(members))


def _key(name: str) -> str:
    return name if _IDENTIFIER.fullmatch(name) else json.dumps(name)


def comment(text: str, indent: str = "") -> list[str]:
    """The lines of a documentation comment; none for an empty text."""
    if not text:
        return []
    text = " ".join(text.split()).replace("*/", "*\\/")
    lines = wrap(text, WIDTH - len(indent))
    if len(lines) == 1:
        return [f"{indent}/** {lines[0]} */"]
    return [f"{indent}/**", *(f"{indent} * {line}" for line in lines), f"{indent} */"]
