"""Generate docs/protocol/acp.md."""

from __future__ import annotations

from typing import Any

from fairlead.protocol.schema.builder import Schema, list_mentioned
from fairlead.protocol.schema.json_rpc import acp_schema
from reference.markdown import about, definition, fields, wrap

INTRODUCTION = """\
# The Agent Client Protocol

<!-- `make generate` writes this page from `src/fairlead/protocol/acp`. Do not edit. -->

A client starts `fairlead acp` and exchanges lines of JSON-RPC 2.0 with it. [docs/acp.md](../acp.md)
says how fairlead uses the protocol. This page lists all of version 1, with the names of the
[official schema](https://agentclientprotocol.com). fairlead sends no `fs/*` and no `terminal/*`
requests.

For programs, there is [acp.schema.json](acp.schema.json), which `fairlead schema --dialect acp`
prints, and [acp.ts](acp.ts), printed with `--typescript`.

Errors have the codes of JSON-RPC, and these: -32000 if the user has to log in, -32002 if there is
no such session, -32800 if the client cancelled the request.
"""


def page() -> str:
    schema = acp_schema()
    defined: dict[str, Schema] = schema["$defs"]
    parts = [INTRODUCTION, "## Requests of the client\n"]
    parts += [_request(name, each, defined) for name, each in schema["agent_requests"].items()]
    parts.append("## Notifications of the client\n")
    parts += [_notification(name, each, defined) for name, each in schema["agent_notifications"].items()]
    parts.append("## Requests of the agent\n")
    parts += [_request(name, each, defined) for name, each in schema["client_requests"].items()]
    parts.append("## Notifications of the agent\n")
    parts += [_notification(name, each, defined) for name, each in schema["client_notifications"].items()]
    shown = {_name(part) for each in _requests(schema) for side in ("params", "result") for part in _members(each[side])}
    shown |= {_name(each) for side in ("agent", "client") for each in schema[f"{side}_notifications"].values()}
    types = [name for name in list_mentioned([defined[name] for name in shown], defined) if name not in shown]
    parts += ["## Types\n", *(definition(name, defined[name], ["_meta"]) for name in types)]
    return "\n".join(parts)


def _requests(schema: Schema) -> list[Any]:
    return [*schema["agent_requests"].values(), *schema["client_requests"].values()]


def _request(name: str, request: Schema, defined: dict[str, Schema]) -> str:
    parts = [f"### {name}\n", wrap(request["description"]), ""]
    for title, side in (("Params", "params"), ("Result", "result")):
        members = _members(request[side])
        for member in members:
            table = fields(defined[_name(member)], ["_meta"])
            which = f" ({_name(member)})" if len(members) > 1 else ""
            parts += [f"{title}{which}:", "", *table] if table else []
    return "\n".join(parts)


def _notification(name: str, notification: Schema, defined: dict[str, Schema]) -> str:
    schema = defined[_name(notification)]
    return "\n".join([f"### {name}\n", *about(schema), *fields(schema, ["_meta"])])


def _members(schema: Schema) -> list[Schema]:
    return schema.get("anyOf", [schema])


def _name(schema: Schema) -> str:
    return str(schema["$ref"]).rsplit("/", 1)[1]
