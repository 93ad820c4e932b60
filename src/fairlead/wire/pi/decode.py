"""A host's line as a command or an answer, or an error that names the field and what was expected of it."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.core import lenient
from fairlead.errors import BadCommand
from fairlead.protocol.pi.commands import Command
from fairlead.wire.messages import Id

T = TypeVar("T", bound=Struct)


class Envelope(Struct):
    """As much of a line as is needed to answer it, whatever else is wrong with it."""

    type: str | None
    id: Id


class _Lenient(Struct):
    type: Raw | UnsetType = UNSET
    id: Id = UNSET


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
        from fairlead.protocol.explain import explain

        raise BadCommand(explain(str(error), declared)) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _convert(line, declared)


def _kind(outer: _Lenient) -> str | None:
    kind: Any = None if isinstance(outer.type, UnsetType) else msgspec.json.decode(outer.type)
    return kind if isinstance(kind, str) else None


def _convert(line: bytes, declared: type[T]) -> T:
    try:
        return msgspec.json.decode(_repaired(line), type=declared)
    except msgspec.ValidationError as error:
        from fairlead.protocol.explain import explain

        raise BadCommand(explain(str(error), declared)) from None


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
        from fairlead.protocol.explain import kind_of

        raise BadCommand(f"expected a JSON object, got {kind_of(value)}")
    return value  # pyright: ignore[reportUnknownVariableType]
