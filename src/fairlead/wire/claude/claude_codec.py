"""Lines of the claude protocol: control requests and prompts to messages, answers and frames to lines.

A line that cannot be read is refused, and the next one is served. A control request gets an error, a prompt a result that is an
error, and any other line an `informational` frame.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw, Struct

from fairlead.core import lenient
from fairlead.core.messages import ImageContent, TextContent, UserBlock
from fairlead.errors import BadCommand, FairleadError
from fairlead.protocol.claude.host import ControlResponse, ControlResponseBody, PermissionResult, User
from fairlead.protocol.explain import explain
from fairlead.session.history.claude_lines import encode_blocks
from fairlead.wire.routing import HostReply, Message, Problem, Request, UnknownRequest

_log = logging.getLogger("fairlead.wire")

#: The Python SDK dies of a longer line.
LONGEST_LINE = 1 << 20
#: Room for what a shortened text is followed by.
_NOTE = 200
#: What the host wrote as a `type`, for messages that are not control requests. No subtype has such a name.
USER, CANCEL, VARIABLES = "user line", "control_cancel_request line", "update_environment_variables line"
_LINE_TYPES = {"user": USER, "control_cancel_request": CANCEL, "update_environment_variables": VARIABLES}

_encoder = msgspec.json.Encoder()


class ControlError(FairleadError):
    """A control request failed. `code` is a short name for programs."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


class BadPrompt(FairleadError):
    """A `user` line is not a prompt."""


class ClaudeCodec:
    """Implements `fairlead.wire.routing.Codec`. `refuse` reports a line that is neither a control request nor a reply."""

    def __init__(self, refuse: Callable[[BaseException], Sequence[bytes]]) -> None:
        self._refuse = refuse

    def read(self, line: bytes | None) -> Message | None:
        if line is None:
            return Problem(UNSET, BadCommand("A line is too long to be read."))
        if not line.strip():
            return None
        try:
            value = lenient.decode(line)
        except (ValueError, RecursionError):
            return Problem(UNSET, BadCommand("A line is not valid JSON."))
        if not isinstance(value, dict):
            return Problem(UNSET, BadCommand("A line is null, not an object.")) if value is None else None
        return _classify(cast("dict[str, Any]", value))

    def parameters(self, request: Request, declaration: type[Struct]) -> Any:
        try:
            return msgspec.convert(request.body, declaration)
        except msgspec.ValidationError as error:
            problem = explain(str(error), declaration, whole="the request")
            raise (BadPrompt if declaration is User else ControlError)(problem) from None

    def result(self, request: Request, result: Any) -> Sequence[bytes]:
        if request.id is UNSET:
            return ()
        body = ControlResponseBody(
            subtype="success", request_id=_text_id(request.id), response=UNSET if result is None else result
        )
        if request.name == "initialize":
            body.pending_permission_requests = []
        return [encode(ControlResponse(response=body))]

    def error(self, message: Message, error: BaseException) -> Sequence[bytes]:
        if message.id is UNSET:
            return self._refuse(error)
        text, code = str(error), getattr(error, "code", None)
        if isinstance(error, UnknownRequest):
            text, code = f"Unsupported control request subtype: {error}", "unsupported_request"
        elif not isinstance(error, FairleadError):
            text = f"Internal error: {type(error).__name__}"
        body = ControlResponseBody(subtype="error", request_id=_text_id(message.id), error=text, error_code=code or UNSET)
        return [encode(ControlResponse(response=body))]


def _classify(value: dict[str, Any]) -> Message | None:
    kind = value.get("type")
    if kind == "control_request":
        return _control_request(value)
    if kind == "control_response":
        body = value.get("response")
        named = cast("dict[str, Any]", body).get("request_id") if isinstance(body, dict) else None
        return HostReply("control_response", UNSET, named if isinstance(named, str) else None, body)
    name = _LINE_TYPES.get(str(kind))
    return None if name is None else Request(name, UNSET, value)


def _control_request(value: dict[str, Any]) -> Message:
    given, request = value.get("request_id"), value.get("request")
    ident = Raw(_encoder.encode(given)) if isinstance(given, str) else UNSET
    if ident is UNSET:
        return Problem(UNSET, BadCommand("A control request has no request_id."))
    if not isinstance(request, dict):
        return Problem(ident, ControlError("request: expected an object with the subtype of the request."))
    subtype = cast("dict[str, Any]", request).get("subtype")
    return Request("undefined" if subtype is None else str(subtype), ident, cast("Any", request))


def _text_id(ident: Any) -> str:
    return msgspec.json.decode(ident)


# Frames


def encode(frame: Any) -> bytes:
    """Return a frame as a line. Lone surrogates become U+FFFD."""
    try:
        return _encoder.encode(frame) + b"\n"
    except UnicodeEncodeError:
        return _encoder.encode(lenient.scrub(msgspec.to_builtins(frame))) + b"\n"


def fit(frame: Struct) -> bytes:
    """Return a frame as a line that hosts can read: its longest texts are shortened if it is too long."""
    line = encode(frame)
    if len(line) <= LONGEST_LINE:
        return line
    value = msgspec.to_builtins(frame)
    if isinstance(value.get("tool_use_result"), dict | list) and len(encode({**value, "tool_use_result": None})) <= LONGEST_LINE:
        value = {**value, "tool_use_result": _shorten(value["tool_use_result"], LONGEST_LINE // 64)}
    longest = LONGEST_LINE // 4
    while len(line := encode(value)) > LONGEST_LINE and longest > _NOTE:
        value = _shorten(value, longest)
        longest //= 2
    return line


def _shorten(value: Any, longest: int) -> Any:
    """Cut texts off after so many characters."""
    if isinstance(value, str):
        return value if len(value) <= longest else f"{value[: longest - _NOTE]}... ({len(value):,} characters in all)"
    if isinstance(value, list):
        return [_shorten(each, longest) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _shorten(each, longest) for key, each in cast("dict[str, Any]", value).items()}
    return value


# Content


def read_content(content: str | list[dict[str, Any]]) -> tuple[str, list[ImageContent]]:
    """Return the text and the images of a prompt. Raises BadPrompt for blocks that are not known."""
    if isinstance(content, str):
        return content, []
    texts: list[str] = []
    images: list[ImageContent] = []
    for block in content:
        match block:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "image", "source": {"type": "base64", "media_type": str(kind), "data": str(data)}}:
                images.append(ImageContent(data, kind))
            case {"type": "document", "source": {"type": "text", "data": str(text)}}:
                texts.append(text)
            case _:
                kind = block.get("type")
                raise BadPrompt(f"message.content: a block of the type {kind!r} cannot be read. Send text or base64 images.")
    return "\n".join(texts), images


def result_content(blocks: Sequence[UserBlock]) -> str | list[dict[str, Any]]:
    """Return the content of a tool result: a text if it is nothing else."""
    if all(isinstance(block, TextContent) for block in blocks):
        return "\n".join(block.text for block in blocks if isinstance(block, TextContent))
    return encode_blocks(blocks)


def read_permission(body: Any) -> PermissionResult | str:
    """Return the answer to `can_use_tool`, or the reason to refuse the call without one."""
    match body:
        case {"subtype": "error", "error": error}:
            return str(error)
        case {"response": response}:
            try:
                return msgspec.convert(response, PermissionResult)
            except msgspec.ValidationError as error:
                return explain(str(error), PermissionResult, whole="the answer")
        case _:
            return "The answer to the question cannot be read."
