"""Render the definitions of a JSON Schema as Markdown."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Collection, Mapping
from typing import Any

Schema = Mapping[str, Any]

WIDTH = 100
WORDS = {"integer": "number", "object": "object"}


def definition(title: str, schema: Schema, leave_out: Collection[str] = ()) -> str:
    """Render a type under its own heading."""
    if "anyOf" in schema:
        members = ", ".join(type_name(member) for member in schema["anyOf"])
        return f"### {title}\n\n{wrap(f'One of {members}.')}\n"
    return "\n".join([f"### {title}\n", *about(schema), *fields(schema, leave_out)])


def about(schema: Schema) -> list[str]:
    text = wrap(schema.get("description", ""))
    return [text, ""] if text else []


def wrap(text: str) -> str:
    """Wrap each paragraph at the width of our pages."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(textwrap.fill(each, WIDTH, break_long_words=False, break_on_hyphens=False) for each in paragraphs)


def fields(schema: Schema, leave_out: Collection[str] = ()) -> list[str]:
    """Render the fields of an object as a table. Return nothing if there are none."""
    required = schema.get("required", ())
    rows: list[str] = []
    for name, field in schema.get("properties", {}).items():
        if name not in leave_out:
            notes = [*([] if name in required else ["optional"]), *filter(None, [field.get("description")])]
            rows.append(f"| `{name}` | {type_name(field)} | {'. '.join(notes)} |")
    return ["| field | type | |", "|---|---|---|", *rows, ""] if rows else []


def type_name(schema: Schema) -> str:
    """Describe a type in words, with links to other types on the page."""
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
            return WORDS.get(word, str(word))
        case _:
            return "any"


def block(*values: Any) -> list[str]:
    """Render values as lines of JSON."""
    return ["```jsonl", *(json.dumps(value, ensure_ascii=False) for value in values), "```", ""]
