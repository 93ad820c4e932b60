"""Schemas that would keep the validator busy are refused when the tool is registered, without being tried."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ToolError


async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    return ToolResult.text("")


def tool(schema: dict[str, Any]) -> Tool:
    return Tool("t", "", schema, run)


#: Makes a schema of references.
Wrap = Callable[[list[Any]], dict[str, Any]]


def doubling(levels: int, wrap: Wrap, *, place: str = "$defs", named: bool = False) -> dict[str, Any]:
    """Definitions each of which refers to the next one twice."""

    def ref(level: int) -> dict[str, Any]:
        return {"$ref": f"https://made-up.example/d{level}" if named else f"#/{place}/d{level}"}

    definitions = {f"d{n}": wrap([ref(n + 1), ref(n + 1)]) for n in range(levels)}
    definitions[f"d{levels}"] = {"type": "object"}
    if named:
        for name, each in definitions.items():
            each["$id"] = f"https://made-up.example/{name}"
    return {"type": "object", place: definitions, **wrap([ref(0)])}


WRAPS: dict[str, Wrap] = {
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
    assert checked.check_arguments({}) == {} or "oneOf" in json.dumps(schema)


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


def test_only_a_few_of_many_argument_problems_are_reported() -> None:
    numbers = tool({"properties": {"a": {"items": {"type": "integer"}}}})
    with pytest.raises(ToolError) as caught:
        numbers.check_arguments({"a": ["x"] * 50_000})
    assert str(caught.value).count("\n  - ") == 20
    assert len(str(caught.value)) < 50_000


def nested(levels: int, leaf: Any) -> Any:
    for _ in range(levels):
        leaf = {"a": leaf}
    return leaf


@pytest.mark.parametrize("kind", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize("reference", ["$ref", "$recursiveRef"])
def test_errors_that_double_with_each_level_of_the_arguments_are_not_listed(kind: str, reference: str) -> None:
    # Sixty levels: the validator would make 2 to the 60th errors.
    schema = {"type": "object", "properties": {"a": {kind: [{reference: "#"}, {reference: "#", "description": "again"}]}}}
    if reference == "$recursiveRef":
        schema |= {"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveAnchor": True}
    with pytest.raises(ToolError, match="too complex, to say where"):
        tool(schema).check_arguments(nested(60, 1))


def test_errors_that_would_quote_a_large_argument_again_and_again_are_not_listed() -> None:
    schema = {"type": "object", "properties": {"x": {"anyOf": [{"type": "integer"}] * 15_000}}, "required": ["path"]}
    with pytest.raises(ToolError, match="path: missing"):
        tool(schema).check_arguments({"x": "a" * 10_000_000})
    with pytest.raises(ToolError, match="too large"):
        tool(schema).check_arguments({"path": "", "x": ["a"] * 100_000})


def test_all_argument_problems_in_an_ordinary_tree_are_listed() -> None:
    tree = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/node"}]}
    node = {"type": "object", "properties": {"left": tree, "right": tree}, "additionalProperties": False}
    schema = {"type": "object", "properties": {"root": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}
    with pytest.raises(ToolError, match=r"root\.left: .* is not valid"):
        tool(schema).check_arguments({"root": {"left": {"left": {"right": [5]}}, "right": "b"}})


@pytest.mark.parametrize("reference", ["$ref", "$dynamicRef"])
def test_definitions_that_all_refer_to_one_another_for_the_same_value_are_refused(reference: str) -> None:
    names = [f"d{n}" for n in range(12)]
    definitions = {
        name: {
            "$dynamicAnchor": name,
            "allOf": [{reference: f"#{other}" if reference == "$dynamicRef" else f"#/$defs/{other}"} for other in names],
        }
        for name in names
    }
    with pytest.raises(ToolError, match="too complex"):
        tool({"type": "object", "$ref": "#/$defs/d0", "$defs": definitions}).check_schema()


def test_definitions_that_refer_to_one_another_for_parts_of_the_value_are_fine() -> None:
    kinds = [f"k{n}" for n in range(25)]
    any_kind = {"anyOf": [{"$ref": f"#/$defs/{kind}"} for kind in kinds]}
    definitions = {
        kind: {"type": "object", "properties": {"kind": {"const": kind}, "of": any_kind, "and": {"items": any_kind}}}
        for kind in kinds
    }
    of_tree = tool({"type": "object", "properties": {"tree": any_kind}, "$defs": definitions})
    assert of_tree.check_arguments({"tree": {"kind": "k3", "of": {"kind": "k4", "and": [{"kind": "k5"}]}}})


@pytest.mark.parametrize(
    "version, name",
    [("2020-12/schema", "id"), ("draft-07", "$id"), ("draft-04", "$id")],
)
def test_names_that_a_version_does_not_know_do_not_hide_references(version: str, name: str) -> None:
    address = f"https://json-schema.org/draft/{version}" if "/" in version else f"http://json-schema.org/{version}/schema#"
    schema = doubling(
        40, lambda refs: {"allOf": [{name: "https://made-up.example/", **each} for each in refs]}, place="definitions"
    )
    with pytest.raises(ToolError, match="too complex"):
        tool({"$schema": address, **schema}).check_schema()


def test_many_patterns_that_backtrack_are_refused_and_each_ends_soon() -> None:
    slow = "^(?!x)(a|a)*(?=b)$"
    with pytest.raises(ToolError, match="too complex"):
        tool({"type": "object", "propertyNames": {"anyOf": [{"pattern": f"{slow}|{n}"} for n in range(1_000)]}}).check_schema()
    with pytest.raises(ToolError, match="limit for backtracking"):
        tool({"type": "object", "properties": {"x": {"pattern": slow}}}).check_arguments({"x": "a" * 40})
