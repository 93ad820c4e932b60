"""JSON Schemas of what people write and programs read: settings.json, models.json, and the result of `-p --output-format json`.

They come from the declarations that read the files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct
from msgspec import inspect as types

from fairlead.config.settings import ApprovalRule, Settings
from fairlead.models.models_json import ModelsFile
from fairlead.protocol.result import PrintResult
from fairlead.protocol.schema.builder import Schema, SchemaBuilder

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
