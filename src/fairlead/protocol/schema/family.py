"""The protocol of one dialect of the pi family as a JSON Schema (draft 2020-12).

The schema accepts every line that a host may send or receive. `$defs` contains each command and its response, each event, each
reply, and the types that they use, under the names of the TypeScript types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from fairlead.protocol.pi.commands import Command
from fairlead.protocol.pi.frames import Frame
from fairlead.protocol.pi.host_requests import ReplyLine
from fairlead.protocol.schema.builder import Refinements, Schema, SchemaBuilder, Unions, reference

ANY_ID: Schema = {"description": "The id of the command, if it had one."}


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
    unions = {"Command": commands, "Answer": answers, "Response": responses, "Event": events}
    named = {name: {"anyOf": [reference(member) for member in members]} for name, members in unions.items() if members}
    parts = (named, commands, answers, responses, events, dict(sorted(builder.definitions.items())))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "description": "The lines of JSON between a host and the agent. A host sends commands and replies; it receives "
        "responses and events. Both sides ignore unknown fields.",
        "anyOf": [reference(name) for name in named],
        "$defs": _joined(parts),
    }


def _joined(parts: Sequence[Mapping[str, Schema]]) -> dict[str, Schema]:
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
