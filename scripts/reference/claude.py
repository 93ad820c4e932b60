"""Generate docs/protocol/claude.md."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from fairlead.protocol.claude.examples import ANSWER_EXAMPLES, FRAME_EXAMPLES, LINE_EXAMPLES, REQUEST_EXAMPLES, RESULT_EXAMPLES
from fairlead.protocol.claude.frames import FRAMES
from fairlead.protocol.claude.host import AGENT_REQUESTS, HOST_LINES, REQUESTS
from fairlead.protocol.schema.builder import Schema, list_mentioned
from fairlead.protocol.schema.claude import claude_schema, frame_name, request_name
from reference.markdown import about, block, definition, fields

INTRODUCTION = """\
# The protocol of claude-agent-sdk

<!-- `make generate` writes this page from `src/fairlead/protocol/claude`. Do not edit. -->

A host starts `fairlead --dialect claude` with the flags of Claude Code and exchanges lines of JSON
with it. It sends prompts and [control requests](#control-requests-of-the-host), and receives
[frames](#frames), answers, and [control requests of the agent](#control-requests-of-the-agent). A
control request of either side is answered by the other. [docs/claude.md](../claude.md) says how
fairlead uses the protocol.

For programs, there is [claude.schema.json](claude.schema.json), which
`fairlead schema --dialect claude` prints, and [claude.ts](claude.ts), printed with `--typescript`.
"""


def page() -> str:
    defined: dict[str, Schema] = claude_schema()["$defs"]
    parts = [INTRODUCTION, "## Lines\n\nA host sends these. Control requests and answers go both ways.\n"]
    parts += [_line(each, defined) for each in HOST_LINES]
    parts.append("## Control requests of the host\n")
    parts += [_request(name, each, defined) for name, each in REQUESTS.items()]
    parts.append("## Control requests of the agent\n")
    parts += [_question(name, defined) for name in AGENT_REQUESTS]
    parts.append("## Frames\n\nEvery frame has the `session_id` and a fresh `uuid`.\n")
    parts += [_frame(each, defined) for each in FRAMES]
    shown = [f"{each.__name__}Line" for each in HOST_LINES] + [request_name(each) for each in REQUESTS.values()]
    shown += [each.result.__name__ for each in REQUESTS.values() if each.result is not None]
    shown += [frame_name(each) for each in FRAMES]
    shown += [name for asked, answer in AGENT_REQUESTS.values() for name in (request_name(asked), answer.__name__)]
    types = [name for name in list_mentioned([defined[name] for name in shown], defined) if name not in shown]
    parts += ["## Types\n", *(definition(name, defined[name]) for name in types)]
    return "\n".join(parts)


def _line(declared: type[Struct], defined: dict[str, Schema]) -> str:
    schema = defined[f"{declared.__name__}Line"]
    name = schema["properties"]["type"]["const"]
    return _part(name, schema, ["type"], LINE_EXAMPLES[declared.__name__])


def _request(name: str, declared: Any, defined: dict[str, Schema]) -> str:
    schema = defined[request_name(declared)]
    parts = [f"### {name}\n", *about(schema), *fields(schema, ["subtype"])]
    if declared.result is not None:
        parts += ["Response:", "", *fields(defined[declared.result.__name__])]
    asked = {"subtype": name, **REQUEST_EXAMPLES[name]}
    return "\n".join([*parts, *block(asked, *([RESULT_EXAMPLES[name]] if name in RESULT_EXAMPLES else []))])


def _question(name: str, defined: dict[str, Schema]) -> str:
    declared, answer = AGENT_REQUESTS[name]
    schema = defined[request_name(declared)]
    parts = [f"### {name}\n", *about(schema), *fields(schema, ["subtype"]), "Response:", "", *fields(defined[answer.__name__])]
    asked, answered = ANSWER_EXAMPLES[name]
    return "\n".join([*parts, *block({"subtype": name, **asked}, answered)])


def _frame(declared: Any, defined: dict[str, Schema]) -> str:
    schema = defined[frame_name(declared)]
    kind, subtype = schema["properties"]["type"]["const"], schema["properties"].get("subtype", {}).get("const")
    title = kind if subtype is None else f"{kind} {subtype}"
    return _part(
        title,
        schema,
        ["type", "subtype", "session_id", "uuid"] if subtype else ["type", "session_id", "uuid"],
        FRAME_EXAMPLES[declared],
    )


def _part(title: str, schema: Schema, leave_out: list[str], example: Any) -> str:
    return "\n".join([f"### {title}\n", *about(schema), *fields(schema, leave_out), *block(example)])
