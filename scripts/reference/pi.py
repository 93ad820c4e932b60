"""Generate docs/protocol/pi.md."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.protocol.pi.frames import Frame
from fairlead.protocol.pi.session_commands import COMMANDS_2025, Compaction, Error
from fairlead.protocol.schema.builder import Schema, list_mentioned
from fairlead.protocol.schema.family import Lines, answer_name, command_name, event_name, family_schema, response_name
from fairlead.wire.pi.pi_schema import events, lines_2025, whole_family
from fairlead.wire.pi.pi_server import family_routes
from fairlead.wire.pi.profile import PROFILES, Profile
from reference.markdown import about, block, definition, fields, type_name, wrap

INTRODUCTION = """\
# The protocol of the pi family

<!-- `make generate` writes this page from `src/fairlead/protocol/pi`. Do not edit. -->

A host starts `fairlead --mode rpc` and exchanges JSON objects with it, one per line, separated by
LF. It sends [commands](#commands) and receives one [response](#responses) to each, and
[events](#events) as they happen. Every command may carry an `id` of any JSON type, and the response
repeats it. `null` for an optional field means absent.

Most hosts need little of this page: the commands [prompt](#prompt), [abort](#abort) and
[get_state](#get_state), and the events [message_update](#message_update),
[tool_execution_start](#tool_execution_start), [tool_execution_end](#tool_execution_end),
[extension_ui_request](#extension_ui_request), which asks the user, and
[agent_settled](#agent_settled), with which the work is over (in omp and xcsh
[agent_end](#agent_end)). [Your first host](../first-host.md) is a whole program.

Commands take effect in the order they arrive, and are answered in that order. There are two
exceptions that may be answered after later commands: a `prompt` that runs a command of an
extension, and {late}.

If a line cannot be parsed, the `command` of the response is `parse`. If a field has the wrong type,
the error names it and says what was expected. A command that fails changes nothing. fairlead
ignores unknown fields; hosts should too.

For programs, there is a JSON Schema (draft 2020-12) of every line of [pi](pi.schema.json),
[omp](omp.schema.json), [xcsh](xcsh.schema.json) and [pi-2025](pi-2025.schema.json), and TypeScript
types for [pi](pi.ts), [omp](omp.ts), [xcsh](xcsh.ts) and [pi-2025](pi-2025.ts).
`fairlead schema --dialect NAME` prints the schema, and with `--typescript` the types.
"""

RESPONSES_INTRODUCTION = """\
Each command shows its response on success. A command that fails gets this response:
"""

ANSWERS_INTRODUCTION = """\
Some events ask the host for something. The host sends an answer, which gets no response. Answers
take effect as they arrive, ahead of earlier commands, and may come in any order. fairlead ignores
an answer to a question that was never asked, was already answered or is no longer open. An invalid
answer is an error: for the tool that waits for it, or else in a response.
"""

INTRODUCTION_2025 = """\
`--dialect pi-2025` is the protocol of pi in 2025, for hosts that were written for it. There are no
responses. The commands are `prompt`, `abort` and `compact`. Any other command, and any failure, is
answered with an `error` event. The events are `agent_start`, `agent_end`, `turn_start`, `turn_end`,
`message_start`, `message_update`, `message_end`, `tool_execution_start`, `tool_execution_end`,
`compaction` and `error`. The content of a user message without images is a string. The `result` of
a tool that failed is its text.
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
    types: dict[str, Schema] = {**family_schema("2025", lines_2025())["$defs"], **defined}
    parts += [
        definition(name, types[name]) for name in list_mentioned(_select_sections(family, defined), types) if name != "Event"
    ]
    # The union of all events is the section about events, not a type.
    return "\n".join([*parts, _profiles()]).replace("(#event)", "(#events)")


def _select_sections(family: Lines, defined: dict[str, Schema]) -> list[Schema]:
    """Return what has its own section on the page. The types that it mentions follow."""
    return [
        *(defined[name(each)] for each in family.commands.values() for name in (command_name, response_name)),
        *(defined[answer_name(each)] for each in family.answers),
        *(defined[event_name(each)] for each in family.events),
        family_schema("2025", lines_2025())["$defs"]["Prompt2025Command"],
    ]


def _command(name: str, command: Schema, response: Schema) -> str:
    parts = [f"### {name}\n", *about(command), *fields(command, ["type", "id"])]
    answered = "data" in response["properties"]
    if answered:
        parts += ["Response:\n", *fields({**response, "required": ["data"]}, ["type", "id", "command", "success"])]
    return "\n".join([*parts, *block(*command["examples"], *(response["examples"] if answered else []))])


def _line(name: str, schema: Schema, where: str = "") -> str:
    text = wrap(" ".join(filter(None, [schema.get("description"), where])))
    members = ", ".join(type_name(member) for member in schema.get("anyOf", ()))
    union = [wrap(f"One of {members}."), ""] if members else []
    return "\n".join([f"### {name}\n", text, "", *union, *fields(schema, ["type"]), *block(*schema["examples"])])


def _where(event: type[Frame]) -> str:
    """Say which members of the family send an event, if not all of them do."""
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
    rows = ["## Profiles\n", "The members of the family differ in these points:", ""]
    names = list(PROFILES)
    rows += [f"| | {' | '.join(f'`{name}`' for name in names)} |", "|---|" + "---|" * len(names)]
    values = [_values(profile) for profile in PROFILES.values()]
    for name, first in values[0].items():
        if any(each[name] != first for each in values):
            cells = [_cell(each[name]) for each in values]
            rows.append(f"| {name.replace('_', ' ')} | {' | '.join(cells)} |")
    return "\n".join([*rows, ""])


def _values(profile: Profile) -> dict[str, Any]:
    """Return the fields of a profile, with those of its sessions among them."""
    fields = msgspec.structs.asdict(profile)
    fields |= msgspec.structs.asdict(fields.pop("behaviour"))
    return {name: fields[name] for name in fields if name != "name"}


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
