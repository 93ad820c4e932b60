"""The protocol of one dialect of the pi family as a JSON Schema (draft 2020-12).

The schema accepts every line that a host may send or receive. `$defs` contains each command and its response, each event, each
reply, and the types that they use, under the names of the TypeScript types.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from fairlead.protocol.pi.commands import Command
from fairlead.protocol.pi.frames import Frame
from fairlead.protocol.pi.host_requests import ReplyLine
from fairlead.protocol.schema.builder import Refinements, Schema, SchemaBuilder, Unions, reference

ANY_ID: Schema = {"description": "The id of the command, if it had one."}


class Variants(Struct, kw_only=True, frozen=True):
    """How the fields of a frame depend on the value of one field. The schema has a definition for each value."""

    #: The name of that field.
    by: str
    #: The other fields by value, as words. `?` marks a field that may be absent.
    fields: Mapping[str, str]
    #: What the names of the definitions end in.
    suffix: str


class Lines(Struct, kw_only=True, frozen=True):
    """The lines that one dialect of the family sends and receives."""

    commands: Mapping[str, type[Command]]
    answers: Sequence[type[ReplyLine]]
    events: Sequence[type[Frame]]
    #: Whether commands get a response.
    responses: bool
    refinements: Refinements
    unions: Unions
    #: Structs that may have more fields than they declare.
    open_ended: tuple[type[Struct], ...]
    #: Events whose fields depend on the value of one of them.
    variants: Mapping[type[Frame], Variants]
    #: Examples of each command and the `data` of its response, by name, and of each event and reply, by type.
    command_examples: Mapping[str, Mapping[str, Any]]
    line_examples: Mapping[str, Mapping[str, Any]]


def family_schema(title: str, lines: Lines, *, closed: bool = False) -> Schema:
    """The schema of these lines. If `closed`, lines to the host may have declared fields only."""
    builder = SchemaBuilder(lines.refinements, lines.unions, closed=closed, open_ended=lines.open_ended)
    commands = {command_name(each): builder.body(each) for each in lines.commands.values()}
    answers = {answer_name(each): builder.body(each) for each in lines.answers}
    builder.accepting = False
    responses = _responses(builder, lines) if lines.responses else {}
    events = {event_name(each): builder.body(each) for each in lines.events}
    for name, command in lines.commands.items():
        commands[command_name(command)]["examples"] = [{"type": name, **lines.command_examples[name]["command"]}]
    for declared, schema in zip((*lines.answers, *lines.events), (*answers.values(), *events.values()), strict=True):
        tag = str(declared.__struct_config__.tag)
        schema["examples"] = [{"type": tag, **lines.line_examples[tag]}]
    for declared, variants in lines.variants.items():
        if event_name(declared) in events:
            events[event_name(declared)] = _union_of_variants(builder, declared, events[event_name(declared)], variants)
    unions = {"Command": commands, "Answer": answers, "Response": responses, "Event": events}
    named = {name: {"anyOf": [reference(member) for member in members]} for name, members in unions.items() if members}
    parts = (named, commands, answers, responses, events, dict(sorted(builder.definitions.items())))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "description": "The lines of JSON between a host and the agent. A host sends commands and replies; it receives "
        "responses and events. Both sides ignore unknown fields.",
        "anyOf": [reference(name) for name in named],
        "$defs": _join_definitions(parts),
    }


def _union_of_variants(builder: SchemaBuilder, declared: type[Frame], schema: Schema, variants: Variants) -> Schema:
    """Define each variant of a frame, and return the union of them."""
    names = {field.name: field.encode_name for field in msgspec.structs.fields(declared)}
    own = {name for words in variants.fields.values() for name in words.replace("?", "").split()}
    common = [each for each in schema["properties"] if each not in {names[name] for name in own} | {variants.by}]
    members: list[Schema] = []
    for value, words in variants.fields.items():
        name = value[0].upper() + re.sub(r"_(\w)", lambda match: match[1].upper(), value[1:]) + variants.suffix
        properties = {each: schema["properties"][each] for each in common}
        properties[variants.by] = {"type": "string", "const": value}
        for each in (names[word.rstrip("?")] for word in words.split()):
            properties[each] = _variant_field(schema["properties"][each], value)
        required = [*common, variants.by, *(names[word] for word in words.split() if not word.endswith("?"))]
        builder.definitions[name] = builder.object(properties, required)
        members.append(reference(name))
    return {"description": schema["description"], "anyOf": members, "examples": schema["examples"]}


def _variant_field(field: Schema, value: str) -> Schema:
    """The schema of a field for one value. A note in the form `value, value: this. value: that` keeps the part about `value`."""
    parts = re.split(r"(?:^|(?<=\. ))((?:\w+, )*\w+): ", field.get("description", ""))
    for values, note in zip(parts[1::2], parts[2::2], strict=True):
        if value in values.split(", "):
            return {**field, "description": note.strip()[:1].upper() + note.strip()[1:]}
    return field


def _join_definitions(parts: Sequence[Mapping[str, Schema]]) -> dict[str, Schema]:
    definitions: dict[str, Schema] = {}
    for part in parts:
        if twice := definitions.keys() & part.keys():
            raise TypeError(f"two declarations have the same name: {', '.join(sorted(twice))}")
        definitions |= part
    return definitions


def command_name(declared: type[Command]) -> str:
    return f"{declared.__name__}Command"


def response_name(declared: type[Command]) -> str:
    return f"{declared.__name__}Response"


def answer_name(declared: type[ReplyLine]) -> str:
    return f"{declared.__name__}Answer"


def event_name(declared: type[Frame]) -> str:
    return f"{declared.__name__.removesuffix('Event')}Event"


def _responses(builder: SchemaBuilder, lines: Lines) -> dict[str, Schema]:
    """The response to each command that succeeded, and the one response to any that failed."""
    made = {response_name(each): _response(builder, lines, name, each) for name, each in lines.commands.items()}
    made["ErrorResponse"] = _error_response(builder)
    return made


def _response(builder: SchemaBuilder, lines: Lines, name: str, declared: type[Command]) -> Schema:
    properties: dict[str, Schema] = {
        "type": {"type": "string", "const": "response"},
        "id": ANY_ID,
        "command": {"type": "string", "const": name},
        "success": {"type": "boolean", "const": True},
    }
    example: dict[str, Any] = {"id": "1", "type": "response", "command": name, "success": True}
    required = ["type", "command", "success"]
    if declared.result is not None:
        properties["data"] = builder.of(declared.result)
        if not declared.result_is_optional:
            required.append("data")
        example["data"] = lines.command_examples[name]["data"]
    return builder.object(properties, required, f"`{name}` succeeded.") | {"examples": [example]}


def _error_response(builder: SchemaBuilder) -> Schema:
    properties: dict[str, Schema] = {
        "type": {"type": "string", "const": "response"},
        "id": ANY_ID,
        "command": {"type": "string", "description": "The name of the command; `parse` if the line is not valid JSON."},
        "success": {"type": "boolean", "const": False},
        "error": {"type": "string", "description": "What went wrong, for people to read."},
        "code": {"type": "string", "description": "A short name, for errors that programs need to tell apart."},
    }
    example = {"id": "1", "type": "response", "command": "fork", "success": False, "error": "Entry not found"}
    text = "A command failed and changed nothing."
    return builder.object(properties, ["type", "command", "success", "error"], text) | {"examples": [example]}
