"""The codec of the pi family: decodes the lines of a host, and encodes the lines that answer them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.core import lenient
from fairlead.errors import BadCommand, BusyError, FairleadError
from fairlead.protocol.pi import frames
from fairlead.protocol.pi.commands import ANSWER_NAMES, Command
from fairlead.wire.messages import Id, Message, Problem, Reply, Request, UnknownRequest
from fairlead.wire.pi.encode import Spliced, encode, encode_spliced
from fairlead.wire.pi.outlet import FrameOutlet
from fairlead.wire.pi.profile import Profile

if TYPE_CHECKING:
    from fairlead.wire.pi.outcomes import Outcomes

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


def read_envelope(line: bytes) -> tuple[Envelope, bytes]:
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


def decode_command(declared: type[Command], line: bytes) -> Command:
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


#: Commands whose failure is a second response in profiles with `late_prompt_errors`.
_PROMPTS = frozenset(("prompt", "abort_and_prompt"))


class PiCodec:
    """Implements `fairlead.wire.messages.Codec`. `outlet` says how long a frame may be."""

    def __init__(self, profile: Profile, outlet: FrameOutlet) -> None:
        self._profile = profile
        self._outlet = outlet
        #: What becomes of each prompt; None if this host is not told.
        self.outcomes: Outcomes | None = None

    def read(self, line: bytes | None) -> Message | None:
        if line is None:
            return _unreadable(UNSET, "the line is too long")
        if not line.strip():
            return None
        try:
            envelope, line = read_envelope(line)
        except BadCommand as error:
            return _unreadable(UNSET, str(error))
        name = envelope.type
        if name is None:
            return _unreadable(envelope.id, "type: expected the name of a command, as a string")
        return self.message(name, envelope.id, line)

    def message(self, name: str, ident: Id, line: bytes) -> Message:
        """What a line of this name is."""
        if name not in ANSWER_NAMES:
            return Request(name, ident, line)
        try:
            question = msgspec.json.decode(b"null" if isinstance(ident, UnsetType) else ident, type=str)
        except msgspec.DecodeError:  # another kind of value, or a number that is too large for any
            problem = BadCommand("id: expected that of the frame which asked, as a string")
            return Reply(name, ident, None, line, problem)
        return Reply(name, ident, question, line)

    def parameters(self, request: Request, declaration: type[Command]) -> Command:
        command = decode_command(declaration, request.body)
        command.id = request.id
        return command

    def result(self, request: Request, result: Any) -> Sequence[bytes]:
        response = frames.Response(id=request.id, command=request.name, success=True)
        if isinstance(result, Spliced):
            return [encode_spliced(response, result, self._outlet.max_frame)]
        if request.route is not None and request.route.declaration.result is not None:
            response.data = result
        return [encode(response)]

    def error(self, message: Message, error: BaseException) -> Sequence[bytes]:
        name, ident = ("parse", message.id) if isinstance(message, Problem) else (message.name, message.id)
        if isinstance(error, UnknownRequest) and not self._profile.unknown_command_echoes_id:
            ident = UNSET
        code = error.code if isinstance(error, BadCommand) and error.code is not None else UNSET
        text = self.error_text(error)
        failure = frames.Response(id=ident, command=name, success=False, error=text, code=code)
        if not self._is_acknowledged(message, error):
            return [encode(failure)]
        lines: list[frames.Frame] = [frames.Response(id=ident, command=name, success=True), failure]
        if self.outcomes is not None:
            # A host that waits for the outcome of an acknowledged prompt may have stopped looking at responses.
            lines.append(self.outcomes.refusal(ident, text))
        return list(map(encode, lines))

    def error_text(self, error: BaseException) -> str:
        if isinstance(error, UnknownRequest):
            return f"Unknown command: {error}"
        if isinstance(error, BusyError):
            return self._profile.busy
        if isinstance(error, asyncio.CancelledError):
            return "Not done: the agent was told to shut down."
        return str(error) if isinstance(error, FairleadError) else f"Internal error: {type(error).__name__}: {error}"

    def _is_acknowledged(self, message: Message, error: BaseException) -> bool:
        """Whether hosts of this profile expect a prompt that failed to have been acknowledged first."""
        if not self._profile.late_prompt_errors or not isinstance(message, Request) or message.name not in _PROMPTS:
            return False
        return message.parameters is not None and isinstance(error, FairleadError | asyncio.CancelledError)


def _unreadable(ident: Id, why: str) -> Problem:
    return Problem(ident, BadCommand(f"Failed to parse command: {why}"))
