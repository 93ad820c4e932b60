"""The codec of the pi family: decodes lines from the host, and encodes the answers."""

import asyncio
import base64
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.core import images as core_images
from fairlead.core import lenient
from fairlead.core.messages import ImageContent
from fairlead.errors import BadCommand, BusyError, FairleadError
from fairlead.protocol import explain
from fairlead.protocol.pi import frames
from fairlead.protocol.pi.commands import ANSWER_NAMES, Command
from fairlead.protocol.pi.host_requests import REPLIES
from fairlead.wire.pi.paced_updates import FrameOutlet
from fairlead.wire.pi.pi_encoding import Spliced, encode, encode_spliced
from fairlead.wire.pi.profile import Profile
from fairlead.wire.routing import HostReply, Id, Message, Problem, Request, UnknownRequest

if TYPE_CHECKING:
    from fairlead.protocol.pi.commands import Attachment
    from fairlead.wire.pi.pi_server import Outcomes

T = TypeVar("T", bound=Struct)


class Envelope(Struct):
    """The part of a line that is needed to answer it, even if the rest is malformed."""

    type: str | None
    id: Id


class _Lenient(Struct):
    type: Raw | UnsetType = UNSET
    id: Id = UNSET


#: What msgspec says about a number that is too large for it.
_TOO_LARGE = "Number out of range"
#: The types of replies to requests.
_REPLIES = frozenset(str(declared.__struct_config__.tag) for declared in REPLIES)
_envelopes = msgspec.json.Decoder(_Lenient)
_decoders: dict[type[Struct], msgspec.json.Decoder[Any]] = {}


def read_envelope(line: bytes) -> tuple[Envelope, bytes]:
    """Return the type and the id of a line, and the line, repaired if necessary. Raises BadCommand if it is not an object."""
    try:
        outer = _envelopes.decode(line)
        if not isinstance(outer.id, UnsetType):
            bytes(outer.id).decode()  # msgspec does not validate what it skips, and the id will be echoed
        kind = _kind(outer)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        text, line = lenient.repair_json(line), _repair_line(line)
        outer = _envelopes.decode(line)
        kind = _kind(outer)
        with suppress(msgspec.DecodeError, UnicodeError, RecursionError):
            outer.id = _envelopes.decode(text).id  # as it was written: it may have a number that Python cannot hold
    ident = UNSET if isinstance(outer.id, UnsetType) else Raw(bytes(outer.id))
    return Envelope(kind, ident), line


def decode_command(declared: type[Command], line: bytes) -> Command:
    """Decode the command in a line. Raises BadCommand if it does not fit its declaration."""
    if declared.fault is not None and (fault := declared.fault(_value(line))):
        raise BadCommand(fault)
    return decode_as(declared, line)


def decode_as(declared: type[T], line: bytes) -> T:
    """Decode a line as the declared type. Raises BadCommand if it does not fit."""
    decoder: msgspec.json.Decoder[T] | None = _decoders.get(declared)
    if decoder is None:
        decoder = _decoders[declared] = msgspec.json.Decoder(declared)
    try:
        return decoder.decode(line)
    except msgspec.ValidationError as error:
        if _TOO_LARGE in str(error):  # a number such as 1e999, which JSON allows
            return _convert(line, declared)
        raise BadCommand(explain.explain(str(error), declared)) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _convert(line, declared)


def _kind(outer: _Lenient) -> str | None:
    kind: Any = None if isinstance(outer.type, UnsetType) else msgspec.json.decode(outer.type)
    return kind if isinstance(kind, str) else None


def _convert(line: bytes, declared: type[T]) -> T:
    try:
        return msgspec.json.decode(_repair_line(line), type=declared)
    except msgspec.ValidationError as error:
        raise BadCommand(explain.explain(str(error), declared)) from None


def _repair_line(line: bytes) -> bytes:
    """Return the object in the line as valid JSON: lone surrogates and invalid UTF-8 become U+FFFD. Raises BadCommand.

    A reply that is nested too deeply is cut: something waits for it.
    """
    try:
        return msgspec.json.encode(_value(line))
    except BadCommand:
        cut = lenient.cut_deep_json(line)
        with suppress(BadCommand):
            if cut is not line and (value := _value(cut)).get("type") in _REPLIES:
                return msgspec.json.encode(value)
        raise


def _value(line: bytes) -> dict[str, Any]:
    """Decode the object in the line. Raises BadCommand if there is none."""
    try:
        value = lenient.decode(line)
    except ValueError as error:
        raise BadCommand(str(error)) from None
    if not isinstance(value, dict):
        raise BadCommand(f"expected a JSON object, got {explain.kind_of(value)}")
    return value  # pyright: ignore[reportUnknownVariableType]


#: Commands whose failure is a second response in profiles with `acknowledges_prompts`.
PROMPTS = frozenset(("prompt", "abort_and_prompt"))


class PiCodec:
    """Implements `fairlead.wire.routing.Codec`. `outlet` limits the length of a frame."""

    def __init__(self, profile: Profile, outlet: FrameOutlet) -> None:
        self._profile = profile
        self._outlet = outlet
        #: Reports the outcome of each prompt. None if hosts of this profile do not get such reports.
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
        """Return the request or the reply in a line with this type."""
        if name not in ANSWER_NAMES:
            return Request(name, ident, line)
        try:
            question = msgspec.json.decode(b"null" if isinstance(ident, UnsetType) else ident, type=str)
        except msgspec.DecodeError:  # not a string, or a number that is too large to decode
            problem = BadCommand("id: expected that of the frame which asked, as a string")
            return HostReply(name, ident, None, line, problem)
        return HostReply(name, ident, question, line)

    def parameters(self, request: Request, declaration: type[Command]) -> Command:
        command = decode_command(declaration, request.body)
        command.id = request.id
        _check_images(command)
        return command

    def result(self, request: Request, result: Any) -> Sequence[bytes]:
        response = frames.Response(id=request.id, command=request.name, success=True)
        if isinstance(result, Spliced):
            return [encode_spliced(response, result, self._outlet.max_frame)]
        if request.route is not None and request.route.declaration.result is not None:
            response.data = result  # UNSET if hosts of this profile do not know the data
        return [encode(response)]

    def error(self, message: Message, error: BaseException) -> Sequence[bytes]:
        name, ident = ("parse", message.id) if isinstance(message, Problem) else (message.name, message.id)
        if (isinstance(error, UnknownRequest) or isinstance(message, Problem)) and not self._profile.unknown_command_echoes_id:
            ident = UNSET
        code = error.code if isinstance(error, BadCommand) and error.code is not None else UNSET
        text = self.error_text(error)
        failure = frames.Response(id=ident, command=name, success=False, error=text, code=code)
        if not self._wants_acknowledgement(message, error):
            return [encode(failure)]
        lines: list[frames.Frame] = [failure]
        if not message.is_acknowledged:
            lines.insert(0, frames.Response(id=ident, command=name, success=True))
        if self.outcomes is not None:
            # A host that waits for the outcome of an acknowledged prompt may no longer read responses.
            lines.append(self.outcomes.refusal(ident, text))
        return list(map(encode, lines))

    def error_text(self, error: BaseException) -> str:
        """Return the text that a host of this profile gets for an error."""
        if isinstance(error, UnknownRequest):
            return f"Unknown command: {error}"
        if isinstance(error, BusyError):
            return self._profile.busy
        if isinstance(error, asyncio.CancelledError):
            return "Not done: the agent was told to shut down."
        return str(error) if isinstance(error, FairleadError) else f"Internal error: {type(error).__name__}: {error}"

    def _wants_acknowledgement(self, message: Message, error: BaseException) -> TypeGuard[Request]:
        """Whether the host expects an acknowledgement before the error, as some profiles do for a failed prompt."""
        if not self._profile.acknowledges_prompts or not isinstance(message, Request) or message.name not in PROMPTS:
            return False
        return message.parameters is not None and isinstance(error, FairleadError | asyncio.CancelledError)


def _check_images(command: Command) -> None:
    """Check the images that come with a message, as `check_image` does."""
    images: list[ImageContent] = getattr(command, "images", None) or []
    for number, image in enumerate(images):
        check_image(image, f"images[{number}]")
    attachments: list[Attachment] = getattr(command, "attachments", None) or []
    for number, file in enumerate(attachments):
        if file.type == "image":
            _from_base64(file.content, f"attachments[{number}].content")


def check_image(image: ImageContent, place: str) -> None:
    """Correct the type of an image from the host. Raises BadCommand if it is not base64; `place` is where the image is.

    A provider would refuse the conversation because of such an image, now and with every later prompt.
    """
    image.mime_type = core_images.image_type(_from_base64(image.data, f"{place}.data")) or image.mime_type
    image.data = "".join(image.data.split())


def _from_base64(text: str, field: str) -> bytes:
    try:
        content = base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        content = b""
    if not content:
        raise BadCommand(f"{field}: expected an image in base64, got {text[:30]!r}")
    return content


def _unreadable(ident: Id, why: str) -> Problem:
    return Problem(ident, BadCommand(f"Failed to parse command: {why}"))
