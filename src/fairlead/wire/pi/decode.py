"""A host's line as a command or an answer, or an error that names the field and what was expected of it."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.core import lenient
from fairlead.errors import BadCommand
from fairlead.protocol.pi.command import Command

_KINDS = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
T = TypeVar("T", bound=Struct)

_AT = re.compile(r"^(?P<text>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)


class Envelope(Struct):
    """As much of a line as is needed to answer it, whatever else is wrong with it."""

    type: str | None
    id: Raw | UnsetType


class _Lenient(Struct):
    type: Raw | UnsetType = UNSET
    id: Raw | UnsetType = UNSET


_envelopes = msgspec.json.Decoder(_Lenient)
_decoders: dict[type[Struct], msgspec.json.Decoder[Any]] = {}


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


def command(declared: type[Command], line: bytes) -> Command:
    """The command in the line, which names it. Raises BadCommand."""
    if declared.fault is not None and (fault := declared.fault(_value(line))):
        raise BadCommand(fault)
    return decoded(declared, line)


def decoded(declared: type[T], line: bytes) -> T:
    """What the line holds, as declared. Raises BadCommand."""
    decoder: msgspec.json.Decoder[T] | None = _decoders.get(declared)
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


def _convert(line: bytes, declared: type[T]) -> T:
    try:
        return msgspec.json.decode(_repaired(line), type=declared)
    except msgspec.ValidationError as error:
        raise BadCommand(_explain(str(error), declared)) from None


def _repaired(line: bytes) -> bytes:
    """The line as valid JSON of an object: lone surrogates and invalid UTF-8 become U+FFFD."""
    return msgspec.json.encode(_value(line))


def _value(line: bytes) -> dict[str, Any]:
    """The object in the line, as Python has it."""
    try:
        value = lenient.decode(line)
    except ValueError as error:
        raise BadCommand(str(error)) from None
    if not isinstance(value, dict):
        raise BadCommand(f"expected a JSON object, got {_kind_of(value)}")
    return value  # pyright: ignore[reportUnknownVariableType]


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


def _explain(text: str, declared: type[Struct]) -> str:
    """msgspec's complaint in our words."""
    match = _AT.match(text)
    assert match is not None
    what, path = match["text"], (match["path"] or "$").removeprefix("$").lstrip(".")
    if missing := re.match(r"Object missing required field `(\w+)`", what):
        field = f"{path}.{missing[1]}" if path else missing[1]
        return f"{field}: required, but missing"
    if wrong := re.match(r"Expected `([^`]+)`(?:, got `([^`]+)`)?$", what):
        wanted = [_KINDS.get(kind.strip(), kind.strip()) for kind in wrong[1].split("|")]
        wanted = [kind for kind in dict.fromkeys(wanted) if kind != "null"] or ["null"]
        found = f", got {_kind_found(wrong[2])}" if wrong[2] else ""
        return f"{path or 'the command'}: expected {' or '.join(wanted)}{found}"
    if bad := re.match(r"Invalid (?:enum )?value (.*)", what):
        allowed = _allowed(declared, path)
        return f"{path}: expected {allowed}, got {bad[1]}" if allowed else f"{path}: invalid value {bad[1]}"
    return f"{path}: {what}" if path else what


def _allowed(declared: type[Struct], path: str) -> str | None:
    """The values that the field at `path` may have, if they are a few words."""
    info: Any = msgspec.inspect.type_info(declared)
    for step in re.findall(r"\[[^\]]*\]|[^.\[]+", path):
        if (values := _tags(info, step)) is not None:
            break
        info = _inside(info, step)
    else:
        values = info.values if isinstance(info, msgspec.inspect.LiteralType) else ()
    return " or ".join(f'"{value}"' for value in values) or None


def _inside(info: Any, step: str) -> Any:
    """The type of a field of an object, or of the items of a list."""
    match info:
        case msgspec.inspect.ListType(item_type=item) if step.startswith("["):
            return item
        case msgspec.inspect.StructType(fields=fields):
            return next((field.type for field in fields if field.encode_name == step), None)
        case _:
            return None


def _tags(info: Any, step: str) -> tuple[Any, ...] | None:
    """What tells the members of a union apart, if `step` is the field that does."""
    if not isinstance(info, msgspec.inspect.UnionType):
        return None
    members = [member for member in info.types if isinstance(member, msgspec.inspect.StructType)]
    tags = tuple(member.tag for member in members if member.tag_field == step)
    return tags or None


def _kind_found(name: str) -> str:
    return "a number" if name == "int" else _KINDS.get(name, name)
