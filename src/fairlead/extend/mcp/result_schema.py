"""The schema of what a tool of an MCP server returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

#: What hosts read most of a block of content.
_BLOCK: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "type": {"enum": ["text", "image", "audio", "resource_link", "resource"]},
        "text": {"type": "string"},
        "data": {"type": "string"},
        "mimeType": {"type": "string"},
    },
    "required": ["type"],
    "additionalProperties": True,
}
#: The keywords of JSON Schema that hold plain data, and those that hold schemas by name.
_DATA = frozenset({"const", "enum", "default", "examples"})
_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"})


def result_schema(own: dict[str, Any] | None) -> dict[str, Any]:
    """Return the schema of a whole result. `own` is the tool's schema for its structured content, if it has one."""
    return {
        "type": "object",
        "properties": {
            "content": {"type": "array", "items": _BLOCK},
            "structuredContent": {} if own is None else _moved(own, "#/properties/structuredContent"),
            "isError": {"type": "boolean"},
        },
        "required": ["content"],
        "additionalProperties": True,
    }


def _moved(schema: Any, place: str) -> Any:
    """Return a schema that has become a part of another one: its references to itself lead to its new place."""
    if isinstance(schema, list):
        return [_moved(each, place) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    given = cast("dict[str, Any]", schema)
    return {key: _moved_value(key, value, place) for key, value in given.items()}


def _moved_value(key: str, value: Any, place: str) -> Any:
    if key == "$ref" and isinstance(value, str) and (value == "#" or value.startswith("#/")):
        return place + value[1:]
    if key in _DATA:
        return value
    if key in _BY_NAME and isinstance(value, dict):
        return {name: _moved(each, place) for name, each in cast("dict[str, Any]", value).items()}
    return _moved(value, place)
