"""The schema of what a tool of an MCP server returns."""

from __future__ import annotations

from typing import Any

from fairlead.extend.mcp.tools import result_schema


def test_references_inside_the_schema_of_a_tool_lead_to_its_new_place() -> None:
    own: dict[str, Any] = {
        "$defs": {"item": {"type": "string"}, "$ref": {"$ref": "#"}},
        "properties": {"first": {"$ref": "#/$defs/item"}, "rest": {"anyOf": [{"$ref": "#"}, {"$ref": "https://x/#/a"}]}},
        "examples": [{"$ref": "#"}],
    }
    place = "#/properties/structuredContent"
    assert result_schema(own)["properties"]["structuredContent"] == {
        "$defs": {"item": {"type": "string"}, "$ref": {"$ref": place}},
        "properties": {
            "first": {"$ref": f"{place}/$defs/item"},
            "rest": {"anyOf": [{"$ref": place}, {"$ref": "https://x/#/a"}]},
        },
        "examples": [{"$ref": "#"}],
    }


def test_a_tool_without_a_schema_may_return_any_data() -> None:
    assert result_schema(None)["properties"]["structuredContent"] == {}
