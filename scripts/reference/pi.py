"""The page about the pi family."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.protocol.pi.frames import Frame
from fairlead.protocol.pi.protocol_2025 import COMMANDS_2025, Compaction, Error
from fairlead.protocol.schema.builder import Schema, mentioned
from fairlead.protocol.schema.family import Lines, answer_name, command_name, event_name, family_schema, response_name
from fairlead.wire.pi.profile import PROFILES
from fairlead.wire.pi.routes import family_routes
from fairlead.wire.pi.schema import events, lines_2025, whole_family
from reference.markdown import about, block, definition, fields

INTRODUCTION = """\
# The protocol of the pi family

Made from the declarations in `src/fairlead/protocol/pi` by `make generate`. Do not edit.

A host starts `fairlead --mode rpc` and exchanges JSON objects with it, one a line, separated by LF. It sends
[commands](#commands) and gets [responses](#responses), one for each, and [events](#events) as they happen. Every command
may carry an `id` of any JSON type, which its response echoes. `null` for an optional field means absent. Commands
take effect in the order received; only {late} may be answered after commands that came later, and a `prompt` that is a command of
an extension's.

A line that cannot be read gets a response whose `command` is `parse`. A field of the wrong type gets an error that names
it and says what was expected. Nothing is changed by a command that fails. Unknown fields are ignored; please ignore them too.

The same for programs: a JSON Schema (draft 2020-12) of every line of [pi](pi.schema.json), [omp](omp.schema.json),
[xcsh](xcsh.schema.json) and [pi-2025](pi-2025.schema.json), and TypeScript types for [pi](pi.ts), [omp](omp.ts),
[xcsh](xcsh.ts) and [pi-2025](pi-2025.ts). `fairlead schema --dialect NAME` prints the one, with `--typescript` the other.
"""

RESPONSES_INTRODUCTION = """\
Those to commands that were carried out are shown with their command. Any other command gets this one:
"""

ANSWERS_INTRODUCTION = """\
Some events ask the host for something. It answers with a line of its own, which gets no response. Answers act as they arrive,
before commands that came earlier, and may come in any order. One to something that was never asked, was answered already, or is
not waited for any more is ignored. One that cannot be understood is an error: of the tool that waits for it, or else in a
response.
"""

INTRODUCTION_2025 = """\
The protocol of pi in 2025, for hosts that were written for it: `--dialect pi-2025`. There are no responses. The commands are
`prompt`, `abort` and `compact`; everything else, and whatever goes wrong, is an `error`. The events are `agent_start`,
`agent_end`, `turn_start`, `turn_end`, `message_start`, `message_update`, `message_end`, `tool_execution_start`,
`tool_execution_end`, `compaction` and `error`. The content of a user's message is a string when it has no images, and the
`result` of a tool that failed is its text.
"""


def page() -> str:
    family = whole_family()
    defined: dict[str, Schema] = family_schema("The family", family)["$defs"]
    late = ", ".join(f"`{name}`" for name, route in family_routes().all().items() if route.when == "late")
    parts = [INTRODUCTION.format(late=late), "## Commands\n"]
    parts += [_command(name, defined[command_name(each)], defined[response_name(each)]) for name, each in family.commands.items()]
    parts += ["## Responses\n", RESPONSES_INTRODUCTION, *fields(defined["ErrorResponse"], ["type"])]
    parts += [f"## Answers\n\n{ANSWERS_INTRODUCTION}"]
    parts += [_line(str(each.__struct_config__.tag), defined[answer_name(each)]) for each in family.answers]
    parts.append("## Events\n")
    parts += [_line(_tag(each), defined[event_name(each)], _where(each)) for each in family.events]
    parts += _part_of_2025()
    parts.append("## Types\n")
    parts += [definition(name, defined[name]) for name in mentioned(_shown(family, defined), defined) if name != "Event"]
    return "\n".join([*parts, _profiles()])


def _shown(family: Lines, defined: dict[str, Schema]) -> list[Schema]:
    """What has a place of its own on the page; the types that it mentions come behind."""
    return [
        *(defined[name(each)] for each in family.commands.values() for name in (command_name, response_name)),
        *(defined[answer_name(each)] for each in family.answers),
        *(defined[event_name(each)] for each in family.events),
        family_schema("2025", lines_2025())["$defs"]["Prompt2025Command"],
    ]


def _command(name: str, command: Schema, response: Schema) -> str:
    parts = [f"### {name}\n", *about(command), *fields(command, ["type", "id"])]
    answered = "data" in response["properties"]
    parts += fields({**response, "required": ["data"]}, ["type", "id", "command", "success"]) if answered else []
    return "\n".join([*parts, *block(*command["examples"], *(response["examples"] if answered else []))])


def _line(name: str, schema: Schema, where: str = "") -> str:
    text = " ".join(filter(None, [schema.get("description"), where]))
    return "\n".join([f"### {name}\n", text, "", *fields(schema, ["type"]), *block(*schema["examples"])])


def _where(event: type[Frame]) -> str:
    """Which members of the family send an event, if not all that have responses do."""
    family = [profile for name, profile in PROFILES.items() if name != "pi-2025"]
    names = [f"`{profile.name}`" for profile in family if event in events(profile)]
    return "" if len(names) == len(family) else f"Sent in {' and '.join(names)}."


def _part_of_2025() -> list[str]:
    defined: dict[str, Schema] = family_schema("2025", lines_2025())["$defs"]
    command = defined[command_name(COMMANDS_2025["prompt"])]
    return [
        f"## pi-2025\n\n{INTRODUCTION_2025}",
        "\n".join(["### prompt in 2025\n", *about(command), *fields(command, ["type", "id"]), *block(*command["examples"])]),
        *(_line(_tag(each), defined[event_name(each)]) for each in (Compaction, Error)),
    ]


def _profiles() -> str:
    rows = ["## Profiles\n", "What differs between the members of the family:", ""]
    names = list(PROFILES)
    rows += [f"| | {' | '.join(f'`{name}`' for name in names)} |", "|---|" + "---|" * len(names)]
    for field in msgspec.structs.fields(type(PROFILES["pi"])):
        if field.name != "name":
            cells = [_cell(getattr(PROFILES[name], field.name)) for name in names]
            rows.append(f"| {field.name.replace('_', ' ')} | {' | '.join(cells)} |")
    return "\n".join([*rows, ""])


def _cell(item: Any) -> str:
    if isinstance(item, bool):
        return "yes" if item else "no"
    if isinstance(item, str):
        return repr(item).strip("'\"") or "none"
    if isinstance(item, int):
        return f"{item:,}"
    return ", ".join(sorted(item)) or "none"


def _tag(frame: type[Frame]) -> str:
    return str(frame.__struct_config__.tag)
