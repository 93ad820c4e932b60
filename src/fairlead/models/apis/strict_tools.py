"""Schemas for providers that keep the arguments of a call to them while the model writes it ("strict" tools).

Such a schema names every property of an object as required and allows no others. So a property that may be left out becomes one
that may be null. `core.calls.arguments` removes the nulls again before the tool runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, cast

from fairlead.core.model import ToolSpec
from fairlead.errors import ProviderError

#: Says whether an API refuses a keyword with this value in a strict schema.
Refuses: TypeAlias = Callable[[str, Any], bool]

#: Keywords that no API takes in a strict schema, and those that Anthropic does not take.
_UNSUPPORTED = frozenset(
    {
        *("$ref", "$defs", "definitions", "allOf", "oneOf", "not", "if", "then", "else", "contains", "prefixItems"),
        *("patternProperties", "propertyNames", "unevaluatedProperties", "dependentSchemas", "dependencies"),
    }
)
_UNSUPPORTED_BY_ANTHROPIC = frozenset(
    {
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "maxItems", "uniqueItems"),
        *("minContains", "maxContains", "minProperties", "maxProperties"),
    }
)
_FORMATS_OF_ANTHROPIC = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"})


class NotStrict(Exception):
    """A schema has no strict form. The message is the reason."""


def strict_parameters(tool: ToolSpec, api: str, *, supported: bool) -> dict[str, Any] | None:
    """Return the strict schema for the arguments of a tool. None: send the tool as it is, and not as strict.

    Raises ProviderError if the tool requires what the server or a strict schema does not support.
    """
    try:
        if not supported:
            raise NotStrict("the model's server is not known to support strict tools")
        return strict_schema(tool.parameters, _refused_by_anthropic if api == "anthropic-messages" else _refused_by_none)
    except NotStrict as error:
        if tool.strict == "prefer":
            return None
        raise ProviderError(f"The tool {tool.name} requires a provider that enforces its schema, but {error}.") from None


def strict_schema(schema: dict[str, Any], refuses: Refuses) -> dict[str, Any]:
    """Return the strict form of a schema for an object. Raises NotStrict if it has none."""
    if schema.get("type") != "object":
        raise NotStrict("its schema is not for an object")
    return _strict(schema, refuses)


def _refused_by_none(key: str, value: Any) -> bool:
    return False


def _refused_by_anthropic(key: str, value: Any) -> bool:
    if key == "minItems":
        return value not in (0, 1)
    if key == "format":
        return value not in _FORMATS_OF_ANTHROPIC
    return key in _UNSUPPORTED_BY_ANTHROPIC


def _strict(schema: Any, refuses: Refuses) -> dict[str, Any]:
    if not isinstance(schema, dict):
        raise NotStrict("its schema contains a part that is not an object")
    schema = dict(cast("dict[str, Any]", schema))
    for key, value in schema.items():
        if key in _UNSUPPORTED or refuses(key, value):
            raise NotStrict(f"its schema uses {key}")
    if "anyOf" in schema:
        schema["anyOf"] = list(_variants(schema["anyOf"], refuses))
    if "items" in schema:
        schema["items"] = _strict(schema["items"], refuses)
    if schema.get("type") == "object":
        return _closed(schema, refuses)
    if "properties" in schema:
        raise NotStrict("its schema has properties without the type object")
    return schema


def _variants(variants: Any, refuses: Refuses) -> Iterable[dict[str, Any]]:
    if not isinstance(variants, list) or not variants:
        raise NotStrict("its schema has an anyOf without variants")
    for variant in cast("list[Any]", variants):
        strict = _strict(variant, refuses)
        if {"properties", "items"} & strict.keys() or any(each in ("object", "array") for each in _types(strict)):
            raise NotStrict("its schema has a choice between objects or arrays")
        yield strict


def _closed(schema: dict[str, Any], refuses: Refuses) -> dict[str, Any]:
    """Return the schema of an object without optional and further properties."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise NotStrict("its schema has properties of the wrong form")
    if schema.get("additionalProperties", False) is not False:
        raise NotStrict("its schema allows additional properties")
    if any(name not in properties for name in cast("list[Any]", required)):
        raise NotStrict("its schema requires a property that it does not describe")
    strict = {name: _strict(each, refuses) for name, each in cast("dict[str, Any]", properties).items()}
    for name, each in strict.items():
        if name not in required and not _allows_null(each):
            strict[name] = {"anyOf": [each, {"type": "null"}]}
    return {**schema, "properties": strict, "required": list(strict), "additionalProperties": False}


def _types(schema: dict[str, Any]) -> list[Any]:
    types = schema.get("type")
    return cast("list[Any]", types) if isinstance(types, list) else [types]


def _allows_null(schema: dict[str, Any]) -> bool:
    if "null" in _types(schema) or schema.get("const", 0) is None or None in schema.get("enum", ()):
        return True
    return any(map(_allows_null, schema.get("anyOf", ())))
