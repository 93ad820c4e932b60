"""`fairlead schema`: print a protocol, or the format of a file, as JSON Schema. Protocols also as TypeScript types.

The schemas of files, settings.json, models.json and the result of `-p --output-format json`, come from the declarations that
read them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct
from msgspec import inspect as types

from fairlead.cli.advice import nearest
from fairlead.cli.console import print_exact
from fairlead.cli.subcommands.table import command_named
from fairlead.config.settings import ApprovalRule, Settings
from fairlead.errors import ConfigError
from fairlead.models.models_json import ModelsFile
from fairlead.protocol.print_result import PrintResult
from fairlead.protocol.schema.builder import Schema, SchemaBuilder
from fairlead.wire.dialects import DIALECTS, Dialect, Program, chosen_dialect

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
#: Keys of settings.json and models.json that belong to no declaration.
_POINTER: Schema = {"type": "string", "description": "The address of this schema, for editors."}
_PACKAGES: Schema = {
    "type": "array",
    "description": "Packages of pi: npm:NAME, git:URL or a path. `fairlead install` adds to it.",
    "items": {"anyOf": [{"type": "string"}, {"type": "object"}]},
}


#: Fields that the reader of a file sets, not its author.
_NOT_IN_FILES: dict[type[Struct], tuple[str, ...]] = {ApprovalRule: ("only_stricter",)}


class _ConfigSchemas(SchemaBuilder):
    """Schemas of files that people write: with limits and defaults, and without undeclared keys."""

    def body(self, declared: type[Struct], leave_out: Sequence[str] = ()) -> Schema:
        hidden = _NOT_IN_FILES.get(declared) or leave_out
        schema = super().body(declared, hidden)
        for field in msgspec.structs.fields(declared):
            default = field.default
            if field.name in hidden or default in (msgspec.NODEFAULT, None) or isinstance(default, Struct):
                continue
            schema["properties"][field.encode_name]["default"] = default
        return schema | {"additionalProperties": False}

    def _schema(self, info: types.Type) -> Schema:
        schema = super()._schema(info)
        match info:
            case types.IntType(ge=least) | types.FloatType(ge=least) if least is not None:
                return schema | {"minimum": least}
            case types.FloatType(gt=bound) if bound is not None:
                return schema | {"exclusiveMinimum": bound}
            case _:
                return schema


def settings_schema() -> Schema:
    """Return the JSON Schema of settings.json."""
    schema = _file("settings.json", "The settings of fairlead, of the user or of a project. Every key is optional.", Settings)
    schema["properties"] = {"$schema": _POINTER, **schema["properties"], "packages": _PACKAGES}
    return schema


def models_schema() -> Schema:
    """Return the JSON Schema of models.json."""
    text = "Providers and models of the user, and changes to the built-in ones. The format is pi's."
    schema = _file("models.json", text, ModelsFile)
    schema["properties"] = {"$schema": _POINTER, **schema["properties"]}
    return schema


def result_schema() -> Schema:
    """Return the JSON Schema of the result that `-p --output-format json` prints."""
    builder = SchemaBuilder()
    builder.accepting = False
    body = builder.body(PrintResult)
    return {"$schema": _DRAFT, "title": "The result of fairlead -p --output-format json", **body, "$defs": builder.definitions}


#: By the word that `fairlead schema` takes.
CONFIG_SCHEMAS: dict[str, Callable[[], Schema]] = {
    "settings": settings_schema,
    "models": models_schema,
    "result": result_schema,
}


def _file(title: str, description: str, declared: type[Struct]) -> Schema:
    builder = _ConfigSchemas()
    body = builder.body(declared)
    body.pop("description", None)
    return {"$schema": _DRAFT, "title": title, "description": description, **body, "$defs": builder.definitions}


def schema(words: Sequence[str], program: Program) -> int:
    """Print the protocol of a dialect, or the format of a file. Returns the exit code. Raises UsageError."""
    command = command_named("schema")
    options = command.parse(words)
    if len(options.words) > 1:
        raise command.usage_error()
    topic = options.words[0] if options.words else None
    typescript = options.has("typescript")
    if topic in CONFIG_SCHEMAS:
        if typescript or options.has("dialect"):
            raise command.usage_error(f"The schema of {topic} has no dialect and no TypeScript types.")
        print_exact(config_schema_text(topic).removesuffix("\n"))
        return 0
    if topic is not None and topic not in DIALECTS:
        known = (*CONFIG_SCHEMAS, *DIALECTS)
        raise command.usage_error(f"There is no schema {topic!r}.{nearest(topic, known)} There are: {', '.join(known)}.")
    try:
        chosen = chosen_dialect(options.text("dialect") or topic, os.environ, program)
    except ConfigError as error:
        raise command.usage_error(str(error)) from None
    print_exact((types_text(chosen) if typescript else schema_text(chosen)).removesuffix("\n"))
    return 0


def schema_text(dialect: Dialect) -> str:
    """Return the JSON Schema of a dialect."""
    return _text(dialect.load().schema(dialect.name))


def config_schema_text(name: str) -> str:
    """Return the JSON Schema of a file or a result: `settings`, `models` or `result`."""
    return _text(CONFIG_SCHEMAS[name]())


def types_text(dialect: Dialect) -> str:
    """Return the TypeScript types of a dialect."""
    return dialect.load().types(dialect.name, f"The protocol of {dialect.name}, as fairlead speaks it")


def _text(schema: object) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
