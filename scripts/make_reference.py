#!/usr/bin/env python3
"""Writes docs/protocol.md, the reference of the pi family's protocol, from the declarations in fairlead.protocol.

make_reference.py           write it
make_reference.py --check   fail if it is not what the declarations say
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import inspect as types

from fairlead.config.settings import Settings
from fairlead.core.messages import Message
from fairlead.protocol.pi.all_commands import COMMANDS
from fairlead.protocol.pi.command import Command
from fairlead.protocol.pi.frames import FRAMES, Frame, InnerEvent
from fairlead.protocol.pi.host_commands import HOST_ANSWERS, Answer
from fairlead.protocol.pi.protocol_2025 import COMMANDS_2025, Compaction, Error
from fairlead.wire.pi.profile import PROFILES

DOCS = Path(__file__).resolve().parent.parent / "docs"

INTRODUCTION = """\
# The protocol of the pi family

Made from the declarations in `src/fairlead/protocol/pi` by `make generate`. Do not edit.

A host starts `fairlead --mode rpc` and exchanges JSON objects with it, one a line, separated by LF. It sends
[commands](#commands) and gets [frames](#frames): one response per command, and events as they happen. Every command
may carry an `id` of any JSON type, which its response echoes. `null` for an optional field means absent. Commands
take effect in the order received; only `bash`, `compact` and `export_html` may be answered after commands that came later.

A line that cannot be read gets a response whose `command` is `parse`. A field of the wrong type gets an error that names
it and says what was expected. Nothing is changed by a command that fails.
"""


ANSWERS_INTRODUCTION = """\
Some frames ask the host for something. It answers with a line of its own, which gets no response. Answers act as they arrive,
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


class Reference:
    """Collects the types that fields mention, so that each is explained once."""

    def __init__(self) -> None:
        self.shapes: dict[str, type] = {}
        self.shapes_of: dict[str, list[str]] = {}

    def text(self) -> str:
        parts = [INTRODUCTION, "## Commands\n"]
        parts += [self.command(name, command) for name, command in COMMANDS.items()]
        parts.append(f"## Answers\n\n{ANSWERS_INTRODUCTION}")
        parts += [self.frame(answer) for answer in HOST_ANSWERS]
        parts.append("## Frames\n")
        parts += [self.frame(frame) for frame in FRAMES]
        parts.append(f"## pi-2025\n\n{INTRODUCTION_2025}")
        parts.append(self.command("prompt", COMMANDS_2025["prompt"]))
        parts += [self.frame(frame) for frame in (Compaction, Error)]
        parts.append("## Types\n")
        parts += [f"### {name}\n\nOne of {', '.join(members)}.\n" for name, members in self.shapes_of.items()]
        done: set[str] = set()
        while missing := [name for name in self.shapes if name not in done]:
            for name in missing:
                done.add(name)
                parts.append(self.shape(name))
        parts.append(profiles())
        return "\n".join(parts)

    def command(self, name: str, command: type[Command]) -> str:
        lines = [f"### {name}\n", prose(command), "", *self.fields(command, leave_out={"id"})]
        if command.result is not None:
            lines += [f"Answers {self.name(types.type_info(command.result))}.", ""]
        return "\n".join(lines)

    def frame(self, frame: type[Frame | Answer]) -> str:
        return "\n".join([f"### {frame.__struct_config__.tag}\n", prose(frame), "", *self.fields(frame)])

    def shape(self, name: str) -> str:
        shape = self.shapes[name]
        tag = shape.__struct_config__.tag  # type: ignore[attr-defined]
        head = f"`{shape.__struct_config__.tag_field}` is `{tag}`." if tag else ""  # type: ignore[attr-defined]
        text = " ".join(part for part in (prose(shape), head) if part)
        return "\n".join([f"### {name}\n", text, "", *self.fields(shape)])

    def fields(self, shape: type, leave_out: set[str] | None = None) -> list[str]:
        rows = []
        notes = field_notes(shape)
        for field in msgspec.structs.fields(shape):
            if field.encode_name in (leave_out or ()):
                continue
            remarks = [*([] if field.required else ["optional"]), *([notes[field.name]] if field.name in notes else [])]
            rows.append(f"| `{field.encode_name}` | {self.name(types.type_info(field.type))} | {'. '.join(remarks)} |")
        return ["| field | type | |", "|---|---|---|", *rows, ""] if rows else []

    def name(self, info: Any) -> str:
        """A type in words, with links to the types that are explained below."""
        match info:
            case types.StructType(cls=cls):
                name = cls.__name__
                if self.shapes.setdefault(name, cls) is not cls:
                    raise SystemExit(f"two types are called {name}")
                return f"[{name}](#{name.lower()})"
            case types.UnionType(types=members) if name := named_union(members):
                self.shapes_of[name] = [self.name(member) for member in members]
                return f"[{name}](#{name.lower()})"
            case types.UnionType(types=members):
                shown = [self.name(m) for m in members if "Unset" not in type(m).__name__ and "unset" not in repr(m).lower()]
                return " or ".join(dict.fromkeys(shown))
            case types.ListType(item_type=item):
                return f"list of {self.name(item)}"
            case types.LiteralType(values=values):
                return " or ".join(f"`{value}`" for value in values)
            case types.DictType():
                return "object"
            case types.NoneType():
                return "null"
            case types.StrType():
                return "string"
            case types.BoolType():
                return "boolean"
            case types.IntType() | types.FloatType():
                return "number"
            case _:
                return "any"


def named_union(members: Any) -> str | None:
    """The name of a union that is mentioned often enough to have one."""
    classes = {member.cls for member in members if isinstance(member, types.StructType)}
    for name, union in (("Message", Message), ("InnerEvent", InnerEvent)):
        if classes == set(get_args(union)):
            return name
    return None


def field_notes(shape: type) -> dict[str, str]:
    """The `#:` comments above the fields of a class and of those it inherits from."""
    notes: dict[str, str] = {}
    for base in reversed(shape.__mro__):
        if base.__module__.startswith("fairlead."):
            for comment, name in re.findall(r"((?: *#: .*\n)+) *(\w+):", inspect.getsource(base)):
                notes[name] = " ".join(line.strip().removeprefix("#: ") for line in comment.splitlines())
    return notes


def prose(declared: type) -> str:
    text = inspect.cleandoc(declared.__doc__ or "")
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text)


def profiles() -> str:
    lines = ["## Profiles\n", "What differs between the members of the family:", ""]
    names = list(PROFILES)
    lines += [f"| | {' | '.join(f'`{name}`' for name in names)} |", "|---|" + "---|" * len(names)]
    for field in msgspec.structs.fields(type(PROFILES["pi"])):
        if field.name != "name":
            cells = [value(getattr(PROFILES[name], field.name)) for name in names]
            lines.append(f"| {field.name.replace('_', ' ')} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def value(item: Any) -> str:
    if isinstance(item, bool):
        return "yes" if item else "no"
    if isinstance(item, str):
        return repr(item).strip("'\"") or "none"
    if isinstance(item, int):
        return f"{item:,}"
    return ", ".join(sorted(item)) or "none"


SETTINGS_INTRODUCTION = """\
# Settings

Made from the declarations in `src/fairlead/config/settings.py` by `make generate`. Do not edit.

`settings.json` in fairlead's home (`$FAIRLEAD_HOME`, else `~/.fairlead`), then `.fairlead/settings.json` in the working
directory on top of it, key by key. Names are pi's where pi has the setting. Every key is optional; comments and trailing
commas are tolerated. A value that cannot be used is reported on stderr, and the default holds. Commands over RPC change the
session alone, unless they say `"persist": true`.

| key | default | |
|---|---|---|
"""


def settings_text() -> str:
    return SETTINGS_INTRODUCTION + "\n".join(settings_rows(Settings, "")) + "\n"


def settings_rows(group: type[msgspec.Struct], prefix: str) -> list[str]:
    rows: list[str] = []
    notes = field_notes(group)
    for field in msgspec.structs.fields(group):
        name = prefix + field.encode_name
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            rows += settings_rows(field.type, f"{name}.")
            continue
        default = {} if field.default is msgspec.NODEFAULT else field.default
        shown = "" if default in (None, {}) else f"`{msgspec.json.encode(default).decode()}`"
        rows.append(f"| `{name}` | {shown} | {notes.get(field.name, '')} |")
    return rows


def main() -> int:
    texts = {"protocol.md": Reference().text(), "settings.md": settings_text()}
    if "--check" not in sys.argv[1:]:
        for name, text in texts.items():
            (DOCS / name).write_text(text)
        return 0
    stale = [name for name, text in texts.items() if not (DOCS / name).exists() or (DOCS / name).read_text() != text]
    for name in stale:
        print(f"docs/{name} is stale: run `make generate`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
