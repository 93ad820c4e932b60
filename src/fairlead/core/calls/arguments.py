"""Makes the arguments of a tool call fit the schema of the tool, and says what is wrong with those that cannot fit.

Models often send a number as a string, one value where a list is expected, or null for a field that they mean to leave out. Such
arguments are changed, as pi does: the intent is clear, and an error would cost another model call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, cast

from fairlead.core.calls.schema_cost import can_explain

#: How many problems of one call the model sees, and how many characters of each.
MOST_PROBLEMS = 20
_LONGEST_PROBLEM = 1_000
#: How deep arguments are changed.
_DEEPEST = 20

Schema = dict[str, Any]


def fit_arguments(schema: Schema, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with values changed to the types that `schema` declares, where that is possible.

    `arguments` itself is not changed. The result may still break the schema.
    """
    return _object(schema, arguments, schema, 0)


def problems(validator: Any, schema: Schema, arguments: dict[str, Any]) -> list[str]:
    """Describe what is wrong with arguments that break a schema. If a full check would take long, name only what is missing."""
    if can_explain(schema, arguments):
        return [_problem(error) for error in islice(validator.iter_errors(arguments), MOST_PROBLEMS)]
    missing = [name for name in _list_required(schema) if name not in arguments]
    return [f"{name}: missing" for name in missing[:MOST_PROBLEMS]] or [
        "The arguments do not match the tool's parameter schema. They are too large, or the schema is too complex, to say where."
    ]


# Fitting


def _object(schema: Schema, value: dict[str, Any], root: Schema, depth: int) -> dict[str, Any]:
    properties, required = _schemas(schema.get("properties")), _list_required(schema)
    result: dict[str, Any] = {}
    for name, each in value.items():
        declared = properties.get(name)
        if declared is None:
            result[name] = each
        elif each is not None or name in required or "null" in _types(declared, root):
            result[name] = _value(declared, each, root, depth + 1)
    return result


def _value(schema: Schema, value: Any, root: Schema, depth: int) -> Any:
    """Return a value changed to a type that the schema allows, or the value itself."""
    if depth > _DEEPEST:
        return value
    options = list(_options(schema, root))
    for option in options:
        for type in _own_types(option):
            if _is(type, value):
                return _inside(type, option, value, root, depth)
    for option in options:
        for type in _own_types(option):
            changed = _CHANGES[type](value) if type in _CHANGES else _UNFIT
            if changed is not _UNFIT:
                return changed
            if type == "array" and value is not None:
                return _inside(type, option, [value], root, depth)
    return value


def _inside(type: str, schema: Schema, value: Any, root: Schema, depth: int) -> Any:
    """Fit the parts of a value that has the right type."""
    if type == "object":
        return _object(schema, value, root, depth)
    items: Any = schema.get("items")
    if type == "array" and isinstance(items, dict):
        return [_value(cast("Schema", items), item, root, depth + 1) for item in value]
    return value


def _options(schema: Schema, root: Schema, depth: int = 0) -> Iterator[Schema]:
    """The alternatives that a schema consists of: itself, what it refers to, or what it lists."""
    if depth > 5:
        return
    reference: Any = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        target: Any = root
        for step in reference[2:].split("/"):
            target = cast("Schema", target).get(step) if isinstance(target, dict) else None
        if isinstance(target, dict):
            yield from _options(cast("Schema", target), root, depth + 1)
        return
    for keyword in ("anyOf", "oneOf"):
        listed: Any = schema.get(keyword)
        for each in cast("list[Any]", listed) if isinstance(listed, list) else ():
            if isinstance(each, dict):
                yield from _options(cast("Schema", each), root, depth + 1)
    if "type" in schema:
        yield schema


def _types(schema: Schema, root: Schema) -> set[str]:
    return {type for option in _options(schema, root) for type in _own_types(option)}


def _own_types(schema: Schema) -> list[str]:
    declared: Any = schema.get("type")
    listed = cast("list[Any]", declared) if isinstance(declared, list) else [declared]
    return [each for each in listed if isinstance(each, str)]


def _is(type: str, value: Any) -> bool:
    if type == "integer":
        return value.is_integer() if isinstance(value, float) else _type_name(value) == "number"
    return type == _type_name(value)


_UNFIT = object()


def _number(value: Any) -> Any:
    """The number that a text stands for, or that a truth value is."""
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, str) or len(value) > 40:
        return _UNFIT
    try:
        number = float(value)
    except ValueError:
        return _UNFIT
    if not math.isfinite(number):
        return _UNFIT
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _integer(value: Any) -> Any:
    number = _number(value)
    return number if isinstance(number, int) else _UNFIT


def _string(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int | float) else _UNFIT


def _boolean(value: Any) -> Any:
    known = {"true": True, "false": False, "1": True, "0": False}
    text = value if isinstance(value, str) else str(value) if isinstance(value, int) else ""
    return known.get(text.lower(), _UNFIT)


_CHANGES: dict[str, Callable[[Any], Any]] = {
    "number": _number,
    "integer": _integer,
    "string": _string,
    "boolean": _boolean,
}


# Problems


def _problem(error: Any) -> str:
    path = ".".join(str(step) for step in error.instance_path)
    kind = error.kind
    if kind.name == "required":
        return f"{path}.{kind.property}: missing" if path else f"{kind.property}: missing"
    if kind.name == "type":
        return f"{path or 'root'}: expected {' or '.join(kind.types)}, got {_type_name(error.instance)}"
    message = str(error.message)
    if len(message) > _LONGEST_PROBLEM:  # it may quote all of the arguments
        message = f"{message[: _LONGEST_PROBLEM // 2]} … {message[-_LONGEST_PROBLEM // 2 :]}"
    return f"{path}: {message}" if path else message


def _type_name(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _list_required(schema: Schema) -> list[str]:
    listed: Any = schema.get("required")
    return [name for name in cast("list[Any]", listed) if isinstance(name, str)] if isinstance(listed, list) else []


def _schemas(value: Any) -> dict[str, Schema]:
    if not isinstance(value, dict):
        return {}
    return {name: each for name, each in cast("dict[str, Any]", value).items() if isinstance(each, dict)}
