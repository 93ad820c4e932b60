"""Generate docs/protocol/opal.md."""

from __future__ import annotations

from typing import Any

from fairlead.protocol.opal.opal_events import EVENTS, NOTIFICATION, SERVER_REQUESTS
from fairlead.protocol.opal.opal_examples import EVENT_EXAMPLES, METHOD_EXAMPLES, SERVER_REQUEST_EXAMPLES
from fairlead.protocol.opal.opal_methods import METHODS
from fairlead.protocol.opal.opal_objects import Method
from fairlead.protocol.schema.builder import Schema, list_mentioned
from fairlead.protocol.schema.json_rpc import event_name, exact_definitions, params_name, result_name
from reference.markdown import about, block, definition, fields

INTRODUCTION = """\
# The protocol of Opal

<!-- `make generate` writes this page from `src/fairlead/protocol/opal`. Do not edit. -->

A client starts `fairlead --mode opal` and exchanges lines of JSON-RPC 2.0 with it. The client calls
[methods](#methods), receives [events](#events) as notifications, and answers [requests from the
server](#requests-to-the-client). `null` for an optional param means absent. If a required param is
missing, the error is -32602, and its message names all params that the method requires.

For programs, there is [opal.schema.json](opal.schema.json), which `fairlead schema --dialect opal`
prints, and [opal.ts](opal.ts), printed with `--typescript`. The schema has the layout, names, types
and constants of the schema that Opal publishes (protocol version 0.1.0), so one can replace the
other. It differs in these points:

- It adds the method `auth/set_key`, and `tools` in `session/start`. Opal documents them but does
  not declare them in its schema.
- It adds `token_usage` in the result of `agent/state`, which Opal sends but does not declare.
- It adds `auth.providers`: every place that was checked for credentials. `auth.provider` is always
  a string, and empty if there is no provider.
- `features` may name some of the features. Opal's schema requires all, but its server does not.
- It adds `definitions.types`, `definitions.inner_events` and `definitions.examples` for what Opal's
  schema leaves open.
"""

REQUESTS_INTRODUCTION = """\
The server chooses the ids of its requests: `s2c-1`, `s2c-2` and so on. A client answers with a
result or an error.
"""

EVENTS_INTRODUCTION = f"""\
Events are the params of the notification `{NOTIFICATION}`. Each has the `session_id` of the session
and the `type` of the event. A run ends with `agent_end`, `agent_abort` or `error`.
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
    types = [name for name in list_mentioned(shown, defined) if not name.startswith("Inner")]
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
