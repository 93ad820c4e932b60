"""`fairlead schema`: print a protocol, or the format of a file, as JSON Schema. Protocols also as TypeScript types."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from fairlead.cli.advice import nearest
from fairlead.cli.console import say_exact
from fairlead.cli.subcommands.table import command_named
from fairlead.errors import ConfigError
from fairlead.wire.dialects import DIALECTS, Dialect, Program, chosen_dialect


def schema(words: Sequence[str], program: Program) -> int:
    """Print the protocol of a dialect, or the format of a file. Returns the exit code. Raises UsageError."""
    from fairlead.cli.subcommands.config_schemas import CONFIG_SCHEMAS

    command = command_named("schema")
    options = command.parse(words)
    if len(options.words) > 1:
        raise command.usage_error()
    topic = options.words[0] if options.words else None
    typescript = options.has("typescript")
    if topic in CONFIG_SCHEMAS:
        if typescript or options.has("dialect"):
            raise command.usage_error(f"The schema of {topic} has no dialect and no TypeScript types.")
        say_exact(config_schema_text(topic).removesuffix("\n"))
        return 0
    if topic is not None and topic not in DIALECTS:
        known = (*CONFIG_SCHEMAS, *DIALECTS)
        raise command.usage_error(f"There is no schema {topic!r}.{nearest(topic, known)} There are: {', '.join(known)}.")
    try:
        chosen = chosen_dialect(options.text("dialect") or topic, os.environ, program)
    except ConfigError as error:
        raise command.usage_error(str(error)) from None
    say_exact((types_text(chosen) if typescript else schema_text(chosen)).removesuffix("\n"))
    return 0


def schema_text(dialect: Dialect) -> str:
    """Return the JSON Schema of a dialect."""
    return _text(dialect.load().schema(dialect.name))


def config_schema_text(name: str) -> str:
    """Return the JSON Schema of a file or a result: `settings`, `models` or `result`."""
    from fairlead.cli.subcommands.config_schemas import CONFIG_SCHEMAS

    return _text(CONFIG_SCHEMAS[name]())


def types_text(dialect: Dialect) -> str:
    """Return the TypeScript types of a dialect."""
    return dialect.load().types(dialect.name, f"The protocol of {dialect.name}, as fairlead speaks it")


def _text(schema: object) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
