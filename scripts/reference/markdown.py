"""Definitions of a JSON Schema as Markdown."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

Schema = Mapping[str, Any]

WORDS = {"integer": "number", "object": "object"}


def definition(title: str, schema: Schema, leave_out: Collection[str] = ()) -> str:
    """A type under a heading of its own."""
    if "anyOf" in schema:
        members = ", ".join(type_name(member) for member in schema["anyOf"])
        return f"### {title}\n\nOne of {members}.\n"
    return "\n".join([f"### {title}\n", *about(schema), *fields(schema, leave_out)])


def about(schema: Schema) -> list[str]:
    text = schema.get("description", "")
    return [text, ""] if text else []


def fields(schema: Schema, leave_out: Collection[str] = ()) -> list[str]:
    """A table of an object's fields; nothing if it has none."""
    required = schema.get("required", ())
    rows: list[str] = []
    for name, field in schema.get("properties", {}).items():
        if name not in leave_out:
            remarks = [*([] if name in required else ["optional"]), *filter(None, [field.get("description")])]
            rows.append(f"| `{name}` | {type_name(field)} | {'. '.join(remarks)} |")
    return ["| field | type | |", "|---|---|---|", *rows, ""] if rows else []


def type_name(schema: Schema) -> str:
    """A type in words, with links to the types that are explained on the same page."""
    match schema:
        case {"$ref": target}:
            name = target.rsplit("/", 1)[1]
            return f"[{name}](#{name.lower()})"
        case {"const": value}:
            return f"`{json.dumps(value)}`"
        case {"enum": values}:
            return " or ".join(f"`{value}`" for value in values)
        case {"anyOf": members}:
            return " or ".join(dict.fromkeys(type_name(member) for member in members))
        case {"type": "array", "items": items}:
            return f"list of {type_name(items)}"
        case {"type": word}:
            return WORDS.get(word, word)
        case _:
            return "any"


def block(*values: Any) -> list[str]:
    """Values as lines of JSON."""
    return ["```jsonl", *(json.dumps(value, ensure_ascii=False) for value in values), "```", ""]
