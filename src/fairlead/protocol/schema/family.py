"""The protocol of a member of the pi family as a JSON Schema (draft 2020-12).

Every line that a host may send or be sent is valid. `$defs` has, under the names that the TypeScript types have too, each
command, the response to it, each event, each answer, and the types that they mention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from fairlead.protocol.pi.command import Command
from fairlead.protocol.pi.frames import Frame
from fairlead.protocol.pi.host_commands import Answer
from fairlead.protocol.schema.shapes import Refinements, Schema, Shapes, Unions, reference

ANY_ID: Schema = {"description": "That of the command, if it had one."}


class Lines(Struct, kw_only=True, frozen=True):
    """What goes over the wire in one member of the family."""

    commands: Mapping[str, type[Command]]
    answers: Sequence[type[Answer]]
    events: Sequence[type[Frame]]
    #: Whether commands are answered.
    responses: bool
    refinements: Refinements
    unions: Unions
    #: Structs that may have fields beside those that are declared.
    open_ended: tuple[type[Struct], ...]
    #: By command: an example of it, and of the `data` of its response. By the type of an event or an answer: an example.
    command_examples: Mapping[str, Mapping[str, Any]]
    line_examples: Mapping[str, Mapping[str, Any]]


def family_schema(title: str, lines: Lines, *, closed: bool = False) -> Schema:
    """The schema of these lines. `closed`: what a host is sent has no fields but those that are declared."""
    shapes = Shapes(lines.refinements, lines.unions, closed=closed, open_ended=lines.open_ended)
    commands = {command_name(each): shapes.body(each) for each in lines.commands.values()}
    answers = {answer_name(each): shapes.body(each) for each in lines.answers}
    shapes.accepting = False
    responses = _responses(shapes, lines) if lines.responses else {}
    events = {event_name(each): shapes.body(each) for each in lines.events}
    for name, command in lines.commands.items():
        commands[command_name(command)]["examples"] = [{"type": name, **lines.command_examples[name]["command"]}]
    for declared, schema in zip((*lines.answers, *lines.events), (*answers.values(), *events.values()), strict=True):
        tag = str(declared.__struct_config__.tag)
        schema["examples"] = [{"type": tag, **lines.line_examples[tag]}]
    unions = {"Command": commands, "Answer": answers, "Response": responses, "Event": events}
    named = {name: {"anyOf": [reference(member) for member in members]} for name, members in unions.items() if members}
    parts = (named, commands, answers, responses, events, dict(sorted(shapes.definitions.items())))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "description": "The lines of JSON between a host and the agent. A host sends commands and answers; it gets responses and "
        "events. Unknown fields are ignored on both sides.",
        "anyOf": [reference(name) for name in named],
        "$defs": _joined(parts),
    }


def _joined(parts: Sequence[Mapping[str, Schema]]) -> dict[str, Schema]:
    definitions: dict[str, Schema] = {}
    for part in parts:
        if twice := definitions.keys() & part.keys():
            raise TypeError(f"two declarations would have the same name: {', '.join(sorted(twice))}")
        definitions |= part
    return definitions


def command_name(declared: type[Command]) -> str:
    return f"{declared.__name__}Command"


def response_name(declared: type[Command]) -> str:
    return f"{declared.__name__}Response"


def answer_name(declared: type[Answer]) -> str:
    return f"{declared.__name__}Answer"


def event_name(declared: type[Frame]) -> str:
    return f"{declared.__name__.removesuffix('Event')}Event"


def _responses(shapes: Shapes, lines: Lines) -> dict[str, Schema]:
    """The response to each command that was carried out, and the one to any that was not."""
    made = {response_name(each): _response(shapes, lines, name, each) for name, each in lines.commands.items()}
    made["ErrorResponse"] = _error_response(shapes)
    return made


def _response(shapes: Shapes, lines: Lines, name: str, declared: type[Command]) -> Schema:
    properties: dict[str, Schema] = {
        "type": {"type": "string", "const": "response"},
        "id": ANY_ID,
        "command": {"type": "string", "const": name},
        "success": {"type": "boolean", "const": True},
    }
    example: dict[str, Any] = {"id": "1", "type": "response", "command": name, "success": True}
    required = ["type", "command", "success"]
    if declared.result is not None:
        properties["data"] = shapes.of(declared.result)
        required.append("data")
        example["data"] = lines.command_examples[name]["data"]
    return shapes.object(properties, required, f"`{name}` was carried out.") | {"examples": [example]}


def _error_response(shapes: Shapes) -> Schema:
    properties: dict[str, Schema] = {
        "type": {"type": "string", "const": "response"},
        "id": ANY_ID,
        "command": {"type": "string", "description": "Its name; `parse` if the line could not be read."},
        "success": {"type": "boolean", "const": False},
        "error": {"type": "string", "description": "What went wrong, for people."},
        "code": {"type": "string", "description": "A short name of that, where programs are expected to tell it apart."},
    }
    example = {"id": "1", "type": "response", "command": "fork", "success": False, "error": "Entry not found"}
    text = "A command was not carried out, and changed nothing."
    return shapes.object(properties, ["type", "command", "success", "error"], text) | {"examples": [example]}
