"""Errors about a host's JSON that its author can act on: the field, what was expected, what was found."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

_KINDS = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}

_AT = re.compile(r"^(?P<text>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)


def explain(complaint: str, declared: type[Struct], whole: str = "the command") -> str:
    """Rewrite msgspec's error about JSON that does not match `declared`. `whole` is the name of the JSON as a whole."""
    match = _AT.match(complaint)
    assert match is not None
    what, path = match["text"], (match["path"] or "$").removeprefix("$").lstrip(".")
    if missing := re.match(r"Object missing required field `(\w+)`", what):
        field = f"{path}.{missing[1]}" if path else missing[1]
        return f"{field}: required, but missing"
    if wrong := re.match(r"Expected `([^`]+)`(?:, got `([^`]+)`)?$", what):
        wanted = [_KINDS.get(kind.strip(), kind.strip()) for kind in wrong[1].split("|")]
        wanted = [kind for kind in dict.fromkeys(wanted) if kind != "null"] or ["null"]
        found = f", got {_describe_kind(wrong[2])}" if wrong[2] else ""
        return f"{path or whole}: expected {' or '.join(wanted)}{found}"
    if bad := re.match(r"Invalid (?:enum )?value (.*)", what):
        allowed = _format_allowed(declared, path)
        return f"{path}: expected {allowed}, got {bad[1]}" if allowed else f"{path}: invalid value {bad[1]}"
    return f"{path}: {what}" if path else what


def kind_of(value: Any) -> str:
    """The name of the type of a JSON value that is not an object."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "a number"


def _format_allowed(declared: type[Struct], path: str) -> str | None:
    """The values that the field at `path` may have, if it is an enumeration."""
    info: Any = msgspec.inspect.type_info(declared)
    for step in re.findall(r"\[[^\]]*\]|[^.\[]+", path):
        if (values := _tags(info, step)) is not None:
            break
        info = _inside(info, step)
    else:
        members = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
        values = tuple(value for each in members if isinstance(each, msgspec.inspect.LiteralType) for value in each.values)
    return " or ".join(f'"{value}"' for value in values) or None


def _inside(info: Any, step: str) -> Any:
    """The type of a field of an object, or of the items of a list."""
    match info:
        case msgspec.inspect.ListType(item_type=item) if step.startswith("["):
            return item
        case msgspec.inspect.StructType(fields=fields):
            return next((field.type for field in fields if field.encode_name == step), None)
        case _:
            return None


def _tags(info: Any, step: str) -> tuple[Any, ...] | None:
    """The tags of the members of a union, if `step` is the tag field."""
    if not isinstance(info, msgspec.inspect.UnionType):
        return None
    members = [member for member in info.types if isinstance(member, msgspec.inspect.StructType)]
    tags = tuple(member.tag for member in members if member.tag_field == step)
    return tags or None


def _describe_kind(name: str) -> str:
    return "a number" if name == "int" else _KINDS.get(name, name)
