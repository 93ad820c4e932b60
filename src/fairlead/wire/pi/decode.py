"""A host's line as a command, or an error that names the field and what was expected of it."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.core import lenient
from fairlead.errors import BadCommand
from fairlead.protocol.pi.commands import COMMANDS, Command

_KINDS = {
    "str": "a string",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_AT = re.compile(r"^(?P<text>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)


class Envelope(Struct):
    """As much of a line as is needed to answer it, whatever else is wrong with it."""

    type: str | None
    id: Raw | UnsetType


class _Lenient(Struct):
    type: Raw | UnsetType = UNSET
    id: Raw | UnsetType = UNSET


_envelopes = msgspec.json.Decoder(_Lenient)
_decoders: dict[type[Command], msgspec.json.Decoder[Command]] = {}


def envelope(line: bytes) -> tuple[Envelope, bytes]:
    """The line's type and id, and the line itself (repaired, if it had to be). Raises BadCommand if it is no object."""
    try:
        outer = _envelopes.decode(line)
        if not isinstance(outer.id, UnsetType):
            bytes(outer.id).decode()  # msgspec does not look into what it skips, and the id will be echoed
        kind = _kind(outer)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        line = _repaired(line)
        outer = _envelopes.decode(line)
        kind = _kind(outer)
    ident = UNSET if isinstance(outer.id, UnsetType) else Raw(bytes(outer.id))
    return Envelope(kind, ident), line


def command(name: str, line: bytes) -> Command:
    """The command of that name in the line. Raises BadCommand."""
    declared = COMMANDS[name]
    decoder = _decoders.get(declared)
    if decoder is None:
        decoder = _decoders[declared] = msgspec.json.Decoder(declared)
    try:
        return decoder.decode(line)
    except msgspec.ValidationError as error:
        raise BadCommand(_explain(str(error), declared)) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _convert(line, declared)


def _kind(outer: _Lenient) -> str | None:
    kind: Any = None if isinstance(outer.type, UnsetType) else msgspec.json.decode(outer.type)
    return kind if isinstance(kind, str) else None


def _convert(line: bytes, declared: type[Command]) -> Command:
    try:
        return msgspec.json.decode(_repaired(line), type=declared)
    except msgspec.ValidationError as error:
        raise BadCommand(_explain(str(error), declared)) from None


def _repaired(line: bytes) -> bytes:
    """The line as valid JSON of an object: lone surrogates and invalid UTF-8 become U+FFFD."""
    try:
        value = lenient.decode(line)
    except ValueError as error:
        raise BadCommand(str(error)) from None
    if not isinstance(value, dict):
        raise BadCommand(f"expected a JSON object, got {_kind_of(value)}")
    return msgspec.json.encode(value)  # pyright: ignore[reportUnknownArgumentType]


def _kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "a number"


def _explain(text: str, declared: type[Command]) -> str:
    """msgspec's complaint in our words."""
    match = _AT.match(text)
    assert match is not None
    what, path = match["text"], (match["path"] or "$").removeprefix("$").lstrip(".")
    if missing := re.match(r"Object missing required field `(\w+)`", what):
        field = f"{path}.{missing[1]}" if path else missing[1]
        return f"{field}: required, but missing"
    if wrong := re.match(r"Expected `([^`]+)`, got `([^`]+)`", what):
        wanted = [_KINDS.get(kind.strip(), kind.strip()) for kind in wrong[1].split("|")]
        wanted = [kind for kind in dict.fromkeys(wanted) if kind != "null"] or ["null"]
        return f"{path or 'the command'}: expected {' or '.join(wanted)}, got {_KINDS.get(wrong[2], wrong[2])}"
    if bad := re.match(r"Invalid (?:enum )?value (.*)", what):
        allowed = _allowed(declared, path)
        return f"{path}: expected {allowed}, got {bad[1]}" if allowed else f"{path}: invalid value {bad[1]}"
    return f"{path}: {what}" if path else what


def _allowed(declared: type[Command], path: str) -> str | None:
    for field in msgspec.structs.fields(declared):
        if field.encode_name == path:
            info = msgspec.inspect.type_info(field.type)
            if isinstance(info, msgspec.inspect.LiteralType):
                return " or ".join(f'"{value}"' for value in info.values)
    return None
