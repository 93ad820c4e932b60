"""Schemas that would keep the validator busy are refused when the tool is registered, without being tried."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ToolError


async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    return ToolResult.text("")


def tool(schema: dict[str, Any]) -> Tool:
    return Tool("t", "", schema, run)


def doubling(levels: int, wrap: Any, *, place: str = "$defs", named: bool = False) -> dict[str, Any]:
    """Definitions each of which refers to the next one twice."""

    def ref(level: int) -> dict[str, Any]:
        return {"$ref": f"https://made-up.example/d{level}" if named else f"#/{place}/d{level}"}

    definitions = {f"d{n}": wrap([ref(n + 1), ref(n + 1)]) for n in range(levels)}
    definitions[f"d{levels}"] = {"type": "object"}
    if named:
        for name, each in definitions.items():
            each["$id"] = f"https://made-up.example/{name}"
    return {"type": "object", place: definitions, **wrap([ref(0)])}


WRAPS = {
    "allOf": lambda refs: {"allOf": refs},
    "anyOf": lambda refs: {"anyOf": refs},
    "oneOf": lambda refs: {"oneOf": refs},
    "properties": lambda refs: {"properties": {f"p{n}": each for n, each in enumerate(refs)}},
    "property called default": lambda refs: {"properties": {"default": {"allOf": refs}}},
    "same property": lambda refs: {"allOf": [{"properties": {"a": each}} for each in refs]},
    "if": lambda refs: {"if": refs[0], "then": refs[-1]},
    "not": lambda refs: {"not": {"allOf": refs}},
    "items": lambda refs: {"prefixItems": refs},
    "dependent": lambda refs: {"dependentSchemas": {f"p{n}": each for n, each in enumerate(refs)}},
}


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
@pytest.mark.parametrize("form", [{}, {"place": "definitions"}, {"named": True}], ids=["$defs", "definitions", "$id"])
def test_references_that_double_at_each_level_are_refused(wrap: Any, form: dict[str, Any]) -> None:
    schema = doubling(40, wrap, **form)
    assert len(json.dumps(schema)) < 10_000
    with pytest.raises(ToolError, match="too complex"):
        tool(schema).check_schema()


def test_a_pointer_into_the_middle_of_a_schema_counts_as_what_it_leads_to() -> None:
    parts: dict[str, Any] = {"p40": {}}
    for n in range(40):
        parts[f"p{n}"] = {
            "anyOf": [
                {"$ref": f"#/properties/p{n + 1}"},
                {"$ref": f"#/properties/p%{ord(str((n + 1) // 10)):x}{(n + 1) % 10}" if n > 8 else f"#/properties/p{n + 1}"},
            ]
        }
    with pytest.raises(ToolError, match="too complex"):
        tool({"properties": parts}).check_schema()


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"properties": {"a": {"$ref": "#"}}}, id="refers to itself"),
        pytest.param(
            {
                "$defs": {
                    "filter": {
                        "oneOf": [
                            {
                                "properties": {
                                    "op": {"const": op},
                                    "left": {"$ref": "#/$defs/filter"},
                                    "right": {"$ref": "#/$defs/filter"},
                                }
                            }
                            for op in ("and", "or", "xor")
                        ]
                    }
                },
                "properties": {"filter": {"$ref": "#/$defs/filter"}},
            },
            id="tree",
        ),
        pytest.param({"properties": {f"p{n}": {"type": "string", "enum": ["a"] * 50} for n in range(500)}}, id="wide"),
        pytest.param(doubling(8, WRAPS["allOf"]), id="a few levels"),
        pytest.param({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, id="circle"),
    ],
)
def test_schemas_of_real_tools_are_accepted(schema: dict[str, Any]) -> None:
    checked = tool(schema)
    checked.check_schema()
    assert checked.checked({}) == {} or "oneOf" in json.dumps(schema)


@pytest.mark.parametrize("levels", [200, 20_000])
def test_a_schema_that_is_nested_too_deeply_is_refused(levels: int) -> None:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}
    with pytest.raises(ToolError, match="nested"):
        tool(schema).check_schema()


def test_a_long_chain_of_references_is_refused() -> None:
    chain = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(5_000)}
    with pytest.raises(ToolError, match="lead to one another"):
        tool({"$ref": "#/$defs/d0", "$defs": {**chain, "d5000": {}}}).check_schema()


def test_the_model_is_told_of_a_few_problems_out_of_many() -> None:
    numbers = tool({"properties": {"a": {"items": {"type": "integer"}}}})
    with pytest.raises(ToolError) as caught:
        numbers.checked({"a": ["x"] * 50_000})
    assert str(caught.value).count("\n  - ") == 20
    assert len(str(caught.value)) < 50_000
