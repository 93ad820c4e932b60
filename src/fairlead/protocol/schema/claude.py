"""The protocol of hosts that use claude-agent-sdk, as a JSON Schema (draft 2020-12).

It accepts every line that a host may send or receive. `$defs` contains each line, each control request and its result, and the
types that they use, under the names of the TypeScript types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from fairlead.protocol.claude.examples import ANSWER_EXAMPLES, FRAME_EXAMPLES, LINE_EXAMPLES, REQUEST_EXAMPLES
from fairlead.protocol.claude.frames import FRAMES
from fairlead.protocol.claude.host import (
    AGENT_REQUESTS,
    HOST_LINES,
    REQUESTS,
    ControlCancelRequest,
    ControlRequest,
    ControlResponse,
)
from fairlead.protocol.schema.builder import Schema, SchemaBuilder, reference

_ABOUT_CLAUDE = (
    "The lines of JSON between a host and the agent. `HostLine` is what a host sends, `AgentLine` what it receives. Control "
    "requests travel in both directions. Both sides ignore unknown fields."
)


def claude_schema(*, closed: bool = False) -> Schema:
    """Return the schema that `fairlead schema --dialect claude` prints. With `closed`, frames have declared fields only."""
    builder = SchemaBuilder(closed=closed)
    lines = {f"{each.__name__}Line": builder.body(each) for each in HOST_LINES}
    requests = {request_name(each): builder.body(each) for each in REQUESTS.values()}
    answers = {answer.__name__: builder.body(answer) for _, answer in AGENT_REQUESTS.values()}
    builder.accepting = False
    results = {each.result.__name__: builder.body(each.result) for each in REQUESTS.values() if each.result is not None}
    frames = {frame_name(each): builder.body(each) for each in FRAMES}
    questions = {request_name(asked): builder.body(asked) for asked, _ in AGENT_REQUESTS.values()}
    for frame in frames.values():
        _make_subtype_constant(frame)
    _add_examples(lines, requests, answers, frames, questions)
    both = [f"{each.__name__}Line" for each in (ControlRequest, ControlResponse, ControlCancelRequest)]
    named = {
        "HostLine": {"anyOf": [reference(name) for name in lines]},
        "AgentLine": {"anyOf": [reference(name) for name in (*frames, *both)]},
        "HostRequest": {"anyOf": [reference(name) for name in requests]},
        "AgentRequest": {"anyOf": [reference(name) for name in questions]},
    }
    definitions: dict[str, Schema] = {}
    for part in (named, lines, requests, results, frames, questions, answers, dict(sorted(builder.definitions.items()))):
        definitions |= part
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The protocol of claude, as fairlead speaks it",
        "description": _ABOUT_CLAUDE,
        "anyOf": [reference("HostLine"), reference("AgentLine")],
        "$defs": definitions,
    }


def request_name(declared: type[Struct]) -> str:
    return f"{declared.__name__}Request"


def frame_name(declared: type[Struct]) -> str:
    return f"{declared.__name__.removesuffix('Frame')}Frame"


def table_rows() -> dict[str, str]:
    """Return the TypeScript types of each control request of a host and of its result, by its name."""
    return {
        name: f"{{ request: {request_name(each)}; response: {'undefined' if each.result is None else each.result.__name__} }}"
        for name, each in REQUESTS.items()
    }


def _make_subtype_constant(frame: Schema) -> None:
    """Require the `subtype` of a system frame, which its declaration has as a default."""
    subtype = frame["properties"].get("subtype")
    if frame["properties"]["type"]["const"] == "system" and subtype is not None:
        frame["properties"]["subtype"] = {"type": "string", "const": subtype["enum"][0]}


def _add_examples(*parts: dict[str, Schema]) -> None:
    examples: Mapping[str, Any] = {
        **{f"{name}Line": example for name, example in LINE_EXAMPLES.items()},
        **{request_name(REQUESTS[name]): {"subtype": name, **example} for name, example in REQUEST_EXAMPLES.items()},
        **{request_name(AGENT_REQUESTS[name][0]): {"subtype": name, **asked} for name, (asked, _) in ANSWER_EXAMPLES.items()},
        **{AGENT_REQUESTS[name][1].__name__: answer for name, (_, answer) in ANSWER_EXAMPLES.items()},
        **{frame_name(each): FRAME_EXAMPLES[each] for each in FRAMES},
    }
    for part in parts:
        for name, schema in part.items():
            schema["examples"] = [examples[name]]
