#!/usr/bin/env python3
"""Write the reference from the declarations: docs/settings.md, docs/protocol with a page per protocol, the JSON Schema and
TypeScript types of each dialect and the OpenAPI document of the HTTP interface, docs/schema with the JSON Schemas of files, and
docs/python with a page for each public module.

make_reference.py           write it
make_reference.py --check   fail if any of it is stale
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from fairlead import __version__
from fairlead.cli.subcommands.schema import CONFIG_SCHEMAS, config_schema_text, schema_text, types_text
from fairlead.protocol.http.fleet import FLEET_OPERATIONS
from fairlead.protocol.schema.openapi import openapi_document
from fairlead.wire.dialects import DIALECTS
from reference import acp, claude, opal, pi, python, settings

DOCS = Path(__file__).resolve().parent.parent / "docs"


def texts() -> dict[str, str]:
    """Return the text of each generated file in docs."""
    made = {"settings.md": settings.page(), "protocol/pi.md": pi.page()}
    made |= {"protocol/opal.md": opal.page(), "protocol/acp.md": acp.page()}
    made["protocol/claude.md"] = claude.page()
    document = msgspec.json.encode(openapi_document(__version__, FLEET_OPERATIONS))
    made["protocol/http.openapi.json"] = msgspec.json.format(document, indent=2).decode() + "\n"
    for name, dialect in DIALECTS.items():
        made[f"protocol/{name}.schema.json"] = schema_text(dialect)
        made[f"protocol/{name}.ts"] = types_text(dialect)
    made |= python.pages()
    made |= {f"schema/{name}.schema.json": config_schema_text(name) for name in CONFIG_SCHEMAS}
    return made


def main() -> int:
    made = texts()
    gone = python.folder(DOCS) - made.keys()
    if "--check" not in sys.argv[1:]:
        for name, text in made.items():
            (DOCS / name).parent.mkdir(exist_ok=True)
            (DOCS / name).write_text(text)
        for name in gone:
            (DOCS / name).unlink()
        return 0
    stale = [name for name, text in made.items() if not (DOCS / name).exists() or (DOCS / name).read_text() != text]
    stale += sorted(gone)
    for name in stale:
        print(f"docs/{name} is stale: run `make generate`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
