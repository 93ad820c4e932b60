"""The page about Opal's dialect."""

from __future__ import annotations

from typing import Any

from fairlead.protocol.opal.events import EVENTS, NOTIFICATION
from fairlead.protocol.opal.examples import EVENT_EXAMPLES, METHOD_EXAMPLES, SERVER_REQUEST_EXAMPLES
from fairlead.protocol.opal.method import Method
from fairlead.protocol.opal.methods import METHODS
from fairlead.protocol.opal.server_requests import SERVER_REQUESTS
from fairlead.protocol.schema.builder import Schema, mentioned
from fairlead.protocol.schema.opal import event_name, exact_definitions, params_name, result_name
from reference.markdown import about, block, definition, fields

INTRODUCTION = """\
# The protocol of Opal

Made from the declarations in `src/fairlead/protocol/opal` by `make generate`. Do not edit.

Lines of JSON-RPC 2.0: a client starts `fairlead --mode opal`, asks [methods](#methods), is told of [events](#events) in
notifications, and answers [requests of the server's](#requests-to-the-client). `null` for an optional param means absent.
Requests without a required param get the error -32602, whose message names all params that the method requires.

The same for programs: [opal.schema.json](opal.schema.json), which `fairlead schema --dialect opal` prints, and
[opal.ts](opal.ts), with `--typescript`. The schema has the layout, the names, the types and the constants of the schema that
Opal itself publishes (protocol version 0.1.0), so that one can stand in for the other. Beside it, or unlike it:

- The method `auth/set_key`, and `tools` in `session/start`: Opal's documentation has them, its schema has not.
- `token_usage` in the result of `agent/state`, which Opal sends and does not declare.
- `auth.providers`: every place that was looked at for credentials. `auth.provider` is always a string, empty if there is none.
- `features` may name some of the features; Opal's schema demands all, its server does not.
- `definitions.types`, `definitions.inner_events` and `definitions.examples`, for what Opal's schema leaves open.
"""

REQUESTS_INTRODUCTION = """\
The server asks with ids of its own, `s2c-1`, `s2c-2` and so on. A client answers with a result, or with an error.
"""

EVENTS_INTRODUCTION = f"""\
The params of the notification `{NOTIFICATION}`. All have the `session_id` of the session and the `type` of the event. A run
ends with `agent_end`, `agent_abort` or `error`.
"""


def page() -> str:
    defined: dict[str, Schema] = exact_definitions()
    parts = [INTRODUCTION, "## Methods\n"]
    parts += [_request(each, defined, METHOD_EXAMPLES[name], 1) for name, each in METHODS.items()]
    parts.append(f"## Requests to the client\n\n{REQUESTS_INTRODUCTION}")
    parts += [_request(each, defined, SERVER_REQUEST_EXAMPLES[name], "s2c-1") for name, each in SERVER_REQUESTS.items()]
    parts.append(f"## Events\n\n{EVENTS_INTRODUCTION}")
    parts += [_event(name, defined[event_name(each)]) for name, each in EVENTS.items()]
    shown = [
        defined[name(each)] for each in (*METHODS.values(), *SERVER_REQUESTS.values()) for name in (params_name, result_name)
    ]
    shown += [defined[event_name(each)] for each in EVENTS.values()]
    types = [name for name in mentioned(shown, defined) if not name.startswith("Inner")]
    parts += ["## Types\n", INNER, *(definition(name, defined[name]) for name in types)]
    return "\n".join(parts)


INNER = """\
### InnerEvent

[SubAgentStart](#subagentstart), or any of the events above without its `session_id`.
"""


def _request(declared: type[Method], defined: dict[str, Schema], example: dict[str, Any], ident: Any) -> str:
    params, result = defined[params_name(declared)], defined[result_name(declared)]
    parts = [f"### {declared.method}\n", *about(params)]
    for title, schema in (("Params:", params), ("Result:", result)):
        table = fields(schema)
        parts += [title, "", *table] if table else []
    asked = {"jsonrpc": "2.0", "id": ident, "method": declared.method, "params": example["params"]}
    return "\n".join([*parts, *block(asked, {"jsonrpc": "2.0", "id": ident, "result": example["result"]})])


def _event(name: str, schema: Schema) -> str:
    frame = {"jsonrpc": "2.0", "method": NOTIFICATION, "params": EVENT_EXAMPLES[name]}
    return "\n".join([f"### {name}\n", *about(schema), *fields(schema, ["type", "session_id"]), *block(frame)])
