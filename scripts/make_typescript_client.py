#!/usr/bin/env python3
"""Write the generated part of the TypeScript client from the declarations: the types of the pi family and of Opal, and a method
for each command and each request.

make_typescript_client.py           write it
make_typescript_client.py --check   fail if any of it is stale
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import msgspec

from fairlead.protocol.http.fleet import FLEET_OPERATIONS
from fairlead.protocol.http.operations import OPERATIONS, Operation
from fairlead.protocol.opal.opal_methods import METHODS
from fairlead.protocol.schema.builder import Schema
from fairlead.protocol.schema.family import command_name, family_schema
from fairlead.protocol.schema.json_rpc import exact_definitions, params_name
from fairlead.protocol.schema.typescript import comment, family_types, http_types, opal_types
from fairlead.wire.pi.pi_schema import whole_family

FOLDER = Path(__file__).resolve().parent.parent / "clients" / "typescript" / "src" / "generated"
HEADING = "// `make generate` writes this file from the declarations in src/fairlead/protocol. Do not edit.\n"
#: Commands for which the client has a method of another form: a prompt is a run, host tools are functions.
OTHER_FORM = ("prompt", "abort_and_prompt", "set_host_tools", "set_host_uri_schemes")

COMMANDS_CLASS = """\
import type {{ Commands }} from "./family.js";
import type {{ RequestOptions }} from "../pending.js";

export type CommandName = keyof Commands;
/** The fields of a command, without its name and its id. */
export type CommandParams<N extends CommandName> = Omit<Commands[N]["command"], "type" | "id">;
/** The `data` of a successful response. */
export type CommandData<N extends CommandName> = Commands[N]["response"] extends {{ data: infer D }} ? D : void;

/** A method for each command. */
export abstract class CommandMethods {{
  /** Sends a command and returns the `data` of its response. */
  abstract request<N extends CommandName>(name: N, params: CommandParams<N>, options?: RequestOptions): Promise<CommandData<N>>;
{methods}}}
"""

OPAL_CLASS = """\
import type {{ Methods }} from "./opal.js";
import type {{ RequestOptions }} from "../pending.js";

export type OpalMethod = keyof Methods;
export type OpalParams<N extends OpalMethod> = Methods[N]["params"];
export type OpalResult<N extends OpalMethod> = Methods[N]["result"];

/** A method for each request. */
export abstract class OpalMethods {{
  /** Sends a request and returns its result. */
  abstract request<N extends OpalMethod>(name: N, params: OpalParams<N>, options?: RequestOptions): Promise<OpalResult<N>>;
{methods}}}
"""

HTTP_OPERATIONS = (*OPERATIONS, *FLEET_OPERATIONS)
#: Operations of the HTTP interface without a method: for browsers and monitors, and `follow` and `followJob` listen.
NOT_FOR_CLIENTS = ("listen", "job_events", "log_in", "log_out", "metrics", "openapi")

HTTP_CLASS = """\
import type {{ Operations }} from "./http.js";
import type {{ RequestOptions }} from "../pending.js";

export type OperationName = keyof Operations;

/** How to send each operation: its method, its path and the status of a success. */
export const OPERATIONS: Readonly<Record<OperationName, {{ method: string; path: string; status: number }}>> = {{
{rows}}};

/** A method for each operation. */
export abstract class HttpMethods {{
  /** Sends a request and returns its result. `ids` are the parts of the path. */
  abstract request<N extends OperationName>(
    name: N,
    ids: readonly string[],
    params: Operations[N]["params"],
    options?: RequestOptions,
  ): Promise<Operations[N]["result"]>;
{methods}}}
"""


def texts() -> dict[str, str]:
    """Return the text of each generated file."""
    family = whole_family()
    commands: dict[str, Schema] = family_schema("", family)["$defs"]
    requests = exact_definitions()
    command_methods = [
        _method(name, commands[command_name(each)], "CommandParams", "CommandData")
        for name, each in family.commands.items()
        if name not in OTHER_FORM
    ]
    opal_methods = [_method(name, requests[params_name(each)], "OpalParams", "OpalResult") for name, each in METHODS.items()]
    made = {
        "family.ts": family_types("The protocol of the pi family", family),
        "commands.ts": COMMANDS_CLASS.format(methods="".join(command_methods)),
        "http.ts": http_types("The HTTP interface of fairlead serve"),
        "http-methods.ts": HTTP_CLASS.format(
            rows="".join(_row(each) for each in HTTP_OPERATIONS),
            methods="".join(_http_method(each) for each in HTTP_OPERATIONS if each.name not in NOT_FOR_CLIENTS),
        ),
        "opal.ts": opal_types("The protocol of Opal"),
        "opal-methods.ts": OPAL_CLASS.format(methods="".join(opal_methods)),
    }
    return {name: HEADING + text for name, text in made.items()}


def _method(name: str, schema: Schema, params: str, result: str) -> str:
    words = re.split(r"[_/]", name)
    title = words[0] + "".join(word.capitalize() for word in words[1:])
    optional = not set(schema.get("required", ())) - {"type"}
    lines = [
        "",
        *comment(schema.get("description", ""), "  "),
        f'  {title}(params: {params}<"{name}">{" = {}" if optional else ""}, options?: RequestOptions): '
        f'Promise<{result}<"{name}">> {{',
        f'    return this.request("{name}", params, options);',
        "  }",
        "",
    ]
    return "\n".join(lines)


def _row(operation: Operation) -> str:
    return f'  {operation.name}: {{ method: "{operation.method}", path: "{operation.path}", status: {operation.status} }},\n'


def _http_method(operation: Operation) -> str:
    words = operation.name.split("_")
    title = words[0] + "".join(word.capitalize() for word in words[1:])
    ids = [name.replace("_id", "Id") for _, name in operation.ids]
    has_fields = isinstance(operation.body, type)
    optional = operation.body is None or (
        has_fields and not any(field.required for field in msgspec.structs.fields(operation.body))
    )
    declared = f'Operations["{operation.name}"]'
    parameters = [*(f"{each}: string" for each in ids), f'params: {declared}["params"]{" = {}" if optional else ""}']
    lines = [
        "",
        *comment(f"{operation.summary} {operation.description}".strip(), "  "),
        f'  {title}({", ".join(parameters)}, options?: RequestOptions): Promise<{declared}["result"]> {{',
        f'    return this.request("{operation.name}", [{", ".join(ids)}], params, options);',
        "  }",
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    made = texts()
    if "--check" not in sys.argv[1:]:
        for name, text in made.items():
            (FOLDER / name).write_text(text)
        return 0
    stale = [name for name, text in made.items() if not (FOLDER / name).exists() or (FOLDER / name).read_text() != text]
    for name in stale:
        print(f"clients/typescript/src/generated/{name} is stale: run `make generate`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
